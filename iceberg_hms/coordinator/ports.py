"""The coordinator's six ports, and the values that pass through them.

    Manifests     the staged manifest lists, to be flushed    storage/manifests.py (the port is changes/change.py's)
    TableLock     one writer at a time                        metastore/locks/table_lock.py, zookeeper/lock.py; which of
                                                              them a table takes: locking/chosen_lock.py. Held locks:
                                                              metastore/locks/heartbeat.py, zookeeper/held.py
    TablePointer  the table's row in the metastore            metastore/tables/table_pointer.py
    Files         metadata files                              storage/files.py
    Runtime       threads, waits, clock, ids                  runtime.py
    EventListener        what happened, for logs and listeners       catalog/events.py

Each port's contract is its docstring; `iceberg_hms.testing` has a contract suite that every driver and every fake
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from iceberg_hms.changes.change import Manifests as Manifests
from iceberg_hms.clock import Reading
from iceberg_hms.format.metadata.table_metadata import TableMetadata

Result = TypeVar("Result")


@dataclass(frozen=True, order=True)
class TableName:
    """A table's full name. The metastore folds case, so both parts are lower case."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class Pointer:
    """A table's row in the metastore as it was read.

    metadata_location, previous_metadata_location: HMS parameters, byte-true.
    parameters: all HMS parameters.
    table: the driver's own record of the whole row; a swap writes it back with what changed and loses nothing else.
    """

    name: TableName
    metadata_location: str
    previous_metadata_location: str | None
    parameters: Mapping[str, str]
    table: Any


@dataclass(frozen=True)
class Swapped:
    """The metastore answered that the move was made."""


@dataclass(frozen=True)
class Refused:
    """The metastore answered with an error. It says nothing yet about whether the move was made: a metastore that
    retries inside can refuse its own committed change. Look at the pointer.

    conflict: the metastore says that the table is not what we expected it to be.
    error: what to raise once it is known that the move was not made.
    final: what was refused is not under way any more. False: it failed on the metastore's database, which may have a
        transaction of it in doubt, and may carry that out later.
    """

    conflict: bool
    error: Exception
    final: bool = True


@dataclass(frozen=True)
class Unanswered:
    """No answer came. The move may have been made, may be made later, or not at all.

    atomic: it carried an expected value to a server that is proven to compare and swap atomically. So it may be sent
    again, and once the pointer stands elsewhere it can no longer be made.
    waited: for how many seconds its driver waited.
    """

    error: Exception
    atomic: bool = False
    waited: float = 0.0


SwapAnswer = Swapped | Refused | Unanswered


@dataclass(frozen=True)
class Identified:
    """Rows of Iceberg tables, by what they say of the table's UUID.

    said: it is the one that was asked for. silent: the row does not say, since not every writer writes it there."""

    said: Sequence[Pointer]
    silent: Sequence[Pointer]


