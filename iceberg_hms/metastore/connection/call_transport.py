"""The bytes of a connection's calls: each call has one deadline, and each reply a largest size.

Thrift's own sockets give every read a timeout of its own, so a server that sends a byte now and then would hold a call
for ever; and its limits are for one string or list, not for a reply. Whatever a server claims, memory grows only with
what it has sent.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from io import BytesIO
from typing import Final

from thrift.transport.TTransport import CReadableTransport, TTransportBase

_READ_MIN_BYTES: Final = 64 * 1024
_READ_MAX_BYTES: Final = 1024 * 1024


class ReplyTooLarge(Exception):
    """The reply to a call has more bytes than are allowed."""


class CallTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]  # Thrift has no types
    """Thrift's transport over an open socket, which it owns from now on.

    max_reply_bytes: for one reply. now: the monotonic clock, in seconds.
    Reading raises TimeoutError, ReplyTooLarge, EOFError if the server hung up, and OSError; flushing TimeoutError and
    OSError.
    """

    def __init__(self, connection: socket.socket, *, max_reply_bytes: int, now: Callable[[], float]) -> None:
        self.socket = connection
        self._max_reply_bytes = max_reply_bytes
        self._now = now
        self._unsent = BytesIO()
        self._unread = BytesIO()
        self._bytes_left = max_reply_bytes
        self._deadline = 0.0
        self._last_deadline = 0.0
        self._on_overdue: Callable[[], None] | None = None

    def begin_call(
        self, timeout_ms: int, *, patience_ms: int = 0, on_overdue: Callable[[], None] | None = None
    ) -> None:
        """Before a call is written. It has `timeout_ms` from now on, for its request and its whole reply; with a longer
        patience the reply has that, and `on_overdue` is called once when `timeout_ms` are over."""
        started = self._now()
        self._deadline = started + timeout_ms / 1000
        self._last_deadline = started + max(timeout_ms, patience_ms) / 1000
        self._on_overdue = on_overdue
        self._bytes_left = self._max_reply_bytes
        # What an interrupted call left must not go out with the next one.
        self._unsent = BytesIO()

    def has_hung_up(self) -> bool:
        """Whether the server closed the connection, or sent what nobody asked for."""
        try:
            self.socket.settimeout(0)
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Keep bytes for the next flush."""
        self._unsent.write(data)

    def flush(self) -> None:
        """Send what was written. After an error the server has not had the last bytes of it."""
        data, self._unsent = self._unsent.getbuffer(), BytesIO()
        # The timeout of sendall is for all of it.
        self.socket.settimeout(self._seconds_left())
        self.socket.sendall(data)

    def read(self, size: int) -> bytes:
        """Between one and `size` bytes of the reply."""
        return self._unread.read(size) or self.cstringio_refill(b"", 1).read(size)

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """So many bytes of the reply."""
        data = self._unread.read(size)
        return data if len(data) == size else self.cstringio_refill(data, size).read(size)

    # Thrift's C code reads through these two.

    @property
    def cstringio_buf(self) -> BytesIO:
        """What was received and not read yet."""
        return self._unread

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """`cstringio_buf` with at least `reqlen` bytes, which begin with `partialread`."""
        received = BytesIO()
        received.write(partialread)
        while (missing := reqlen - received.tell()) > 0:
            received.write(self._receive(missing))
        received.seek(0)
        self._unread = received
        return received

    def _receive(self, wanted: int) -> bytes:
        if wanted > self._bytes_left:
            raise ReplyTooLarge(f"the reply is larger than {self._max_reply_bytes} bytes")
        size = min(max(wanted, _READ_MIN_BYTES), _READ_MAX_BYTES, self._bytes_left)
        while True:
            try:
                self.socket.settimeout(self._seconds_left())
                data = self.socket.recv(size)
                break
            except TimeoutError:
                self._wait_on()
        if not data:
            raise EOFError
        self._bytes_left -= len(data)
        return data

    def _seconds_left(self) -> float:
        seconds = self._deadline - self._now()
        if seconds <= 0:
            # Zero would mean not to wait at all, which is another error.
            raise TimeoutError
        return seconds

    def _wait_on(self) -> None:
        """The deadline is over: go on until the last one. Raises TimeoutError if this was the last."""
        if self._deadline >= self._last_deadline:
            raise TimeoutError
        self._deadline = self._last_deadline
        if self._on_overdue is not None:
            self._on_overdue()
