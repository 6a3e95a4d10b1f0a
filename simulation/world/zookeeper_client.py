"""Stands where a ZooKeeperSession has its kazoo client: one connection to the simulated ensemble, and how it breaks.

The session under test is the real one (`iceberg_hms.zookeeper.session`). Like kazoo, this client reports SUSPENDED when
the connection breaks, and LOST only when a server says that the session has ended; so a process that slept past its
session believes that it is connected until its first request or ping. A broken connection also triggers all watches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from iceberg_hms.zookeeper.faults import NoReply
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process
from simulation.world.ensemble import Ensemble, Expired
from simulation.world.faults import LIGHT, MODERATE, Wire

T = TypeVar("T")

_PINGS_PER_TIMEOUT = 3
#: kazoo closes a connection after this share of the timeout without an answer.
_SILENCE_SHARE = 2 / 3
#: Seconds between attempts to connect.
_RECONNECT = 0.5
#: How often a "lost" creation still arrives, after a while.
_LATE_CREATION = 0.4
#: How often a server that is behind answers a read.
_BEHIND = 0.3


@dataclass(frozen=True, slots=True)
class _Stat:
    ctime: int


class _Handshake:
    """kazoo's connection handler, as far as ZooKeeperSession reads it."""

    def __init__(self, timeout_seconds: float) -> None:
        self._answer = _Granted(int(timeout_seconds * 1000))

    def _invoke(self, _timeout: float, _request: object, _xid: int | None = None) -> tuple[_Granted, None]:
        return self._answer, None


@dataclass(frozen=True, slots=True)
class _Granted:
    time_out: int


