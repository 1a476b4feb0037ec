"""Every chapter keeps the rules; and each rule is seen to fail on a chapter that breaks it."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output

from tests.notebooks import gates
from tests.notebooks.answers import ANSWERS
from torchkata.base.chapter import file_name
from torchkata.base.marks import without_hidden_tests
from torchkata.facts import load
from torchkata.tools.assembling import assembled
from torchkata.tools.build import stale
from torchkata.tools.course import Chapter, chapters, find_chapters, read_notebook
from torchkata.tools.placing import here
from torchkata.tools.release import released
from torchkata.tools.source import notebook_of

CHAPTERS = [pytest.param(chapter, id=chapter.name) for chapter in chapters(here())]
GRADE_IDS = Path(__file__).parent / "grade_ids.json"
every_chapter = pytest.mark.parametrize("chapter", CHAPTERS)
a_further_script = pytest.mark.exhaustive("a further chapter as a plain script")


# ---------------------------------------------------------------- the chapters


@every_chapter
def test_notebooks_are_what_the_source_makes(chapter: Chapter):
    assert stale(chapter) is None


@every_chapter
def test_nothing_leaks_into_the_release(chapter: Chapter):
    assert gates.leaks(read_notebook(chapter.solution), read_notebook(chapter.release)) == []
    assert gates.not_python(read_notebook(chapter.release)) == []
    assert gates.without_visible_tests(read_notebook(chapter.release)) == []


@every_chapter
def test_exercises_have_their_form(chapter: Chapter):
    solution = read_notebook(chapter.solution)
    assert gates.exercise_form(solution) == []
    assert gates.numbering(solution, int(chapter.number)) == []
    assert gates.points_sum(solution) == []


@every_chapter
def test_check_cells_keep_the_waist(chapter: Chapter):
    assert gates.waist(read_notebook(chapter.solution)) == []


@every_chapter
def test_every_core_fact_is_taught(chapter: Chapter):
    facts = load(chapter.name)
    core = {fact.id for fact in facts if fact.level == "core"}
    assert gates.untaught(read_notebook(chapter.solution), core, {fact.id for fact in facts}) == []


@every_chapter
def test_rhythm_and_reading_time(chapter: Chapter):
    solution = read_notebook(chapter.solution)
    assert gates.rhythm(solution) == []
    assert gates.reading_time(solution) == []


@every_chapter
def test_warnings_pictures_and_headings(chapter: Chapter):
    solution = read_notebook(chapter.solution)
    assert gates.warnings_marked(solution) == []
    assert gates.alternative_text(solution) == []
    assert gates.headings(solution) == []
    assert gates.varying_with_reason(solution) == []


@pytest.mark.parametrize("chapter", find_chapters(here(), with_side_notebooks=True), ids=lambda chapter: chapter.name)
def test_lines_fit_beside_the_side_bar(chapter: Chapter):
    solution = read_notebook(chapter.solution)
    assert gates.long_lines(solution) + gates.long_lines(read_notebook(chapter.release)) == []
    assert gates.long_outputs(solution) == []


@every_chapter
def test_built_notebook_is_small(chapter: Chapter):
    assert chapter.solution.stat().st_size < 1_000_000


@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(chapter, id=chapter.name, marks=() if chapter.name == "03_gather_scatter" else a_further_script)
        for chapter in chapters(here())
    ],
)
def test_source_runs_as_a_plain_script(chapter: Chapter, tmp_path: Path):
    command = [sys.executable, str(chapter.source)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-2000:]


@every_chapter
def test_names_of_the_source(chapter: Chapter):
    """The setup cell imports what the chapter and its exercises use, and nothing else. (ruff reads their files one by
    one and cannot know.)"""
    rules = ["--select", "F401,F821", "--config", "lint.per-file-ignores = {}", "--output-format", "concise"]
    command = [sys.executable, "-m", "ruff", "check", *rules, "--stdin-filename", f"{chapter.topic}.py", "-"]
    found = subprocess.run(command, input=assembled(chapter).text, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@every_chapter
def test_nothing_is_left_to_be_written(chapter: Chapter):
    for file in [chapter.source, *chapter.exercises_folder.glob("*.py"), *(ANSWERS / chapter.name).glob("*.py")]:
        assert not re.search(r"\bTODO\b", file.read_text(encoding="utf-8")), file.name


@every_chapter
def test_answers_belong_to_exercises(chapter: Chapter):
    answers = {path.name for path in (ANSWERS / chapter.name).iterdir() if path.name != "__pycache__"}
    assert answers == {file_name(exercise.id) for exercise in chapter.exercises}


def grade_ids(chapter: Chapter) -> list[str]:
    return [c.metadata.nbgrader.grade_id for c in read_notebook(chapter.solution).cells if "nbgrader" in c.metadata]


def test_grade_ids_are_unique_and_stable():
    """Teachers' gradebooks keep marks by grade id: change grade_ids.json only together with CHANGELOG.md."""
    found = {chapter.name: grade_ids(chapter) for chapter in chapters(here())}
    every = [grade_id for ids in found.values() for grade_id in ids]
    assert len(every) == len(set(every))
    assert found == json.loads(GRADE_IDS.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- the gates can fail

SOUND = '''# %% [markdown]
# # A title
#
# **0 minutes to read, 5 minutes to practise, 20 points.**

# %% setup=true
import torch
from torchkata.verdicts import check, observe

# %% [markdown] facts=["03-gather-sample"]
# ## 9.1 A section

# %% [markdown]
# ### Exercise 9.1 · Twice
#
# implement · warm-up · 5 min · 20 points
#
# **Contract**: twice x.
#
# <details><summary>Hint 1</summary>
#
# What is twice?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Times 2.
#
# </details>

# %% answer="twice"
def twice(x):
    """Twice x."""
    ### BEGIN SOLUTION
    doubled_result = x * 2
    return doubled_result
    ### END SOLUTION

# %% check="twice" points=20
"""Twice."""
with check("twice") as test:
    test("two numbers")
    observe(twice, torch.tensor([1.0, 3.0])).returns(torch.tensor([2.0, 6.0]))
    ### BEGIN HIDDEN TESTS
    test.hidden("a secret number")
    observe(twice, torch.tensor(4.5)).returns(torch.tensor(9.0))
    ### END HIDDEN TESTS
'''


def sound(*changes: tuple[str, str]):
    text = SOUND
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return notebook_of(text, "sound.py")


def release_of(solution):
    chapter = Chapter(here(), "99_sound")
    return nbformat.reads(released(chapter, nbformat.writes(solution)), as_version=4)


def test_a_sound_chapter_passes_every_gate():
    solution = sound()
    assert gates.exercise_form(solution) == []
    assert gates.numbering(solution, 9) == []
    assert gates.points_sum(solution) == []
    assert gates.waist(solution) == []
    assert gates.headings(solution) == []
    assert gates.rhythm(solution) == []
    assert gates.reading_time(solution) == []
    assert gates.untaught(solution, {"03-gather-sample"}, {"03-gather-sample"}) == []
    assert gates.leaks(solution, release_of(solution)) == []
    assert gates.long_lines(solution) + gates.long_lines(release_of(solution)) == []


@pytest.mark.parametrize("kind", ["solution line", "hidden test", "in metadata", "outputs", "author metadata"])
def test_leaks_are_noticed(kind: str):
    solution = sound()
    release = release_of(solution)
    cell = release.cells[-1]
    if kind == "solution line":
        cell.source += "\n    doubled_result = x * 2"
    if kind == "hidden test":
        cell.source = solution.cells[-1].source
    if kind == "in metadata":
        cell.metadata.nbgrader["note"] = "\n    doubled_result = x * 2\n"
        release.metadata["note"] = "x"
    if kind == "outputs":
        cell.outputs = [new_output("stream", text="20")]
    if kind == "author metadata":
        cell.metadata["facts"] = ["03-gather-sample"]
    assert gates.leaks(solution, release)


def test_a_block_that_is_left_without_a_body_is_noticed():
    release = release_of(sound())
    assert gates.not_python(release) == gates.without_visible_tests(release) == []
    release.cells[-1].source = 'with check("double") as test:'
    assert gates.not_python(release) and gates.without_visible_tests(release)


def test_hidden_tests_are_really_hidden():
    source = sound().cells[-1].source
    assert "secret" in source
    assert "secret" not in without_hidden_tests(source)


@pytest.mark.parametrize(
    "gate, old, new",
    [
        (gates.exercise_form, "### Exercise 9.1 · Twice", "### Twice"),
        (gates.exercise_form, "implement · warm-up", "implement · easy"),
        (gates.exercise_form, "5 min · 20 points", "5 min · 3 points"),
        (gates.exercise_form, "**Contract**", "The contract"),
        (gates.exercise_form, "**Contract**: twice x.", "**Contract**: twice x.\n#\n# **Rule** No loop."),
        (gates.exercise_form, "<details><summary>Hint 2</summary>", "<details><summary>Another</summary>"),
        (gates.exercise_form, '"""Twice."""\nwith', "with"),
        (gates.exercise_form, 'with check("twice")', 'with check("thrice")'),
        (gates.exercise_form, "points=20", "points=0"),
        (gates.points_sum, "points=20", "points=19"),
        (gates.waist, "observe(twice, torch.tensor(4.5))", "observe(torch.mul, twice(torch.tensor(4.5)), 1)"),
        (gates.waist, "observe(twice, torch.tensor(4.5))", "observe(lambda x: twice(x), torch.tensor(4.5))"),
        (gates.waist, 'test("two numbers")', "twice = torch.add"),
        (gates.waist, 'test("two numbers")', "import math"),
        (gates.waist, 'test("two numbers")', "test(str(unknown_name))"),
        (gates.long_lines, "import torch\n", f"import torch  # {'word ' * 20}\n"),
        (gates.long_lines, '"""Twice x."""', f'"""Twice x.{" And so on." * 10}"""'),
        (gates.rhythm, "## 9.1 A section", "## 9.1 A section\n#" + " **Predict.** What?" * 21),
        (gates.reading_time, "## 9.1 A section", "## 9.1 A section" + "\n#\n# **Predict.** What?" * 13),
        (gates.reading_time, "**0 minutes", "**6 minutes"),
        (gates.headings, "## 9.1 A section", "# 9.1 A section"),
        (gates.headings, "## 9.1 A section", "#### 9.1 A section"),
        (gates.warnings_marked, "import torch\n", "import torch\nwarning_of(torch.manual_seed)\n"),
        (gates.warnings_marked, "setup=true", 'setup=true shows_warning="FutureWarning"'),
        (gates.alternative_text, "# ## 9.1 A section", "# ## 9.1 A section\n# ![](picture.png)"),
        (gates.varying_with_reason, "setup=true", 'setup=true varies="machine"'),
        (gates.varying_with_reason, "setup=true", 'setup=true tags=["nbval-ignore-output"]'),
    ],
)
def test_each_gate_can_fail(gate, old: str, new: str):
    assert gate(sound()) == []
    assert gate(sound((old, new)))


def test_numbering_and_facts_gates_can_fail():
    assert gates.numbering(sound(("Exercise 9.1", "Exercise 9.2")), 9)
    assert gates.untaught(sound(), {"03-gather-index-formula"}, {"03-gather-index-formula", "03-gather-sample"})
    assert gates.untaught(sound(), set(), set())


def test_a_scenario_may_name_its_parameter_like_the_answer():
    source = "def story(twice):\n    return twice(1)\nobserve_scenario(story, twice)"
    assert gates.waist_of_check(source, {"twice"}, {"observe_scenario"}) == []
    assert gates.waist_of_check(source + "\nprint(twice(2))", {"twice"}, {"observe_scenario"})


def test_a_chapter_can_be_too_long():
    """Even where it says so."""
    text = ("**0 minutes", "**80 minutes"), ("## 9.1 A section", "## 9.1 A section\n#" + " word" * 12_000)
    assert gates.reading_time(sound(*text)) == ["80 minutes to read, where 75 are enough"]


def test_a_check_cell_may_be_wider():
    """JupyterLab folds it to its first line."""
    wide = sound(('test("two numbers")', f'test("{"two " * 30}numbers")'))
    assert max(map(len, wide.cells[-1].source.split("\n"))) > gates.LONGEST
    assert gates.long_lines(wide) == []


def test_a_wide_output_is_noticed():
    page = {"text/html": "<table>", "text/plain": "word " * 21}
    for cell, output, is_noticed in (
        (1, new_output("stream", text=f"short\n{'word ' * 21}\n"), True),
        (1, new_output("execute_result", {"text/plain": "word " * 21}), True),
        (1, new_output("stream", text="word " * 20), False),
        (1, new_output("display_data", page), False),
        (-1, new_output("stream", text="word " * 21), False),
    ):
        notebook = sound()
        notebook.cells[cell].outputs = [output]
        assert bool(gates.long_outputs(notebook)) is is_noticed


def test_a_picture_without_words_is_noticed():
    notebook = sound()
    words = "Twelve cells in a row; the view uses every second one."
    good = new_output(
        "display_data", {"image/svg+xml": "<svg/>", "text/plain": words}, metadata={"image/svg+xml": {"alt": words}}
    )
    ours = new_output("display_data", {"text/html": f'<img alt="{words}" src="data:,">', "text/plain": words})
    notebook.cells[1].outputs = [good, ours]
    assert gates.alternative_text(notebook) == []
    for broken in (
        {"data": {"image/png": "x", "text/plain": "<Figure size 640x480 with 1 Axes>"}},
        {"data": {"text/html": '<img src="data:,">', "text/plain": words}},
        {"metadata": {}},
    ):
        changed = copy.deepcopy(notebook)
        changed.cells[1].outputs[0].update(broken)
        assert gates.alternative_text(changed)
