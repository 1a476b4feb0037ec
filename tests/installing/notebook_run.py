"""Run a notebook and further cells, past errors, in the Python that runs this; print what each code cell put out.

    python notebook_run.py NOTEBOOK [CELL]...

Knows nothing of torchkata, which may be missing.
"""

import json
import sys

import nbformat
from nbclient import NotebookClient


def said(output: dict) -> dict:
    """Of an output what a test asks about: an error's name and lines, or the text."""
    if output["output_type"] == "error":
        return {"error": output["ename"], "lines": output["traceback"]}
    return {"text": output.get("text") or output.get("data", {}).get("text/plain", "")}


if __name__ == "__main__":
    notebook = nbformat.read(sys.argv[1], as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in sys.argv[2:]]
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    print(json.dumps([[said(out) for out in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]))
