"""The files that set everything up agree with each other."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, version

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests import ROOT, colab, versions
from torchkata.tools import lock

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


LEARNING = [Requirement(text) for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["lab"]]]
EXTRAS = [Requirement(text) for extra in PROJECT["optional-dependencies"].values() for text in extra]


def lock_lines(file=lock.ALL):
    return [line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]


def locked(file=lock.ALL):
    return [Requirement(line) for line in lock_lines(file)]


def names_in(file):
    return {canonicalize_name(pin.name) for pin in locked(file)}


@pytest.mark.parametrize("file", [lock.ALL, lock.LEARNING])
def test_every_locked_version_is_exact(file):
    for pin in locked(file):
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), pin
    assert len(locked(file)) == len(names_in(file))


def test_torch_is_pinned_and_the_proved_releases_are_admitted():
    (pin,) = [pin for pin in locked() if pin.name == "torch"]
    assert str(pin.specifier) == f"=={lock.TORCH}"
    (wanted,) = [Requirement(text) for text in PROJECT["dependencies"] if Requirement(text).name == "torch"]
    assert all(wanted.specifier.contains(release) for release in versions.RELEASES)
    major, minor = map(int, versions.RELEASES[-1].split(".")[:2])
    assert not wanted.specifier.contains(f"{major}.{minor + 1}.0")
    assert not wanted.specifier.contains("2.10.0")


def test_notebooks_are_read_without_a_grammar():
    """Building one is a second of each program that reads notebooks."""
    held_back = [Requirement(text) for text in lock.HELD_BACK]
    assert all(set(one.specifier.filter([version(one.name)])) for one in held_back)
    told = "import sys, nbformat; print(*{'lark', 'rfc3987_syntax'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize(("file", "wanted"), [(lock.ALL, LEARNING + EXTRAS), (lock.LEARNING, LEARNING)])
def test_the_locks_cover_what_the_package_asks_for(file, wanted):
    pins = {canonicalize_name(pin.name): pin for pin in locked(file)}
    for asked in wanted:
        pin = pins[canonicalize_name(asked.name)]
        assert asked.specifier.contains(str(pin.specifier).removeprefix("==")), asked


def test_the_small_lock_is_a_part_of_the_large_one():
    large = lock_lines()
    assert [line for line in large if line in lock_lines(lock.LEARNING)] == lock_lines(lock.LEARNING)
    assert len(lock_lines(lock.LEARNING)) < len(large)


def test_the_small_lock_holds_what_learning_needs_and_no_more():
    needed = lock.needed_for_learning()
    assert needed & names_in(lock.ALL) <= names_in(lock.LEARNING)
    only_for_others = {canonicalize_name(asked.name) for asked in EXTRAS} - needed
    assert {"nbgrader", "sqlalchemy", "jupytext", "pytest", "playwright", "distributed"} <= only_for_others
    assert not only_for_others & names_in(lock.LEARNING)


def test_environment_yml_holds_the_same_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, pinned = environment["dependencies"]
    assert python.startswith("python>=3.11")
    assert pip == "pip"
    assert sorted(pinned["pip"]) == sorted(str(line) for line in lock_lines())


def test_the_files_are_what_make_lock_writes():
    for file in (lock.ALL, lock.LEARNING):
        assert lock.lock_text(lock_lines(file), file) == (ROOT / file).read_text()
    assert lock.environment_text(lock_lines()) == (ROOT / "environment.yml").read_text()


@pytest.mark.skipif(not (ROOT / ".venv" / ".installed").exists(), reason="no environment made by make")
def test_the_environment_is_the_locked_one():
    for pin in locked():
        if pin.marker is None or pin.marker.evaluate():
            try:
                assert version(pin.name).partition("+")[0] == str(pin.specifier).removeprefix("==")
            except PackageNotFoundError:
                pytest.fail(f"{pin} is not installed")


@pytest.mark.skipif(not (ROOT / ".venv" / ".installed").exists(), reason="no environment made by make")
def test_every_pin_goes_with_the_lowest_python():
    lowest = lock.lowest_python()
    pins = [pin for pin in locked() if pin.marker is None or pin.marker.evaluate()]
    asked = {str(pin): metadata(pin.name).get("Requires-Python", "") for pin in pins}
    assert not {pin: asks for pin, asks in asked.items() if not SpecifierSet(asks).contains(lowest)}


def test_the_lowest_python_is_the_one_that_is_promised():
    assert str(SpecifierSet(PROJECT["requires-python"])) == f">={lock.lowest_python()}"


def test_the_lock_is_made_in_the_lowest_python(monkeypatch):
    monkeypatch.setattr(lock, "lowest_python", lambda: "3.99")
    monkeypatch.setattr(lock.venv, "create", lambda *_, **__: pytest.fail("an environment was made"))
    with pytest.raises(SystemExit, match=r"make lock PYTHON=python3\.99"):
        lock.main()


def test_versions_are_chosen_for_the_first_release_of_the_lowest_python(tmp_path, monkeypatch):
    calls = []

    def run(command, check):
        calls.append(command[1:])
        report = {"install": [{"metadata": {"name": "soupsieve", "version": "2.10"}}]}
        (tmp_path / "report.json").write_text(json.dumps(report))

    monkeypatch.setattr(lock.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(lock.subprocess, "run", run)
    lock._install_all(tmp_path)
    choosing, installing = calls
    assert {"--dry-run", f"torch=={lock.TORCH}", *PROJECT["dependencies"]} <= {*choosing}
    assert choosing[choosing.index("--python-version") + 1] == lock.lowest_python()
    assert installing == ["-m", "pip", "install", "--no-deps", "soupsieve==2.10"]


def test_a_freeze_becomes_pins():
    freeze = "\n".join(
        [
            "torch==2.13.0+cpu",
            "# Editable Git install with no remote (torchkata==0.1.0)",
            "-e /somewhere/torchkata",
            "torchkata @ file:///somewhere",
            "pip==26.3",
            "pexpect==4.9.0",
            "nvidia-cublas==13.0",
            "triton==3.5",
            "Jinja2==3.1.6",
        ]
    )
    assert lock.locked(freeze) == ["Jinja2==3.1.6", 'pexpect==4.9.0; sys_platform != "win32"', "torch==2.13.0"]


def test_the_part_that_is_needed_follows_extras_and_markers(monkeypatch):
    asks = {
        "lab": ["server[fast]>=2", "on-nothing; python_version < '3'", "Torch_Info"],
        "server": ["zmq", "uvloop; extra == 'fast'", "sphinx; extra == 'docs'"],
        "zmq": ["lab"],  # a circle
    }
    monkeypatch.setattr(lock, "_requires", lambda name: asks.get(name, []))
    needed = lock._closure(["lab"])
    assert needed == {"lab", "server", "zmq", "uvloop", "torch-info"}
    pins = ["lab==1", "Sphinx==2", "torch_info==3; os_name != 'nt'", "uvloop==4"]
    assert lock.part(pins, needed) == ["lab==1", "torch_info==3; os_name != 'nt'", "uvloop==4"]


def test_what_is_not_installed_is_not_passed_over():
    with pytest.raises(SystemExit, match="no-such-package is not installed"):
        lock._closure(["no-such-package"])


def test_no_file_names_a_registry():
    names = [lock.ALL, lock.LEARNING, "environment.yml", "pyproject.toml", "Makefile", ".ci/run"]
    for name in names:
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file://", text), name


def test_the_workflows_name_what_is_there():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    promised = [found[1] for text in PROJECT["classifiers"] if (found := re.fullmatch(r".* Python :: (3\.\d+)", text))]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    named = [word for step in steps for word in step.split() if word.startswith(("tests/", "notebooks", ".ci/"))]
    assert named and all((ROOT / name).exists() for name in named)
    newest = yaml.safe_load((ROOT / ".github/workflows/newest-torch.yml").read_text())
    assert newest["jobs"]["versions"]["steps"][-1]["run"] == f"make versions TORCH={versions.NEWEST}"


def test_binder_installs_the_small_lock():
    assert f"-r ../{lock.LEARNING}" in (ROOT / "binder" / "requirements.txt").read_text().splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no executable bits")
@pytest.mark.parametrize("script", [".ci/run", "binder/postBuild"])
def test_a_script_can_be_run(script):
    assert os.access(ROOT / script, os.X_OK)


# ---------------------------------------------------------------- make

SMALL, LARGE = f"-r {lock.LEARNING}", f"-r {lock.ALL}"
# stands in for Python: notes what it is told, and makes an environment with itself in it
PYTHON = """\
#!/bin/sh
echo "$@" >> calls
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    for name in python torchkata ruff mypy; do cp "$0" "$3/bin/$name"; done
fi
"""


@pytest.fixture
def make(tmp_path):
    """Runs make with a Python that installs nothing; returns what was installed, file by file."""
    for name in ("Makefile", lock.ALL, lock.LEARNING, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "fake-python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    calls = tmp_path / "calls"

    def run(*arguments):
        calls.write_text("")
        command = ["make", *arguments, f"PYTHON={python}"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return re.findall(r"-r \S+|-e \.|^lab.*", calls.read_text(), re.M)

    return run


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no make")
class TestMake:
    def test_lab_installs_the_small_set_once_and_passes_its_options_on(self, make):
        assert make("lab", "ARGS=--no-browser") == [SMALL, "-e .", "lab --no-browser"]
        assert make("lab") == ["lab"]

    def test_the_rest_comes_when_it_is_asked_for(self, make):
        make("lab")
        assert make("lint") == [LARGE, "-e ."]
        assert make("lab") == ["lab"]
        assert make("install") == []

    def test_everything_includes_the_small_set(self, make):
        assert make("install") == [LARGE, "-e ."]
        assert make("lab") == ["lab"]

    @pytest.mark.parametrize("target", ["test", "replay", "build", "site", "bench", "lint", "install"])
    def test_all_but_lab_need_everything(self, make, target):
        assert make(target)[0] == LARGE

    @pytest.mark.parametrize(
        ("changed", "lab", "install"),
        [(lock.LEARNING, [SMALL], []), (lock.ALL, [], [LARGE]), ("pyproject.toml", [SMALL], [LARGE])],
    )
    def test_a_newer_file_is_installed(self, make, tmp_path, changed, lab, install):
        make("install")
        later = (tmp_path / ".venv" / ".installed").stat().st_mtime + 10
        os.utime(tmp_path / changed, (later, later))
        assert [call for call in make("lab") if call.startswith("-r")] == lab
        assert [call for call in make("install") if call.startswith("-r")] == install

    @pytest.mark.parametrize("given", [[], ["TORCH_INDEX=pip"]])
    def test_it_is_told_where_torch_comes_from(self, make, tmp_path, given):
        make("lab", *given)
        asked = [line for line in (tmp_path / "calls").read_text().splitlines() if "torch_index.py" in line]
        wanted = "pip" if given else "auto"
        assert asked == [f"src/torchkata/tools/torch_index.py {lock.LEARNING} {wanted}"]

    def test_pip_shows_what_it_does(self, make, tmp_path):
        make("install")
        assert "--quiet" not in (tmp_path / "calls").read_text()


def test_colabs_versions_are_exact_and_its_torch_is_proved():
    pins = {pin.name: str(pin.specifier).removeprefix("==") for pin in locked(colab.LOCK.name)}
    assert all(re.fullmatch(r"\d[\w.]*", version) for version in pins.values())
    assert {"torch", "ipywidgets", "ipykernel", "ipython", "notebook", "anywidget", "nbconvert"} <= {*pins}
    assert pins["torch"] in versions.RELEASES
