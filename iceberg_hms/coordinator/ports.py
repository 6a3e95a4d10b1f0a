"""The coordinator's six ports, and the values that pass through them.

    Manifests     the staged manifest lists, to be flushed    storage/manifests.py (the port is changes/change.py's)
    TableLock     one writer at a time                        metastore/lock.py, zookeeper/lock.py; which of them a
                                                              table takes: catalog/table_locks.py. Held locks:
                                                              metastore/heartbeat.py, zookeeper/held.py
    TablePointer  the table's row in the metastore            metastore/tables.py
    Files         metadata files                              storage/files.py
    Runtime       threads, waits, clock, ids                  catalog/runtime.py
    Events        what happened, for logs and listeners       catalog/events.py

Each port's contract is its docstring; `iceberg_hms.testing` has a contract suite that every driver and every fake
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from iceberg_hms.changes.change import Manifests as Manifests
from iceberg_hms.format.metadata import TableMetadata


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
    """

    conflict: bool
    error: Exception


@dataclass(frozen=True)
class Unanswered:
    """No answer came. The move may have been made, may be made later, or not at all.

    fenced: it carried an expected value to a server that is proven to compare and swap atomically. So it may be sent
    again, and once the pointer stands elsewhere it can no longer be made.
    """

    error: Exception
    fenced: bool = False


SwapAnswer = Swapped | Refused | Unanswered


class TablePointer(Protocol):
    """Rows of Iceberg tables in the metastore. Never touches a row that is not an Iceberg table's.

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
        only_fenced: bool = False,
    ) -> SwapAnswer:
        """Point the row at `location`, with `base.metadata_location` as the compare-and-swap value. The row is written
        back whole from `base.table`, with the parameters and columns that `metadata` implies; properties that
        `replaced` (the metadata at `base`) had and `metadata` has not are removed from the parameters.

        Sent once; the caller may send the same swap again after Unanswered(fenced=True), with only_fenced: then nothing
        is sent unless the server is proven to compare and swap atomically (else raises MetastoreUnavailable)."""
        ...

    def create(self, name: TableName, location: str, metadata: TableMetadata, owner: str | None) -> SwapAnswer:
        """Insert a new row: the metastore's own compare-and-swap. A taken name is Refused(conflict=True,
        AlreadyExists).
        Raises NoSuchNamespace."""
        ...

    def rename(self, base: Pointer, to: TableName) -> SwapAnswer:
        """Give the row another name, with `base.metadata_location` expected. A taken name is Refused(conflict=True,
        AlreadyExists)."""
        ...

    def drop(self, base: Pointer) -> SwapAnswer:
        """Remove the row; files stay. The metastore takes no expected value here: lock and re-read are its fence."""
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
    def only_fenced(self) -> bool:
        """Nothing is locked (`lock=none`): a swap may go only to a server that is proven to be atomic."""
        ...

    @property
    def behind_foreign(self) -> bool:
        """Whether a writer that is not ours had the lock, or was before us in its queue, when it was asked for. False
        where that cannot be told."""
        ...

    def covered_since(self) -> float:
        """`Runtime.now()` at which the last successful lock or heartbeat call was *sent*. Raises LockLost."""
        ...

    def ensure(self) -> None:
        """Called before each move. Raises LockLost when none may start: the lock is gone, or nobody can be asked
        whether it is. A lock that was not renewed for half of its lease is renewed first, and that may raise
        MetastoreUnavailable."""
        ...

    def renew(self) -> None:
        """One heartbeat, now. Raises LockLost, MetastoreUnavailable."""
        ...

    def release(self) -> None:
        """Give the lock back. Never raises: a failure is logged, the lease ends the lock. Twice is harmless."""
        ...


class TableLock(Protocol):
    def acquire(self, name: TableName, *, wait_seconds: float, request: str) -> HeldLock:
        """Wait for the exclusive lock on a table (which need not exist) and keep it alive.

        request: who takes it, at most 36 characters of [0-9a-z-]; shown to operators.
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
        """Monotonic seconds."""
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
        is raised after all ended."""
        ...


class Events(Protocol):
    def publish(self, event: Mapping[str, Any]) -> None:
        """Tell listeners. Never raises, never blocks for long. `event["event"]` names it:

        committed    `report`: a CommitReport
        held-back    `table`, `seconds`: commits waited for one whose turn it was
        rested       `table`, `seconds`: the table was left to a foreign writer
        """
        ...
