"""Begin an exercise: its file among the sources, its answers among the tests, and its line in the chapter.

Every part that an exercise must have is there, with a TODO sentence; the tests stay red until they are written.
"""

from __future__ import annotations

import re
from pathlib import Path

from torchkata.base.chapter import file_name
from torchkata.tools.assembling import EXERCISE_LINE, ID, SourceError, assembled, exercise_file
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError

EXERCISE = '''\
# %% [markdown]
# ### Exercise @NUMBER@ · TODO: a title
#
# implement · solid · 15 min · 2 points
#
# TODO: the task. Where does one meet this, and what is to be written?
#
# **Contract**
#
# - TODO: what is returned: shape, dtype, device, values.
# - TODO: what else holds: gradients, memory, arguments that are left alone, what is refused and how.
#
# <details><summary>Hint 1</summary>
#
# TODO: a question that leads to the idea.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# TODO: nearly the answer, in words.
#
# </details>


# %% answer="@ID@"
def @FUNCTION@(x: Tensor) -> Tensor:
    """TODO: what it returns, in one sentence.

    x: TODO shape and dtype; returns TODO shape and dtype.
    """
    ### BEGIN SOLUTION
    raise RuntimeError("TODO: the solution")
    ### END SOLUTION


# %% helpers="@ID@"
slip = mistake("TODO: what both check cells use, functions too; if there is nothing, delete this cell.", stage="dtype")


# %% check="@ID@" points=1
"""TODO: the idea of the exercise, in one line."""
with check("@ID@") as test:
    test("TODO: what this test is about")
    seen = observe(@FUNCTION@, torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]]))
    seen.returns(
        torch.tensor([0.0]),
        mistake("TODO: the misconception that gives this result, in words.", gives=lambda x: x),
        slip,
    )
    seen.leaves_arguments_alone()


# %% check="@ID@" points=1
"""TODO: the corners, in one line; each corner is tested in one cell only."""
with check("@ID@") as test:
    test("TODO: a corner that can be seen")
    observe(@FUNCTION@, torch.tensor([[2.0, 0.0]])).returns(torch.tensor([0.0]), slip)

    ### BEGIN HIDDEN TESTS
    test.hidden("TODO: an empty input")
    observe(@FUNCTION@, torch.empty(0, 3)).returns(torch.empty(0))
    ### END HIDDEN TESTS
'''

ANSWERS = '''\
"""Right and wrong answers to the exercise @ID@. What the lines of a block mean: tests/notebooks/answers.py."""

# corners: TODO: zeros, empty, nan and the like, or none


# %% right: TODO: another way than the solution's
def @FUNCTION@(x): ...


# %% right: TODO: a third way
def @FUNCTION@(x): ...


# %% wrong: TODO: the mistake that the exercise is about
# says: TODO: a part of the sentence that a learner must read
# earns: 0 of 2
# lesson
def @FUNCTION@(x): ...


# %% wrong: TODO: a slip
# says: TODO
# earns: 0 of 2
def @FUNCTION@(x): ...


# %% wrong: TODO: the idea, but not this corner
# says: TODO
# earns: 1 of 2
# corner: zeros
def @FUNCTION@(x): ...


# %% wrong: TODO: the idea, but not that corner
# says: TODO
# earns: 1 of 2
# corner: empty
# caught: hidden
def @FUNCTION@(x): ...
'''


def answers_file(chapter: Chapter, exercise: str) -> Path:
    """The file with an exercise's right and wrong answers."""
    return chapter.root / "tests" / "answers" / chapter.name / file_name(exercise)


def new_exercise(chapter: Chapter, exercise: str, after: str | None = None) -> list[Path]:
    """Write the skeleton of an exercise and its line, behind the exercise `after` (default: the chapter's last one).

    Returns the files written or changed. Nothing that exists is overwritten; raises CourseError where something is in
    the way, and writes nothing then.
    """
    if not ID.fullmatch(exercise) or not exercise[0].isalpha():
        raise CourseError(f"{exercise!r} is no id. Use small letters, digits and dashes, such as one-hot-scatter.")
    assembled(chapter)  # a source with a mistake is mended first
    files = {exercise_file(chapter, exercise): EXERCISE, answers_file(chapter, exercise): ANSWERS}
    for path in files:
        if path.exists():
            raise CourseError(f"{path.relative_to(chapter.root)} exists. Choose another id.")
    source, number = _with_line(chapter, exercise, after)
    words = {"@ID@": exercise, "@FUNCTION@": exercise.replace("-", "_"), "@NUMBER@": f"{int(chapter.number)}.{number}"}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub("@[A-Z]+@", lambda found: words[found[0]], text), encoding="utf-8", newline="\n")
    chapter.source.write_text(source, encoding="utf-8", newline="\n")
    return [*files, chapter.source]


def _with_line(chapter: Chapter, exercise: str, after: str | None) -> tuple[str, int]:
    """The chapter's own source with the line of the exercise, and which exercise of the chapter it is."""
    lines = chapter.source.read_text(encoding="utf-8").splitlines(keepends=True)
    places = {found[1]: n for n, line in enumerate(lines) if (found := EXERCISE_LINE.match(line.rstrip("\n")))}
    if after is not None and after not in places:
        raise CourseError(f"{chapter.name} has no exercise {after!r}. It has: {', '.join(places) or 'none'}.")
    if not places:
        raise SourceError(
            f'{chapter.source.name} has no exercise yet. Write `# %% exercise="{exercise}"` where it belongs, then the '
            f"file exercises/{file_name(exercise)}."
        )
    before = after or list(places)[-1]
    lines[places[before] + 1 : places[before] + 1] = ["\n", f'# %% exercise="{exercise}"\n']
    return "".join(lines), list(places).index(before) + 2
