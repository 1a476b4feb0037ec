"""A GPU's memory as the driver sees it: pieces that are handed out and come back whole."""

from __future__ import annotations

FIRST = 0x7F0000000000


class Device:
    """malloc(size) gives an address or raises MemoryError; free(address). Nothing moves, no address is used again.

    capacity, used: bytes. log: ("malloc" or "free", bytes), in order.
    """

    def __init__(self, capacity: int):
        self.capacity, self.used, self.log = capacity, 0, list[tuple[str, int]]()
        self._next, self._sizes = FIRST, dict[int, int]()

    def malloc(self, size: int) -> int:
        if self.used + size > self.capacity:
            raise MemoryError(f"{size} bytes, {self.capacity - self.used} left")
        address, self._next = self._next, self._next + size
        self._sizes[address] = size
        self.used += size
        self.log.append(("malloc", size))
        return address

    def free(self, address: int) -> None:
        size = self._sizes.pop(address)
        self.used -= size
        self.log.append(("free", size))
