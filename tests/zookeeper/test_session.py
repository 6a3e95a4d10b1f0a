"""The session over a client in kazoo's shape; a real one is tested on a real server in integration/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo import exceptions

from iceberg_hms.errors import ConfigError
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.zookeeper.faults import NodeGone, NoReply, ZooKeeperUnavailable
from iceberg_hms.zookeeper.session import SessionState, ZooKeeperSession, new_client

RUNTIME = ThreadRuntime()


class Answer:
    """kazoo's AsyncResult: a value, an exception, or what happens before the answer."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self, timeout: float) -> Any:
        assert timeout > 0
        if isinstance(self._value, Exception):
            raise self._value
        return self._value() if callable(self._value) else self._value


class Connection:
    """What the servers answer to a connect: the timeout that they grant."""

    def __init__(self, granted_ms: int) -> None:
        self.granted_ms = granted_ms

    def connect(self) -> None:
        self._invoke(1.0, "connect")

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return (type("Connected", (), {"time_out": self.granted_ms})(), 7)


class Client:
    """As much of a KazooClient as sessions use. answers: request -> what it is answered, nodes' names by default."""

    def __init__(self, hosts: str, timeout: float, granted_ms: int = 20_000, reachable: bool = True) -> None:
        self.hosts = hosts
        self.timeout = timeout
        self.connected = False
        self.reachable = reachable
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, str]] = []
        self.stopped = 0
        self._connection = Connection(granted_ms)
        self._live = RUNTIME.event()
        self._listener: Callable[[str], Any] = lambda state: None

    def add_listener(self, listener: Callable[[str], Any]) -> None:
        self._listener = listener

    def start_async(self) -> Any:
        def connect() -> None:
            self._connection.connect()
            # Told before it shows: who finds it connected goes on, and must not be overtaken by this state later.
            self._listener("CONNECTED")
            self.connected = True
            self._live.set()

        if self.reachable:
            RUNTIME.spawn("connection", connect)
        return self._live

    def become(self, state: str) -> None:
        self.connected = state == "CONNECTED"
        self._listener(state)

    def _request(self, name: str, path: str) -> Answer:
        self.requests.append((name, path))
        return Answer(self.answers.get(name))

    def create_async(self, path: str, data: bytes, *, ephemeral: bool, sequence: bool, makepath: bool) -> Answer:
        assert ephemeral
        assert sequence
        assert makepath
        self.answers.setdefault("create", f"{path}0000000001")
        return self._request("create", path)

    def get_children_async(self, path: str) -> Answer:
        return self._request("children", path)

    def sync_async(self, path: str) -> Answer:
        return self._request("sync", path)

    def get_async(self, path: str, watch: Callable[[Any], None] | None = None) -> Answer:
        if watch is not None:
            self.watch = watch
        return self._request("get", path)

    def set_async(self, path: str, data: bytes) -> Answer:
        return self._request("set", path)

    def delete_async(self, path: str) -> Answer:
        return self._request("delete", path)

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.become("LOST")


def session(
    hosts: str = "z:2181", connect_timeout_ms: int = 20_000, **options: Any
) -> tuple[ZooKeeperSession, Callable[[], Client]]:
    """A session, and its client once it has one."""
    made: list[Client] = []

    def make(servers: str, timeout: float) -> Client:
        made.append(Client(servers, timeout, **options))
        return made[-1]

    return (
        ZooKeeperSession(hosts, RUNTIME, timeout_ms=30_000, connect_timeout_ms=connect_timeout_ms, make_client=make),
        lambda: made[-1],
    )


def test_nothing_is_connected_before_it_is_needed() -> None:
    made, client = session()
    assert made.state is SessionState.LOST
    with pytest.raises(ZooKeeperUnavailable):
        _ = made.lease_seconds
    assert made.connected() == 0
    assert made.state is SessionState.CONNECTED
    assert (client().hosts, client().timeout) == ("z:2181", 30.0)


def test_the_lease_is_what_the_servers_grant() -> None:
    made, _ = session(granted_ms=4_000)
    made.connected()
    assert made.lease_seconds == 4.0


def test_a_path_behind_the_hosts_goes_before_every_path() -> None:
    made, client = session("z1:2181,z2:2181/some/where/")
    made.connected()
    assert made.create("/locks/t", "a-", b"") == "a-0000000001"
    made.watch("/locks/t/a", lambda: None)
    client().answers["children"] = ["b"]
    assert made.children("/locks") == ["b"]
    assert client().hosts == "z1:2181,z2:2181"
    assert [path for _, path in client().requests] == [
        "/some/where/locks/t/a-",
        "/some/where/locks/t/a",
        "/some/where/locks",
    ]


def test_no_server_is_an_error_after_the_connect_timeout() -> None:
    made, _ = session(connect_timeout_ms=50, reachable=False)
    with pytest.raises(ZooKeeperUnavailable, match="z:2181 is out of reach"):
        made.connected()