class TablePointer(Protocol):
    """Rows of Iceberg tables in the metastore. Never touches a row that is not an Iceberg table's.

    A swap or rename without atomic compare-and-swap, and every drop, waits for its answer for up to
    `metastore.unanswered-swap-timeout-ms`, and reports to `coordinator.protocol.caller_timeouts.overdue` when the
    ordinary time is over. Before the driver sends one it calls `coordinator.protocol.lease_check.refuse_uncovered`,
    whose LockLost says that nothing was sent.
    All calls raise MetastoreUnavailable, AccessDenied or MetastoreRefused for what happens before a move is sent.
    """

    def load(self, name: TableName) -> Pointer:
        """One metastore call, never from a cache. Raises NoSuchTable (no row), NotAnIcebergTable (somebody else's)."""
        ...

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: TableMetadata,
        replaced: TableMetadata,
        *,
        require_cas: bool = False,
    ) -> SwapAnswer:
        """Point the row at `location`, with `base.metadata_location` as the compare-and-swap value. The row is written
        back whole from `base.table`, with the parameters and columns that `metadata` implies; properties that
        `replaced` (the metadata at `base`) had and `metadata` has not are removed from the parameters.

        Sent once; the caller may send the same swap again after Unanswered(atomic=True), with require_cas: then nothing
        is sent unless the server is proven to compare and swap atomically (else raises CompareAndSwapUnproven)."""
        ...

    def takes_writes(self, name: TableName) -> bool | None:
        """Whether the metastore carries out a write on a row of its own beside a table's, which is removed again. None
        if that cannot be told: none may be made there. Raises nothing."""
        ...

    def create(self, name: TableName, location: str, metadata: TableMetadata, owner: str | None) -> SwapAnswer:
        """Insert a new row: the metastore's own compare-and-swap. A taken name is Refused(conflict=True,
        AlreadyExists), a missing database Refused(conflict=False, NoSuchNamespace)."""
        ...

    def rename(self, base: Pointer, to: TableName, *, require_cas: bool = False) -> SwapAnswer:
        """Give the row another name, with `base.metadata_location` expected. A taken name is Refused(conflict=True,
        AlreadyExists). require_cas: as `swap`."""
        ...

    def databases(self) -> Sequence[str]:
        """The names of all databases. One metastore call, never from a cache."""
        ...

    def identified(self, namespace: str, uuid: str, *, seconds: float) -> Identified:
        """The rows of a database that may be the table with this UUID, in any case; none if there is no such database.
        What stays in the database under whatever name is not missed. Never from a cache.

        Raises MetastoreUnavailable when it took longer than `seconds`, or tables came and went all the while."""
        ...

    def drop(self, base: Pointer) -> SwapAnswer:
        """Remove the row; files stay. The metastore takes no expected value here: lock and re-read protect it."""
        ...


class HeldLock(Protocol):
    """A lock that was acquired, kept alive by its driver until `release`."""

    @property
    def lease_seconds(self) -> float:
        """How long the server keeps the lock after the last heartbeat that it saw."""
        ...

    @property
    def row(self) -> Pointer | None:
        """The table's row, if the driver read it once it had the lock, to learn which lock the table takes; nothing
        that obeys the lock has moved it since. None: not read, or no such table."""
        ...

    @property
    def excludes(self) -> bool:
        """Whether others are kept out. False: nothing is locked (`lock=none`)."""
        ...

    @property
    def require_cas(self) -> bool:
        """A swap or rename may go only to a server that is proven to be atomic: nothing is locked, or the lock may
        be taken away from a holder that sleeps or has ended (`TableLock.acquire`, `compares`)."""
        ...

    @property
    def behind_foreign(self) -> bool:
        """Whether a writer that is not ours had the lock, or was before us in its queue, when it was asked for. False
        where that cannot be told."""
        ...

    def unrenewed_seconds(self) -> float:
        """How long ago the last successful lock or heartbeat call was *sent*, by the clock that advanced most. Raises
        LockLost, also when that is more than the lease: the lock may have been given away."""
        ...

    def ensure(self, *, blind: bool = False) -> None:
        """Called before each move. Raises LockLost when none may start: the lock is gone, or nobody can be asked
        whether it is. A lock that was not renewed for half of its lease is renewed first, and that may raise
        MetastoreUnavailable. blind: the move carries no expected value on any server."""
        ...

    def renew(self) -> None:
        """One heartbeat, now. Raises LockLost, MetastoreUnavailable. A lease that passed before the heartbeat was
        answered is not renewed but lost, even if the lock is still there: whoever found it silent for so long may be
        about to remove it."""
        ...

    def release(self) -> None:
        """Give the lock back. Never raises: a failure is logged, the lease ends the lock. Twice is harmless."""
        ...

    def leave(self) -> None:
        """Do not give the lock back, and keep it alive no longer: a move that was sent under it may still be made. Its
        lease ends it. Never raises; `release` does nothing afterwards."""
        ...


class Compares(IntEnum):
    """Whether all that is sent under a lock carries an expected value."""

    NO = 0
    YES = 1
    #: All does, but a short lease was lost before: the metastore may be too slow for one.
    SLOWLY = 2


