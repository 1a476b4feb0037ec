"""Which build of torch make installs, and that it never waits for a network."""

from __future__ import annotations

import platform
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests import ROOT
from torchkata.tools import torch_index
from torchkata.tools.torch_index import CPU, answers, choose


def machine(monkeypatch: pytest.MonkeyPatch, system: str = "Linux", device: bool = False, network: bool = True) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(torch_index, "has_nvidia_device", lambda: device)
    monkeypatch.setattr(torch_index, "answers", lambda index: network)


@pytest.mark.parametrize(
    "facts, options, told",
    [
        ({}, ["--extra-index-url", CPU], "No NVIDIA device here: torch comes as its CPU build, about 1 GB"),
        ({"network": False}, [], "does not answer: torch comes from where pip finds it. From PyPI that is about 5 GB"),
        ({"device": True}, [], "There is an NVIDIA device: torch comes with CUDA"),
        ({"system": "Darwin"}, [], "about 1 GB"),
        ({"system": "Windows"}, [], "about 1 GB"),
    ],
)
def test_by_what_the_machine_has(monkeypatch: pytest.MonkeyPatch, facts: dict, options: list[str], told: str):
    machine(monkeypatch, **facts)
    found, note = choose("auto")
    assert found == options and told in note


def test_one_variable_decides_otherwise(monkeypatch: pytest.MonkeyPatch):
    machine(monkeypatch)
    monkeypatch.setattr(torch_index, "answers", lambda index: pytest.fail("the network was asked"))
    assert choose("pip")[0] == []
    assert choose("http://mirror/torch")[0] == ["--extra-index-url", "http://mirror/torch"]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_silent_index_is_not_waited_for(silent: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_index, "PATIENCE", 0.2)
    assert not answers(silent)


def test_a_name_that_is_looked_up_for_ever_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    over, ended = threading.Event(), []
    monkeypatch.setattr(torch_index, "PATIENCE", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.append(over.wait(30)) or [])
    assert not answers("http://nowhere.invalid")
    assert ended == []
    over.set()


@pytest.mark.parametrize("index", ["http://127.0.0.1:9", "no address"])
def test_an_index_that_is_not_there(index: str):
    assert not answers(index)


def test_as_make_calls_it():
    script = ROOT / "src" / "torchkata" / "tools" / "torch_index.py"
    told = subprocess.run(
        [sys.executable, "-I", str(script), str(ROOT / "requirements-lab.lock"), "pip"], capture_output=True, text=True
    )
    assert told.stdout == "\n"
    assert re.fullmatch(r"\d\d+ packages will come. torch comes from where pip finds it.\n", told.stderr)
