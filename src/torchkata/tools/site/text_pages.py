"""The pages that are neither chapters nor folklore: the landing page, for teachers, for authors, the page that is shown
where there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from torchkata.tools.course import Chapter, CourseError, read_unchecked
from torchkata.tools.site.home import Home
from torchkata.tools.site.live_pictures import is_picture, picture_of
from torchkata.tools.site.proved import Told

PICTURE_OF = "ring_stepper()"  # the cell of the gallery whose picture stands on the landing page
BELIEF = "03-scatter-writes-all-of-src"
START = "pip install 'torchkata[lab]' && torchkata lab"
FILE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#|chapters/|folklore/)([^)]+)\)")
VERDICT = re.compile(r"^    ✗ .*\n(?:    .*\n)+", re.M)


def landing_page(
    root: Path, gallery: Chapter, chapters: Mapping[str, str], facts: list[Told], exercises: int, home: Home
) -> str:
    """The first page. chapters: title by name; exercises: how many there are.

    Raises CourseError where the README shows no verdict.
    """
    shown = VERDICT.search((root / "README.md").read_text(encoding="utf-8"))
    if shown is None:
        raise CourseError("README.md shows no verdict (lines that are indented by four and begin with ✗).")
    verdict = "\n".join(line[4:] for line in shown[0].splitlines())
    colab = home.colab("start/start.ipynb")
    return LANDING.format(
        start=escape(START),
        colab=f'<a class="button" href="{colab}">Open in Colab</a>' if colab else "",
        picture=_picture(gallery),
        verdict=escape(verdict),
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


def teachers_page(root: Path) -> str:
    """The part of the README that is for teachers."""
    text = (root / "README.md").read_text(encoding="utf-8")
    part = re.search(r"^## Teach a class\n.*?(?=^## )", text, re.M | re.S)
    if part is None:
        raise CourseError("README.md has no section `## Teach a class`.")
    text = without_file_links(part[0]).replace("| | |\n", "| file | what it holds |\n")  # a head has to say something
    return re.sub(r"^#(#+)", r"\1", text, flags=re.M)


def authors_page(root: Path) -> str:
    """CONTRIBUTING.md."""
    return without_file_links((root / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def without_file_links(text: str) -> str:
    """The text with links to files of the repository as their names alone: they are not on the site."""
    return FILE_LINK.sub(r"\1", text)


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
You predict what a few lines do, run them, and see; then you write code, and hear at once what is wrong with it and why.
Whatever the course says has been run: each belief about PyTorch stands beside its proof.
::::::

<div class="start">
<code class="command">{start}</code>
<a class="button first" href="start.html">How it begins</a>
<a class="button" href="gallery.html">See all pictures</a>
{colab}
</div>

{picture}

A ring all-reduce: press *step*. It is one of the [pictures that move](gallery.ipynb), here and in the notebooks.

## A wrong answer hears why

<pre class="told">{verdict}</pre>

{exercises} exercises, each tested with right and wrong answers. A verdict names the mistake, not just the line.

## A belief, checked

{belief}

[All {count} beliefs, each with its proof](folklore/index.md)

## The chapters

{list}

The last chapter puts your answers together: a small language model, which you train and which writes. You leave with
`my_model.py`, an ONNX file that runs without PyTorch, and `my_model.html`, a page that you can send to a friend.

You need Python 3.11 or newer, and no GPU.

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

For teachers <teachers>
For authors <authors>
```
"""
