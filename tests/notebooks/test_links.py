"""The links of notebooks and texts have their form; each rule is seen to fail. `make links` asks where they lead."""

from __future__ import annotations

import pytest

from tests.links.reading import Link, bullets_to_read_on, links_in, links_of_the_course, markdown_of
from tests.notebooks import linking
from torchkata.tools.course import Chapter, chapters, side_notebooks
from torchkata.tools.placing import here

EVERYTHING = [*chapters(here()), *side_notebooks(here())]
STABLE = "https://docs.pytorch.org/docs/stable/"


@pytest.fixture(scope="module")
def links() -> list[Link]:
    return links_of_the_course()


def test_the_links_are_found(links: list[Link]):
    assert len({link.place for link in links}) > len(chapters(here()))
    assert sum(link.address.startswith(STABLE) for link in links) > 5 * len(chapters(here()))


def test_addresses_have_their_form(links: list[Link]):
    assert linking.addresses(links) == []


def test_the_same_words_lead_to_the_same_page(links: list[Link]):
    assert linking.one_target(links) == []


@pytest.mark.parametrize("chapter", [pytest.param(chapter, id=chapter.name) for chapter in chapters(here())])
def test_what_to_read_on_can_be_clicked(chapter: Chapter):
    bullets = [links for text in markdown_of(chapter.solution) for links in bullets_to_read_on(text)]
    assert len(bullets) >= 4 and linking.bare_bullets(bullets) == []


@pytest.mark.parametrize("notebook", [pytest.param(notebook, id=notebook.name) for notebook in EVERYTHING])
def test_other_notebooks_are_found_from_a_workbook(notebook: Chapter):
    places = {other.place_in_workbook.as_posix() for other in EVERYTHING}
    links = [link for text in markdown_of(notebook.release) for link in links_in(text)]
    assert linking.lost_notebooks(links, places, notebook.place_in_workbook.as_posix()) == []


# ---------------------------------------------------------------- each rule is seen to fail


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://arxiv.org/abs/1706.03762", "is not https"),
        ("https://docs.pytorch.com/docs/stable/amp.html", "a host that"),
        ("https://docs.pytorch.org/docs/2.13/amp.html", "is no page of"),
        ("https://docs.pytorch.org/docs/main/amp.html", "is no page of"),
        ("https://docs.pytorch.org/docs/stable/amp", "is no page of"),
        ("https://docs.pytorch.org/tutorials/", "is no page of"),
        ("https://pytorch.org/docs/stable/amp.html", "has moved"),
    ],
)
def test_an_address_out_of_form(address: str, words: str):
    (problem,) = linking.addresses([Link("amp", address, "08.ipynb")])
    assert problem.startswith(f"08.ipynb: {address} ") and words in problem


@pytest.mark.parametrize("address", ["../start.ipynb", "LICENSE", STABLE + "notes/extending.func.html#s-1.a_b"])
def test_addresses_in_form(address: str):
    assert linking.addresses([Link("x", address, "08.ipynb")]) == []


def test_words_with_two_targets():
    here, same, other = (Link("amp", STABLE + page, "08.ipynb") for page in ("amp.html", "amp.html#x", "autograd.html"))
    assert linking.one_target([here, same]) == []
    assert len(linking.one_target([here, same, other])) == 1


def test_a_bullet_without_a_link():
    bullets = bullets_to_read_on(f"## Where to read on\n\n- [a]({STABLE}amp.html)\n- the note `Modules`")
    assert linking.bare_bullets(bullets) == ["bullet 2 has no link"]


def test_a_notebook_that_is_not_there():
    places = {"start.ipynb", "03_gather_scatter/gather_scatter.ipynb"}
    links = links_in("[a](../start.ipynb) [b](gather_scatter.ipynb#s) [c](start.ipynb)")
    here = "03_gather_scatter/gather_scatter.ipynb"
    assert linking.lost_notebooks(links, places, here) == [f"{here} has no way to start.ipynb"]
