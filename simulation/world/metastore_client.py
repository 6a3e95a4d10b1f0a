"""Stands in for MetastoreClient: one connection of one process to one simulated server, and how its calls fail.

The drivers above it are the real ones (`iceberg_hms.metastore`): pool, compare-and-swap, lock, heartbeat and the rest.
Calls pass Thrift's structures to the server without serializing them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from thrift.Thrift import TException

from iceberg_hms import work
from iceberg_hms.coordinator.ports import TableName, ThreadEvent
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap, ConnectionCasSupport
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent, ServerFault, classify
from iceberg_hms.metastore.connection.thrift_types import LockState
from iceberg_hms.metastore.locks.lost_lock_cleanup import POLL_INTERVAL_SECONDS
from iceberg_hms.metastore.tables.parameters import LAST_CHANGED, METADATA_LOCATION
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process
from simulation.world.faults import HEAVY, LIGHT, MODERATE, Wire
from simulation.world.metastore import DATABASE
from simulation.world.metastore_handler import SwapSupport
from simulation.world.metastore_server import SimulatedServer

#: How often a "lost" lock call is still carried out, after a while.
_LATE_LOCK: Final = 0.4
#: It is carried out within this share of a lease.
_LATEST_LOCK: Final = 0.8
#: The parameters that alters compare, but for probes.
_COMPARED: Final = (METADATA_LOCATION, LAST_CHANGED)
#: How often a call is lost because its server is unreachable, and for how many seconds it is at most.
_OUTAGE: Final = 0.4
_LONGEST_OUTAGE: Final = 30.0
#: How often the connection of a late change breaks before the answer; else the caller waits until its timeout.
_BREAKS: Final = 0.7
#: For how many seconds a COMMIT is in doubt, at most.
_LONGEST_DOUBT: Final = 300.0
#: A slow answer takes at least this share of its caller's timeout.
_SLOW: Final = 0.2
#: Calls that may leave a lock entry which no process knows of.
_LOCK_CALLS: Final = frozenset(("lock", "unlock"))
#: Calls that change a row.
_ROW_CHANGES: Final = frozenset(("alter_table_with_environment_context", "create_table", "drop_table"))


@dataclass
class Network:
    """What the connections of a process share.

    out_until: when an unreachable server can be reached again, by its address. timeout_seconds: for one answer.
    patience_seconds: for one whose caller waits patiently. latest: the longest delay of a late change, in seconds.
    proven: the process knows from earlier commits which servers are atomic.
    balanced: all servers are behind the first address, where each connection reaches one of them.
    swift: for a foreign writer whose calls are never late and which notices a loss at once, so that its lock holds.
    """

    servers: Mapping[str, SimulatedServer]
    wire: Wire
    process: Process
    runtime: SimulatedRuntime
    timeout_seconds: float = 60.0
    patience_seconds: float = 600.0
    latest: float = 900.0
    proven: bool = False
    balanced: bool = False
    swift: bool = False
    out_until: dict[str, float] = field(default_factory=dict)

    def connect(self, uri: str) -> SimulatedMetastoreClient:
        """Raises NotSent if the server cannot be reached."""
        self.wire.scheduler.step()
        self.refuse_if_out(uri)
        server = self.servers[uri]
        if self.balanced:
            server = self.wire.pick([each for each in self.servers.values() if each.has_locks])
        return SimulatedMetastoreClient(self, uri, server)

    def refuse_if_out(self, uri: str) -> None:
        """Raises NotSent while a server cannot be reached."""
        if self.out_until.get(uri, 0.0) > self.wire.scheduler.now:
            raise NotSent(f"{uri} cannot be reached")


class SimulatedMetastoreClient(MetastoreClient):
    """MetastoreClient on a simulated server."""

    def __init__(self, network: Network, uri: str, service: SimulatedServer) -> None:
        self.uri = uri
        self.cas_support = ConnectionCasSupport(network.runtime.now)
        if network.proven and service.swap_support is SwapSupport.ATOMIC:
            self.cas_support.learn(DATABASE, CompareAndSwap.ATOMIC)
            self.cas_support.record_swap(DATABASE)
        self._network = network
        self._server = service
        self._is_open = True
        self._has_store = True

    @property
    def is_usable(self) -> bool:
        return self._is_open

    @property
    def is_closed(self) -> bool:
        return not self._is_open

    def close(self) -> None:
        self._is_open = False

    def call(self, method: str, /, **arguments: Any) -> Any:
        """As MetastoreClient.call."""
        work.called(method)
        if not self._is_open:
            raise NotSent("the connection is closed")
        try:
            return self._call(method, arguments)
        except ServerFault as fault:
            self._answered(method, fault)
        except BaseException:
            self.close()
            raise

    def _call(self, method: str, arguments: dict[str, Any]) -> Any:
        network = self._network
        wire, process = network.wire, network.process
        what = described(method, arguments)
        weight = self._weight(method, arguments)
        if weight == HEAVY and not network.swift:
            self._watch_lock(arguments)
        if weight == HEAVY:
            wire.on_change_sent(what)
        if method == "get_table_req" and not network.swift and self._server.metastore.has_new_lock(process.name):
            wire.load_late(process, what)
        wire.before_call(process, what, weight)
        network.refuse_if_out(self.uri)
        wire.stall(process, what)

        self._has_store &= network.swift or not wire.strikes("lost_stores", weight)
        if not self._has_store:
            raise self._fail(method, what, "javax.jdo.JDOFatalUserException: Persistence Manager has been closed")

        def effect() -> Any:
            return self._server.answer(method, arguments, process.name)

        if wire.strikes("lost_requests", weight):
            raise self._lose(what, effect if method == "lock" else None)
        if method == "lock" and not network.swift and wire.strikes("lost_replies", weight):
            raise self._lose_silently(what, effect)
        if method == "unlock":
            removed = self._server.metastore.of_another(arguments["rqst"].lockid, process.name)
            if removed is not None and removed.acquired:
                wire.pause_before_removal(process, what)
        is_late_at_times = weight == HEAVY and not network.swift
        if is_late_at_times and wire.strikes("late_changes", weight):
            return self._send_late(method, what, lambda: self._carry_out_late(arguments, effect))
        if is_late_at_times and wire.strikes("refusals", weight):
            failure = MetaException("Permission denied: the swap is refused")
            wire.note(process, what, failure)
            raise classify(failure, method)
        if is_late_at_times and wire.strikes("errors", weight):
            raise self._fail(method, what, "deadlock in the metastore's database")
        if is_late_at_times and wire.strikes("in_doubt_commits", weight):
            self._leave_in_doubt(method, what, effect, compares=_expected(arguments) is not None)
        is_swap = _expected(arguments) in _COMPARED and not network.swift
        if is_swap and wire.strikes("sql_errors", weight):
            raise self._fail(method, what, 'Error executing SQL query "update "TABLE_PARAMS" set ...": lock timeout')
        return self._carry_out(method, arguments, effect, weight)

    def _watch_lock(self, arguments: dict[str, Any]) -> None:
        """Watch the lock of an alter that this server does not compare atomically."""
        location, is_compared = _new_location(arguments), _expected(arguments) is not None
        if location is not None and not (is_compared and self._server.swap_support is SwapSupport.ATOMIC):
            name = TableName(arguments["dbname"], arguments["tbl_name"])
            self._server.metastore.watch_lock(name, location, self._network.process)

    def _fail(self, method: str, what: str, words: str) -> ServerFault:
        failure = MetaException(words)
        self._network.wire.note(self._network.process, what, failure)
        return classify(failure, method)

    def _leave_in_doubt(self, method: str, what: str, effect: Callable[[], Any], *, compares: bool) -> NoReturn:
        """The metastore gets no answer to its COMMIT, and answers with an error. The database commits later."""
        network = self._network
        try:
            commit = self._server.metastore.prepare_call(effect)
        except TException as failure:
            network.wire.note(network.process, what, failure)
            raise classify(failure, method) from None
        network.wire.note(network.process, what, "in doubt")
        self._later(what, commit, latest=_LONGEST_DOUBT)
        network.runtime.sleep(network.wire.random_duration(network.timeout_seconds))
        statement = 'Error executing SQL query "update "TABLE_PARAMS" set ..."' if compares else "Put request failed"
        raise self._fail(method, what, f"{statement}: Read timed out")

    def _carry_out(self, method: str, arguments: dict[str, Any], effect: Callable[[], Any], weight: float) -> Any:
        wire, process = self._network.wire, self._network.process
        what = described(method, arguments)
        may_be_more = weight == HEAVY and not self._network.swift
        answer: Any = None
        failure: TException | None = None
        try:
            answer = effect()
        except TException as error:
            failure = error
        self._note(process, what, failure or answer)
        if may_be_more and wire.strikes("repeated_changes", weight):
            self._later(what, effect)
        if may_be_more and failure is None and wire.strikes("false_refusals", weight):
            failure = self._false_refusal(method, arguments, effect)
            wire.note(process, what, f"after all: {_shown(failure)}")
        wire.after_call(process, f"{what} <-", weight)
        if wire.strikes("lost_replies", weight):
            wire.note(process, what, "reply lost")
            self._fall_silent()
            raise NoAnswer(f"{what}: the reply was lost")
        slowness = MODERATE if method == "heartbeat" else weight
        if not self._network.swift and wire.strikes("slow_replies", slowness):
            wire.note(process, what, "slow reply")
            self._network.runtime.sleep(self._network.timeout_seconds * wire.between(_SLOW, 1.0))
        if method == "heartbeat":
            wire.answer_heartbeat_late(process, what)
        if failure is not None:
            raise classify(failure, method)
        return answer

    def _false_refusal(self, method: str, arguments: dict[str, Any], effect: Callable[[], Any]) -> TException:
        """The error of a server that does not know that it has committed: it retries, and finds its own change; or it
        gives up, where nothing would prevent a second change."""
        compares = (
            self._server.swap_support in (SwapSupport.ATOMIC, SwapSupport.CHECKED) and _expected(arguments) is not None
        )
        if method != "alter_table_with_environment_context" or compares:
            try:
                effect()
            except TException as error:
                return error
        return MetaException("the connection to the metastore's database broke in the middle of a commit")

    def _weight(self, method: str, arguments: dict[str, Any]) -> float:
        """Calls that change a table's row weigh more than the rest; probes of the server do not."""
        if method not in _ROW_CHANGES:
            return MODERATE if method in _LOCK_CALLS else LIGHT
        if _is_scratch(arguments):
            return LIGHT
        if _expected(arguments) not in (None, *_COMPARED):
            return MODERATE
        return HEAVY

    def _lose(self, what: str, late: Callable[[], Any] | None) -> Exception:
        """A request that does not arrive, or arrives late; or its server becomes unreachable for a while."""
        network = self._network
        wire = network.wire
        wire.note(network.process, what, "request lost")
        if not network.swift and wire.between(0.0, 1.0) < _OUTAGE:
            network.out_until[self.uri] = wire.scheduler.now + wire.random_duration(_LONGEST_OUTAGE)
            return NotSent(f"{what}: {self.uri} cannot be reached")
        return self._lose_silently(what, late)

    def _lose_silently(self, what: str, late: Callable[[], Any] | None) -> NoAnswer:
        """A request of which its caller learns nothing. late: what it may still do."""
        wire = self._network.wire
        if late is not None and wire.between(0.0, 1.0) < _LATE_LOCK:
            wire.note(self._network.process, what, "under way")
            # The cleanup looks for the entry of a lost call for as long as a lease, once the lock was released, however
            # long that takes. A run must not end before it did.
            self._later(
                what,
                late,
                lambda _: wire.scheduler.sleep(self._network.patience_seconds + 3 * POLL_INTERVAL_SECONDS),
                latest=self._server.metastore.lease_seconds * _LATEST_LOCK,
            )
        self._fall_silent()
        return NoAnswer(f"{what}: the request was lost")

    def _fall_silent(self) -> None:
        """The caller notices a broken connection at once, and a silent one at its timeout."""
        network = self._network
        if not network.swift:
            longest = network.patience_seconds if self.is_patient else network.timeout_seconds
            self._wait(network.runtime.event(), network.wire.random_duration(longest))

    def _wait(self, answered: ThreadEvent, seconds: float) -> bool:
        """Wait for an answer, and report it as overdue after the ordinary timeout."""
        ordinary = self._network.timeout_seconds
        if answered.wait(min(seconds, ordinary)):
            return True
        if seconds <= ordinary:
            return False
        if self.on_overdue is not None:
            self.on_overdue()
        return answered.wait(seconds - ordinary)

    def _carry_out_late(self, arguments: dict[str, Any], effect: Callable[[], Any]) -> Any:
        """What compares atomically overwrites nothing, so its writer does not keep others from the table until it
        arrives. Where a server does not compare, another may overwrite it then, and nobody was acknowledged it."""
        answer = effect()
        location, servers = _new_location(arguments), self._network.servers.values()
        is_atomic = _expected(arguments) is not None and self._server.swap_support is SwapSupport.ATOMIC
        if location is not None and is_atomic and any(each.swap_support is not SwapSupport.ATOMIC for each in servers):
            self._server.metastore.landed_unseen(location)
        return answer

    def _send_late(self, method: str, what: str, effect: Callable[[], Any]) -> Any:
        """A change that the server carries out late. Its caller waits until its own timeout, or until its connection
        breaks."""
        network = self._network
        wire = network.wire
        wire.note(network.process, what, "under way")
        answered = network.runtime.event()
        answers: list[Any] = []

        def arrived(answer: Any) -> None:
            answers.append(answer)
            answered.set()

        self._later(what, effect, arrived)
        if wire.between(0.0, 1.0) < _BREAKS:
            self._fall_silent()
        elif self._wait(answered, network.patience_seconds if self.is_patient else network.timeout_seconds):
            if isinstance(answers[0], TException):
                raise classify(answers[0], method)
            return answers[0]
        raise NoAnswer(f"{what}: no answer came in time")

    def _later(
        self,
        what: str,
        effect: Callable[[], Any],
        arrived: Callable[[Any], None] | None = None,
        *,
        latest: float | None = None,
    ) -> None:
        wire = self._network.wire
        courier = Process("network")
        if latest is None:
            wire.delay_change(courier, what, self._network.latest)
        else:
            wire.delay(courier, latest)

        def arrive() -> None:
            answer: Any
            try:
                answer = effect()
            except TException as error:
                answer = error
            self._note(courier, f"late {what}", answer)
            if arrived is not None:
                arrived(answer)

        wire.scheduler.spawn(courier, f"late {what}", arrive)

    def _note(self, process: Process, what: str, answer: Any) -> None:
        shown = _shown(answer)
        if shown is not None:
            self._network.wire.note(process, what, shown)


