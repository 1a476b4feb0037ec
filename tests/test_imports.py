"""No two modules of torchkata import each other, directly or through others; imports inside functions count too."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import torchkata

PACKAGE = Path(torchkata.__file__).parent


def _modules(package: Path) -> dict[str, Path]:
    """The modules of a package by their dotted names."""
    paths = {path: path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py")}
    return {".".join(path.parts).removesuffix(".__init__"): file for file, path in paths.items()}


def _imports(source: str, modules: dict[str, Path]) -> set[str]:
    """Which of the modules a source imports, wherever in it and whatever for."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are written in full"
            inside = [f"{node.module}.{name.name}" for name in node.names]
            found |= {name if name in modules else node.module for name in inside}
    return found & modules.keys()


def circle_in(package: Path) -> list[str]:
    """Modules of the package that import each other in a circle, the first of them also at the end; or none."""
    modules = _modules(package)
    arrows = {name: _imports(path.read_text(encoding="utf-8"), modules) - {name} for name, path in modules.items()}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_circle_of_imports():
    assert circle_in(PACKAGE) == []


def test_a_circle_is_found_inside_of_functions_too(tmp_path):
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("import house.two\n", encoding="utf-8")
    (package / "two.py").write_text("def later():\n    from house import three\n", encoding="utf-8")
    (package / "three.py").write_text("VALUE = 3\n", encoding="utf-8")
    assert circle_in(package) == []
    (package / "three.py").write_text("def later():\n    from house.one import VALUE\n", encoding="utf-8")
    assert set(circle_in(package)) == {"house.one", "house.two", "house.three"}
