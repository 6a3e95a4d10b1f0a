"""TablePointer and TableLock of one process on the simulated metastore."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from iceberg_hms.coordinator.coverage import keep_covered
from iceberg_hms.coordinator.ports import HeldLock, Pointer, Refused, SwapAnswer, Swapped, TableName, Unanswered
from iceberg_hms.errors import (
    IcebergHmsError,
    LockLost,
    LockNotAcquired,
    LockUnavailable,
    MetastoreRefused,
    MetastoreUnavailable,
)
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.testing.simulation.faults import HEAVY, LIGHT, Wire
from iceberg_hms.testing.simulation.metastore import (
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    Metastore,
    Verdict,
)
from iceberg_hms.testing.simulation.runtime import SimulatedRuntime
from iceberg_hms.testing.simulation.scheduler import Process

#: Seconds after which a caller gives a call up.
SOCKET_TIMEOUT = 60.0
#: A late move comes at most this many seconds after it was given up.
_LATEST = 900.0
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 10.0
_BEATS_PER_LEASE = 10
_WAITING = {True: "acquired", False: "waiting", None: "no such lock"}


@dataclass(frozen=True, slots=True)
class Link:
    """How a process reaches the metastore. proven: how likely it knows already that the server is atomic.
    blind: the lock API of its server is broken. foreign: the processes that it knows to be none of ours."""

    server: Metastore
    wire: Wire
    process: Process
    runtime: SimulatedRuntime
    proven: float = 0.0
    blind: bool = False
    foreign: Set[str] = frozenset()


class SimulatedTablePointer:
    """coordinator.ports.TablePointer."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # Whether the server was seen to compare and swap: at once, or from the first answer on.
        self._proven = link.server.verdict is Verdict.ATOMIC and link.runtime.jitter() < link.proven

    def load(self, name: TableName) -> Pointer:
        """As the port says."""
        link = self._link
        parameters = link.wire.call(
            link.process,
            f"load {name}",
            lambda: link.server.get(name),
            lost=MetastoreUnavailable,
            show=lambda row: row[METADATA_LOCATION],
        )
        return Pointer(
            name, parameters[METADATA_LOCATION], parameters.get(PREVIOUS_METADATA_LOCATION), parameters, parameters
        )

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: TableMetadata,
        replaced: TableMetadata,
        *,
        only_fenced: bool = False,
    ) -> SwapAnswer:
        """As the port says."""
        if only_fenced and self._link.server.verdict is not Verdict.ATOMIC:
            raise MetastoreUnavailable("this server is not proven to compare and swap")
        kept = {key: value for key, value in base.parameters.items() if key not in replaced.properties}
        return self.alter(base, location, {**kept, **metadata.properties}, expected=base.metadata_location)

    def alter(self, base: Pointer, location: str, parameters: Mapping[str, str], *, expected: str | None) -> SwapAnswer:
        """A swap; a blind one without an expected value, as foreign writers send it."""
        link = self._link
        parameters = {
            **parameters,
            METADATA_LOCATION: location,
            PREVIOUS_METADATA_LOCATION: base.metadata_location,
        }
        what = f"swap {location}" if expected is not None else f"blind swap {location}"
        return self._move(
            what, lambda: link.server.alter(base.name, parameters, expected=expected, process=link.process.name)
        )

    def create(
        self,
        name: TableName,
        location: str,
        metadata: TableMetadata,
        owner: str | None,  # noqa: ARG002 - the port's
    ) -> SwapAnswer:
        """As the port says."""
        link = self._link
        parameters = {**metadata.properties, METADATA_LOCATION: location}
        return self._move(f"create {name}", lambda: link.server.insert(name, parameters, process=link.process.name))

    def rename(self, base: Pointer, to: TableName) -> SwapAnswer:
        """As the port says."""
        link = self._link
        return self._move(
            f"rename {base.name} {to}",
            lambda: link.server.rename(
                base.name, to, base.parameters, expected=base.metadata_location, process=link.process.name
            ),
        )

    def drop(self, base: Pointer) -> SwapAnswer:
        """As the port says."""
        link = self._link
        return self._move(f"drop {base.name}", lambda: link.server.remove(base.name, process=link.process.name))

    def _move(self, what: str, move: Callable[[], SwapAnswer]) -> SwapAnswer:
        """Send a move once, and suffer what the weather does to it."""
        link, wire = self._link, self._link.wire
        wire.leave(link.process, what, HEAVY)
        if wire.strikes("lost_requests", HEAVY):
            return self._unanswered(what, "request lost")
        if wire.strikes("late_moves", HEAVY):
            self._later(what, move)
            return self._unanswered(what, "under way")
        if wire.strikes("errors", HEAVY):
            error = Refused(False, MetastoreRefused("deadlock in the metastore's database"))
            wire.note(link.process, what, error.error)
            return error
        answer = move()
        wire.note(link.process, what, _told(answer))
        if wire.strikes("doubled_moves", HEAVY):
            self._later(what, move)
        if isinstance(answer, Swapped) and wire.strikes("refused_own", HEAVY):
            answer = Refused(True, MetastoreRefused("The table has been modified"))
            wire.note(link.process, what, "refused after all: the metastore retried its own commit")
        wire.arrive(link.process, f"{what} <-", HEAVY)
        if wire.strikes("lost_replies", HEAVY):
            return self._unanswered(what, "reply lost")
        self._proven = link.server.verdict is Verdict.ATOMIC
        return answer

    def _unanswered(self, what: str, why: str) -> Unanswered:
        link = self._link
        link.wire.note(link.process, what, why)
        # A broken connection is noticed at once, a silent one when the time is over.
        link.runtime.sleep(link.wire.some_time(SOCKET_TIMEOUT))
        return Unanswered(MetastoreUnavailable(f"{what}: {why}"), fenced=self._proven and what.startswith("swap"))

    def _later(self, what: str, move: Callable[[], SwapAnswer]) -> None:
        wire = self._link.wire
        courier = Process("network")
        wire.delay(courier, _LATEST)

        def arrive() -> None:
            answer = move()
            wire.note(courier, f"late {what}", _told(answer))

        wire.scheduler.spawn(courier, f"late {what}", arrive)


