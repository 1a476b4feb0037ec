"""Messages over a socket to a process that may not be trusted: length first, capped, with a deadline."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

WATCH = 0.25  # seconds between two looks
LENGTH = struct.Struct("!Q")


class WireError(Exception):
    """The other side does not keep to the rules of the wire."""


class Ended(WireError):
    """The other side closed the connection."""


class TooSlow(WireError):
    """The message was not through by its deadline."""


def send(sock: socket.socket, data: bytes, seconds: float | None = None) -> None:
    """Send one message. Raises Ended, or TooSlow when the other side has not taken it within `seconds`."""
    sock.settimeout(seconds)
    try:
        sock.sendall(LENGTH.pack(len(data)) + data)
    except TimeoutError:
        raise TooSlow("the message was not taken in time") from None
    except OSError as error:
        raise Ended(f"the connection is closed ({error.strerror})") from None


class TooMuch(WireError):
    """The other side takes more than it may while it is waited for."""


class Deadline:
    """A moment by which something must be there. When it comes, `more` says by how many seconds it is put off, 0 for
    not at all; that somebody looks late puts nothing off. Until then `watch` is called several times a second; what it
    raises ends the waiting.
    """

    def __init__(
        self,
        seconds: float,
        more: Callable[[], float] = lambda: 0.0,
        watch: Callable[[], None] = lambda: None,
    ):
        self._moment, self._more, self._watch = time.monotonic() + seconds, more, watch

    @property
    def left(self) -> float:
        """Seconds until then. Raises TooSlow where there are none."""
        while (left := self._moment - time.monotonic()) <= 0:
            more = self._more()
            if more <= 0:
                raise TooSlow("no complete message in time")
            self._moment += more
        return left

    @property
    def next_look(self) -> float:
        """Seconds until somebody should look again. Raises TooSlow where there are none."""
        return min(self.left, WATCH)

    def look(self) -> None:
        self._watch()


def receive(sock: socket.socket, limit: int, seconds: float | Deadline | None = None) -> bytes:
    """Receive one message of at most `limit` bytes; the whole of it must be there within `seconds`.

    The length is checked before memory is set aside. Raises WireError, Ended or TooSlow.
    """
    deadline = Deadline(seconds) if isinstance(seconds, (int, float)) else seconds
    (length,) = LENGTH.unpack(_receive_exactly(sock, LENGTH.size, deadline))
    if length > limit:
        raise WireError(f"a message of {length} bytes, allowed are {limit}")
    return bytes(_receive_exactly(sock, length, deadline))


def _receive_exactly(sock: socket.socket, count: int, deadline: Deadline | None) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        try:
            sock.settimeout(None if deadline is None else deadline.next_look)
            got = sock.recv_into(view)
        except TimeoutError:
            if deadline is not None:
                deadline.look()
            continue  # the deadline says whether there is more time
        except OSError as error:
            raise Ended(f"the connection is closed ({error.strerror})") from None
        if not got:
            raise Ended("the connection is closed")
        view = view[got:]
    return data
