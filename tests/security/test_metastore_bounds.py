"""A metastore, or whatever listens on its port, that would hold a connection for ever or fill our memory."""

from __future__ import annotations

import resource
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import thrift.protocol
from thrift.Thrift import TMessageType, TType

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.namespaces import HmsNamespaces
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from iceberg_hms.testing.faults.wire import Message, read_message
from tests.metastore.fake_hms import FakeHms, Late, pool_of, running

MIB = 2**20
#: Far above what any of these calls may take, far below what the attacks would take.
ENDLESS_SECONDS = 20.0

Attack = Callable[[socket.socket, Message, threading.Event], None]


@contextmanager
def listening(attack: Attack) -> Iterator[str]:
    """A server on loopback that reads one call on each connection, and then attacks. Yields its uri."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                call = read_message(connection.recv)
                if call is not None:
                    attack(connection, call, ended)
            except (OSError, EOFError):
                return

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept, args=(listener,))
        acceptor.start()
        try:
            yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (acceptor, *threads):
                thread.join()


def head(call: Message) -> bytes:
    """The beginning of the reply to a call."""
    name = call.method.encode()
    version = 0x8001_0000 | TMessageType.REPLY
    return struct.pack("!Ii", version, len(name)) + name + struct.pack("!i", call.sequence)


def field(kind: int, number: int) -> bytes:
    return struct.pack("!bh", kind, number)


def list_of(kind: int, count: int) -> bytes:
    return struct.pack("!bi", kind, count)


def drip(connection: socket.socket, call: Message, ended: threading.Event) -> None:
    """A true reply without end, a byte at a time."""
    reply = head(call) + field(TType.LIST, 0) + list_of(TType.STRING, 10_000) + struct.pack("!i", 10_000)
    sent = 0
    while not ended.wait(0.01):
        connection.sendall(reply[sent : sent + 1] or b"x")
        sent += 1


def saying(result: bytes, then: bytes = b"") -> Attack:
    """Reply with the beginning of a result, and then with `then` for ever, or with nothing more."""

    def attack(connection: socket.socket, call: Message, ended: threading.Event) -> None:
        connection.sendall(head(call) + result)
        while then and not ended.is_set():
            connection.sendall(then)
        ended.wait()

    return attack


def client_of(uri: str, *, max_reply_bytes: int = 8 * MIB, timeout_ms: int = 400) -> MetastoreClient:
    return MetastoreClient(
        uri,
        connect_timeout_ms=5_000,
        socket_timeout_ms=timeout_ms,
        patience_ms=2 * timeout_ms,
        max_reply_bytes=max_reply_bytes,
    )


def refusal_of(attack: Attack, *, patiently: bool = False, timeout_ms: int = 400) -> tuple[str, float]:
    """What a call says to an attack, and after how many seconds."""
    with listening(attack) as uri:
        client = client_of(uri, timeout_ms=timeout_ms)
        call = client.call_patiently if patiently else client.call
        started = SYSTEM_CLOCK.monotonic()
        with pytest.raises(NoAnswer) as caught:
            call("get_all_databases")
        took = SYSTEM_CLOCK.monotonic() - started
        assert not client.is_usable
    return caught.value.message, took


@pytest.fixture(params=[True, False], ids=["Thrift's C code", "Thrift's Python code"])
def either_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads replies with Thrift's C code, and without."""
    if not request.param:
        monkeypatch.delattr(thrift.protocol, "fastbinary", raising=False)
        monkeypatch.setitem(sys.modules, "thrift.protocol.fastbinary", None)


@pytest.mark.usefixtures("either_code")
@pytest.mark.parametrize("patiently", [False, True])
def test_a_metastore_that_drips_has_as_long_as_one_that_is_silent(patiently: bool) -> None:
    message, took = refusal_of(drip, patiently=patiently)
    assert "timed out" in message
    assert (0.8 if patiently else 0.4) <= took < ENDLESS_SECONDS


def test_a_patient_call_tells_of_a_drip_when_the_ordinary_time_is_over() -> None:
    told: list[float] = []
    with listening(drip) as uri:
        client = client_of(uri)
        started = SYSTEM_CLOCK.monotonic()
        client.on_overdue = lambda: told.append(SYSTEM_CLOCK.monotonic() - started)
        with pytest.raises(NoAnswer, match="timed out"):
            client.call_patiently("get_all_databases")
    assert len(told) == 1
    assert 0.4 <= told[0] < ENDLESS_SECONDS


