"""What a learner does first, as a program of its own: start `torchkata lab`, load its page, open a chapter, run its
first cells in a kernel of that server. Prints what was found as JSON.

    python -m tests.tools.learning.lab_visit COURSE CHAPTER FOLDER [CELL]...

FOLDER takes the server's log and runtime files; each CELL is the source of one more cell to run.
"""

import json
import re
import sys
import uuid
from itertools import takewhile
from pathlib import Path

import websocket

from tests.tools.learning.lab_server import TOKEN, Server, lab_server

PATIENCE = 120  # seconds for the next message of a kernel


def visit(course: Path, chapter: str, own: Path, more: list[str]) -> dict:
    """The hosts that the page names, the errors of the cells, and how many of the chapter's were run."""
    path = f"{chapter}/{chapter[3:]}.ipynb"
    with lab_server(course, own) as server:
        page = server.ask("lab")
        cells = json.loads(server.ask(f"api/contents/{path}"))["content"]["cells"]
        first = takewhile(
            lambda cell: "nbgrader" not in cell["metadata"], (c for c in cells if c["cell_type"] == "code")
        )
        sources = ["".join(cell["source"]) for cell in first]
        errors = run_cells(server, path, [*sources, *more])
    hosts = re.findall(r"""(?:src|href)=["'](?:https?:)?//([^/"']+)""", page)
    return {"hosts": hosts, "page": len(page), "ran": len(sources), "errors": errors}


def run_cells(server: Server, path: str, sources: list[str]) -> list[str]:
    """Run cells in a new kernel for the notebook at path; the name and text of each error."""
    body = json.dumps({"name": "python3", "path": path}).encode()
    kernel = json.loads(server.ask("api/kernels", "POST", body))["id"]
    address = f"ws://127.0.0.1:{server.port}/api/kernels/{kernel}/channels"
    line = websocket.create_connection(address, PATIENCE, header=[f"Authorization: token {TOKEN}"])
    errors = []
    for source in sources:
        asked = _request(source)
        line.send(json.dumps(asked))
        while (message := json.loads(line.recv())) and not _ends(message, asked):
            if message["header"]["msg_type"] == "error" and _answers(message, asked):
                errors.append(f"{message['content']['ename']}: {message['content']['evalue']}")
    line.close()
    return errors


def _request(source: str) -> dict:
    header = {"msg_id": uuid.uuid4().hex, "username": "", "session": "visit", "msg_type": "execute_request"}
    header |= {"version": "5.3", "date": "2026-01-01T00:00:00Z"}
    content = {"code": source, "silent": False, "allow_stdin": False, "stop_on_error": False}
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}


def _answers(message: dict, asked: dict) -> bool:
    return message["parent_header"].get("msg_id") == asked["header"]["msg_id"]


def _ends(message: dict, asked: dict) -> bool:
    return _answers(message, asked) and message["content"].get("execution_state") == "idle"


if __name__ == "__main__":
    course, chapter, own, *more = sys.argv[1:]
    print(json.dumps(visit(Path(course), chapter, Path(own), more)))
