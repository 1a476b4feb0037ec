"""Asks for every address that the course links to, and says which no longer lead anywhere.

    make links                  # all of them: two minutes, and the network
    make links ARGS=onnx        # those with a word in their address

Each page is asked for once. It ends in a table, and with exit code 1 where a page or a place in it (#name) is gone.
An address whose host turns programs away counts as neither; open it in a browser. CI runs it every Monday.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.links.asking import Answer, ask, client, pages_of
from tests.links.reading import Link, links_of_the_course

WORDS = {True: "", None: "look yourself", False: "dead"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make links", description="Ask for the addresses that the course links to.")
    parser.add_argument("word", nargs="?", default="", help="only addresses with this word in them")
    word = parser.parse_args(arguments).word
    links = [link for link in links_of_the_course() if word in link.address]
    with client() as by:
        pages = pages_of(links).items()
        steps = track(pages, "asking", console=Console(stderr=True), transient=True)
        answers = [answer for page, addresses in steps for answer in ask(by, page, addresses)]
    Console(width=200).print(table(answers, links))
    dead = sum(answer.lives is False for answer in answers)
    print(f"{len(answers)} addresses on {len(pages)} pages; dead: {dead}")
    return int(dead > 0)


def table(answers: Iterable[Answer], links: Iterable[Link]) -> Table:
    """The dead first, then those to look at, then those that live; and where each stands."""
    places: dict[str, list[str]] = {}
    for link in links:
        places.setdefault(link.address, []).append(link.place)
    shown = Table("", "address", "what came", "where it stands", box=SIMPLE)
    for answer in sorted(answers, key=lambda answer: [False, None, True].index(answer.lives)):
        where = ", ".join(dict.fromkeys(places[answer.address]))
        shown.add_row(WORDS[answer.lives], answer.address, answer.says, where)
    for column in shown.columns:
        column.overflow = "fold"
    return shown


if __name__ == "__main__":
    sys.exit(main())