def test_a_metastore_that_takes_a_call_byte_by_byte_has_as_long_as_one_that_takes_none() -> None:
    ended = threading.Event()

    def sip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            while not ended.wait(0.02):
                connection.recv(MIB // 4)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=sip, args=(listener,))
        thread.start()
        try:
            client = client_of(f"thrift://127.0.0.1:{listener.getsockname()[1]}")
            started = SYSTEM_CLOCK.monotonic()
            with pytest.raises(NotSent, match="timed out"):
                client.call("get_database", name="x" * 64 * MIB)
        finally:
            ended.set()
            thread.join()
    assert SYSTEM_CLOCK.monotonic() - started < ENDLESS_SECONDS


STRING_OF_2_GB = field(TType.LIST, 0) + list_of(TType.STRING, 1) + struct.pack("!i", 2**31 - 1)
LIST_OF_2_BILLION = field(TType.LIST, 0) + list_of(TType.STRING, 2**31 - 1)
UNKNOWN_STRING_OF_2_GB = field(TType.STRING, 9) + struct.pack("!i", 2**31 - 1)
NEGATIVE_STRING = field(TType.LIST, 0) + list_of(TType.STRING, 1) + struct.pack("!i", -1)


@pytest.mark.usefixtures("either_code")
@pytest.mark.parametrize(
    "attack",
    [
        saying(STRING_OF_2_GB),
        saying(STRING_OF_2_GB, then=b"x" * MIB),
        saying(LIST_OF_2_BILLION),
        saying(LIST_OF_2_BILLION, then=b"\x00\x00\x00\x01x"),
        saying(UNKNOWN_STRING_OF_2_GB, then=b"x" * MIB),
        saying(field(TType.LIST, 9) + list_of(TType.STRUCT, 2**31 - 1), then=b"\x00" * MIB),
        saying(NEGATIVE_STRING),
    ],
    ids=[
        "2 GB string",
        "2 GB string that comes",
        "2^31 strings",
        "2^31 strings that come",
        "unknown 2 GB string",
        "2^31 unknown structures",
        "negative length",
    ],
)
def test_a_reply_that_claims_more_than_a_reply_may_have_ends_the_call_at_once(attack: Attack) -> None:
    _, took = refusal_of(attack, timeout_ms=int(2 * ENDLESS_SECONDS * 1000))
    assert took < ENDLESS_SECONDS


def test_many_small_parts_of_a_reply_are_counted_together() -> None:
    """Each field is small, and there is no end of them."""
    endless = field(TType.STRING, 9) + struct.pack("!i", 1_000) + b"x" * 1_000
    message, took = refusal_of(saying(b"", then=endless * 100), timeout_ms=int(2 * ENDLESS_SECONDS * 1000))
    assert "larger than 8388608 bytes" in message
    assert took < ENDLESS_SECONDS


def test_a_reply_of_the_largest_size_is_read() -> None:
    text = b"x" * MIB
    result = field(TType.LIST, 0) + list_of(TType.STRING, 1) + struct.pack("!i", MIB) + text + b"\x00"

    def size_of_reply(call: str) -> int:
        return 12 + len(call) + len(result)

    with listening(saying(result)) as uri:
        client = client_of(uri, max_reply_bytes=size_of_reply("get_all_databases"))
        assert client.call("get_all_databases") == [text.decode()]
        client.close()
        client = client_of(uri, max_reply_bytes=size_of_reply("get_all_databases") - 1)
        with pytest.raises(NoAnswer, match="larger than"):
            client.call("get_all_databases")


def test_structures_in_one_another_without_end_are_refused() -> None:
    nested = field(TType.STRUCT, 9) * 300_000
    _, took = refusal_of(saying(b"", then=nested), timeout_ms=int(2 * ENDLESS_SECONDS * 1000))
    assert took < ENDLESS_SECONDS


@pytest.mark.parametrize(
    "words",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46",
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
    ids=["HTTP", "TLS", "SSH"],
)
def test_a_server_of_another_protocol_is_found_by_its_first_bytes(words: bytes) -> None:
    def answer(connection: socket.socket, call: Message, ended: threading.Event) -> None:
        connection.sendall(words)
        ended.wait()

    message, took = refusal_of(answer, timeout_ms=int(2 * ENDLESS_SECONDS * 1000))
    assert "No protocol version header" in message
    assert took < ENDLESS_SECONDS


def test_a_false_claim_costs_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for attack in (saying(STRING_OF_2_GB), saying(LIST_OF_2_BILLION)):
        refusal_of(attack)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_the_pool_says_which_setting_a_large_reply_needs() -> None:
    names = field(TType.LIST, 0) + list_of(TType.STRING, 100_000) + (struct.pack("!i", 100) + b"x" * 100) * 100_000
    with listening(saying(names + b"\x00")) as uri:
        pool = ClientPool([uri], socket_timeout_ms=60_000, max_reply_bytes=MIB)
        with pytest.raises(MetastoreUnavailable, match=r"larger than 1048576 bytes.*metastore\.max-reply-bytes"):
            pool.ask("get_all_databases")
        pool.close()


@pytest.mark.parametrize("call", ["create_database", "create_table"])
def test_metastore_calls_that_hang_in_a_clients_location_leave_a_connection_to_loads(call: str) -> None:
    late = [Late(), Late()]
    hms = FakeHms()
    hms.add_database("db")
    hms.misbehave[call].extend(late)
    under_way = threading.Event()
    hms.before[call] = under_way.set
    with running(hms) as server, pool_of(server, size=2) as pool:
        namespaces, pointer = HmsNamespaces(pool), HmsTablePointer(pool, Settings.load({}, environ={}))

        def create(number: int) -> None:
            if call == "create_database":
                namespaces.create(f"n{number}", {"location": "hdfs://10.255.255.1/n"})
            else:
                metadata = table_metadata("hdfs://10.255.255.1/t")
                pointer.create(TableName("db", f"t{number}"), "m0", metadata, None)

        threads = [threading.Thread(target=create, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert under_way.wait(ENDLESS_SECONDS)
            assert namespaces.exists("db")
            assert hms.calls.count(call) == 1
        finally:
            for each in late:
                each.go.set()
            for thread in threads:
                thread.join()
    assert hms.calls.count(call) == 2


def test_a_call_that_gets_no_such_connection_in_time_is_refused_and_not_sent() -> None:
    with running() as server, pool_of(server, size=2, timeout_ms=50) as pool:

        def nested(_: MetastoreClient) -> None:
            pool.run_with_location(lambda client: client.call("get_all_databases"))

        with pytest.raises(MetastoreUnavailable, match="busy with the locations"):
            pool.run_with_location(nested)
        assert "get_all_databases" not in server.hms.calls
