"""Which names a cell binds, changes, and takes from the cells before it; which cells are needed for them."""

from __future__ import annotations

import pytest

from torchkata.base.names import Names, names_of, needed


@pytest.mark.parametrize(
    "source, binds, reads",
    [
        ("a = b", "a", "b"),
        ("for a, b in c: d = a", "abd", "c"),
        ("with a as b: b", "b", "a"),
        ("with a as a: pass", "a", "a"),
        ("def a(b, c=d): e = b + f", "a", "df"),
        ("def a(b: c) -> d: pass", "a", "cd"),
        ("async def a(b): await c", "a", "c"),
        ("@a\nclass b(c):\n    def d(self): return e", "b", "ace"),
        ("class a:\n    b = b", "a", "b"),
        ("class a:\n    b = 1\n    def c(self): return b", "a", "b"),
        ("class a:\n    def b(self): return a", "a", ""),
        ("class a(a): pass", "a", "a"),
        ("def a(b):\n    class c:\n        def d(self, b=b): return b\n    return c", "a", ""),
        ("[a for a in b if c]", "", "bc"),
        ("a = [b for b in a]", "a", "a"),
        ("lambda a=b: a + c", "", "bc"),
        ("def a(): return [(b := c) + b for c in d]", "a", "d"),
        ("def a():\n    global b\n    b += 1", "ab", "b"),
        ("def a():\n    def b(): return c\n    c = 1\n    return b", "a", ""),
        ("import a.b, c as d\nfrom e import f as g", "adg", ""),
        ("a = await b", "a", "b"),
        ("match a:\n    case {'k': b}: b", "b", "ab"),
        ("'a'; print", "", ["print"]),
    ],
)
def test_names(source: str, binds: str, reads: str):
    names = names_of(source)
    assert (names.binds, names.reads) == (set(binds), set(reads)) and names.known


@pytest.mark.parametrize(
    "source, reads",
    [
        ("a = 1; a", ""),
        ("a: int = 1; a", ["int"]),
        ("a = 1\nb = [a for _ in 'xy']\nb", ""),
        ("import a.b; a.b", ""),
        ("with 'x' as a:\n    b = a\nb", ""),
        ("for a in 'xy':\n    b = a\nb", ""),
        ("def a(b): return b\nb = 1; b", ""),
        ("[a for a in 'xy']\na = 1; a", ""),
        ("def a(): return a()", ""),
        ("a = a", "a"),
        ("a += 1", "a"),
        ("a: 'int'; a", "a"),
        ("del a", "a"),
        ("a.b = 1", "a"),
        ("a[b] = 1", "ab"),
        ("try: a\nexcept: a = 1", "a"),
        ("if 'x': a = 1\na", "a"),
        ("while 'x': a = 1\na", "a"),
        ("for b in a: a = b", "a"),
        ("def b(): return a\na = 1", "a"),
        ("[a for _ in 'xy']; a = 1", "a"),
        ("a = [a for _ in 'xy']", "a"),
        ("a = (lambda: a)()", "a"),
        ("@a\ndef a(): pass", "a"),
        ("b = lambda: a; a = 1", "a"),
    ],
)
def test_what_is_not_plainly_bound_first_is_taken_from_before(source: str, reads: str):
    assert names_of(source).reads == set(reads)


@pytest.mark.parametrize("source", ["a.b = 1", "a[0].b = 1", "del a[0]", "a.b += 1", "for a.b in 'xy': pass"])
def test_names_that_are_changed(source: str):
    assert names_of(source).changes == {"a"} == names_of(source).makes


def test_what_functions_change_is_not_changed_by_the_cell():
    assert names_of("def a(): b.c = 1").changes == set()


@pytest.mark.parametrize("source", ["def", "\0", "(" * 500, "\ud800"])
def test_what_is_no_code_may_do_anything(source: str):
    assert names_of(source) == Names(known=False)


def test_a_magic_hides_what_it_does_but_not_what_stands_beside_it():
    names = names_of("%load_ext x\na = b")
    assert not names.known and names.binds == {"a"} and names.reads == {"b", "get_ipython"}


def test_a_star_hides_what_it_binds():
    assert not names_of("from mine import *").known and names_of("from mine import a").known


CELLS = ["a = b", "b = 1", "c = a", "%magic", "b.d = 2", "e = e"]


@pytest.mark.parametrize(
    "wanted, given, cells",
    [
        ("", "", [3]),
        ("b", "", [1, 3, 4]),
        ("c", "", [0, 1, 2, 3, 4]),
        ("c", "b", [0, 2, 3]),
        ("c", "a", [2, 3]),
        ("x", "", [3]),
        ("e", "", [3, 5]),
    ],
)
def test_cells_that_are_needed(wanted: str, given: str, cells: list[int]):
    assert needed(wanted, CELLS, given) == cells
