"""What a scenario uses, where torch's compiler looks for it: a compiled answer compiles what it calls, too, such as a
model of the check's, whose forward may use functions beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType

from torchkata.base.check_cell import MODULE


@contextmanager
def found_by_the_compiler(scenario: FunctionType) -> Iterator[None]:
    """Inside, the module of check cells has what a scenario uses by its name."""
    findable = vars(MODULE)
    before = dict(findable)
    findable.update(_used_by(scenario))
    try:
        yield
    finally:
        findable.clear()
        findable.update(before)


def _used_by(scenario: FunctionType) -> dict[str, object]:
    """What a scenario, and the functions and classes that it uses, look up in their namespace."""
    space, used = scenario.__globals__, dict[str, object]()
    codes = [scenario.__code__]
    for code in codes:  # grows while it is gone through
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
        for name in code.co_names:
            if name in space and name not in used:
                used[name] = space[name]
                codes += _codes_of(space[name], space)
    return used


def _codes_of(value: object, space: dict) -> list[CodeType]:
    """The code of a function, or of a class's methods, of this namespace."""
    values = vars(value).values() if isinstance(value, type) else [value]
    return [one.__code__ for one in values if isinstance(one, FunctionType) and one.__globals__ is space]
