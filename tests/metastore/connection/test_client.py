from __future__ import annotations

import getpass
import socket
import struct
import sys
import threading
from typing import Any

import pytest
import thrift.protocol
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TMessageType, TType

from iceberg_hms.errors import ConfigError
from iceberg_hms.metastore.connection.client import MetastoreClient, parse_uri
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.thrift_types import ShowLocksRequest
from tests.ctrl_c import CtrlC
from tests.forking import said_by
from tests.metastore.fake_hms import (
    Answer,
    DropAfter,
    DropBefore,
    Garble,
    Late,
    Running,
    Silence,
    StaleReply,
    WrongReply,
)


def connect(server: Running, user: str = "", timeout_ms: int = 5_000, patience_ms: int = 20_000) -> MetastoreClient:
    return MetastoreClient(
        server.uri, connect_timeout_ms=timeout_ms, socket_timeout_ms=timeout_ms, patience_ms=patience_ms, user=user
    )


@pytest.mark.parametrize(
    ("uri", "expected"),
    [("thrift://h:1", ("h", 1)), ("thrift://h", ("h", 9083)), ("thrift://[::1]:7/", ("::1", 7))],
)
def test_a_uri_names_host_and_port(uri: str, expected: tuple[str, int]) -> None:
    assert parse_uri(uri) == expected


@pytest.mark.parametrize("uri", ["", "h:9083", "http://h:1", "thrift://", "thrift://h:port", "thrift://h:99999"])
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="not thrift://"):
        parse_uri(uri)


def test_calls_return_what_the_server_says(server: Running) -> None:
    client = connect(server)
    assert client.call("get_all_databases") == ["db"]
    assert client.call("drop_database", name="db", deleteData=False, cascade=False) is None
    assert client.call("get_all_databases") == []
    client.close()


def test_a_user_is_introduced_with_their_groups(server: Running) -> None:
    connect(server, user=getpass.getuser()).close()
    connect(server, user="nobody knows me").close()
    assert server.hms.calls == ["set_ugi", "set_ugi"]


def test_a_server_that_does_not_take_a_user_is_used_all_the_same(server: Running) -> None:
    server.hms.misbehave["set_ugi"].append(MetaException("Kerberos only"))
    client = connect(server, user="ada")
    assert client.call("get_all_databases") == ["db"]
    client.close()


def test_a_connection_that_breaks_while_introducing_was_never_there(server: Running) -> None:
    server.hms.misbehave["set_ugi"].append(DropAfter())
    with pytest.raises(NotSent):
        connect(server, user="ada")


def test_errors_of_the_server_leave_the_connection_usable(server: Running) -> None:
    client = connect(server)
    with pytest.raises(ServerFault) as caught:
        client.call("get_database", name="nope")
    assert caught.value.fault is Fault.NO_SUCH_OBJECT
    assert client.is_usable
    assert client.call("get_all_databases") == ["db"]
    client.close()


def test_a_handler_whose_store_is_closed_costs_the_connection(server: Running) -> None:
    client = connect(server)
    assert client.call("get_all_databases") == ["db"]
    server.close_stores()
    with pytest.raises(NoAnswer, match="Persistence Manager has been closed"):
        client.call("get_all_databases")
    assert not client.is_usable


def test_a_call_that_failed_inside_of_the_server_costs_the_connection(server: Running) -> None:
    client = connect(server)
    assert client.call("get_all_databases") == ["db"]
    server.close_stores()
    with pytest.raises(ServerFault) as caught:  # its IDL has no MetaException
        client.call("show_locks", rqst=ShowLocksRequest())
    assert caught.value.fault is Fault.INTERNAL
    assert not client.is_usable


def test_a_call_that_the_server_lacks_is_unknown_method(server: Running) -> None:
    client = connect(server)
    with pytest.raises(ServerFault) as caught:
        client.call("get_all_functions")
    assert caught.value.fault is Fault.UNKNOWN_METHOD
    client.close()


