"""Where ranks find each other when they join a process group."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

SOONEST, LATEST = 0.0005, 0.01  # seconds between two looks: who waits in vain must not seem to work
_kept: list[dist.Store] = []  # torch keeps only its own half of a store that is written in Python


def meeting_place(path: Path, world: int, patience: timedelta) -> dist.Store:
    """A store in a file, of which ranks learn at once what another has written. Torch's own looks every 10 ms: that was
    most of the time that it took to join a small group."""
    return _Attentive(dist.FileStore(str(path), world), patience)


class _Attentive(dist.Store):
    """Another store, looked at more often."""

    def __init__(self, store: dist.Store, patience: timedelta):
        super().__init__()
        self._store, self._patience = store, patience
        _kept.append(self)

    def wait(self, keys: list[str], patience: timedelta | None = None) -> None:
        until, pause = time.monotonic() + (patience or self._patience).total_seconds(), SOONEST
        while not self._store.check(keys):
            if time.monotonic() > until:
                raise RuntimeError("Wait timeout")
            time.sleep(pause)
            pause = min(1.2 * pause, LATEST)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._store.get(key)

    def set(self, key: str, value: str) -> None:
        self._store.set(key, value)

    def add(self, key: str, number: int) -> int:
        return self._store.add(key, number)

    def check(self, keys: list[str]) -> bool:
        return self._store.check(keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        return self._store.compare_set(key, expected, desired)

    def deleteKey(self, key: str) -> bool:  # as torch calls it
        return self._store.delete_key(key)

    def getNumKeys(self) -> int:  # as torch calls it
        return self._store.num_keys()

    def clone(self) -> dist.Store:
        return _Attentive(self._store.clone(), self._patience)
