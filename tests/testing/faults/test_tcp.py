"""A port that takes connections, gives each to what carries it, and ends with all of its threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.testing.faults.tcp import Connection, TcpProxy


class Numbered(Connection):
    """Tells a client its number, and then waits for its end."""

    def __init__(self, proxy: NumberingProxy, number: int, client: socket.socket) -> None:
        super().__init__(number, client, proxy.target)
        self._proxy = proxy

    def _carry(self, server: socket.socket) -> None:
        if self._proxy.error is not None:
            raise self._proxy.error
        self._client.sendall(b"%d" % self.number)
        self._client.recv(1)


class NumberingProxy(TcpProxy):
    error: Exception | None = None

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        super().__init__()

    def _connect(self, number: int, client: socket.socket) -> Numbered:
        return Numbered(self, number, client)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


@pytest.fixture
def proxy(server: socket.socket) -> Iterator[NumberingProxy]:
    with NumberingProxy(server.getsockname()) as proxy:
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


def test_cut_ends_open_connections_and_takes_new_ones(proxy: NumberingProxy) -> None:
    with connected(proxy) as first, connected(proxy) as second:
        assert {first.recv(10), second.recv(10)} == {b"1", b"2"}
        proxy.cut()
        assert first.recv(10) == second.recv(10) == b""
    with connected(proxy) as third:
        assert third.recv(10) == b"3"


def test_the_proxy_refuses_clients_until_accept_and_keeps_its_port(proxy: NumberingProxy) -> None:
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


def test_the_end_of_a_connection_reaches_both_sides(proxy: NumberingProxy, server: socket.socket) -> None:
    with connected(proxy) as client:
        assert client.recv(10) == b"1"
        with server.accept()[0] as carried:
            proxy.cut()
            assert client.recv(10) == carried.recv(10) == b""


def test_an_unreachable_server_ends_the_connection(server: socket.socket) -> None:
    target = server.getsockname()
    server.close()
    with NumberingProxy(target) as proxy, connected(proxy) as client:
        assert client.recv(10) == b""


def test_a_connection_that_ended_before_it_reached_the_server_carries_nothing(
    proxy: NumberingProxy, server: socket.socket
) -> None:
    far = socket.create_connection(server.getsockname(), 10)
    connection = Numbered(proxy, 1, server.accept()[0])
    connection.end()
    connection.run()
    connection.close()
    with far, server.accept()[0] as carried:
        assert far.recv(10) == carried.recv(10) == b""


@pytest.mark.parametrize("error", [OSError("gone"), EOFError("short"), InvalidInput("noise")])
def test_a_connection_that_fails_is_closed_and_the_next_one_is_taken(proxy: NumberingProxy, error: Exception) -> None:
    proxy.error = error
    with connected(proxy) as first:
        assert first.recv(10) == b""
    proxy.error = None
    with connected(proxy) as second:
        assert second.recv(10) == b"2"


def test_all_threads_end_with_the_proxy(server: socket.socket) -> None:
    with NumberingProxy(server.getsockname()) as proxy:
        idle = connected(proxy)
        assert idle.recv(10) == b"1"
    assert proxy_threads() == []
    assert idle.recv(10) == b""
    proxy.close()
    idle.close()
