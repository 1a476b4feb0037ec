"""The command line, and `torchkata lab` with the real server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import psutil
import pytest
from typer.testing import CliRunner

from torchkata.cli import app
from torchkata.facts import chapter_names

TOKEN = "a-token-for-the-test"


def run(*arguments, cwd, **environment):
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "torchkata", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def course(tmp_path):
    """A small course with two released chapters."""
    (tmp_path / "nbgrader_config.py").touch()
    for name in ("02_tensors_views", "03_gather_scatter"):
        folder = tmp_path / "notebooks" / name
        folder.mkdir(parents=True)
        cell = nbformat.v4.new_markdown_cell(f"# {name}", id="title")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / f"{name[3:]}.ipynb")
    return tmp_path


# ---------------------------------------------------------------- lab


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, path, method="GET"):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def server(course, tmp_path):
    """torchkata lab in the course; its process and port. Stopped at the end, whatever happens."""
    port = free_port()
    options = ["--no-browser", f"--port={port}", f"--IdentityProvider.token={TOKEN}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "torchkata", "lab", *options],
            cwd=course,
            env={**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(port, process, tmp_path / "log")
        yield process, port
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
            child.kill()
        process.kill()
        process.wait()


def wait_for(port, process, log):
    for _ in range(600):
        try:
            ask(port, "api/status")
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the server did not answer:\n{log.read_text()}")


def test_lab_serves_the_workbook_and_leaves_no_process_behind(server, course):
    process, port = server
    listed = json.loads(ask(port, "api/contents"))["content"]
    assert sorted(entry["name"] for entry in listed) == ["02_tensors_views", "03_gather_scatter"]
    notebook = json.loads(ask(port, "api/contents/03_gather_scatter/gather_scatter.ipynb"))
    assert notebook["content"]["cells"][0]["source"] == "# 03_gather_scatter"
    page = ask(port, "lab")
    assert '"news": {"disabled": true}' in page
    log = (course / "log").read_text()
    assert f"http://127.0.0.1:{port}/lab" in log
    assert "New in your workbook: 03_gather_scatter" in log

    ask(port, "api/kernels", method="POST")
    children = psutil.Process(process.pid).children(recursive=True)
    assert children, "the kernel should run"
    process.terminate()
    process.wait(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def test_lab_starts_again_on_a_full_workbook(course):
    first = run("lab", "--version", cwd=course)
    again = run("lab", "--version", cwd=course)
    assert "New in your workbook: 02_tensors_views" in first.stdout
    assert "New in your workbook" not in again.stdout
    assert first.returncode == again.returncode == 0


def test_lab_tells_of_a_newer_release(course):
    run("lab", "--version", cwd=course)
    release = course / "notebooks" / "03_gather_scatter" / "gather_scatter.ipynb"
    release.write_text(release.read_text().replace("# 03", "# New 03"))
    told = run("lab", "--version", cwd=course).stdout
    assert "There is a newer release of 03_gather_scatter; your copy stays as it is." in told
    assert "02_tensors_views" not in told


def test_lab_on_a_workbook_that_cannot_be_written(course):
    (course / "workbook").write_text("")
    result = run("lab", "--version", cwd=course)
    assert result.returncode == 2
    assert "workbook cannot be written" in result.stderr
    assert "Traceback" not in result.stderr


# ---------------------------------------------------------------- facts, doctor, and what all commands share


def test_facts_prints_a_table(course):
    result = run("facts", "gather_scatter", "1", cwd=course)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if line.strip().startswith(("01_", "03_"))]
    assert [row[:2] for row in rows] == [["01_backends", "41"], ["03_gather_scatter", "21"]]


def test_facts_of_one_id(course):
    result = run("facts", "--id", "03-gather-index-formula", cwd=course)
    assert result.returncode == 0
    assert [line.split()[1] for line in result.stdout.splitlines() if "03_gather_scatter" in line] == ["1"]


def test_facts_names_a_fact_that_no_longer_holds(monkeypatch):
    import dataclasses

    from torchkata.tools import proofs

    broken = dataclasses.replace(proofs.load("03_gather_scatter")[0], proof="assert 1 == 2")
    monkeypatch.setattr(proofs, "load", lambda chapter: (broken,))
    result = CliRunner().invoke(app, ["facts", "03"])
    assert result.exit_code == 1
    told = " ".join(result.output.split())
    assert f"{broken.id} no longer holds: {' '.join(broken.fact.split())}" in told
    assert "AssertionError" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["facts", "nope"], "Chapters with facts: " + ", ".join(chapter_names())),
        (["facts", "--id", "03-nope"], "no fact with the id 03-nope"),
        (["record", "nope"], "02_tensors_views, 03_gather_scatter"),
    ],
)
def test_unknown_names_get_a_message(course, arguments, words):
    result = run(*arguments, cwd=course)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_record_needs_a_cuda_device(course):
    result = run("record", "03", cwd=course, CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 2
    assert "no CUDA device" in result.stderr


def test_doctor_reports(course):
    result = run("doctor", cwd=course)
    assert result.returncode == 0, result.stdout + result.stderr
    for what in ("Python", "PyTorch", "CUDA", "cuDNN", "MPS", "XPU", "MKL-DNN", "JupyterLab", "Kernel", "Course"):
        assert f"\n {what}" in f"\n{result.stdout}"
    assert "The course can run here." in result.stdout
    assert "workbook" in result.stdout.lower()


def test_doctor_fails_where_the_course_cannot_run(course):
    for folder in (course / "notebooks").iterdir():
        (folder / f"{folder.name[3:]}.ipynb").unlink()
    result = run("doctor", cwd=course)
    assert result.returncode == 1
    assert "make build" in result.stdout
    assert "The course cannot run like this." in result.stdout
