"""A port that takes connections, gives each to what carries it, and ends with all of its threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.testing.faults.tcp import TcpProxy, hang_up


class Numbered:
    """Tells a client its number, and then waits for its end."""

    def __init__(self, proxy: NumberingProxy, number: int, client: socket.socket) -> None:
        self._proxy = proxy
        self._number = number
        self._client = client

    def run(self) -> None:
        if self._proxy.error is not None:
            raise self._proxy.error
        self._client.sendall(b"%d" % self._number)
        self._client.recv(1)

    def end(self) -> None:
        hang_up(self._client)

    def close(self) -> None:
        self._client.close()


class NumberingProxy(TcpProxy):
    error: Exception | None = None

    def _connect(self, number: int, client: socket.socket) -> Numbered:
        return Numbered(self, number, client)


@pytest.fixture
def proxy() -> Iterator[NumberingProxy]:
    with NumberingProxy() as proxy:
        yield proxy


def connected(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), 10)


def proxy_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("fault-proxy"))


def test_each_connection_has_its_number_and_its_thread(proxy: NumberingProxy) -> None:
    with connected(proxy) as first:
        assert first.recv(10) == b"1"
        with connected(proxy) as second:
            assert second.recv(10) == b"2"
            assert proxy_threads() == ["fault-proxy", "fault-proxy-1", "fault-proxy-2"]


def test_cut_ends_what_is_open_and_nothing_else(proxy: NumberingProxy) -> None:
    with connected(proxy) as first, connected(proxy) as second:
        assert {first.recv(10), second.recv(10)} == {b"1", b"2"}
        proxy.cut()
        assert first.recv(10) == second.recv(10) == b""
    with connected(proxy) as third:
        assert third.recv(10) == b"3"


def test_who_is_refused_is_refused_until_accept_and_the_port_stays(proxy: NumberingProxy) -> None:
    port = proxy.port
    with connected(proxy) as first:
        assert first.recv(10) == b"1"
        proxy.refuse()
        proxy.refuse()
        assert first.recv(10) == b""
    with pytest.raises(ConnectionRefusedError):
        connected(proxy)
    proxy.accept()
    proxy.accept()
    assert proxy.port == port
    with connected(proxy) as second:
        assert second.recv(10) == b"2"


def test_a_port_that_was_taken_meanwhile_is_an_error(proxy: NumberingProxy) -> None:
    proxy.refuse()
    with socket.create_server(("127.0.0.1", proxy.port)), pytest.raises(EngineError, match=str(proxy.port)):
        proxy.accept()


@pytest.mark.parametrize("error", [OSError("gone"), EOFError("short"), InvalidInput("noise")])
def test_a_connection_that_fails_is_closed_and_the_next_one_is_taken(proxy: NumberingProxy, error: Exception) -> None:
    proxy.error = error
    with connected(proxy) as first:
        assert first.recv(10) == b""
    proxy.error = None
    with connected(proxy) as second:
        assert second.recv(10) == b"2"


def test_all_threads_end_with_the_proxy() -> None:
    with NumberingProxy() as proxy:
        idle = connected(proxy)
        assert idle.recv(10) == b"1"
    assert proxy_threads() == []
    assert idle.recv(10) == b""
    proxy.close()
    idle.close()
