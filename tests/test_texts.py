"""README, CONTRIBUTING and docs/: the commands, options, files and links that they name are there."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests import ROOT
from tests.links.reading import links_in
from torchkata import cli
from torchkata.tools.course import chapters
from torchkata.tools.learning.progress import MINUTES
from torchkata.tools.placing import here
from torchkata.tools.website import chapter_link

TEXTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", ".github/*.md", ".github/*/*.md", "src/torchkata/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "LICENSE-TEXT.md"
)
# what commands write, or readers: a path that begins or ends with one of these names need not be there
MADE = {
    *("workbook", "build", "dist", "submitted", "feedback", "graded", "autograded", "reports", "torch-class"),
    *(".venv", ".torchkata", "torchkata", "my-kata", "my_model.py", "my_model.html", "grades.csv", "gradebook.db"),
    *("students.csv", "class.yaml", "marks.csv", "canvas.csv", "moodle.csv", "overview.html", "timestamp.txt"),
    *("one_hot.py", "start.ipynb", "review.ipynb", "gallery.ipynb", "downloaded", "replaced"),
    "Europe",  # as in the name of a time zone
}
ENDINGS = "cff|css|csv|db|html|ipynb|js|json|lock|md|png|py|svg|toml|txt|yaml|yml"
PATH = re.compile(rf"(?:[\w.-]+/)+[\w.-]*|[\w-][\w.-]*\.(?:{ENDINGS})")
PLACEHOLDER = re.compile(r"[A-Z]{2,}|NN_|exercise_id|[{}…]")
BEFORE = ("", "src/torchkata/", "src/torchkata/tools/site/", "notebooks/start/")  # from where a text may name a file


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pieces_of_code(text: str) -> Iterator[str]:
    """Each line of a block of code, and each piece of code within a line."""
    for token in _with_children(MarkdownIt().enable("table").parse(text)):
        if token.type in ("code_block", "fence"):
            yield from token.content.splitlines()
        elif token.type == "code_inline":
            yield token.content


def _with_children(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _with_children(token.children or [])


def commands_in(text: str) -> list[list[str]]:
    """The words of each command, without what comes before it on its line and without a comment."""
    found = []
    for piece in pieces_of_code(text):
        for part in re.split(r"&&|;", piece):
            words = shlex.split(part, comments=True) if _is_closed(part) else []
            start = next((n for n, word in enumerate(words[:8]) if _program(word) in CHECKS), None)
            if start is not None and all(_comes_before(word) for word in words[:start]):
                found.append([_program(words[start]), *words[start + 1 :]])
    return found


def _is_closed(part: str) -> bool:
    try:
        shlex.split(part, comments=True)
    except ValueError:  # Python with a quote of its own
        return False
    return True


def _program(word: str) -> str:
    return word.removeprefix(".venv/bin/")


def _comes_before(word: str) -> bool:
    """Whether it is an assignment, or a program that starts another, with its options."""
    return "=" in word or word in ("nice", "uvx", "pipx", "run") or word.startswith("-") or "/" in word


# ---------------------------------------------------------------- each kind of command: what is wrong with it, in words


def wrong_torchkata(words: list[str]) -> str:
    """Follows the words to a command and asks it for its options. Placeholders such as CHAPTER are arguments."""
    command: Any = typer.main.get_command(cli.app)
    for name in words:
        if not hasattr(command, "commands") or name.startswith("-"):
            break
        if name not in command.commands:
            return f"there is no command {name!r}"
        command = command.commands[name]
    if command.context_settings.get("ignore_unknown_options"):
        return ""
    known = {option for parameter in command.params for option in parameter.opts}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]
    return f"{command.name} has no option {', '.join(unknown)}" if unknown else ""


def wrong_make(words: list[str]) -> str:
    makefile = read("Makefile")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    variables = set(re.findall(r"\$[({](\w+)", makefile))
    plain = [word for word in words if re.fullmatch(r"[\w-]+", word) and not word.startswith("-")]
    unknown = [word for word in plain if word not in targets]
    unknown += [name for word in words if (name := word.partition("=")[0]) != word and name not in variables]
    return f"the Makefile does not know {', '.join(unknown)}" if unknown else ""


def wrong_python(words: list[str]) -> str:
    if words[:1] != ["-m"] or len(words) < 2:
        return ""
    try:
        found = importlib.util.find_spec(words[1])
    except ModuleNotFoundError:
        found = None
    return "" if found else f"there is no module {words[1]}"


CHECKS: dict[str, Callable[[list[str]], str]] = {
    "torchkata": wrong_torchkata,
    "make": wrong_make,
    "python": wrong_python,
}


def faults_of_commands(text: str) -> list[str]:
    return [
        f"{' '.join(command)}: {fault}" for command in commands_in(text) if (fault := CHECKS[command[0]](command[1:]))
    ]


# ---------------------------------------------------------------- files


def missing_files(text: str) -> list[str]:
    """Paths in code that are neither in the repository nor made by a command nor placeholders."""
    words = [word.strip("`'\",:;()[]") for piece in pieces_of_code(text) for word in piece.split("::")[0].split()]
    paths = {word for word in words if PATH.fullmatch(word) and not PLACEHOLDER.search(word)}
    return sorted(path for path in paths if not _is_made(path) and not _is_there(path))


def _is_made(path: str) -> bool:
    parts = path.rstrip("/").split("/")
    return parts[0] in MADE or parts[-1] in MADE


def _is_there(path: str) -> bool:
    return any((ROOT / before / path).exists() for before in BEFORE)


# ---------------------------------------------------------------- links


def dead_links(name: str) -> list[str]:
    """Links to files that are not there, or to headings that the file does not have."""
    dead = []
    for link in links_in(read(name)):
        if link.leaves_the_course or link.address.startswith("mailto:"):
            continue
        path, _, anchor = link.address.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link.address)
    return dead


def anchors(path: Path) -> set[str]:
    """What GitHub calls the headings of a text."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# ---------------------------------------------------------------- the tests


