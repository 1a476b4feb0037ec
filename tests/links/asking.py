"""Whether an address still leads somewhere. A page is asked for once; places in it (#name) are looked for there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

import httpx

from tests.links.reading import Link

# what hosts answer that let browsers in and turn programs away; whether the page lives, only a person can see
TURNED_AWAY = {401, 403, 429}
# a server that knows no HEAD says so with one of these; 404 too, since some answer it to every HEAD
ASK_AGAIN = {400, 403, 404, 405, 501}


@dataclass(frozen=True)
class Answer:
    """What asking for an address came to. lives: None where the host turns programs away."""

    address: str
    lives: bool | None
    says: str


def client() -> httpx.Client:
    """Follows redirects, tries twice more where no connection comes about, and says who asks."""
    return httpx.Client(
        follow_redirects=True,
        timeout=30,
        transport=httpx.HTTPTransport(retries=2),
        headers={"User-Agent": "torchkata, checking the links of a course"},
    )


def pages_of(links: Iterable[Link]) -> dict[str, list[str]]:
    """The pages that links lead to outside of the course, each with the addresses that name it or a place in it."""
    found: dict[str, list[str]] = {}
    for address in dict.fromkeys(link.address for link in links if link.leaves_the_course):
        found.setdefault(urldefrag(address).url, []).append(address)
    return found


def ask(by: httpx.Client, page: str, addresses: Iterable[str]) -> list[Answer]:
    """Ask for a page; an answer for each of the addresses, which name it or a place in it."""
    places: Mapping[str, str] = {address: unquote(urldefrag(address).fragment) for address in addresses}
    try:
        reply = _reply(by, page, read=any(places.values()))
    except httpx.HTTPError as error:
        return [Answer(address, False, f"{type(error).__name__}: {error}") for address in places]
    if not reply.is_success:
        lives = None if reply.status_code in TURNED_AWAY else False
        return [Answer(address, lives, f"{reply.status_code} {reply.reason_phrase}") for address in places]
    names = _Names()
    names.feed(reply.text)
    return [_in_page(address, place, reply, names.found) for address, place in places.items()]


def _reply(by: httpx.Client, page: str, *, read: bool) -> httpx.Response:
    """The reply to HEAD where only the page's being there is asked, else that to GET."""
    if not read:
        reply = by.head(page)
        if reply.status_code not in ASK_AGAIN:
            return reply
    return by.get(page)


def _in_page(address: str, place: str, reply: httpx.Response, names: set[str]) -> Answer:
    if place and place not in names:
        return Answer(address, False, f"the page has no #{place}")
    moved = any(step.status_code in (301, 308) for step in reply.history)
    return Answer(address, True, f"moved to {reply.url}" if moved else "lives")


class _Names(HTMLParser):
    """The places of a page that an address can name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {value for name, value in attrs if value and (name == "id" or (tag, name) == ("a", "name"))}
