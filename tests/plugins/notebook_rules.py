"""How nbval runs the notebooks of both trees.

solutions/: outputs are compared strictly, except in cells whose metadata say why their output varies by machine, and as
other_releases.py says where torch is not the locked one.
notebooks/: every cell runs, and exactly the check cells must fail, with the verdict "not solved yet". The others are
those of the solution, so one chapter stands for all in a sample. The gallery has no checks: all its cells are those.
"""

import pytest

from tests.plugins import other_releases

# the HTML of a picture; its SVG and its words, which are compared, stand beside it, and gzip differs between machines
PICTURE_HTML = r'<div class="torchkata-picture"[\s\S]*</div>'
ALWAYS = ("03_gather_scatter", "start")
gallery = pytest.mark.exhaustive("a cell of the gallery, as released")
others = pytest.mark.exhaustive("a cell of a further released notebook", thorough=True)


def _is_release_check(item: pytest.Item) -> bool:
    cell = getattr(item, "cell", None)
    release = item.config.rootpath / "notebooks"
    return cell is not None and release in item.path.parents and cell.metadata.get("nbgrader", {}).get("grade", False)


@pytest.hookimpl(tryfirst=True)  # before what is marked is left out
def pytest_collection_modifyitems(config, items):
    release = config.rootpath / "notebooks"
    is_other_release = other_releases.is_other_release()
    for item in items:
        cell = getattr(item, "cell", None)  # an nbval item
        if cell is None:
            continue
        if release in item.path.parents and item.path.parent.name not in ALWAYS:
            item.add_marker(gallery if item.path.parent.name == "gallery" else others)
        item.parent.sanitize_patterns[PICTURE_HTML] = "PICTURE"
        if cell.metadata.get("varies"):
            item.options["check"] = False
        if is_other_release:
            item.parent.sanitize_patterns.update(other_releases.patterns())
            if other_releases.is_not_compared(cell.source):
                item.options["check"] = False
        if _is_release_check(item):
            item.options["check_exception"] = True  # it must raise: see below


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    if _is_release_check(item):
        errors = [(out.ename, out.evalue) for out in item.test_outputs if out.output_type == "error"]
        names = [name for name, _ in errors]
        assert names == ["NotSolvedYet"], f"a check cell must say 'not solved yet' of a stub, but it gave {errors}"
        assert "not solved yet" in errors[0][1]
    return result
