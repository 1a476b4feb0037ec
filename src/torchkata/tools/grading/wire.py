"""Messages over a socket to a process that may not be trusted: length first, capped, with a deadline."""

from __future__ import annotations

import socket
import struct
import time

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


def receive(sock: socket.socket, limit: int, seconds: float | None = None) -> bytes:
    """Receive one message of at most `limit` bytes; the whole of it must be there within `seconds`.

    The length is checked before memory is set aside. Raises WireError, Ended or TooSlow.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = LENGTH.unpack(_receive_exactly(sock, LENGTH.size, deadline))
    if length > limit:
        raise WireError(f"a message of {length} bytes, allowed are {limit}")
    return bytes(_receive_exactly(sock, length, deadline))


def _receive_exactly(sock: socket.socket, count: int, deadline: float | None) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        try:
            sock.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-6))
            got = sock.recv_into(view)
        except TimeoutError:
            raise TooSlow("no complete message in time") from None
        except OSError as error:
            raise Ended(f"the connection is closed ({error.strerror})") from None
        if not got:
            raise Ended("the connection is closed")
        view = view[got:]
    return data
