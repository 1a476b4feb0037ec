"""The command line, and `torchkata lab` with the real server."""

import json
import sys
import time

import psutil
import pytest
from typer.testing import CliRunner

from tests.tools.learning.lab_server import lab_server, released_course, run
from torchkata.cli import app
from torchkata.facts import chapter_names, load


@pytest.fixture
def course(tmp_path):
    return released_course(tmp_path, "02_tensors_views", "03_gather_scatter")


# ---------------------------------------------------------------- lab


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)


def listens(process):
    """Whether a kernel has loaded all that it needs; a child that has ended meanwhile was none."""
    try:
        return any(one.status == psutil.CONN_LISTEN for one in process.net_connections())
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def server(course, tmp_path):
    with lab_server(course, tmp_path) as server:
        yield server


def test_lab_serves_the_workbook_and_leaves_no_process_behind(server, course):
    listed = json.loads(server.ask("api/contents"))["content"]
    folders = sorted(entry["name"] for entry in listed if entry["type"] == "directory")
    assert folders == ["02_tensors_views", "03_gather_scatter"]
    notebook = json.loads(server.ask("api/contents/03_gather_scatter/gather_scatter.ipynb"))
    assert notebook["content"]["cells"][0]["source"] == "# 03_gather_scatter"
    page = server.ask("lab")
    assert '"news": {"disabled": true}' in page
    log = server.log.read_text()
    assert f"http://127.0.0.1:{server.port}/lab" in log
    assert "New in your workbook: 03_gather_scatter" in log

    reached = course / "reached"
    for module in ("ipykernel_launcher", "traitlets", "zmq"):  # beside the notebook, of somebody else
        (course / "workbook" / "03_gather_scatter" / f"{module}.py").write_text(f"open({str(reached)!r}, 'w')\n")
    server.ask("api/kernels", method="POST", data=b'{"path": "03_gather_scatter/gather_scatter.ipynb"}')
    children = psutil.Process(server.process.pid).children(recursive=True)
    wait_until(lambda: reached.exists() or any(map(listens, children)))
    assert not reached.exists(), "a module in the notebook's folder ran with the rights of whoever opens it"
    assert children, "the kernel should run"
    server.process.terminate()
    server.process.wait(timeout=60)
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
    assert "There are newer releases of: 03_gather_scatter." in told
    assert "Your copies stay as they are. To take the new ones, with your answers: torchkata update" in told
    assert "02_tensors_views" not in told


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of a program's own needs a Unix")
@pytest.mark.parametrize("answer, text", [("y", "# New 03_gather_scatter"), ("n", "# 03_gather_scatter")])
def test_lab_asks_in_a_terminal_before_it_updates(course, answer, text):
    pexpect = pytest.importorskip("pexpect", reason="comes with JupyterLab, except on Windows")
    run("lab", "--version", cwd=course)
    release = course / "notebooks" / "03_gather_scatter" / "gather_scatter.ipynb"
    release.write_text(release.read_text().replace("# 03", "# New 03"))
    terminal = pexpect.spawn(
        sys.executable, ["-m", "torchkata", "lab", "--version"], cwd=str(course), timeout=120, encoding="utf-8"
    )
    terminal.expect(r"Take them now\? Your answers are carried over")
    terminal.sendline(answer)
    terminal.expect("03_gather_scatter: updated" if answer == "y" else "Your copies stay as they are")
    terminal.expect(pexpect.EOF)
    copy = course / "workbook" / "03_gather_scatter" / "gather_scatter.ipynb"
    assert json.loads(copy.read_text())["cells"][0]["source"] in (text, [text])


def test_lab_on_a_workbook_that_cannot_be_written(course):
    (course / "workbook").write_text("")
    result = run("lab", "--version", cwd=course)
    assert result.returncode == 2
    assert "workbook cannot be written" in result.stderr
    assert "Traceback" not in result.stderr


# ---------------------------------------------------------------- facts, doctor, and what all commands share


def test_facts_prints_a_table(course):
    result = run("facts", "gather_scatter", "6", cwd=course)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if line.strip().startswith(("03_", "06_"))]
    assert [row[:2] for row in rows] == [[name, str(len(load(name)))] for name in ("03_gather_scatter", "06_hooks")]


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
