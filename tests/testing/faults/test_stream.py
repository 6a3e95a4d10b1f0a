"""Bytes pass both ways; in a partition none do, and neither side notices."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.stream import StreamProxy

#: Long enough for a byte that passes to have passed.
SILENCE_SECONDS = 0.1


class Echo(socketserver.ThreadingTCPServer):
    """Sends back what it gets, and keeps it; `ended` is set when a client's side was closed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen = b""
        self.clients: list[socket.socket] = []
        self.ended = threading.Event()


class _Handler(socketserver.BaseRequestHandler):
    server: Echo

    def handle(self) -> None:
        self.server.clients.append(self.request)
        while data := self.request.recv(1000):
            self.server.seen += data
            self.request.sendall(data)
            if data.endswith(b"bye"):
                return
        self.server.ended.set()


@pytest.fixture
def server() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def proxy(server: Echo) -> Iterator[StreamProxy]:
    with StreamProxy(f"127.0.0.1:{server.server_address[1]}") as proxy:
        yield proxy


@pytest.fixture
def client(proxy: StreamProxy) -> Iterator[socket.socket]:
    with connected(proxy) as client:
        yield client


def connected(proxy: StreamProxy) -> socket.socket:
    host, _, port = proxy.address.partition(":")
    return socket.create_connection((host, int(port)), 10)


def receive(client: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count and (data := client.recv(count - len(received))):
        received += data
    return received


def is_silent(client: socket.socket) -> bool:
    client.settimeout(SILENCE_SECONDS)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(10)
    return False


def test_bytes_pass_both_ways(client: socket.socket) -> None:
    data = bytes(range(256)) * 1_000
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    assert receive(client, len(data)) == data
    sender.join(10)


def test_nothing_passes_a_partition_and_all_of_it_arrives_when_it_is_healed(
    proxy: StreamProxy, client: socket.socket, server: Echo
) -> None:
    client.sendall(b"before")
    assert receive(client, 6) == b"before"
    proxy.partition()
    client.sendall(b"lost")
    assert is_silent(client)
    assert server.seen == b"before"
    proxy.heal()
    assert receive(client, 4) == b"lost"


def test_the_end_of_a_connection_does_not_pass_a_partition(
    proxy: StreamProxy, client: socket.socket, server: Echo
) -> None:
    client.sendall(b"x")
    assert receive(client, 1) == b"x"
    proxy.partition()
    client.close()
    assert not server.ended.wait(SILENCE_SECONDS)
    proxy.heal()
    assert server.ended.wait(10)


def test_replies_of_the_server_do_not_pass_a_partition(proxy: StreamProxy, client: socket.socket, server: Echo) -> None:
    client.sendall(b"x")
    assert receive(client, 1) == b"x"
    proxy.partition()
    server.clients[0].sendall(b"good bye")
    assert is_silent(client)
    proxy.heal()
    assert receive(client, 8) == b"good bye"


def test_a_connection_that_begins_in_a_partition_is_silent_until_it_is_healed(proxy: StreamProxy, server: Echo) -> None:
    proxy.partition()
    with connected(proxy) as late:
        late.sendall(b"hello")
        assert is_silent(late)
        assert server.clients == []
        proxy.heal()
        assert receive(late, 5) == b"hello"


def test_both_sides_notice_when_the_proxy_refuses(proxy: StreamProxy, client: socket.socket, server: Echo) -> None:
    client.sendall(b"x")
    assert receive(client, 1) == b"x"
    proxy.refuse()
    assert client.recv(1) == b""
    assert server.ended.wait(10)
    with pytest.raises(ConnectionRefusedError):
        connected(proxy)
    proxy.accept()
    with connected(proxy) as again:
        again.sendall(b"y")
        assert receive(again, 1) == b"y"


@pytest.mark.parametrize("end", ["client", "server"])
def test_the_end_of_one_side_is_the_end_of_the_other(client: socket.socket, server: Echo, end: str) -> None:
    if end == "server":
        client.sendall(b"bye")
        assert receive(client, 100) == b"bye"
    else:
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        client.shutdown(socket.SHUT_WR)
        assert server.ended.wait(10)


def test_an_unreachable_server_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with StreamProxy(f"127.0.0.1:{port}") as proxy, connected(proxy) as client:
        assert client.recv(1) == b""


def test_it_closes_in_the_middle_of_a_partition(server: Echo) -> None:
    with StreamProxy(f"127.0.0.1:{server.server_address[1]}") as proxy:
        open_ = connected(proxy)
        open_.sendall(b"x")
        assert receive(open_, 1) == b"x"
        proxy.partition()
        open_.sendall(b"lost")
        late = connected(proxy)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("fault-proxy")] == []
    open_.close()
    late.close()
    proxy.close()


@pytest.mark.parametrize("target", ["", "host", "host:", ":2181", "host:port", "127.0.0.1:1/path"])
def test_a_target_names_host_and_port(target: str) -> None:
    with pytest.raises(InvalidInput, match="not host:port"):
        StreamProxy(target)
