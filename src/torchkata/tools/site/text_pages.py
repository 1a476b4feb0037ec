"""The pages that are neither chapters nor folklore: the landing page, the texts of the repository, and the page that is
shown for a missing address."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from torchkata.tools.course import Chapter, read_unchecked
from torchkata.tools.errors import CourseError
from torchkata.tools.site.home import Home
from torchkata.tools.site.live_pictures import is_picture, picture_of
from torchkata.tools.site.proved import Told

PICTURE_OF = "ring_stepper()"  # the cell of the gallery whose picture stands on the landing page
BELIEF = "03-scatter-writes-all-of-src"
VERDICT = "docs/images/verdict.txt"  # what the check says to the wrong answer in verdict.png
# the texts that are pages, by the name of the page; GitHub shows the same files
TEXTS = {
    "learners": "docs/learners.md",
    "teachers": "docs/teachers.md",
    "collecting": "docs/collecting.md",
    "large-classes": "docs/large-classes.md",
    "authors": "docs/authors.md",
    "contributing": "CONTRIBUTING.md",
    "maintainers": "docs/maintainers.md",
    "changelog": "CHANGELOG.md",
}
PAGE_OF = {path: f"{name}.md" for name, path in TEXTS.items()} | {"README.md": "index.md"}
FILE_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def landing_page(
    root: Path, gallery: Chapter, chapters: Mapping[str, str], facts: list[Told], exercises: int, home: Home
) -> str:
    """The first page. chapters: title by name; exercises: how many there are."""
    verdict = _read(root, VERDICT)
    colab = home.colab("start/start.ipynb")
    return LANDING.format(
        start=escape(start_command(home)),
        colab=f'<a class="button" href="{colab}">Open in Colab</a>' if colab else "",
        picture=_picture(gallery),
        verdict=escape(verdict.rstrip()),
        belief=_belief(next(told for told in facts if told.fact.id == BELIEF)),
        count=len(facts),
        exercises=exercises,
        chapters="\n".join(f"{title} <chapters/{name}>" for name, title in chapters.items()),
        list="\n".join(f"- [{title}](chapters/{name}.ipynb)" for name, title in chapters.items()),
    )


def _picture(gallery: Chapter) -> str:
    """The explorer for the landing page; its frames are written with those of the gallery."""
    for cell in read_unchecked(gallery.solution).cells:
        if cell.source.strip() == PICTURE_OF:
            return picture_of(next(output for output in cell.outputs if is_picture(output)), "")[0]
    raise CourseError(f"The gallery has no cell {PICTURE_OF}, whose picture stands on the landing page.")


def _belief(told: Told) -> str:
    fact = told.fact
    return (
        f'<p class="saying">“{escape(fact.belief)}”</p>\n'
        f'<p><span class="verdict {fact.verdict}">{fact.verdict}</span> {escape(fact.fact)}</p>\n'
        '<details class="fold proof"><summary>Proof</summary>\n\n'
        f"```python\n{fact.proof.rstrip()}\n```\n\n</details>\n"
    )


def start_command(home: Home) -> str:
    """What begins the course in a terminal."""
    if not home.repository:
        return "make lab"
    return f"git clone {home.repository_address} && make -C {home.repository.rpartition('/')[2]} lab"


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
        return f"[{words}]({home.repository_address}/blob/main/{path}{anchor})" if home.repository else words

    return FILE_LINK.sub(to_page, text)


def _read(root: Path, name: str) -> str:
    try:
        return (root / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{name} is missing, of which the website makes a page.") from None


def missing_page() -> str:
    return (
        "---\norphan: true\nhide-toc: true\n---\n\n# There is no such page\n\n"
        "It may have moved. The [first page](index.md) leads to all chapters, and the search finds words.\n"
    )


def report(home: Home) -> str:
    """How to report a belief."""
    steps = (
        "You have read something about PyTorch that is not in the list, or that is told wrongly here? Write down the "
        "belief in one sentence, what is so in another, and a few lines of code with an `assert` that fails if it "
        "is not"
    )
    where = f"[open an issue]({home.repository_address}/issues/new)" if home.repository else "send it to the authors"
    return f"{steps}, and {where}. [For authors](../authors.md#facts) says how it gets into the course."


LANDING = """\
---
hide-toc: true
---

# torchkata

::::::{{container}} lead
A course on how PyTorch really works: JupyterLab notebooks whose exercises grade themselves.
You predict what a few lines do and run them. Then you write code of your own, and learn at once whether it is right or,
if not, what it does wrong and why. Every claim in the course is backed by code that runs.
::::::

<div class="start">
<code class="command">{start}</code>
<a class="button first" href="start.html">How it begins</a>
<a class="button" href="gallery.html">See all pictures</a>
{colab}
</div>

{picture}

This is a ring all-reduce. Press *step*. The [gallery](gallery.ipynb) has all pictures that you can play with.

## A wrong answer and its verdict

<pre class="told">{verdict}</pre>

The course has {exercises} exercises, each tested with right and wrong answers. A verdict says what your code did.

## A belief, checked

{belief}

[All {count} beliefs, each with its proof](folklore/index.md)

## The chapters

{list}

In the last chapter you put your answers together into a small language model and train it. You leave with
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
How work comes in <collecting>
What a large class costs <large-classes>
For authors <authors>
How to contribute <contributing>
For maintainers <maintainers>
changelog
```
"""
