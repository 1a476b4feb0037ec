"""The files that set everything up agree with each other."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torchkata.tools import lock

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_locked_version_is_exact():
    for pin in locked():
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), pin
    names = [canonicalize_name(pin.name) for pin in locked()]
    assert len(names) == len(set(names))


def test_torch_is_pinned_and_older_ones_are_admitted():
    (pin,) = [pin for pin in locked() if pin.name == "torch"]
    assert str(pin.specifier) == f"=={lock.TORCH}" == "==2.13.0"
    (wanted,) = [Requirement(text) for text in PROJECT["dependencies"] if Requirement(text).name == "torch"]
    assert wanted.specifier.contains("2.11.0")
    assert not wanted.specifier.contains("2.10.0")


def test_the_lock_covers_what_the_package_asks_for():
    pins = {canonicalize_name(pin.name): pin for pin in locked()}
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        wanted = Requirement(text)
        pin = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(str(pin.specifier).removeprefix("==")), text


def test_environment_yml_holds_the_same_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, pinned = environment["dependencies"]
    assert python.startswith("python>=3.11")
    assert pip == "pip"
    assert sorted(pinned["pip"]) == sorted(str(line) for line in lock_lines())


def lock_lines():
    return [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]


def test_both_files_are_what_make_lock_writes():
    assert lock.lock_text(lock_lines()) == (ROOT / "requirements.lock").read_text()
    assert lock.environment_text(lock_lines()) == (ROOT / "environment.yml").read_text()


@pytest.mark.skipif(not (ROOT / ".venv" / ".installed").exists(), reason="no environment made by make")
def test_the_environment_is_the_locked_one():
    for pin in locked():
        if pin.marker is None or pin.marker.evaluate():
            try:
                assert version(pin.name).partition("+")[0] == str(pin.specifier).removeprefix("==")
            except PackageNotFoundError:
                pytest.fail(f"{pin} is not installed")


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


def test_no_file_names_a_registry():
    names = ["requirements.lock", "environment.yml", "pyproject.toml", "Makefile", ".ci/run"]
    for name in names:
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file://", text), name


def test_the_workflows_are_yaml_and_use_make():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert job["steps"][-1]["run"] == "make test"
    newest = yaml.safe_load((ROOT / ".github/workflows/newest-torch.yml").read_text())
    assert newest["jobs"]["facts"]["steps"][-1]["run"].endswith("torchkata facts")


def test_the_pre_commit_hooks():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    names = {hook["id"] for repo in hooks["repos"] for hook in repo["hooks"]}
    assert {"ruff-check", "ruff-format", "end-of-file-fixer", "trailing-whitespace"} <= names
    assert {"check-added-large-files", "build-check"} <= names


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no make and no executable bits")
def test_ci_run_is_executable():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no make")
def test_make_lab_does_not_set_up_twice(tmp_path):
    """With a stamp newer than the lock file, make lab runs nothing but the command, its ARGS passed on."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())

    def plan():
        command = ["make", "-n", "lab", "ARGS=--no-browser"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "pip install" in plan()
    stamp = tmp_path / ".venv" / ".installed"
    stamp.parent.mkdir()
    stamp.touch()
    assert plan() == ".venv/bin/torchkata lab --no-browser\n"
    later = stamp.stat().st_mtime + 10
    os.utime(tmp_path / "requirements.lock", (later, later))
    assert "pip install" in plan()
