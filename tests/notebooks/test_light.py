"""By how much the pictures and explorers of a chapter let a learner's notebook grow, once all its cells have run.

A learner's outputs are those of the built solution, and in each picture the code that a build leaves out; its image,
which a build makes longer, is as it was.
"""

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from torchkata.pictures import page
from torchkata.pictures.image import SOURCE, address, for_viewers, svg_in
from torchkata.tools.course import Chapter, chapters, read_notebook
from torchkata.tools.placing import here

MOST_BYTES = 100_000
END = "\n</div>"
CARD = '<svg>\n<rect x="0" y="0" width="9" height="9" fill="#fcfcf9"/>\n</svg>'


def as_a_learner_has_it(output: NotebookNode) -> NotebookNode:
    html = output.data["text/html"]
    html = SOURCE.sub(lambda _: f' src="{address(svg_in(html))}"', html, count=1)
    code = page.code_html("tk-frames" in html)
    return NotebookNode({**output, "data": {**output.data, "text/html": html.removesuffix(END) + code + END}})


def pictures_of(chapter: Chapter) -> list[NotebookNode]:
    outputs = [output for cell in read_notebook(chapter.solution).cells for output in cell.get("outputs", [])]
    return [output for output in outputs if "torchkata-picture" in output.get("data", {}).get("text/html", "")]


def size(outputs: list[NotebookNode]) -> int:
    notebook = new_notebook(cells=[new_code_cell("", id="0", outputs=outputs)])
    return len(nbformat.writes(notebook).encode())


def growth(chapter: Chapter) -> int:
    """The bytes of a chapter's pictures in a saved notebook."""
    return size([as_a_learner_has_it(output) for output in pictures_of(chapter)]) - size([])


@pytest.mark.parametrize("chapter", chapters(here()), ids=lambda chapter: chapter.name)
def test_pictures_let_a_notebook_grow_by_a_tenth_of_a_megabyte_at_most(chapter):
    assert pictures_of(chapter)
    assert growth(chapter) <= MOST_BYTES


def test_what_a_learner_has_is_what_is_displayed():
    html, _ = page.picture_html(CARD, "words", "abc")
    built = NotebookNode(
        data={"text/html": for_viewers(page.without_scripts(html))}, metadata={}, output_type="display_data"
    )
    assert built.data["text/html"] != html == as_a_learner_has_it(built).data["text/html"]
