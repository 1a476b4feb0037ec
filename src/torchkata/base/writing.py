"""Write files that must never be seen half written."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

UNFINISHED = ".new-"  # how the name of a file begins while it is written
OLD = 3600.0  # seconds; what has not been finished for so long was left behind


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one step: whoever reads it sees the old content or the new one. Makes missing folders.

    A text is written as UTF-8, with its lines as they are. The file keeps its permissions; a new one gets the usual
    ones. Raises OSError; then the old file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    try:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        if path.exists():
            shutil.copymode(path, unfinished)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    remove_unfinished([path.parent], OLD)


def remove_unfinished(folders: Iterable[Path], age: float = 0.0) -> None:
    """Remove what processes left behind that were killed while they wrote there, if it is at least so many seconds old.

    Without an age nobody else may be writing.
    """
    for folder in folders:
        for path in folder.glob(f"{UNFINISHED}*"):
            with suppress(FileNotFoundError):  # somebody else has removed it
                if time.time() - path.stat().st_mtime >= age:
                    path.unlink()