def _expected(arguments: Mapping[str, Any]) -> str | None:
    """The parameter that an alter compares, None if it compares none."""
    context = arguments.get("environment_context")
    return None if context is None else (context.properties or {}).get("expected_parameter_key")


def _new_location(arguments: Mapping[str, Any]) -> str | None:
    """The metadata location that an alter sets, if it sets one."""
    row = arguments.get("new_tbl")
    location: str | None = None if row is None else row.parameters.get(METADATA_LOCATION)
    return location


def _is_scratch(arguments: Mapping[str, Any]) -> bool:
    """Whether a call changes a scratch row, on which drivers probe a server."""
    row = arguments.get("new_tbl", arguments.get("tbl"))
    name: str = arguments["name"] if row is None else row.tableName
    return name.startswith("iceberg_hms_probe_")


def described(method: str, arguments: Mapping[str, Any]) -> str:
    """A call, as traces show it."""
    match method:
        case "alter_table_with_environment_context":
            return _alter(arguments)
        case "get_table_req":
            return f"load {arguments['req'].dbName}.{arguments['req'].tblName}"
        case "create_table":
            return f"create {arguments['tbl'].dbName}.{arguments['tbl'].tableName}"
        case "drop_table":
            return f"drop {arguments['dbname']}.{arguments['name']}"
        case "check_lock" | "unlock":
            return f"{method} {arguments['rqst'].lockid}"
        case "heartbeat":
            return f"heartbeat {arguments['ids'].lockid}"
        case "get_database":
            return f"database {arguments['name']}"
    return method


def _alter(arguments: Mapping[str, Any]) -> str:
    row, expected = arguments["new_tbl"], _expected(arguments)
    if row.tableName != arguments["tbl_name"] or row.dbName != arguments["dbname"]:
        return f"rename {arguments['dbname']}.{arguments['tbl_name']} {row.dbName}.{row.tableName}"
    how = {METADATA_LOCATION: "swap", LAST_CHANGED: "change of kind", None: "blind swap"}.get(expected, "probe with")
    return f"{how} {row.parameters.get(METADATA_LOCATION, row.tableName)}"


def _shown(answer: Any) -> object:
    """An answer as traces show it; None omits the line."""
    if isinstance(answer, TException):
        return getattr(answer, "message", None) or type(answer).__name__
    if answer is None:
        return "ok"
    row = getattr(answer, "table", None)
    if row is not None:
        return row.parameters.get(METADATA_LOCATION, "a row")
    if hasattr(answer, "lockid"):
        return "acquired" if answer.state == LockState.ACQUIRED else "waiting"
    locks = getattr(answer, "locks", None)
    return None if locks is not None else answer