@pytest.mark.parametrize(
    "bad", [DropBefore(), DropAfter(), Garble(), WrongReply(), StaleReply()], ids=lambda bad: type(bad).__name__
)
def test_a_reply_that_does_not_come_or_is_noise_is_no_answer(server: Running, bad: Exception) -> None:
    client = connect(server)
    server.hms.misbehave["get_all_databases"].append(bad)
    with pytest.raises(NoAnswer, match="get_all_databases"):
        client.call("get_all_databases")
    assert not client.is_usable
    with pytest.raises(NotSent):
        client.call("get_all_databases")


STOP = b"\x00"
#: A structure whose field 1 is the text "no", as the metastore's exceptions are.
SAYS_NO = b"\x0b\x00\x01\x00\x00\x00\x02no" + STOP


def field(number: int, kind: int, value: bytes) -> bytes:
    return struct.pack("!bh", kind, number) + value


VOID_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("create_table", {}),
    ("alter_table_with_environment_context", {}),
    ("unlock", {}),
    ("heartbeat", {}),
    ("drop_table", {"deleteData": False}),
]


@pytest.mark.parametrize(("method", "arguments"), VOID_CALLS)
@pytest.mark.parametrize(
    "result",
    [
        field(9, TType.STRUCT, SAYS_NO) + STOP,
        field(0, TType.STRUCT, SAYS_NO) + STOP,
        field(-1, TType.STRUCT, SAYS_NO) + STOP,
        field(9, TType.BOOL, b"\x01") + STOP,
        field(9, 77, b"") + STOP,
        field(1, TType.STRING, b"\x00\x00\x00\x02no") + STOP,
        field(1, TType.STRUCT, SAYS_NO) + field(9, TType.BOOL, b"\x01") + STOP,
    ],
    ids=["unknown error", "a value", "negative number", "unknown value", "unknown type", "other type", "two at once"],
)
def test_a_void_call_whose_reply_says_what_we_do_not_know_was_not_answered(
    result: bytes, method: str, arguments: dict[str, Any], server: Running
) -> None:
    client = connect(server)
    server.hms.misbehave[method].append(Answer(result))
    with pytest.raises(NoAnswer, match=method):
        client.call(method, **arguments)
    assert not client.is_usable


@pytest.mark.parametrize(("method", "arguments"), VOID_CALLS)
def test_an_empty_reply_to_a_void_call_is_its_success(method: str, arguments: dict[str, Any], server: Running) -> None:
    client = connect(server)
    server.hms.misbehave[method].append(Answer(STOP))
    assert client.call(method, **arguments) is None
    assert client.call("get_all_databases") == ["db"]
    client.close()