def _told(answer: SwapAnswer) -> object:
    return "ok" if isinstance(answer, Swapped) else answer.error


class SimulatedTableLock:
    """coordinator.ports.TableLock."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def acquire(self, name: TableName, *, wait_seconds: float, request: str) -> HeldLock:
        """As the port says. An entry whose unlock is lost stays until its lease ends it."""
        if self._link.blind:
            raise LockUnavailable("the lock API of this server is broken")
        runtime = self._link.runtime
        deadline = runtime.now() + wait_seconds
        entry: int | None = None
        wait = _FIRST_WAIT
        waits = behind_foreign = False
        while True:
            sent = runtime.now()
            acquired = False
            try:
                if entry is None:
                    entry = self._enqueue(name, request)
                found = self._check(entry, told=waits)
                acquired, waits = bool(found), True
                if found is None:
                    entry = None
                elif not found:
                    behind_foreign |= self._is_behind_foreign(name, entry)
            except MetastoreUnavailable:
                if runtime.now() >= deadline:
                    self._withdraw(name, entry, request)
                    raise
            except LockUnavailable:
                self._withdraw(name, entry, request)
                raise
            if acquired and entry is not None:
                held = SimulatedHeldLock(self._link, entry, sent, behind_foreign=behind_foreign)
                held.start()
                return held
            if runtime.now() >= deadline:
                self._withdraw(name, entry, request)
                raise LockNotAcquired(f"The lock of {name} was not to be had in time")
            runtime.sleep(min(wait, max(0.0, deadline - runtime.now())))
            wait = min(wait * 2, _LONGEST_WAIT)

    def _enqueue(self, name: TableName, request: str) -> int:
        """Ask for the lock; after a lost reply the entry is looked up by its request."""
        link = self._link

        def ask() -> int:
            found = link.server.find(name, request)
            return link.server.enqueue(name, request, link.process.name) if found is None else found

        return link.wire.call(link.process, "lock", ask, lost=MetastoreUnavailable)

    def _check(self, entry: int, *, told: bool) -> bool | None:
        """Whether the entry is acquired; None if it is gone. told: the trace knows already that it waits."""
        link = self._link
        return link.wire.call(
            link.process,
            f"check_lock {entry}",
            lambda: link.server.check(entry),
            lost=MetastoreUnavailable,
            show=lambda answer: _WAITING[answer] if answer is not False or not told else None,
        )

    def _is_behind_foreign(self, name: TableName, entry: int) -> bool:
        link = self._link
        ahead = [each for each in link.server.locks if each.table == name and each.id < entry]
        return any(each.process in link.foreign for each in ahead)

    def _withdraw(self, name: TableName, entry: int | None, request: str) -> None:
        link = self._link

        def remove() -> bool:
            found = link.server.find(name, request) if entry is None else entry
            return found is not None and link.server.unlock(found)

        try:
            link.wire.call(link.process, "unlock, given up", remove, lost=MetastoreUnavailable)
        except IcebergHmsError:
            return


class SimulatedHeldLock:
    """coordinator.ports.HeldLock, with heartbeats on a task of its own."""

    row: Pointer | None = None
    only_fenced = False

    def __init__(self, link: Link, entry: int, sent: float, *, behind_foreign: bool = False) -> None:
        self.behind_foreign = behind_foreign
        self._link = link
        self._entry = entry
        self._since = sent
        self._lost = False
        self._released = link.runtime.event()

    @property
    def lease_seconds(self) -> float:
        """As the port says."""
        return self._link.server.lease_seconds

    def start(self) -> None:
        """Begin to send heartbeats."""
        self._link.runtime.spawn(f"heartbeat {self._entry}", self._beat, background=True)

    def covered_since(self) -> float:
        """As the port says."""
        if self._lost or self._link.runtime.now() - self._since > self.lease_seconds:
            raise LockLost(f"lock {self._entry} was not renewed within its lease")
        return self._since

    def ensure(self) -> None:
        """As the port says."""
        keep_covered(self, self._link.runtime.now())

    def renew(self) -> None:
        """As the port says."""
        link = self._link
        sent = link.runtime.now()
        found = link.wire.call(
            link.process,
            f"heartbeat {self._entry}",
            lambda: link.server.check(self._entry) is not None,
            lost=MetastoreUnavailable,
            show=lambda there: None if there else "no such lock",
        )
        if not found:
            self._lost = True
            raise LockLost(f"lock {self._entry} is no longer there")
        self._since = max(self._since, sent)

    def release(self) -> None:
        """As the port says."""
        if self._released.is_set():
            return
        self._released.set()
        link = self._link
        try:
            link.wire.call(
                link.process,
                f"unlock {self._entry}",
                lambda: link.server.unlock(self._entry),
                lost=MetastoreUnavailable,
                weight=LIGHT,
            )
        except IcebergHmsError:
            return

    def _beat(self) -> None:
        while not self._released.wait(self.lease_seconds / _BEATS_PER_LEASE):
            try:
                self.renew()
            except LockLost:
                return
            except (MetastoreUnavailable, LockUnavailable):
                continue
