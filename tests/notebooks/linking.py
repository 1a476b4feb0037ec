"""The form of the course's links. Each gate takes links and returns what is wrong, in words."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from urllib.parse import urldefrag, urlsplit

from tests.links.reading import Link

# a slip in the name of a host leads to strangers; a new host is added here on purpose
HOSTS = {
    *("docs.pytorch.org", "pytorch.org", "docs.python.org", "onnx.ai", "onnxruntime.ai", "netron.app"),
    *("nbgrader.readthedocs.io", "distributed.dask.org", "conda-forge.org", "github.com", "huggingface.co"),
    *("docs.github.com", "docs.nvidia.com", "arxiv.org", "blog.xkcd.com", "karpathy.github.io", "www.youtube.com"),
}
PYTORCH = re.compile(r"https://docs\.pytorch\.org/(docs/stable/[\w./]+\.html|tutorials/[\w./]+\.html)(#[\w.-]+)?")


def addresses(links: Iterable[Link]) -> list[str]:
    """Links out of the course are encrypted and lead to known hosts, those to PyTorch to its newest documentation."""
    problems = []
    for link in links:
        found = urlsplit(link.address)
        if not link.leaves_the_course:
            continue
        if found.scheme != "https":
            problems.append(f"{link.place}: {link.address} is not https")
        elif found.netloc not in HOSTS:
            problems.append(
                f"{link.place}: {link.address} leads to a host that tests/notebooks/linking.py does not know"
            )
        elif found.netloc == "docs.pytorch.org" and not PYTORCH.fullmatch(link.address):
            problems.append(f"{link.place}: {link.address} is no page of docs/stable or of the tutorials")
        elif found.netloc == "pytorch.org" and found.path.startswith(("/docs", "/tutorials")):
            problems.append(f"{link.place}: {link.address} has moved to docs.pytorch.org")
    return problems


def one_target(links: Iterable[Link]) -> list[str]:
    """The same words lead to the same page everywhere."""
    targets: dict[str, Link] = {}
    problems = []
    for link in links:
        first = targets.setdefault(link.text, link)
        if link.leaves_the_course and urldefrag(first.address).url != urldefrag(link.address).url:
            problems.append(
                f'"{link.text}" leads to {first.address} in {first.place}, to {link.address} in {link.place}'
            )
    return problems


def bare_bullets(bullets: Iterable[list[Link]]) -> list[str]:
    """What a chapter names to read on can be clicked."""
    return [f"bullet {number} has no link" for number, links in enumerate(bullets, 1) if not links]


def lost_notebooks(links: Iterable[Link], places: set[str], here: str) -> list[str]:
    """A link from the notebook here to another finds it in a workbook, whose notebooks lie in places."""
    targets = [link.address.partition("#")[0] for link in links if not link.leaves_the_course]
    folder = posixpath.dirname(here)
    return [
        f"{here} has no way to {target}"
        for target in targets
        if target.endswith(".ipynb") and posixpath.normpath(posixpath.join(folder, target)) not in places
    ]