class TableLock(Protocol):
    def acquire(
        self, name: TableName, *, wait_seconds: float, request: str, compares: Compares = Compares.NO
    ) -> HeldLock:
        """Wait for the exclusive lock on a table (which need not exist) and keep it alive.

        request: who takes it, at most 36 characters of [0-9a-z-]; shown to operators.
        compares: not NO if nothing is or will be under way from the caller that does not carry an expected value: no
        drop. Then the lock may be `require_cas`, and for YES have a lease that is much shorter than the server's.
        Raises LockNotAcquired (time is over; no entry is left behind), LockUnavailable, MetastoreUnavailable.
        """
        ...


class Files(Protocol):
    """Whole files by location. Locations are byte-true; file:/x, file:///x and /x are one file."""

    def read(self, location: str) -> bytes:
        """Raises MissingFile, StorageError."""
        ...

    def write(self, location: str, data: bytes) -> None:
        """Create a file that is not there yet, with its folders; on return its length was read back and is right.
        Raises AlreadyExists (nothing is overwritten), StorageError."""
        ...

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """`write` for several new files, by location and content, which costs less than one after the other. Raises as
        `write`; none of them is left then, unless it cannot be removed."""
        ...

    def length(self, location: str) -> int:
        """Bytes. Raises MissingFile, StorageError."""
        ...

    def delete(self, location: str) -> bool:
        """Remove a file; False if it was not there. Raises StorageError."""
        ...


class Event(Protocol):
    """A flag that threads wait for."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """True when set, False when the time (seconds) is over."""
        ...


class Runtime(Protocol):
    """The world's time and threads. Production: real threads. Simulation: baton-passing threads that a seed picks
    from."""

    def now(self) -> float:
        """Monotonic seconds; for waits and durations."""
        ...

    def reading(self) -> Reading:
        """All clocks at once; for leases."""
        ...

    def now_ms(self) -> int:
        """Wall clock in milliseconds, for timestamps in metadata."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def jitter(self) -> float:
        """A random number in [0, 1)."""
        ...

    def uuid(self) -> str: ...

    def event(self) -> Event: ...

    def mutex(self) -> AbstractContextManager[Any]: ...

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        """Run a function, which does not raise, on a thread of its own. The process ends only after it, unless it runs
        in the background: then it may be cut off anywhere."""
        ...

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run functions side by side, in the caller's context, and return their results in order; the first exception
        is raised after all ended. They must not wait for long: those of all callers share some threads."""
        ...

    def meanwhile(self, work: Callable[[], None], wait: Callable[[], Result]) -> Result:
        """Run `wait`, which may take long, on the caller's own thread, and `work` meanwhile on another one, in the
        caller's context; or `work` after it, if no thread was free. Returns what `wait` returns once both have ended;
        the error of either is raised then. `work` need not be begun any more after an error of `wait`."""
        ...


class EventListener(Protocol):
    def publish(self, event: Mapping[str, Any]) -> None:
        """Tell listeners. Never raises, never blocks for long. `event["event"]` names it:

        committed    `report`: a CommitReport
        held-back    `table`, `seconds`: commits waited for one whose turn it was
        rested       `table`, `seconds`: the table was left to a foreign writer
        overdue      `table`: a move was not answered in time; its callers were told that its state is unknown. The lock
                     is kept until it is over. What comes of it is told by `committed`, by `left-locked`, or by neither
                     if it was refused
        left-locked  `table`, `seconds`: it is still not known whether the move is over; the lock is left to its lease
        """
        ...


@dataclass(frozen=True, slots=True)
class CommitPorts:
    """The ports that one coordinator works with.

    manifests: makes a fresh `Manifests` for each attempt of a group, so that it flushes what this attempt staged.
    foreign_waits: whether a writer that is not ours waits for a table's lock; False where that cannot be told.
    """

    pointer: TablePointer
    lock: TableLock
    files: Files
    manifests: Callable[[], Manifests]
    runtime: Runtime
    events: EventListener
    foreign_waits: Callable[[TableName], bool] = lambda _name: False
