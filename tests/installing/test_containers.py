"""The image: its Dockerfile and what builds on it agree with the repository. Where Docker or Podman works, it is built
and started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from packaging.specifiers import SpecifierSet

from tests import ROOT
from tests.test_texts import faults_of_commands
from torchkata.tools import lock
from torchkata.tools.torch_index import CPU

DOCKERFILE = (ROOT / "Dockerfile").read_text()
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
DEV = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
USER_WORDS = {"mkdir", "python", "pip", "torchkata"}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with what they are given, each on one line."""
    lines = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line.strip() and line[0] != "#"]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def given(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def steps(after_user: bool) -> list[list[str]]:
    """The commands that RUN instructions run, as root or afterwards as the user."""
    place = [word for word, _ in instructions()].index("USER")
    chosen = instructions()[place:] if after_user else instructions()[:place]
    return [shlex.split(part) for word, rest in chosen if word == "RUN" for part in rest.split("&&")]


def test_its_python_is_one_that_the_course_is_tested_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [python] = [re.fullmatch(r"python:(3\.\d+)-slim-bookworm", image)[1] for image in given("FROM")]
    assert SpecifierSet(project["requires-python"]).contains(f"{python}.0")
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]


def test_what_it_copies_is_there_and_nothing_of_a_class_is_copied():
    for rest in given("COPY"):
        sources = [word for word in rest.split() if not word.startswith("--")][:-1]
        assert sources and all((ROOT / source).exists() for source in sources)
        assert not [one for one in sources for pattern in IGNORED if fnmatch(one, pattern)]
    made = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line[:1] not in ("#", "")]
    covered = [pattern.removeprefix("**/") for pattern in IGNORED]
    assert [name for name in made if not any(fnmatch(name, pattern) for pattern in covered)] == []


def test_packages_come_from_the_lock_and_torch_from_the_index_of_cpu_builds():
    installs = [step for step in steps(after_user=True) if step[0] == "pip"]
    course = ["pip", "install", "--no-deps", "--no-build-isolation", "-e", "."]
    assert installs == [
        ["pip", "install", "--no-cache-dir", "--extra-index-url", CPU, "-r", lock.ALL],
        course,
    ]
    assert DEV["postCreateCommand"].split(" && ")[0] == shlex.join(course)
    everything = DOCKERFILE + json.dumps(DEV) + (ROOT / ".dockerignore").read_text()
    assert set(re.findall(r"https?://[^\s\"']+", everything)) == {CPU}


def test_it_runs_as_a_user_without_rights_who_owns_what_it_writes():
    [user] = given("USER")
    assert ["useradd", "--create-home", "--uid", "1000", user] in steps(after_user=False)
    assert all("--chown=learner" in rest for rest in given("COPY")) and DEV["remoteUser"] == user == "learner"
    assert {step[0] for step in steps(after_user=True)} == USER_WORDS
    assert ["mkdir", *given("WORKDIR")] in steps(after_user=True)
    [path] = given("ENV")
    [venv] = [step[-1] for step in steps(after_user=True) if step[:3] == ["python", "-m", "venv"]]
    assert path == f'PATH="{venv}/bin:$PATH"'
    assert DEV["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"] == f"{venv}/bin/python"


def test_its_commands_exist_and_it_listens_where_a_space_expects_it():
    [start] = [json.loads(rest) for rest in given("CMD")]
    assert start[:2] == ["torchkata", "lab"] and {"--no-browser", "--ip=0.0.0.0"} <= set(start)
    commands = [shlex.join(step) for step in steps(after_user=True) if step[0] == "torchkata"]
    commands += [part for part in DEV["postCreateCommand"].split(" && ") if part.startswith("torchkata")]
    assert commands and [fault for one in commands for fault in faults_of_commands(f"`{one}`")] == []
    [port] = given("EXPOSE")
    assert f"--port={port}" in start and DEV["forwardPorts"] == [int(port)]
    assert f"app_port: {port}" in (ROOT / "docs" / "containers.md").read_text()


def test_a_dev_container_is_built_from_it():
    folder = ROOT / ".devcontainer"
    assert (folder / DEV["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / DEV["build"]["context"]).resolve() == ROOT


def engine() -> str | None:
    """Docker or Podman, where it works."""
    for name in ("docker", "podman"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, timeout=60).returncode == 0:
            return name
    return None


@pytest.mark.exhaustive("an image of some gigabytes is built")
def test_it_is_built_and_started(tmp_path: Path):
    if (program := engine()) is None:
        pytest.skip("neither docker nor podman works here")
    subprocess.run([program, "build", "-t", "torchkata-test", str(ROOT)], check=True, timeout=3000)
    run = [program, "run", "--rm", "-d", "-e", "JUPYTER_TOKEN=x", "-p", "127.0.0.1::7860", "torchkata-test"]
    name = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
    try:
        inside = [program, "exec", name]
        said = subprocess.run([*inside, "python", "-c", "import torch; print(torch.__version__)"], capture_output=True)
        assert said.stdout.decode().strip() == f"{lock.TORCH}+cpu"
        assert subprocess.run([*inside, "id", "-u"], capture_output=True).stdout == b"1000\n"
        where = subprocess.run([program, "port", name, "7860"], check=True, capture_output=True, text=True).stdout
        assert answers(f"http://{where.split()[0]}/api/status?token=x")
    finally:
        subprocess.run([program, "rm", "-f", name], capture_output=True)


def answers(address: str) -> bool:
    for _ in range(60):
        try:
            with urlopen(address, timeout=5) as answer:
                return answer.status == 200
        except (URLError, OSError):
            time.sleep(1)
    return False