FORMS = sorted(path.name for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


@pytest.mark.parametrize("name", FORMS)
def test_an_issue_form_is_one_for_github(name: str):
    text = read(f".github/ISSUE_TEMPLATE/{name}")
    form = yaml.safe_load(text)
    assert {"name", "description", "body"} <= form.keys() <= {"name", "description", "title", "labels", "body"}
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert questions and {part["type"] for part in questions} <= {"input", "textarea"}
    assert len({part["id"] for part in questions}) == len(questions)
    assert all(part["attributes"]["label"] for part in questions)
    assert faults_of_commands("\n\n".join(re.findall(r"`[^`]+`", text))) == []


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_text_names_is_there(name: str):
    text = read(name)
    assert faults_of_commands(text) == []
    assert missing_files(text) == []
    assert dead_links(name) == []


def test_the_texts_name_many_things():
    commands = [command for name in TEXTS for command in commands_in(read(name))]
    for program in CHECKS:
        assert sum(command[0] == program for command in commands) > 5, program


def test_the_readme_is_short():
    lines = read("README.md").splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 110] == []


def test_the_readmes_pictures_are_there_in_light_and_dark_and_in_words():
    text = read("README.md")
    pictures = re.findall(r"<picture>(.*?)</picture>", text, re.S)
    assert len(pictures) == 2
    for picture, name in zip(pictures, ("verdict", "explorer"), strict=True):
        light, dark = f"docs/images/{name}.png", f"docs/images/{name}-dark.png"
        assert f'(prefers-color-scheme: dark)" srcset="{dark}"' in picture and f'src="{light}"' in picture
        assert (ROOT / light).is_file() and (ROOT / dark).is_file()
        assert len(re.findall(r'alt="([^"]{80,})"', picture)) == 1


def test_contributing_is_short():
    assert len(read("CONTRIBUTING.md").splitlines()) <= 200


def test_the_readmes_table_is_that_of_the_chapters():
    rows = re.findall(r"^\| \[(\d\d) (.+)\]\[(\d\d)\] \| (\d+) \+ (\d+) \| .+ \|$", read("README.md"), re.M)
    places = dict(re.findall(r"^\[(\d\d)\]: (\S+)$", read("README.md"), re.M))
    wanted = []
    for chapter in chapters(here()):
        minutes = MINUTES.search(chapter.source.read_text(encoding="utf-8").replace("\n# ", " "))
        assert minutes
        wanted.append((chapter.number, chapter.title, chapter.number, minutes[1], minutes[2]))
    assert rows == wanted
    assert places == {chapter.number: chapter_link(chapter) for chapter in chapters(here())}


# ---------------------------------------------------------------- each rule is seen to fail


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("torchkata grad 03", "no command 'grad'"),
        ("torchkata grade 03 --speed", "no option --speed"),
        ("torchkata new lesson 03 x", "no command 'lesson'"),
        ("export A=1 && .venv/bin/torchkata chek", "no command 'chek'"),
        ("make tset", "does not know tset"),
        ("make test CHAPTR=06", "does not know CHAPTR"),
        ("nice .venv/bin/python -m tests.bench.slow 3", "no module tests.bench.slow"),
    ],
)
def test_a_wrong_command_is_noticed(code: str, fault: str):
    [told] = faults_of_commands(f"Run `{code}`.")
    assert fault in told
    assert faults_of_commands(f"    {code}    # what it does\n") == [told]


def test_right_commands_are_let_through():
    right = ("torchkata lab --no-browser", "torchkata new exercise 06 my-own --after x", "make lab ARGS='--port 1'")
    assert [fault for code in right for fault in faults_of_commands(f"`{code}`")] == []


def test_a_missing_file_is_noticed():
    assert missing_files("`src/torchkata/nothing.py`, `tests/notebooks/`, `submitted/ada/`") == [
        "src/torchkata/nothing.py"
    ]


def test_a_dead_link_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a.md").write_text("# One, two\n\n[a](#one-two) [b](#two) [c](b.md) [d](https://x)", encoding="utf-8")
    monkeypatch.setattr("tests.test_texts.ROOT", tmp_path)
    assert dead_links("a.md") == ["#two", "b.md"]


def test_each_rule_of_a_contract_is_listed_with_how_it_is_held():
    table = read("docs/maintainers.md").partition("## How rules are held\n")[2].partition("\n## ")[0]
    listed = [name for row in re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE) for name in re.findall("`(.+?)`", row)]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "solutions").glob("*/exercises/*.py")]
    ruled = [re.findall(r'answer="(.+?)"', source)[0] for source in sources if "\n# **Rule.**" in source]
    assert sorted(listed) == sorted(ruled)
