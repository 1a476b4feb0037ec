"""The module whose name the functions and classes of check cells bear.

A check cell runs in a namespace of its own. What is defined in it could say that it is of `__main__`, as in a notebook,
but is not found there: by torch's compiler, for example, which looks up what a function uses in
`sys.modules[function.__module__]`. This module is empty, but while a scenario runs it has what that uses.
"""

from __future__ import annotations

import sys
from types import ModuleType

MODULE = ModuleType("check_cell")
sys.modules[MODULE.__name__] = MODULE