class _Reply:
    """kazoo's IAsyncResult; it sends the request when the caller asks for the answer."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask

    def get(self, timeout: float) -> Any:  # noqa: ARG002 - kazoo's; the faults decide how long no server answers
        return self._ask()


class SimulatedZooKeeperClient:
    """kazoo.client.KazooClient of one process."""

    def __init__(self, ensemble: Ensemble, wire: Wire, process: Process, runtime: SimulatedRuntime) -> None:
        self._ensemble = ensemble
        self._wire = wire
        self._process = process
        self._runtime = runtime
        self._connection = _Handshake(ensemble.timeout_seconds)
        self._live = runtime.event()
        self._broken = runtime.event()
        self._stopped = runtime.event()
        self._listeners: list[Callable[[str], None]] = []
        self._watches: dict[Callable[[], None], None] = {}
        self._session: int | None = None
        self._connections = 0
        self._out_until = 0.0
        self._silent_since: float | None = None

    @property
    def connected(self) -> bool:
        return self._live.is_set()

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def start_async(self) -> Any:
        self._runtime.spawn("zookeeper connection", self._run, background=True)
        return self._live

    def stop(self) -> None:
        self._stopped.set()
        self._live.clear()
        self._broken.set()
        if self._session is not None:
            self._ensemble.end(self._session)

    def close(self) -> None:
        return

    def create_async(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool,
        sequence: bool,  # noqa: ARG002 - of those that are ephemeral, and of no others
        makepath: bool,  # noqa: ARG002
    ) -> _Reply:
        if not ephemeral:
            return self._reply(f"zk mark {path}", lambda session: self._ensemble.create_persistent(session, path, data))
        folder, _, prefix = path.rpartition("/")

        def create(session: int) -> str:
            return f"{folder}/{self._ensemble.create(session, folder, prefix, data)}"

        return _Reply(lambda: self._request(f"zk create {folder}", create, late=create))

    def get_children_async(self, folder: str) -> _Reply:
        behind = self._wire.between(0.0, 1.0) < _BEHIND
        return self._reply(f"zk list {folder}", lambda session: self._ensemble.children(session, folder, behind=behind))

    def sync_async(self, path: str) -> _Reply:
        return self._reply(f"zk sync {path}", self._ensemble.sync)

    def get_async(self, path: str, watch: Callable[[object], None] | None = None) -> _Reply:
        def changed() -> None:
            self._watches.pop(changed, None)
            if watch is not None:
                watch(None)

        def read(session: int) -> tuple[bytes, _Stat]:
            node = self._ensemble.read(session, path)
            if watch is not None and self._ensemble.watch(session, path, changed):
                self._watches[changed] = None
            return node.data, _Stat(node.created_ms)

        return self._reply(f"zk {'read' if watch is None else 'watch'} {path}", read)

    def set_async(self, path: str, data: bytes) -> _Reply:
        def write(session: int) -> None:
            self._ensemble.write(session, path, data)

        return _Reply(lambda: self._request(f"zk write {path}", write, weight=MODERATE))

    def delete_async(self, path: str) -> _Reply:
        return self._reply(f"zk delete {path}", lambda session: self._ensemble.delete(session, path))

    def _reply(self, what: str, effect: Callable[[int], Any]) -> _Reply:
        return _Reply(lambda: self._request(what, effect))

    def _request(
        self, what: str, effect: Callable[[int], T], *, late: Callable[[int], T] | None = None, weight: float = LIGHT
    ) -> T:
        """Send a request once. Raises NoReply, and the servers' errors."""
        wire, process = self._wire, self._process
        wire.before_call(process, what, LIGHT)
        if wire.strikes("partitions", weight):
            self._wire.note(process, what, "connection to ZooKeeper breaks")
            self.break_for(self._outage())
        if wire.strikes("silences", weight):
            self._wire.note(process, what, "connection to ZooKeeper falls silent")
            self.silence_for(self._outage())
        self._wait_in_silence()
        if not self._live.is_set():
            raise NoReply(f"{what}: there is no connection")
        if wire.strikes("lost_requests", LIGHT):
            if late is not None and wire.between(0.0, 1.0) < _LATE_CREATION:
                self._later(what, late)
            raise self._unanswered(what, "request lost")
        session = self._session or 0
        seen = self._ensemble.seen(session)
        try:
            answer = effect(session)
        except Expired:
            self._drop()
            raise NoReply(f"{what}: the session has ended") from None
        except Exception as error:
            wire.note(process, what, error)
            raise
        wire.note(process, what, _shown(answer))
        wire.after_call(process, f"{what} <-", LIGHT)
        if wire.strikes("lost_replies", LIGHT):
            self._ensemble.forget_reply(session, seen)
            raise self._unanswered(what, "reply lost")
        return answer

    def _unanswered(self, what: str, why: str) -> NoReply:
        """A lost message breaks the connection: kazoo's requests are answered in order, or none of them is."""
        self._wire.note(self._process, what, why)
        self._drop()
        return NoReply(f"{what}: {why}")

    def _later(self, what: str, effect: Callable[[int], object]) -> None:
        """A delayed request arrives after its connection broke. The servers refuse it once the session has a new
        connection."""
        wire = self._wire
        session, connection = self._session, self._connections
        courier = Process("network")
        wire.delay(courier, self._ensemble.timeout_seconds)

        def arrive() -> None:
            if self._connections != connection:
                return
            try:
                wire.note(courier, f"late {what}", effect(session or 0))
            except Expired:
                wire.note(courier, f"late {what}", "the session has ended")

        wire.scheduler.spawn(courier, f"late {what}", arrive, background=True)

    def break_for(self, seconds: float) -> None:
        """No server can be reached for some time, and the client knows it."""
        self._out_until = self._runtime.now() + seconds
        self._drop()

    def silence_for(self, seconds: float) -> None:
        """No server can be reached for some time, and the client does not know it yet."""
        self._silent_since = self._runtime.now()
        self._out_until = self._silent_since + seconds

    def _outage(self) -> float:
        """Seconds: very short, or about as long as a session timeout."""
        timeout, wire = self._ensemble.timeout_seconds, self._wire
        return wire.random_duration(timeout * 3) if wire.between(0.0, 1.0) < 0.5 else timeout * wire.between(0.0, 0.6)

    def _wait_in_silence(self) -> None:
        """Wait until the servers answer again, or kazoo closes the connection."""
        if self._is_silent():
            given_up = (self._silent_since or 0.0) + self._ensemble.timeout_seconds * _SILENCE_SHARE
            self._runtime.sleep(max(0.0, min(self._out_until, given_up) - self._runtime.now()))
            if self._is_silent():
                self._drop()

    def _is_silent(self) -> bool:
        if self._silent_since is not None and self._runtime.now() >= self._out_until:
            self._silent_since = None
        return self._silent_since is not None

    def _drop(self) -> None:
        """Break the connection; the session's listeners are called a moment later."""
        if self._live.is_set():
            self._live.clear()
            self._ensemble.cut_off(self._session or 0)
            self._broken.set()

    def _run(self) -> None:
        """kazoo's connection thread."""
        timeout = self._ensemble.timeout_seconds
        while not self._stopped.is_set():
            if not self._live.is_set():
                self._connect()
            elif self._broken.wait(timeout / _PINGS_PER_TIMEOUT):
                self._broken.clear()
                self._lose_connection()
            elif not self._is_silent():
                self._ping()
            elif self._runtime.now() - (self._silent_since or 0.0) > timeout * _SILENCE_SHARE:
                self._drop()

    def _ping(self) -> None:
        if self._wire.strikes("partitions", MODERATE):
            self._wire.note(self._process, "zk ping", "connection to ZooKeeper breaks")
            self.break_for(self._outage())
            return
        try:
            self._ensemble.touch(self._session or 0)
        except Expired:
            self._drop()

    def _lose_connection(self) -> None:
        watches, self._watches = self._watches, {}
        self._ensemble.forget_watches(watches)
        self._report("SUSPENDED")
        for changed in watches:
            changed()

    def _connect(self) -> None:
        runtime = self._runtime
        if self._broken.is_set():
            self._broken.clear()
            self._lose_connection()
        runtime.sleep(max(0.0, self._out_until - runtime.now(), _RECONNECT if self._session is not None else 0.0))
        self._silent_since = None
        try:
            if self._session is None:
                self._session = self._ensemble.begin(self._process.name)
            else:
                self._ensemble.touch(self._session)
        except Expired:
            self._session = None
            self._report("LOST")
            return
        self._connections += 1
        self._connection._invoke(0.0, "connect")
        self._live.set()
        self._report("CONNECTED")

    def _report(self, state: str) -> None:
        self._wire.note(self._process, "zookeeper", state)
        for listener in self._listeners:
            listener(state)


def _shown(answer: object) -> object:
    if isinstance(answer, list):
        return f"{len(answer)} nodes"
    return "" if answer is None or isinstance(answer, tuple | _Stat) else answer
