"""What JupyterLab reads and writes of the workbook: plain files, but for the progress on the start page and the name of
the language, without which JupyterLab would call a notebook changed as soon as it is opened."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from torchkata.tools.course import SideNotebook, chapters
from torchkata.tools.learning.progress import progress_markdown
from torchkata.tools.placing import here

START = "start.ipynb"
TAG = "progress"  # of the cell that is filled
# what a kernel of this Python says of itself, as ipykernel does
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": sys.version_info.major},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": f"ipython{sys.version_info.major}",
    "version": "{}.{}.{}".format(*sys.version_info[:3]),
}


class WorkbookContents(AsyncLargeFileManager):
    """jupyter_server's files, where the start page opens with the learner's progress in the cell tagged `progress`.

    The file on disk stays without it: the cell is filled on the way out, and put back on the way in. Whatever goes
    wrong with the progress, the page opens and is saved as it is.
    """

    async def get(self, path: str, content: bool = True, *args: Any, **options: Any) -> dict[str, Any]:
        """Read a file or folder, as jupyter_server does; fill the progress of the start page."""
        model = await super().get(path, content, *args, **options)
        if content and model.get("type") == "notebook":
            _name_language(model["content"]["metadata"])
        if content and _is_start(path, model):
            await run_sync(self._fill, model["content"])
        return model

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Write a file, as jupyter_server does; the start page without the progress."""
        if model.get("content") and _is_start(path, model):
            await run_sync(self._put_back, model["content"], path)
        return await super().save(model, path)

    def _fill(self, page: dict[str, Any]) -> None:
        try:
            place = here(Path(self.root_dir))
            known = chapters(place)
            if known and (cell := _progress_cell(page)):
                cell["source"] = progress_markdown(known, SideNotebook(place, Path(START).stem))
        except Exception:
            self.log.warning("The progress on %s could not be shown.", START, exc_info=True)

    def _put_back(self, page: dict[str, Any], path: str) -> None:
        try:
            on_disk = json.loads(Path(self._get_os_path(path)).read_text(encoding="utf-8"))
            cell, before = _progress_cell(page), _progress_cell(on_disk)
            if cell and before:
                source = before["source"]
                cell["source"] = source if isinstance(source, str) else "".join(source)
        except FileNotFoundError:
            return
        except Exception:
            self.log.warning("The progress on %s could not be taken out.", START, exc_info=True)


def _name_language(metadata: dict[str, Any]) -> None:
    if metadata.get("kernelspec", {}).get("language", "python") == "python":
        metadata.setdefault("language_info", LANGUAGE)


def _is_start(path: str, model: dict[str, Any]) -> bool:
    return path.strip("/") == START and model.get("type") == "notebook"


def _progress_cell(page: dict[str, Any]) -> dict[str, Any] | None:
    """The cell with the tag; tags stay where they are when JupyterLab saves."""
    return next((cell for cell in page["cells"] if TAG in cell.get("metadata", {}).get("tags", [])), None)
