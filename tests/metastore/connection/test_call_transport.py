from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from iceberg_hms.metastore.connection.call_transport import CallTransport, ReplyTooLarge

MAX_BYTES = 1_000


class Time:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def ends(time: Time) -> Iterator[tuple[CallTransport, socket.socket]]:
    ours, theirs = socket.socketpair()
    transport = CallTransport(ours, max_reply_bytes=MAX_BYTES, now=time.now)
    with theirs:
        yield transport, theirs
    transport.close()


def test_bytes_go_out_at_the_flush_and_come_back_in_any_pieces(ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    transport.begin_call(5_000)
    transport.write(b"ca")
    transport.write(b"ll")
    transport.flush()
    assert server.recv(100) == b"call"
    server.sendall(b"a reply")
    assert transport.read(1) == b"a"
    assert transport.readAll(3) == b" re"
    assert transport.cstringio_refill(transport.cstringio_buf.read(), 3).read() == b"ply"


def test_a_part_that_comes_in_pieces_is_put_together(ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    transport.begin_call(5_000)
    server.sendall(b"12")
    assert transport.read(1) == b"1"
    server.sendall(b"345")
    assert transport.cstringio_refill(transport.cstringio_buf.read(), 4).getvalue() == b"2345"


def test_after_the_deadline_nothing_is_sent_or_read(time: Time, ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    transport.begin_call(5_000)
    server.sendall(b"a reply")
    time.seconds += 5
    with pytest.raises(TimeoutError):
        transport.read(1)
    transport.write(b"call")
    with pytest.raises(TimeoutError):
        transport.flush()


def test_each_call_has_a_deadline_of_its_own(time: Time, ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    for _ in range(3):
        transport.begin_call(5_000)
        time.seconds += 4
        server.sendall(b"x")
        assert transport.read(1) == b"x"


def test_a_patient_call_tells_of_its_first_deadline_once(time: Time, ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    told: list[float] = []
    transport.begin_call(5_000, patience_ms=60_000, on_overdue=lambda: told.append(time.seconds))
    server.sendall(b"x" * 500)
    time.seconds += 5
    assert len(transport.readAll(500)) == 500
    time.seconds += 54
    server.sendall(b"x")
    assert transport.read(1) == b"x"
    assert told == [105.0]
    time.seconds += 1
    with pytest.raises(TimeoutError):
        transport.read(1)
    assert told == [105.0]


def test_the_bytes_of_one_reply_are_counted(ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    for _ in range(2):
        transport.begin_call(5_000)
        server.sendall(b"x" * MAX_BYTES)
        assert len(transport.readAll(MAX_BYTES)) == MAX_BYTES
        with pytest.raises(ReplyTooLarge, match="larger than 1000 bytes"):
            transport.read(1)


def test_a_part_that_is_larger_than_a_reply_is_not_waited_for(ends: tuple[CallTransport, socket.socket]) -> None:
    transport, _ = ends
    transport.begin_call(5_000)
    with pytest.raises(ReplyTooLarge):
        transport.readAll(MAX_BYTES + 1)


def test_what_an_interrupted_call_wrote_does_not_go_out_with_the_next(
    ends: tuple[CallTransport, socket.socket],
) -> None:
    transport, server = ends
    transport.begin_call(5_000)
    transport.write(b"half")
    transport.begin_call(5_000)
    transport.write(b"whole")
    transport.flush()
    assert server.recv(100) == b"whole"


def test_a_server_that_closed_or_speaks_out_of_turn_has_hung_up(ends: tuple[CallTransport, socket.socket]) -> None:
    transport, server = ends
    assert not transport.has_hung_up()
    server.sendall(b"x")
    assert transport.has_hung_up()
    transport.begin_call(5_000)
    assert transport.read(1) == b"x"
    server.close()
    assert transport.has_hung_up()
    with pytest.raises(EOFError):
        transport.read(1)
    transport.close()
    assert transport.has_hung_up()
