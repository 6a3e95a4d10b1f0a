"""The proxy between the true client and a metastore in memory on a true socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from iceberg_hms.errors import InvalidInput
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.thrift_types import extended
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import (
    CUT_AFTER_SEND,
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    DUPLICATE,
    FREEZE,
    FREEZE_REPLY,
    POSTPONE,
    Action,
    ProxiedCall,
    delay,
)
from tests.metastore.fake_hms import FakeHms, Running, running
from tests.polling import eventually

CREATE = "create_database"


@pytest.fixture
def server() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.fixture
def hms(server: Running) -> FakeHms:
    return server.hms


@pytest.fixture
def proxy(server: Running) -> Iterator[FaultProxy]:
    with FaultProxy(server.uri) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[MetastoreClient]:
    client = connect(proxy)
    yield client
    client.close()


def connect(proxy: FaultProxy) -> MetastoreClient:
    return MetastoreClient(proxy.uri, connect_timeout_ms=5_000, socket_timeout_ms=10_000)


def create(client: MetastoreClient, name: str = "new") -> Any:
    return client.call(CREATE, database=extended(Database)(name=name, locationUri="file:/w/new", parameters={}))


class Background:
    """A call on a thread of its own, and what came of it."""

    def __init__(self, function: Any) -> None:
        self.error: Exception | None = None
        self._function = function
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def join(self) -> Exception | None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.error


def fault_proxy_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fault-proxy")]


def test_without_a_script_the_proxy_only_records_calls(
    proxy: FaultProxy, client: MetastoreClient, hms: FakeHms
) -> None:
    assert client.call("get_all_databases") == ["db"]
    create(client)
    with pytest.raises(ServerFault):
        create(client)
    assert client.call("get_database", name="new").locationUri == "file:/w/new"
    assert proxy.calls == [
        ProxiedCall(1, "get_all_databases", 1),
        ProxiedCall(1, CREATE, 1),
        ProxiedCall(1, CREATE, 2),
        ProxiedCall(1, "get_database", 1),
    ]
    assert hms.calls == [call.method for call in proxy.calls]


@pytest.mark.parametrize(("action", "carried_out"), [(CUT_BEFORE_SEND, 0), (CUT_AFTER_SEND, 1), (CUT_BEFORE_REPLY, 1)])
def test_the_script_decides_whether_a_cut_call_reaches_the_server(
    proxy: FaultProxy, client: MetastoreClient, hms: FakeHms, action: Action, carried_out: int
) -> None:
    cut = proxy.on(CREATE, action)
    with pytest.raises(NoAnswer, match="connection was closed"):
        create(client)
    assert cut.done(10)
    other = connect(proxy)
    if action is CUT_AFTER_SEND:
        # The client was cut off while the server was still at it.
        assert eventually(lambda: CREATE in hms.calls)
    assert hms.calls.count(CREATE) == carried_out
    assert other.call("get_all_databases") == ["db", "new"][: 1 + carried_out]
    other.close()


def test_the_nth_call_of_a_method_is_hit_and_no_other(proxy: FaultProxy, client: MetastoreClient) -> None:
    proxy.on("get_all_databases", CUT_BEFORE_SEND, nth=3)
    for _ in range(2):
        assert client.call("get_all_databases") == ["db"]
    assert client.call("get_database", name="db").name == "db"
    with pytest.raises(NoAnswer):
        client.call("get_all_databases")
    other = connect(proxy)
    assert other.call("get_all_databases") == ["db"]
    other.close()


def test_one_connection_is_hit_and_no_other(proxy: FaultProxy, client: MetastoreClient) -> None:
    other = connect(proxy)
    other.call("get_all_databases")
    client.call("get_all_databases")
    connections = {call.connection for call in proxy.calls}
    assert connections == {1, 2}
    victim = proxy.calls[0].connection
    proxy.on("", CUT_BEFORE_SEND, times=None, connection=victim)
    with pytest.raises(NoAnswer):
        other.call("get_all_databases")
    assert client.call("get_all_databases") == ["db"]
    other.close()


def test_a_call_with_certain_arguments_is_hit_and_no_other(proxy: FaultProxy, client: MetastoreClient) -> None:
    proxy.on(CREATE, CUT_BEFORE_SEND, only=lambda request: b"unlucky" in request)
    create(client, "lucky")
    with pytest.raises(NoAnswer):
        create(client, "unlucky")


def test_a_duplicated_call_is_carried_out_twice_and_the_second_answer_counts(
    proxy: FaultProxy, client: MetastoreClient, hms: FakeHms
) -> None:
    proxy.on(CREATE, DUPLICATE)
    with pytest.raises(ServerFault, match="already exists"):
        create(client)
    assert hms.calls.count(CREATE) == 2
    assert client.call("get_all_databases") == ["db", "new"]


@pytest.mark.parametrize(("action", "carried_out"), [(FREEZE, 0), (FREEZE_REPLY, 1)])
def test_a_frozen_call_goes_on_when_it_is_released(
    proxy: FaultProxy, client: MetastoreClient, hms: FakeHms, action: Action, carried_out: int
) -> None:
    frozen = proxy.on(CREATE, action)
    call = Background(lambda: create(client))
    assert frozen.held(10)
    assert hms.calls.count(CREATE) == carried_out
    assert not frozen.done(0)
    frozen.release()
    assert call.join() is None
    assert hms.calls.count(CREATE) == 1


def test_a_frozen_call_that_is_dropped_never_arrives(proxy: FaultProxy, client: MetastoreClient, hms: FakeHms) -> None:
    frozen = proxy.on(CREATE, FREEZE)
    call = Background(lambda: create(client))
    assert frozen.held(10)
    frozen.drop()
    assert isinstance(call.join(), NoAnswer)
    assert hms.calls == []


def test_a_postponed_call_arrives_after_its_sender_gave_up(
    proxy: FaultProxy, client: MetastoreClient, hms: FakeHms
) -> None:
    postponed = proxy.on(CREATE, POSTPONE)
    with pytest.raises(NoAnswer):
        create(client)
    assert postponed.held(10)
    assert hms.calls == []
    postponed.release()
    assert postponed.done(10)
    assert hms.calls == [CREATE]


def test_a_delayed_call_is_a_call(proxy: FaultProxy, client: MetastoreClient) -> None:
    proxy.on("get_all_databases", delay(0.05))
    assert client.call("get_all_databases") == ["db"]


def test_a_pace_is_asked_for_every_call(server: Running) -> None:
    asked: list[ProxiedCall] = []

    def pace(call: ProxiedCall) -> float:
        asked.append(call)
        return 0.001

    with FaultProxy(server.uri, pace=pace) as proxy:
        client = connect(proxy)
        client.call("get_all_databases")
        client.call("get_all_databases")
        client.close()
        assert asked == proxy.calls == [ProxiedCall(1, "get_all_databases", 1), ProxiedCall(1, "get_all_databases", 2)]


def test_a_test_can_wait_for_calls(proxy: FaultProxy, client: MetastoreClient) -> None:
    assert not proxy.wait_for("get_all_databases", 1, 0)
    call = Background(lambda: client.call("get_all_databases"))
    assert proxy.wait_for("get_all_databases", 1, 10)
    assert not proxy.wait_for("get_all_databases", 2, 0)
    assert call.join() is None
    assert proxy.count("get_all_databases") == 1


def test_clients_cannot_reach_a_proxy_that_refuses_until_it_accepts(proxy: FaultProxy, client: MetastoreClient) -> None:
    client.call("get_all_databases")
    port = proxy.port
    proxy.refuse()
    assert not client.is_usable
    with pytest.raises(NotSent):
        connect(proxy)
    proxy.accept()
    assert proxy.port == port
    other = connect(proxy)
    assert other.call("get_all_databases") == ["db"]
    other.close()


def test_an_idle_client_sees_that_the_server_hung_up(
    proxy: FaultProxy, client: MetastoreClient, server: Running
) -> None:
    client.call("get_all_databases")
    server.stop()
    assert eventually(lambda: not client.is_usable)


def test_a_client_that_speaks_no_thrift_is_cut_off(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        stranger.settimeout(10)
        try:
            assert stranger.recv(1) == b""
        except ConnectionResetError:
            return


def test_all_threads_end_with_the_proxy_and_held_calls_are_dropped(server: Running, hms: FakeHms) -> None:
    with FaultProxy(server.uri) as proxy:
        frozen = proxy.on(CREATE, FREEZE)
        idle, client = connect(proxy), connect(proxy)
        idle.call("get_all_databases")
        call = Background(lambda: create(client))
        assert frozen.held(10)
        assert len(fault_proxy_threads()) == 3
    assert fault_proxy_threads() == []
    assert isinstance(call.join(), NoAnswer)
    assert CREATE not in hms.calls
    proxy.close()
    for each in (idle, client):
        each.close()


def test_a_script_that_is_cleared_lets_held_calls_go(proxy: FaultProxy, client: MetastoreClient, hms: FakeHms) -> None:
    frozen = proxy.on(CREATE, FREEZE, times=None)
    call = Background(lambda: create(client))
    assert frozen.held(10)
    proxy.clear()
    assert call.join() is None
    create(client, "another")
    assert hms.calls.count(CREATE) == 2


@pytest.mark.parametrize("target", ["", "thrift://host", "http://127.0.0.1:1", "127.0.0.1:9083"])
def test_a_target_names_host_and_port(target: str) -> None:
    with pytest.raises(InvalidInput, match="not thrift://host:port"):
        FaultProxy(target)
