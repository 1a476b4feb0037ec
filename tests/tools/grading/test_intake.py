"""Reading submissions: every damage ends in answers taken by exercise id, or in a reason, with notes."""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import zipfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.tools.grading import classroom
from tests.tools.grading.classroom import blank, folder_of, hand_in
from tests.tools.learning.small_course import as_editors_leave_it
from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.grading import intake, unwrapping
from torchkata.tools.grading.chapter import Release, read_release
from torchkata.tools.grading.intake import read_submission
from torchkata.tools.grading.records import NotGradable, Submission

DEEP = functools.reduce(lambda inner, _: [inner], range(900), [])  # can be read, but not printed
ANSWERS = {
    "twice": "def twice(x): return x + x",
    "guess": 'answers = {"a": 1}',
    "thrice": "def thrice(x): return 3 * x",
}


@pytest.fixture
def chapter(tmp_path: Path) -> Chapter:
    return classroom.unknown_course(tmp_path)


@pytest.fixture
def release(chapter: Chapter) -> Release:
    return read_release(chapter)


@pytest.fixture
def taken(chapter: Chapter, release: Release):
    """What is read after a notebook was handed in: (kind, exercise, source) of each cell, and the notes as one text."""

    def read(notebook=None) -> tuple[list[tuple], str]:
        hand_in(chapter, "ada", notebook, **({} if notebook else ANSWERS))
        found = read_submission(folder_of(chapter, "ada"), "ada", chapter, release)
        assert isinstance(found, Submission), found
        return [(cell.kind, cell.exercise, cell.source) for cell in found.cells], "\n".join(found.notes)

    return read


@pytest.fixture
def refused(chapter: Chapter, release: Release):
    def read(content=None) -> str:
        if content is not None:
            hand_in(chapter, "ada", content)
        found = read_submission(folder_of(chapter, "ada"), "ada", chapter, release)
        assert isinstance(found, NotGradable), found
        return found.reason

    return read


ALL = [("answer", exercise, source) for exercise, source in ANSWERS.items()]


def cell_of(notebook, grade_id: str):
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def index_of(notebook, grade_id: str) -> int:
    return notebook.cells.index(cell_of(notebook, grade_id))


# ---------------------------------------------------------------- whole notebooks


def test_an_honest_notebook(taken):
    assert taken() == (ALL, "")


