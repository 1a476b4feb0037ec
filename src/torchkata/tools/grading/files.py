"""Read files that a student made."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class Unreadable(Exception):
    """A file that is not read; the message is a clause that says why."""


def read_plain_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Symbolic links are not followed, pipes not waited for.

    Raises Unreadable.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if path.is_symlink():
            raise Unreadable("it is a symbolic link")
        if not path.is_file():
            raise Unreadable("it is not a file" if path.exists() else "it does not exist")
        with os.fdopen(os.open(path, flags), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Unreadable("it is not a file")
            content = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise Unreadable(getattr(error, "strerror", None) or str(error)) from None
    if len(content) > limit:
        raise Unreadable(f"it is larger than {limit // 2**20} MiB" if limit >= 2**20 else "it is too large")
    return content
