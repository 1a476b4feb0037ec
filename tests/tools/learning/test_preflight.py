"""What `torchkata lab` looks at before it starts JupyterLab, and what it says then."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.tools.learning.lab_server import PATIENCE, TOKEN, lab_server, released_course, run
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.hiding import hiding_files
from torchkata.tools.learning.lab import lab_options
from torchkata.tools.learning.preflight import preflight
from torchkata.tools.placing import Place

BWRAP = shutil.which("bwrap")
needs_bwrap = pytest.mark.skipif(BWRAP is None, reason="needs bubblewrap: apt-get install bubblewrap")


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A small course whose workbook is there, and a runtime folder of its own, where no server is on record."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    root = released_course(tmp_path / "course", "03_gather_scatter")
    (root / "workbook" / "03_gather_scatter").mkdir(parents=True)
    return root


def refusal(course):
    with pytest.raises(CourseError) as raised:
        preflight(Place(course))
    return str(raised.value)


def test_all_is_well(course):
    assert preflight(Place(course)) == []
    assert list((course / "workbook").iterdir()) == [course / "workbook" / "03_gather_scatter"]


def test_jupyterlab_opens_the_start_page_where_there_is_one(course):
    assert not [option for option in lab_options(Place(course)) if "default_url" in option]
    (course / "workbook" / "start.ipynb").touch()
    assert "--LabApp.default_url=/lab/tree/start.ipynb" in lab_options(Place(course))


# ---------------------------------------------------------------- another JupyterLab


def test_a_second_start_names_the_first_one(course, tmp_path):
    with lab_server(course, tmp_path) as server:
        second = run("lab", "--no-browser", cwd=course)
        assert second.returncode == 2
        assert f":{server.port}/lab?token={TOKEN}" in second.stderr
        assert "Shut Down" in second.stderr
        assert "Traceback" not in second.stderr
        assert preflight(Place(released_course(tmp_path / "other", "03_gather_scatter"))) == []
        assert run("lab", "--version", cwd=course).returncode == 0
        server.ask("api/status")
    assert preflight(Place(course)) == []


def on_record(tmp_path, course, port, **changes):
    """Note a server as Jupyter does; as its process a living one: this one."""
    (tmp_path / "runtime").mkdir(exist_ok=True)
    record = {"pid": os.getpid(), "root_dir": str(course / "workbook"), "url": f"http://127.0.0.1:{port}/"}
    record |= {"token": "its token", "password": False, **changes}
    (tmp_path / "runtime" / f"jpserver-{os.getpid()}.json").write_text(json.dumps(record))


@pytest.fixture
def answering():
    """A web server that answers every request with the status and text in its `says`."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["Authorization"]))
            status, text = server.says
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.asked = asked
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_server_on_record_counts_when_it_knows_its_token(course, tmp_path, answering):
    answering.says = (200, b"{}")
    on_record(tmp_path, course, answering.server_port)
    assert "already runs" in refusal(course)
    assert answering.asked == [("/api/status", "token its token")]


@pytest.mark.parametrize("says", [(404, b""), (403, b""), (200, b"<html>another page</html>"), (200, b"\xff")])
def test_another_program_at_that_port_does_not_count(course, tmp_path, answering, says):
    answering.says = says
    on_record(tmp_path, course, answering.server_port)
    assert preflight(Place(course)) == []
    assert answering.asked


def test_a_server_with_a_password_counts_though_it_lets_nobody_in(course, tmp_path, answering):
    answering.says = (403, b"")
    on_record(tmp_path, course, answering.server_port, password=True, token="")
    assert f"http://127.0.0.1:{answering.server_port}/lab\n" in refusal(course)


def test_a_record_that_was_left_behind_does_not_count(course, tmp_path, answering):
    port = answering.server_port
    answering.server_close()
    on_record(tmp_path, course, port)
    assert preflight(Place(course)) == []


def test_a_server_of_another_folder_is_left_alone(course, tmp_path, answering):
    on_record(tmp_path, tmp_path / "elsewhere", answering.server_port)
    assert preflight(Place(course)) == []
    assert answering.asked == []


# ---------------------------------------------------------------- the kernel


def test_a_kernel_of_another_python(course, tmp_path):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": [str(tmp_path / "python"), "-m", "ipykernel_launcher"], "display_name": "Python 3"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    result = run("lab", "--no-browser", cwd=course, JUPYTER_PATH=str(tmp_path))
    assert result.returncode == 2
    assert f"No notebook can run: Kernel python3 starts another Python, {tmp_path / 'python'}" in result.stderr
    assert "-m ipykernel install" in result.stderr
    assert str(folder) in result.stderr


