"""The released notebooks for Colab and Kaggle: with a cell in front that installs torchkata."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from torchkata.tools.course import Chapter, read_notebook
from torchkata.tools.errors import CourseError
from torchkata.tools.placing import need_empty

INSTALLING = "install"  # the id of the cell in front
# The constraints are all that is there, so pip adds what is missing and replaces nothing: neither torch nor what the
# platform's own Jupyter, TensorFlow and the like were built with.
INSTALL = """\
# Run this cell first, once in each session: Colab and Kaggle forget what was installed.
# To keep your answers, choose File, Save a copy in Drive, or download the notebook.
# At home, `torchkata update --from NOTEBOOK` puts them into your workbook.
%pip freeze --exclude-editable > /tmp/installed.txt
%pip install --quiet --constraint /tmp/installed.txt torchkata"""


def write_for_colab(chapters: Iterable[Chapter], folder: Path) -> list[Path]:
    """Write a notebook for each chapter and page into a folder that is empty or not there yet, placed as in a workbook.

    Raises CourseError, and writes nothing, where the folder holds something; also where it cannot be written.
    """
    written = []
    try:
        need_empty(folder)
        for chapter in chapters:
            notebook = read_notebook(chapter.release)
            notebook.cells.insert(0, new_code_cell(INSTALL, id=INSTALLING))
            path = folder / chapter.place_in_workbook
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
            written.append(path)
    except OSError as error:
        raise CourseError(f"{folder} cannot be written: {error.strerror or error}. Name another folder.") from None
    return written
