"""Which names a piece of code binds and reads."""

from __future__ import annotations

import ast

import pytest

from torchkata.tools.names import names_bound, names_read


@pytest.mark.parametrize(
    "code, bound, read",
    [
        ("a = b", {"a"}, {"b"}),
        ("for a, b in c: d = a", {"a", "b", "d"}, {"a", "c"}),
        ("with a as b: pass", {"b"}, {"a"}),
        ("def a(b, c=d): e = b + f", {"a"}, {"d", "f"}),
        ("def a(b: c) -> d: pass", {"a"}, {"c", "d"}),
        ("@a\nclass b(c):\n    def d(self): return e", {"b"}, {"a", "c", "e"}),
        ("[a for a in b if c]", set(), {"b", "c"}),
        ("[(a := b) for b in c]", {"a"}, {"c"}),
        ("lambda a: a + b", set(), {"b"}),
        ("def a(): return [(b := c) + b for c in d]", {"a"}, {"d"}),
        ("a.b = c[d]", set(), {"a", "c", "d"}),
        ("import a.b, c as d", {"a", "d"}, set()),
    ],
)
def test_names(code: str, bound: set[str], read: set[str]):
    assert names_bound(ast.parse(code)) == bound
    assert names_read(ast.parse(code)) == read