def test_own_and_changed_cells_are_taken_where_they_stand(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    notebook.cells.insert(index_of(notebook, "thrice"), new_code_cell("def helper(): ..."))
    notebook.cells.insert(0, new_code_cell("  \n"))
    notebook.cells.append(new_markdown_cell("my own words"))
    demo = next(cell for cell in notebook.cells if "nobody changed" in cell.source)
    demo.source = "print('changed')"
    cells, notes = taken(notebook)
    assert cells == [("own", None, "print('changed')"), *ALL[:2], ("own", None, "def helper(): ..."), ALL[2]]
    assert notes == ""


# ---------------------------------------------------------------- cells


def test_a_copied_answer_the_last_counts(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    copy = deepcopy(cell_of(notebook, "twice"))
    copy.id, copy.source = "copy", "def twice(x): return 2 * x"
    notebook.cells.append(copy)
    cells, notes = taken(notebook)
    assert cells == [("own", None, ANSWERS["twice"]), *ALL[1:], ("answer", "twice", copy.source)]
    assert "twice: 2 cells bear its id; the last one counts" in notes
    assert "another order" in notes


def test_a_copied_check_is_ignored(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    copy = deepcopy(cell_of(notebook, "twice-check"))
    copy.id = "copy"
    notebook.cells.insert(0, copy)
    assert taken(notebook) == (ALL, "")


def test_a_deleted_answer(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    del notebook.cells[index_of(notebook, "guess")]
    assert taken(notebook) == ([ALL[0], ALL[2]], "guess: its answer cell is missing.")


def test_an_editors_layout_is_no_change(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade_id") not in ANSWERS:
            cell.source = as_editors_leave_it(cell.source)
    assert taken(notebook) == (ALL, "")


def test_deleted_and_changed_checks_are_noted(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS, **{"guess-check": "3.0"})
    del notebook.cells[index_of(notebook, "twice-check")]
    cells, notes = taken(notebook)
    assert cells == ALL
    assert "Check cells were changed or are of another release (the chapter's own ones are run): guess-check." in notes
    assert "Check cells were deleted (the chapter's own ones are run): twice-check." in notes


def test_moved_answers_keep_the_learners_order(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    notebook.cells.insert(0, notebook.cells.pop(index_of(notebook, "thrice")))
    assert taken(notebook) == ([ALL[2], *ALL[:2]], "The answers stand in another order than in the chapter.")


def test_cells_between_an_answer_and_its_check_are_run_before_that(chapter: Chapter, release: Release):
    def later(notebook) -> dict[str, dict[str, int]]:
        hand_in(chapter, "ada", notebook)
        found = read_submission(folder_of(chapter, "ada"), "ada", chapter, release)
        assert found.answers["twice"].startswith(ANSWERS["twice"]) and found.answers["guess"] == ANSWERS["guess"]
        assert found.answers["twice"].endswith("b = 1") == any(cell.later for cell in found.cells)
        return {cell.exercise: cell.later for cell in found.cells if cell.later}

    notebook = blank(chapter, **ANSWERS)
    place = index_of(notebook, "twice-check")
    notebook.cells[place:place] = [new_code_cell("a = 1"), new_markdown_cell("words"), new_code_cell("b = 1")]
    assert later(notebook) == {"twice": {"twice-check": 2}}
    del notebook.cells[index_of(notebook, "twice")]
    notebook.cells.insert(place, new_code_cell(ANSWERS["twice"]))
    assert later(notebook) == {"twice": {"twice-check": 1}}
    notebook.cells.insert(0, notebook.cells.pop(index_of(notebook, "twice-check")))
    assert later(notebook) == {}


def test_merged_answers(chapter: Chapter, taken):
    both = f"{ANSWERS['twice']}\n{ANSWERS['thrice']}"
    notebook = blank(chapter, **ANSWERS | {"twice": both})
    del notebook.cells[index_of(notebook, "thrice")]
    cells, notes = taken(notebook)
    assert cells == [("answer", "twice", both), ("answer", "thrice", ""), ALL[1]]
    assert "thrice: its answer cell is missing, but the cell of twice defines the answer." in notes


def test_an_answer_in_a_cell_of_ones_own(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    notebook.cells[index_of(notebook, "twice")] = new_code_cell(ANSWERS["twice"])
    cells, notes = taken(notebook)
    assert cells == ALL
    assert "a cell of the learner's own defines the answer" in notes


@pytest.mark.parametrize("kind", ["markdown", "raw", "heading", 7, None])
def test_a_retyped_answer_is_taken_as_code(chapter: Chapter, taken, kind):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    for cell in notebook["cells"]:
        if cell["id"] == "twice":
            cell["cell_type"] = kind
    cells, notes = taken(json.dumps(notebook))
    assert cells == ALL
    assert "twice: the answer cell is no longer a code cell" in notes


def test_of_two_copies_the_code_cell_counts(chapter: Chapter, taken):
    notebook = blank(chapter, **ANSWERS)
    words = new_markdown_cell("I tried this first", metadata=cell_of(notebook, "twice").metadata)
    notebook.cells.append(words)
    assert taken(notebook)[0] == ALL


@pytest.mark.parametrize(
    "change",
    [
        {"points": 1000},
        {"grade": True, "solution": False},
        {"schema_version": 99},
        {"schema_version": "three"},
        {"locked": "yes", "task": True},
        {"checksum": None, "cell_type": "markdown"},
    ],
    ids=str,
)
def test_changed_flags_change_nothing(chapter: Chapter, taken, change: dict):
    notebook = blank(chapter, **ANSWERS)
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception"]
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader.update(change)
    assert taken(notebook) == (ALL, "")


@pytest.mark.parametrize(
    "metadata", [None, [], "text", {"nbgrader": None}, {"nbgrader": [1]}, {"nbgrader": {}}], ids=str
)
def test_lost_metadata_are_found_by_cell_ids_or_names(chapter: Chapter, taken, metadata):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    for cell in notebook["cells"]:
        cell["metadata"] = metadata
    assert taken(json.dumps(notebook)) == (ALL, "")
    for cell in notebook["cells"]:
        del cell["id"]
    assert taken(json.dumps(notebook))[0] == ALL


@pytest.mark.parametrize("grade_id", [None, 7, ["twice"], {"a": 1}, "twice" * 1000, "../../etc", "twice\x00"], ids=repr)
def test_odd_ids_are_no_ids(chapter: Chapter, taken, grade_id):
    notebook = blank(chapter, **ANSWERS)
    guess = cell_of(notebook, "guess")
    guess.metadata.nbgrader.grade_id, guess.id = grade_id, "another"
    cells, notes = taken(json.dumps(notebook))
    assert cells == ALL  # the only cell that defines `answers`
    assert "guess: its answer cell is missing, but a cell of the learner's own" in notes


@pytest.mark.parametrize(
    "cell", [None, 3, "text", [], {}, {"cell_type": "code", "source": 7}, {"source": [1, 2]}], ids=repr
)
def test_unreadable_cells_are_ignored(chapter: Chapter, taken, cell):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    notebook["cells"].insert(2, cell)
    assert taken(json.dumps(notebook))[0] == ALL


def test_lone_surrogates_and_null_bytes(chapter: Chapter, taken):
    text = nbformat.writes(blank(chapter, **ANSWERS | {"twice": "SOURCE"}))
    cells, _ = taken(text.replace('"SOURCE"', r'"x = \"\ud800\u0000\""'))
    assert cells[0] == ("answer", "twice", 'x = "?\x00"')
    cells[0][2].encode()


# ---------------------------------------------------------------- formats


@pytest.mark.parametrize("version", [1, 5, 99, "4", None, [4], DEEP], ids=lambda version: str(version)[:10])
def test_other_format_numbers(chapter: Chapter, taken, version):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    notebook["nbformat"] = version
    cells, notes = taken(json.dumps(notebook))
    assert cells == ALL
    assert "says that its format is" in notes


@pytest.mark.parametrize("minor", [0, 4, 99, "x"])
def test_other_minor_versions(chapter: Chapter, taken, minor):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    notebook["nbformat_minor"] = minor
    for cell in notebook["cells"]:
        del cell["id"]
    assert taken(json.dumps(notebook)) == (ALL, "")


def test_format_3(chapter: Chapter, taken):
    old = nbformat.convert(blank(chapter, **ANSWERS), 3)
    cells, notes = taken(nbformat.writes(old, version=3))
    assert cells == ALL
    assert "its format is 3" in notes


def test_sources_as_lists_of_lines_and_a_byte_order_mark(chapter: Chapter, taken):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    assert taken("\ufeff" + json.dumps(notebook)) == (ALL, "")
    assert taken(json.dumps(notebook).encode("utf-16")) == (ALL, "")


@pytest.mark.parametrize("spec", [{"name": "ir", "language": "R"}, {"name": 7}, None, "python"], ids=repr)
def test_other_kernels(chapter: Chapter, taken, spec):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    notebook["metadata"] = {"kernelspec": spec}
    cells, notes = taken(json.dumps(notebook))
    assert cells == ALL
    assert notes == (
        "The notebook names a kernel for R; it is graded as Python." if spec and "language" in spec else ""
    )


# ---------------------------------------------------------------- files that are no notebooks


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "empty file"),
        (b" \n ", "empty file"),
        (b"{", "no JSON, perhaps only a part"),
        (b"hello", "no JSON"),
        (b"[]", "not a notebook"),
        (b"7", "not a notebook"),
        (b"null", "not a notebook"),
        (b"{}", "no cells"),
        (b'{"cells": 3}', "no cells"),
        (b'{"cells": {"a": 1}}', "no cells"),
        (b'{"worksheets": [3, {"cells": 7}]}', "no cells"),
        (b'{"cells": [], "nbformat": 4}', "no cells"),
        (b'{"cells": [{}]}', "another notebook"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "not text"),
        (b"\xff" * 100, "not text"),
        (b"PK\x03\x04\x00\x00", "no JSON"),
        (b"<<<<<<< mine\n{}\n=======\n{}\n>>>>>>> theirs\n", "merge conflict"),
        (b"[" * 200_000, "can't be read"),
        (b'{"cells": ' * 100_000, "can't be read"),
        (b'{"cells": ' + b"9" * 10_000 + b"}", "can't be read"),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, bytes) else "",
)
def test_no_notebook(refused, content: bytes, words: str):
    assert words in refused(content)


def test_half_a_notebook(chapter: Chapter, refused):
    text = nbformat.writes(blank(chapter, **ANSWERS))
    assert "perhaps only a part" in refused(text[: len(text) // 2])


def test_a_notebook_of_something_else(refused):
    notebook = nbformat.v4.new_notebook(cells=[new_code_cell("print('another course')")])
    assert "No cell belongs to an exercise of this chapter" in refused(notebook)


def test_huge_files(chapter: Chapter, taken, refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unwrapping, "MAX_NOTEBOOK", 2**20)
    assert "larger than 1 MiB. In JupyterLab, Edit, Clear Outputs" in refused(b" " * (2**20 + 1))
    path = hand_in(chapter, "ada", b"{")
    os.truncate(path, 2**40)  # a sparse file: only what is needed is read
    assert "larger than 1 MiB" in refused()
    monkeypatch.setattr(unwrapping, "MAX_ITEMS", 10_000)
    assert "it holds too much. In JupyterLab" in refused(b"[" + b"0," * 10_000)


def test_a_hundred_megabytes_of_outputs(chapter: Chapter, taken):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0K" * (100 * 2**17)}, "metadata": {}}
    notebook["cells"][-1] |= {"cell_type": "code", "outputs": [picture]}
    assert taken(json.dumps(notebook)) == (ALL, "")


def test_zero_bytes_behind_the_notebook(chapter: Chapter, taken, refused):
    whole = nbformat.writes(blank(chapter, **ANSWERS)).encode()
    assert taken(whole + bytes(4096)) == (ALL, "Zero bytes at the end of the notebook are left out.")
    assert "nothing but zero bytes" in refused(bytes(4096))
    assert "perhaps only a part" in refused(whole[:-900] + bytes(900))


def test_many_cells_and_much_code(chapter: Chapter, refused):
    notebook = json.loads(nbformat.writes(blank(chapter, **ANSWERS)))
    many = notebook | {"cells": notebook["cells"] + [{"cell_type": "code", "source": "1"}] * intake.MAX_CELLS}
    assert f"at most {intake.MAX_CELLS} are read" in refused(json.dumps(many))
    long = {"cell_type": "code", "source": "#" * (intake.MAX_CODE + 1)}
    assert "characters of code" in refused(json.dumps(notebook | {"cells": notebook["cells"] + [long]}))


# ---------------------------------------------------------------- folders


def test_nothing_handed_in(chapter: Chapter, refused):
    (chapter.root / "submitted" / "ada").mkdir(parents=True)
    assert "nothing was handed in for this chapter" in refused()
    folder_of(chapter, "ada").mkdir()
    assert refused() == "things.ipynb is missing; there is no notebook."


def test_a_renamed_notebook(chapter: Chapter, release: Release, refused):
    hand_in(chapter, "ada", **ANSWERS).rename(folder_of(chapter, "ada") / "Things (1).IPYNB")
    found = read_submission(folder_of(chapter, "ada"), "ada", chapter, release)
    assert found.notes == ["The notebook is named Things (1).IPYNB in place of things.ipynb."]
    assert [cell.exercise for cell in found.cells] == list(ANSWERS)
    (folder_of(chapter, "ada") / "other.ipynb").write_text("{}")
    assert refused() == "things.ipynb is missing; these are there: Things (1).IPYNB, other.ipynb."


def zipped(**files: bytes) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"things.ipynb.json": "it"}, "things.ipynb.json"),  # Safari
        ({"things.ipynb.txt": "it", "notes.txt": b"{}"}, "things.ipynb.txt"),
        ({"things": "it"}, "things"),
        ({"98_things/things.ipynb": "it", "98_things/.ipynb_checkpoints/things.ipynb": "it"}, "98_things/things.ipynb"),
        ({"home/ada/things.ipynb": "it", "home/ada/other.ipynb": b"{}"}, "home/ada/things.ipynb"),
        ({"98_things/things.ipynb.txt": "it", "98_things/notes.txt": b"hello"}, "98_things/things.ipynb.txt"),
        ({"a.zip": {"things.ipynb.json": "it", "work/": b"", "work/notes.txt": b"{}"}}, "a.zip/things.ipynb.json"),
        (
            {"a.zip": {"98_things/things.ipynb": "it", "__MACOSX/98_things/._things.ipynb": b"\0"}},
            "a.zip/98_things/things.ipynb",
        ),
        ({"Things.ipynb": "it", "._Things.ipynb": b"\0\5\x16\7", ".DS_Store": b"\0"}, "Things.ipynb"),  # a Mac
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_notebook_in_another_wrapping(chapter: Chapter, release: Release, files: dict, named: str):
    it = nbformat.writes(blank(chapter, **ANSWERS)).encode()
    folder = folder_of(chapter, "ada")
    for name, content in files.items():
        if isinstance(content, dict):
            content = zipped(**{inner: it if text == "it" else text for inner, text in content.items()})
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(it if content == "it" else content)
    found = read_submission(folder, "ada", chapter, release)
    assert [(cell.kind, cell.exercise, cell.source) for cell in found.cells] == ALL
    others = ["Other files are ignored: notes.txt."] if "notes.txt" in files else []
    assert found.notes == [f"The notebook is named {named} in place of things.ipynb.", *others]


def test_where_there_is_not_one_notebook_what_is_there_is_named(chapter: Chapter, refused):
    folder = folder_of(chapter, "ada")
    folder.mkdir(parents=True)
    (folder / "work.rar").write_bytes(b"Rar!")
    (folder / "broken.zip").write_bytes(b"PK\3\4 broken")
    assert refused() == "things.ipynb is missing; there is no notebook, only broken.zip, work.rar."
    (folder / "two.zip").write_bytes(zipped(**{"a.ipynb": b"{}", "b.ipynb": b"{}"}))
    assert refused() == "things.ipynb is missing; these are there: two.zip/a.ipynb, two.zip/b.ipynb."
    (folder / "link").symlink_to(chapter.release.parent)
    assert "link" not in refused()


def test_a_zip_that_unpacks_to_too_much(chapter: Chapter, refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unwrapping, "MAX_NOTEBOOK", 2**20)
    folder_of(chapter, "ada").mkdir(parents=True)
    (folder_of(chapter, "ada") / "bomb.zip").write_bytes(zipped(**{"things.ipynb": bytes(2**25)}))
    assert "larger than 1 MiB" in refused()


def test_extra_files_are_noted_and_not_read(chapter: Chapter, release: Release):
    folder = hand_in(chapter, "ada", **ANSWERS).parent
    for name in ("torch.py", "conftest.py", "other.ipynb", "a\x1b[31mb", ".ipynb_checkpoints"):
        (folder / name).write_text("raise SystemExit")
    (folder / "torchkata").mkdir()
    found = read_submission(folder, "ada", chapter, release)
    assert found.notes == ["Other files are ignored: a?[31mb, conftest.py, other.ipynb, torch.py, torchkata."]
    assert len(found.cells) == 3


def test_a_folder_full_of_files(chapter: Chapter, release: Release):
    folder = hand_in(chapter, "ada", **ANSWERS).parent
    for number in range(unwrapping.MAX_FILES + 50):
        (folder / f"a{number}").touch()
    found = read_submission(folder, "ada", chapter, release)
    assert len(found.cells) == 3 and len(found.notes[0]) < 200


@pytest.mark.parametrize("linked", ["the notebook", "the chapter's folder", "the student's folder"])
def test_symbolic_links_are_not_followed(chapter: Chapter, refused, tmp_path: Path, linked: str):
    hand_in(chapter, "bob", **ANSWERS)
    here, there = folder_of(chapter, "ada"), folder_of(chapter, "bob")
    if linked == "the notebook":
        here.mkdir(parents=True)
        (here / "things.ipynb").symlink_to(there / "things.ipynb")
    elif linked == "the chapter's folder":
        here.parent.mkdir()
        here.symlink_to(there)
    else:
        here.parent.symlink_to(there.parent)
    assert "symbolic link" in refused()


def test_a_dangling_link_a_folder_and_a_pipe_in_place_of_the_notebook(chapter: Chapter, refused):
    folder = folder_of(chapter, "ada")
    folder.mkdir(parents=True)
    (folder / "things.ipynb").symlink_to("/nowhere")
    assert "symbolic link" in refused()
    (folder / "things.ipynb").unlink()
    (folder / "things.ipynb").mkdir()
    assert "not a file" in refused()
    (folder / "things.ipynb").rmdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "things.ipynb")
        assert "not a file" in refused()


def test_a_file_in_place_of_the_folder(chapter: Chapter, refused):
    folder_of(chapter, "ada").parent.mkdir(parents=True)
    folder_of(chapter, "ada").write_text("I am no folder")
    assert "There is no folder" in refused()


# ---------------------------------------------------------------- digests


def test_the_digest_follows_notebook_timestamp_and_chapter(chapter: Chapter, release: Release):
    def digest(release: Release = release) -> str:
        return read_submission(folder_of(chapter, "ada"), "ada", chapter, release).digest

    folder = hand_in(chapter, "ada", **ANSWERS).parent
    seen = [digest(), digest(replace(release, digest="another chapter"))]
    (folder / "timestamp.txt").write_text("2026-03-01 12:00:00 UTC")
    seen.append(digest())
    hand_in(chapter, "ada", **ANSWERS | {"twice": "pass"})
    seen.append(digest())
    assert len(set(seen)) == 4
    assert digest() == digest() == seen[-1]
    chapter.solution.write_text(chapter.solution.read_text() + " ")
    assert digest(read_release(chapter)) not in seen


def test_a_chapter_that_is_not_built(chapter: Chapter):
    shutil.rmtree(chapter.solution.parent)
    with pytest.raises(CourseError, match="Run `torchkata build 98`"):
        read_release(chapter)


def test_submissions_as_json(chapter: Chapter, release: Release):
    hand_in(chapter, "ada", **ANSWERS)
    found = read_submission(folder_of(chapter, "ada"), "ada", chapter, release)
    assert Submission.from_json(found.to_json()) == found
