"""Signs of a wrong order: names that must not come one after another, whatever is between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Sign = tuple[str, ...]


def signs_of(written: str | list[str]) -> tuple[Sign, ...]:
    """The signs that are written as names with blanks between them: one, or a list of several."""
    return tuple(tuple(sign.split()) for sign in ([written] if isinstance(written, str) else written))


def betrayed(signs: Iterable[Sign], names: Sequence[str]) -> bool:
    """Whether the names of one of the signs come in its order in `names`."""
    return any(_comes(sign, names) for sign in signs)


def _comes(sign: Sign, names: Sequence[str]) -> bool:
    places = [names.index(name) for name in sign if name in names]
    return len(places) == len(sign) and places == sorted(places)