# ---------------------------------------------------------------- files that hide a package

HIDE = ["torch.py", "random.py", "numpy/__init__.py", "torchkata.py", "IPython/__init__.py"]
HIDE_NOTHING = ["helpers.py", "sys.py", "abc.py", "numpy/data.csv", "torch.txt", "Random.py", ".torch.py"]


@pytest.mark.parametrize("place", ["", "03_gather_scatter"])
@pytest.mark.parametrize("file", HIDE + HIDE_NOTHING)
def test_files_that_hide_a_package(course, place, file):
    path = course / "workbook" / place / file
    path.parent.mkdir(exist_ok=True)
    path.touch()
    found = course / "workbook" / place / Path(file).parts[0]
    assert hiding_files(course / "workbook") == ([found] if file in HIDE else [])


@pytest.mark.parametrize("file", [*HIDE, "sys.py", "abc.py", "numpy/data.csv"])
def test_python_agrees(tmp_path, file):
    """What hides a package is what Python imports from the working folder in the package's place."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    name = Path(file).parts[0].removesuffix(".py")
    script = f"import importlib.util; print(importlib.util.find_spec({name!r}).origin)"
    told = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (told.stdout.strip() == str(tmp_path / file)) == (file in HIDE)


def test_a_workbook_that_is_not_there_hides_nothing(tmp_path):
    assert hiding_files(tmp_path / "workbook") == []


def test_the_note_is_printed_and_jupyterlab_starts(course, tmp_path):
    file = course / "workbook" / "03_gather_scatter" / "random.py"
    file.touch()
    (note,) = preflight(Place(course))
    assert note.startswith(f"{file} hides the package random") and "Rename it." in note
    with lab_server(course, tmp_path) as server:
        assert note in server.log.read_text()


# ---------------------------------------------------------------- a workbook that cannot be written


PREFLIGHT = """
import sys
from pathlib import Path
from torchkata.tools.errors import CourseError
from torchkata.tools.learning.preflight import preflight
from torchkata.tools.placing import Place
try:
    preflight(Place(Path.cwd()))
except CourseError as error:
    sys.exit(str(error))
"""


def on_another_disk(course, *bwrap):
    """What preflight says, and what `torchkata lab` does, where bubblewrap has changed what the workbook lies on."""
    disk = [BWRAP, "--dev-bind", "/", "/", "--die-with-parent", *bwrap]
    commands = ["-c", PREFLIGHT], ["-m", "torchkata", "lab", "--no-browser"]
    return [
        subprocess.run([*disk, sys.executable, *command], cwd=course, capture_output=True, text=True, timeout=PATIENCE)
        for command in commands
    ]


@needs_bwrap
def test_a_read_only_workbook(course):
    run("lab", "--version", cwd=course)
    workbook = course / "workbook"
    before = {path: path.read_bytes() for path in workbook.rglob("*") if path.is_file()}
    looked, started = on_another_disk(course, "--ro-bind", str(workbook), str(workbook))
    assert f"The workbook {workbook} cannot be written: Read-only file system" in looked.stderr
    assert "copy the course" in looked.stderr
    assert started.returncode == 2
    assert "cannot be written" in started.stderr
    assert "Traceback" not in started.stderr
    assert {path: path.read_bytes() for path in workbook.rglob("*") if path.is_file()} == before


@needs_bwrap
def test_a_full_disk(course):
    workbook = str(course / "workbook")
    looked, started = on_another_disk(course, "--size", str(1 << 19), "--tmpfs", workbook)
    assert f"The disk that holds {workbook} is full" in looked.stderr
    assert "Free some space" in looked.stderr
    assert started.returncode == 2
    assert "is full" in started.stderr
    assert "Traceback" not in started.stderr


def test_a_workbook_that_is_a_file(course):
    shutil.rmtree(course / "workbook")
    (course / "workbook").touch()
    assert "cannot be written" in refusal(course)


def test_a_runtime_folder_that_cannot_be_written(course, tmp_path):
    (tmp_path / "runtime").touch()
    assert f"Jupyter cannot write to {tmp_path / 'runtime'}" in refusal(course)
    assert "JUPYTER_RUNTIME_DIR" in refusal(course)