def test_without_a_connection_a_request_is_refused_at_once() -> None:
    made, client = session()
    made.connected()
    client().become("SUSPENDED")
    with pytest.raises(NoReply):
        made.write("/x", b"")
    assert client().requests == []


def test_a_lost_session_is_a_new_epoch_and_a_suspended_one_is_not() -> None:
    made, client = session()
    made.connected()
    for state, epoch in (("SUSPENDED", 0), ("CONNECTED", 0), ("SUSPENDED", 0), ("LOST", 1), ("CONNECTED", 1)):
        client().become(state)
        assert (made.state, made.epoch) == (SessionState(state), epoch)


def test_what_is_not_there_is_said_in_each_request_s_own_way() -> None:
    made, client = session()
    made.connected()
    client().answers = {name: exceptions.NoNodeError() for name in ("children", "get", "set", "delete")}
    assert made.children("/x") == []
    assert made.read("/x/y") is None
    made.delete("/x/y")
    with pytest.raises(NodeGone):
        made.write("/x/y", b"")
    assert made.watch("/x/y", lambda: None) is False


def test_a_node_is_read_with_its_time() -> None:
    made, client = session()
    made.connected()
    client().answers["get"] = (b"data", type("Stat", (), {"ctime": 12.0})())
    found = made.read("/x/y")
    assert found is not None
    assert (found.name, found.data, found.created_ms) == ("y", b"data", 12)


def test_a_watch_calls_when_kazoo_does() -> None:
    made, client = session()
    called = RUNTIME.event()
    client_answers = {"get": object()}
    made.connected()
    client().answers = client_answers
    assert made.watch("/x", called.set)
    client().watch("an event")
    assert called.is_set()


def test_what_cannot_be_removed_now_is_removed_when_there_is_a_connection() -> None:
    made, client = session()
    made.connected()
    client().become("SUSPENDED")
    made.discard("/x", "mine-")
    assert client().requests == []
    client().answers["children"] = ["mine-1", "other-2"]
    client().become("CONNECTED")
    # The sweep runs on a thread of its own; the next caller of `connected` waits for it or does it.
    made.connected()
    assert ("delete", "/x/mine-1") in client().requests
    assert ("delete", "/x/other-2") not in client().requests


def test_an_unanswered_removal_is_repeated_in_the_next_session_too() -> None:
    """Not all that is removed ends with its session."""
    made, client = session()
    made.connected()
    client().answers["children"] = exceptions.ConnectionLoss()
    made.discard("/x", "mine-")
    client().become("LOST")
    client().become("CONNECTED")
    client().requests.clear()
    made.connected()
    assert [request[0] for request in client().requests] == ["sync", "children"]


def test_a_folder_that_vanishes_while_a_node_is_made_counts_as_no_reply() -> None:
    made, client = session()
    made.connected()
    client().answers["create"] = exceptions.NoNodeError()
    with pytest.raises(NoReply):
        made.create("/x", "a-", b"")


def test_closing_twice_is_harmless_and_nothing_can_be_asked_afterwards() -> None:
    made, client = session()
    made.close()
    made, client = session()
    made.connected()
    made.close()
    made.close()
    assert client().stopped == 1
    with pytest.raises(ZooKeeperUnavailable, match="closed"):
        made.connected()


def test_a_sweep_that_closing_overtakes_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    made, client = session()
    made.connected()
    client().become("SUSPENDED")
    made.discard("/x", "mine-")
    made.discard("/y", "mine-")
    caplog.clear()

    def closed_meanwhile() -> list[str]:
        made.close()
        return []

    client().connected = True
    client().answers["children"] = closed_meanwhile
    made.connected()
    assert caplog.records == []


def test_close_calls_each_registered_callback_once_before_it_disconnects() -> None:
    made, client = session()
    made.connected()
    told: list[tuple[str, bool]] = []

    def one() -> None:
        told.append(("one", client().connected))

    def other() -> None:
        told.append(("other", client().connected))

    made.on_close(one)
    made.on_close(other)
    made.forget_on_close(other)
    made.close()
    made.close()
    assert told == [("one", True)]
    made.on_close(other)
    assert told == [("one", True), ("other", False)]


def test_the_state_of_a_session_is_logged_until_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    made, client = session()
    made.connected()
    client().become("SUSPENDED")
    made.close()
    assert [record.getMessage() for record in caplog.records] == ["The ZooKeeper session is SUSPENDED"]


def test_malformed_hosts_are_a_config_error() -> None:
    with pytest.raises(ConfigError, match="malformed"):
        new_client("z:port", 1.0)
    assert new_client("z1:1,z2:2", 1.0).hosts == [("z1", 1), ("z2", 2)]