@pytest.mark.parametrize("fast", [True, False], ids=["Thrift's C code", "Thrift's Python code"])
def test_an_error_of_a_void_call_that_we_know_is_the_servers(
    fast: bool, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.delattr(thrift.protocol, "fastbinary", raising=False)
        monkeypatch.setitem(sys.modules, "thrift.protocol.fastbinary", None)
    client = connect(server)
    server.hms.misbehave["create_table"].append(Answer(field(3, TType.STRUCT, SAYS_NO) + STOP))
    with pytest.raises(ServerFault, match="no") as caught:
        client.call("create_table")
    assert caught.value.fault is Fault.OTHER
    assert client.call("get_all_databases") == ["db"]
    client.close()


def test_an_unknown_error_of_a_call_with_a_result_is_no_result(server: Running) -> None:
    client = connect(server)
    server.hms.misbehave["get_all_databases"].append(Answer(field(9, TType.STRUCT, SAYS_NO) + STOP))
    with pytest.raises(ServerFault, match="neither a result nor an error we know"):
        client.call("get_all_databases")
    assert client.call("get_all_databases") == ["db"]
    client.close()


def test_a_reply_that_ends_early_was_no_answer(server: Running) -> None:
    client = connect(server, timeout_ms=100)
    server.hms.misbehave["create_table"].append(Answer(field(3, TType.STRUCT, SAYS_NO[:-3])))
    with pytest.raises(NoAnswer, match="timed out"):
        client.call("create_table")


def test_our_own_call_that_comes_back_is_no_answer(server: Running) -> None:
    client = connect(server)
    server.hms.misbehave["unlock"].append(Answer(STOP, TMessageType.CALL))
    with pytest.raises(NoAnswer, match="unlock"):
        client.call("unlock")


def test_a_silent_server_is_not_waited_for_longer_than_said(server: Running) -> None:
    client = connect(server, timeout_ms=100)
    server.hms.misbehave["get_all_databases"].append(Silence())
    with pytest.raises(NoAnswer, match="timed out"):
        client.call("get_all_databases")
    assert not client.is_usable


def test_an_interrupted_call_leaves_no_reply_for_the_next(server: Running, ctrl_c: CtrlC) -> None:
    client = connect(server)
    interrupted = threading.Event()
    plain = server.hms.get_all_databases

    def interrupt() -> Any:
        ctrl_c.send()
        interrupted.wait(10)
        return plain()

    server.hms.get_all_databases = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        client.call("get_all_databases")
    interrupted.set()
    assert not client.is_usable


def test_the_error_for_a_server_that_is_not_there_names_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(NotSent, match=f"{uri} cannot be reached: Connection refused"):
            MetastoreClient(uri, connect_timeout_ms=1_000, socket_timeout_ms=1_000)


def test_a_connection_that_the_server_closed_meanwhile_is_not_usable(server: Running) -> None:
    client = connect(server)
    client.call("get_all_databases")
    server.stop()
    assert not client.is_usable
    client.close()


def test_arguments_that_cannot_be_sent_break_only_this_connection(server: Running) -> None:
    client = connect(server)
    with pytest.raises(TypeError):
        client.call("get_database", name=7)
    assert not client.is_usable
    assert server.hms.calls == []


#: Forks, and one of both processes closes the connection. Says what the server hears.
FORKING = """
import os, socket, sys
from iceberg_hms.metastore.connection.client import MetastoreClient

listener = socket.create_server(("127.0.0.1", 0))
uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
client = MetastoreClient(uri, connect_timeout_ms=5_000, socket_timeout_ms=5_000)
server, _ = listener.accept()
server.settimeout(5)
reader, writer = os.pipe()
usable = client.is_usable
child = os.fork()
if child == 0:
    os.close(writer)
    if sys.argv[1] == "child":
        usable = client.is_usable
        client.close()
        os._exit(usable)
    os.read(reader, 1)
    os._exit(0)
os.close(reader)
if sys.argv[1] == "child":
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    client._transport.socket.sendall(b"x")
    print(usable, code, server.recv(1))
else:
    client.close()
    print(usable, server.recv(1))
    os.close(writer)
    os.waitpid(child, 0)
"""


def test_a_forked_child_uses_no_connection_of_its_parents_and_does_not_hang_up_for_it() -> None:
    assert said_by(FORKING, "child") == "True 0 b'x'\n"


def test_the_server_learns_that_a_client_hung_up_though_a_forked_child_lives() -> None:
    assert said_by(FORKING, "parent") == "True b''\n"


def test_a_patient_call_outwaits_the_ordinary_time_and_says_so_once(server: Running) -> None:
    late = Late()
    server.hms.misbehave["get_all_databases"].append(late)
    client = connect(server, timeout_ms=50)
    told: list[bool] = []

    def tell() -> None:
        told.append(client.is_usable)
        late.go.set()

    client.on_overdue = tell
    assert client.call_patiently("get_all_databases") == ["db"]
    assert told == [True]
    assert client.call("get_all_databases") == ["db"]
    client.close()


def test_patience_ends(server: Running) -> None:
    late = Late()
    server.hms.misbehave["get_all_databases"].append(late)
    client = connect(server, timeout_ms=20, patience_ms=60)
    with pytest.raises(NoAnswer, match="timed out"):
        client.call_patiently("get_all_databases")
    assert not client.is_usable
    late.go.set()


def test_patience_is_for_one_call(server: Running) -> None:
    server.hms.misbehave["get_all_databases"].append(Silence())
    client = connect(server, timeout_ms=50)
    assert client.call_patiently("getVersion") == "3.0"
    with pytest.raises(NoAnswer, match="timed out"):
        client.call("get_all_databases")
