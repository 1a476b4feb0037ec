"""nbgrader's modules without what its package loads for Jupyter's server, which takes as long as all else that is
needed to enter marks. Import this before the first of them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

NAME = "nbgrader"


class _Package(ModuleType):
    """The package, whose own code runs when somebody asks for what only that binds."""

    def __getattr__(self, name: str) -> Any:
        if importlib.util.find_spec(f"{NAME}.{name}") is not None:
            return importlib.import_module(f"{NAME}.{name}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec = self.__spec__
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


def _put_in_place() -> None:
    if NAME not in sys.modules and (spec := importlib.util.find_spec(NAME)) is not None:
        package = importlib.util.module_from_spec(spec)
        package.__class__ = _Package
        sys.modules[NAME] = package
        vars(package)["__version__"] = importlib.import_module(f"{NAME}._version").__version__


_put_in_place()
