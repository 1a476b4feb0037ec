"""Near copies among answers: found under other names and comments, not found where everybody writes the same."""

from __future__ import annotations

from torchkata.tools.grading.similar import LONGEST, shape, similar_pairs, too_long

RING = '''
def ring(chunks, rank, size):
    """Sum the chunks."""
    total = chunks[rank].clone()
    for step in range(size - 1):
        source = (rank - step - 1) % size
        total += chunks[source] * 2
    return total / size
'''
COPIED = """
# my own work
def ring(parts, me: int, world: int) -> "Tensor":
    result = parts[me].clone()  # begin
    for i in range(world - 1):
        other = (me - i - 1) % world
        result += parts[other] * 2
    return result / world
"""
OWN = """
def ring(chunks, rank, size):
    order = [chunks[i] for i in range(size) if i != rank]
    both = torch.stack([chunks[rank], *(2 * one for one in order)])
    mean = both.sum(dim=0)
    return torch.div(mean, size)
"""
GIVEN = {"ring": "def ring(chunks, rank, size):\n    raise NotImplementedError"}


def pairs(**sources: str) -> list[tuple[str, str]]:
    answers = {student: {"ring": source} for student, source in sources.items()}
    return [(pair.one, pair.other) for pair in similar_pairs(answers, GIVEN)]


def test_names_comments_and_annotations_do_not_hide_a_copy():
    assert shape(RING) == shape(COPIED)
    assert pairs(ada=RING, bob=COPIED, cyd=OWN) == [("ada", "bob")]


def test_another_order_of_names_is_another_answer():
    assert shape("def f(a, b):\n    return a - b") != shape("def f(a, b):\n    return b - a")
    assert shape("x.sum(dim=0)") != shape("x.sum(dim=1)")


def test_what_many_write_is_no_hint():
    everybody = {f"s{number}": RING for number in range(5)}
    assert pairs(**everybody, ada=OWN, bob=OWN.replace("mean", "total")) == [("ada", "bob")]


def test_short_untouched_and_unreadable_answers_are_left_out():
    short, broken = "def ring(chunks, rank, size):\n    return sum(chunks)", "def ring(:"
    assert pairs(ada=short, bob=short) == pairs(ada=broken, bob=broken) == []
    answers = {"ada": {"ring": RING}, "bob": {"ring": RING}}
    assert similar_pairs(answers, {"ring": RING}) == []


def test_most_copies_come_first():
    answers = {
        "ada": {"ring": RING, "ring-2": OWN},
        "bob": {"ring": OWN, "ring-2": OWN},
        "cyd": {"ring": RING, "ring-2": RING},
        "dan": {"ring": RING, "ring-2": RING},
    }
    found = similar_pairs(answers, {"ring": "", "ring-2": ""})
    assert (found[0].one, found[0].other, found[0].alike) == ("cyd", "dan", {"ring": 1.0, "ring-2": 1.0})
    assert len(found) == 4


def test_an_answer_that_is_too_long_is_named_not_compared():
    long = RING + "\n".join(["x = 1"] * LONGEST)
    assert pairs(ada=long, bob=long) == []
    assert too_long({"ada": {"ring": long}, "bob": {"ring": RING}}) == [("ada", "ring")]
