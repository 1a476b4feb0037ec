"""`make links`: what is read as a link, what is asked, and what counts as dead. A server on this machine is asked."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.links import __main__ as command
from tests.links.asking import Answer, ask, client, pages_of
from tests.links.reading import Link, bullets_to_read_on, links_in

PAGE = b'<html><h1 id="top">Top</h1><a name="old"></a><p id="caf&eacute;">x</p></html>'


class Host(http.server.BaseHTTPRequestHandler):
    """A few pages; notes what it was asked."""

    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.asked.append((self.command, self.path))
        status = {"/page": 200, "/shy": 200, "/moved": 301, "/elsewhere": 302, "/guarded": 403, "/ill": 503}
        code = status.get(self.path, 404)
        if self.path == "/shy" and self.command == "HEAD":
            code = 405
        self.send_response(code)
        if code in (301, 302):
            self.send_header("Location", "/page")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[str]:
    Host.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def answers(*addresses: str) -> dict[str, Answer]:
    """What asking for all of them came to, by address without the host."""
    links = [Link("text", address, "place") for address in addresses]
    with client() as by:
        found = [answer for page, named in pages_of(links).items() for answer in ask(by, page, named)]
    return {"/" + answer.address.split("/", 3)[3]: answer for answer in found}


@pytest.mark.parametrize(
    ("path", "lives", "says"),
    [
        ("/page", True, "lives"),
        ("/page#top", True, "lives"),
        ("/page#old", True, "lives"),
        ("/page#caf%C3%A9", True, "lives"),
        ("/page#gone", False, "the page has no #gone"),
        ("/nowhere", False, "404 Not Found"),
        ("/nowhere#top", False, "404 Not Found"),
        ("/ill", False, "503 Service Unavailable"),
        ("/guarded", None, "403 Forbidden"),
        ("/shy", True, "lives"),
        ("/elsewhere", True, "lives"),
    ],
)
def test_an_address_lives_is_dead_or_cannot_be_seen(host: str, path: str, lives: bool | None, says: str):
    answer = answers(host + path)[path]
    assert (answer.lives, answer.says) == (lives, says)


def test_who_moved_for_good_is_said(host: str):
    assert answers(host + "/moved")["/moved"].says == f"moved to {host}/page"


def test_a_page_is_asked_for_once(host: str):
    found = answers(host + "/page", host + "/page#top", host + "/page#gone", host + "/page")
    assert [answer.lives for answer in found.values()] == [True, True, False]
    assert Host.asked == [("GET", "/page")]


def test_a_page_that_need_not_be_read_is_not_fetched(host: str):
    answers(host + "/page")
    assert Host.asked == [("HEAD", "/page")]


def test_a_host_that_is_not_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and nobody listens
        (answer,) = answers(f"http://127.0.0.1:{free.getsockname()[1]}/page").values()
    assert answer.lives is False and answer.says.startswith("ConnectError")


@pytest.mark.parametrize(("path", "code"), [("/page#top", 0), ("/guarded", 0), ("/page#gone", 1), ("/nowhere", 1)])
def test_the_exit_code_and_the_table(host: str, path: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys):
    links = [Link("a", host + path, "one.ipynb"), Link("b", host + path, "two.ipynb"), Link("c", host + "/page", "x")]
    monkeypatch.setattr(command, "links_of_the_course", lambda: links)
    assert command.main([]) == code
    row = next(line for line in capsys.readouterr().out.splitlines() if path in line)
    assert "one.ipynb, two.ipynb" in row and ("dead" in row) == bool(code)


def test_a_word_chooses_addresses(host: str, monkeypatch: pytest.MonkeyPatch, capsys):
    links = [Link("a", host + "/nowhere", "x"), Link("b", host + "/page", "x")]
    monkeypatch.setattr(command, "links_of_the_course", lambda: links)
    assert command.main(["page"]) == 0 and "nowhere" not in capsys.readouterr().out


# ---------------------------------------------------------------- reading


def test_links_are_read_as_a_reader_sees_them():
    text = (
        "see [the `a.b`\npage](https://x.y/z#q), not `[this](https://no.one)`, <https://w.v>\n\n    [nor](https://code)"
    )
    found = [(link.text, link.address) for link in links_in(text)]
    assert found == [("the a.b page", "https://x.y/z#q"), ("https://w.v", "https://w.v")]


def test_bullets_to_read_on():
    bullets = "- [a](https://x.y) and [b](https://x.z)\n- c"
    assert [len(links) for links in bullets_to_read_on(f"## Where to read on\n\n{bullets}")] == [2, 0]
    assert bullets_to_read_on(f"## Elsewhere\n\n{bullets}") == []


def test_what_stays_in_the_course_is_not_asked_for():
    assert pages_of(links_in("[start](../start.ipynb) [text](README.md)")) == {}
