"""HTTP/1.1 messages as bytes, for a proxy that passes them on unchanged."""

from __future__ import annotations

import re
import socket

from iceberg_hms.errors import InvalidInput

HEAD_BYTES_MAX = 65_536
BODY_BYTES_MAX = 1 << 30
_PIECE_BYTES = 65_536
_END = b"\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_CHUNK_LENGTH = re.compile(rb"[0-9A-Fa-f]{1,8}(?=[;\s])")
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_STATUS = slice(9, 12)
#: Their answers have no body (RFC 9112, 6.3).
_NO_BODY = (b"204", b"304")


class HttpStream:
    """The messages of one side of a connection, one after the other.

    All methods raise OSError, EOFError when the stream ends within a message, and InvalidInput for what is no HTTP or
    beyond the bounds above.
    """

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._ahead = b""

    def head(self) -> bytes:
        """The next message's first lines with the empty one; b"" if there is no next message."""
        data = bytearray(self._ahead)
        while (end := data.find(_END + _END)) < 0:
            if len(data) > HEAD_BYTES_MAX:
                raise InvalidInput(f"a head of more than {HEAD_BYTES_MAX} bytes is refused as noise")
            piece = self._source.recv(_PIECE_BYTES)
            if not piece and data:
                raise EOFError("the stream ended within a head")
            if not piece:
                return b""
            data += piece
        self._ahead = bytes(data[end + 4 :])
        return bytes(data[: end + 4])

    def body_of_request(self, head: bytes) -> bytes:
        """As it was sent: with the lengths of its chunks, if it comes in chunks."""
        return self._body(head) or b""

    def answer(self, method: str) -> tuple[bytes, bool]:
        """The next whole answer, to a request of this method, and whether the connection may carry another one."""
        head = self.head()
        if not head:
            raise EOFError("the server hung up without an answer")
        if method == "HEAD" or head[_STATUS] in _NO_BODY:
            return head, not _CLOSE.search(head)
        body = self._body(head)
        if body is None:
            return head + self._rest(), False
        return head + body, not _CLOSE.search(head)

    def _body(self, head: bytes) -> bytes | None:
        """None if the head does not say where it ends."""
        if _CHUNKED.search(head):
            return self._chunks()
        length = _LENGTH.search(head)
        return None if length is None else self._take(int(length[1]))

    def _chunks(self) -> bytes:
        data = bytearray()
        while True:
            size = self._line()
            found = _CHUNK_LENGTH.match(size)
            if found is None:
                raise InvalidInput("a chunk without a length")
            length = int(found[0], 16)
            data += size + self._take(length + len(_END) if length else 0)
            _check(len(data))
            if not length:
                break
        while (line := self._line()) != _END:
            data += line
        return bytes(data + _END)

    def _line(self) -> bytes:
        while (end := self._ahead.find(_END)) < 0:
            piece = self._source.recv(_PIECE_BYTES)
            if not piece:
                raise EOFError("the stream ended within a chunk's length")
            self._ahead += piece
            if len(self._ahead) > HEAD_BYTES_MAX + _PIECE_BYTES:
                raise InvalidInput(f"a line of more than {HEAD_BYTES_MAX} bytes is refused as noise")
        line, self._ahead = self._ahead[: end + 2], self._ahead[end + 2 :]
        return line

    def _take(self, count: int) -> bytes:
        _check(count)
        if count <= len(self._ahead):
            taken, self._ahead = self._ahead[:count], self._ahead[count:]
            return taken
        data = bytearray(count)
        have = len(self._ahead)
        data[:have] = self._ahead
        self._ahead = b""
        view = memoryview(data)
        while have < count:
            got = self._source.recv_into(view[have:])
            if not got:
                raise EOFError("the stream ended within a body")
            have += got
        return bytes(data)

    def _rest(self) -> bytes:
        data = bytearray(self._ahead)
        while piece := self._source.recv(_PIECE_BYTES):
            data += piece
            _check(len(data))
        return bytes(data)


def _check(count: int) -> None:
    if count > BODY_BYTES_MAX:
        raise InvalidInput(f"a body of more than {BODY_BYTES_MAX} bytes is refused")
