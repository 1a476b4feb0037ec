"""The pages that are neither chapters nor folklore: the landing page, the texts of the repository, and the page that is
shown for a missing address."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from torchkata.tools.course import Chapter
from torchkata.tools.errors import CourseError
from torchkata.tools.site.edition import Edition, edition, start_command
from torchkata.tools.site.hero import hero_html
from torchkata.tools.site.home import Home
from torchkata.tools.site.proved import Told
from torchkata.tools.site.showcase import belief_html, chapter_cards, verdict_card

BELIEF = "03-scatter-writes-all-of-src"
SOURCE = "src/torchkata/tools/site/text_pages.py"  # of the landing page
ANSWER = "docs/images/answer.txt"  # the wrong answer in verdict.png
VERDICT = "docs/images/verdict.txt"  # what the check says to it
# the texts that are pages, by the name of the page; GitHub shows the same files
TEXTS = {
    "learners": "docs/learners.md",
    "teachers": "docs/teachers.md",
    "plans": "docs/plans.md",
    "notes": "docs/notes.md",
    "collecting": "docs/collecting.md",
    "large-classes": "docs/large-classes.md",
    "containers": "docs/containers.md",
    "authors": "docs/authors.md",
    "contributing": "CONTRIBUTING.md",
    "maintainers": "docs/maintainers.md",
    "changelog": "CHANGELOG.md",
}
PAGE_OF = {path: f"{name}.md" for name, path in TEXTS.items()} | {"README.md": "index.md"}
FILE_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def landing_page(root: Path, chapters: Sequence[Chapter], facts: Sequence[Told], home: Home) -> str:
    """The first page. Raises CourseError where something is missing that it shows."""
    now, colab = edition(root), home.colab("start/start.ipynb")
    day = f", as of {home.day}" if home.day else ""
    return LANDING.format(
        hero=hero_html(),
        start=_start(start_command(home, now), now),
        edition=f"{now.in_words}{day}",
        colab=f'<a class="button" href="{colab}">Open in Colab</a>' if colab else "",
        answer=_read(root, ANSWER).rstrip(),
        verdict=verdict_card(_read(root, VERDICT)),
        belief=belief_html(next(told for told in facts if told.fact.id == BELIEF)),
        count=len(facts),
        exercises=sum(len(chapter.exercises) for chapter in chapters),
        chapters="\n".join(f"{one.number} {one.title} <chapters/{one.name}>" for one in chapters),
        cards=chapter_cards(chapters, _read(root, "README.md")),
    )


def _start(command: str, now: Edition) -> str:
    where = "In a terminal" if now.released or command.startswith("git") else "In a checkout of the course"
    return f'<p class="where">{where}:</p><div class="run"><code class="command">{escape(command)}</code></div>'


def text_page(root: Path, name: str, home: Home) -> str:
    """The page that is made of a text of the repository, with links that lead to the other pages.

    Raises CourseError where the text is missing.
    """
    source = TEXTS[name]
    return with_page_links(_read(root, source), source, home)


def with_page_links(text: str, source: str, home: Home) -> str:
    """The text of the file `source` with its links to files as links to their pages.

    A file that is no page is linked on GitHub, or named without a link where nobody knows the repository.
    """

    def to_page(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in PAGE_OF:
            return f"[{words}]({PAGE_OF[path]}{anchor})"
        return f"[{words}]({home.file(path)}{anchor})" if home.repository else words

    return FILE_LINK.sub(to_page, text)


def _read(root: Path, name: str) -> str:
    try:
        return (root / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{name} is missing, of which the website makes a page.") from None


def missing_page() -> str:
    return (
        "---\norphan: true\nhide-toc: true\n---\n\n# There is no such page\n\n"
        "It may have moved. The [first page](index.md) leads to all chapters, and you can search for words.\n"
    )


def report(home: Home) -> str:
    """How to report a belief."""
    steps = (
        "Have you read something about PyTorch that isn't in the list, or is something here wrong? Write down the "
        "belief in one sentence, what is true in another, and a few lines of code with an `assert` that fails if it "
        "isn't"
    )
    where = f"[report it]({home.doubt_text('a belief')})" if home.repository else "send it to the authors"
    return f"{steps}, and {where}. [For authors](../authors.md#facts) says how it gets into the course."


LANDING = """\
---
hide-toc: true
---

# torchkata

<div class="hero">
<div class="hero-words">
<p class="lead">A course on how PyTorch really works, for people who can run a training script and want to know what
PyTorch does in it.</p>
<p>You predict what a few lines do, and run them. Then you write your own code, and the notebook tells you at once
whether it is right and, if it isn't, what it did and why. Every claim is backed by code that runs.</p>
<div class="start">
{start}
<p><a class="button first" href="start.html">How it begins</a> <a class="button" href="gallery.html">Play with the
pictures</a> {colab}</p>
<p class="edition">{edition}. Free, without an account, and without a GPU.</p>
</div>
</div>
{hero}
</div>

## A wrong answer and its verdict

The task is to count how many entries of an index write to each cell. A learner answers:

```python
{answer}
```

The check runs it on index tensors of many kinds, and says:

<div class="shown">{verdict}</div>

The course has {exercises} exercises, each tested with right and wrong answers. A verdict says what your code did, with
the numbers of the test.

## A belief and its proof

{belief}

[All {count} beliefs, each with its proof](folklore/index.md)

## The chapters

{cards}

In chapter 12 you put your answers together into a small language model and train it. You leave with
`my_model.py`, an ONNX file that runs without PyTorch, and `my_model.html`, a page that you can send to a friend.

You need Python 3.11 or newer, and no GPU. [For learners](learners.md) says how to install the course.

```{{toctree}}
:hidden:
:caption: The course

start
{chapters}
gallery
review
```

```{{toctree}}
:hidden:
:caption: Look up

folklore/index
```

```{{toctree}}
:hidden:
:caption: More

For learners <learners>
For teachers <teachers>
Six or twelve weeks <plans>
Notes for each chapter <notes>
How work comes in <collecting>
What a large class costs <large-classes>
In a container <containers>
For authors <authors>
How to contribute <contributing>
For maintainers <maintainers>
changelog
```
"""
