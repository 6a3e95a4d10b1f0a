"""The coordinator's six ports, and the values that pass through them.

    Manifests      flushes staged manifest lists               storage/manifests.py (the port is changes/change.py's)
    TableLock      admits one writer at a time                 metastore/locks/table_lock.py, zookeeper/lock.py;
                                                               which of them a table takes: locking/chosen_lock.py.
                                                               HeldLock: metastore/locks/heartbeat.py,
                                                               zookeeper/held.py
    TablePointer   reads and swaps the row in the metastore    metastore/tables/table_pointer.py
    Files          reads and writes metadata files             storage/files.py
    Runtime        threads, waits, clocks, ids                 runtime.py
    EventListener  hears what happened                         catalog/events.py

A port's docstrings are its contract. `iceberg_hms.testing` has a contract suite for each port; every driver and every
fake passes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from iceberg_hms.changes.change import Manifests as Manifests
from iceberg_hms.clock import ClockReading
from iceberg_hms.errors import IcebergHmsError, LockLost
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.locations import same_folder
from iceberg_hms.format.metadata import table_properties
from iceberg_hms.format.metadata.table_metadata import TableMetadata

Result = TypeVar("Result")
ResultOf = TypeVar("ResultOf", covariant=True)


#: The longest names of any metastore, in bytes of UTF-8.
DATABASE_NAME_MAX: Final = 128
TABLE_NAME_MAX: Final = 256
#: The HMS parameter with the folder that a table owns. Only this project writes it, never for a client's property.
OWNED_FOLDER: Final = "iceberg-hms.owned-folder"
#: The HMS parameter with the location of the row that an Iceberg table had when it was a Hive table, for as long as it
#: can be turned back into that. Only this project writes it, never for a client's property.
HIVE_TABLE: Final = "iceberg-hms.hive-table"
#: Table properties that say which lock a table takes. They are read from its row, before its metadata.
LOCK_MARK: Final = table_properties.LOCK.name
EXCLUSIVE: Final = table_properties.EXCLUSIVE.name
HIVE_LOCK_ENABLED: Final = table_properties.HIVE_LOCK_ENABLED.name


class TableName(NamedTuple):
    """A table's full name. The metastore folds case, so both parts are lower case."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class Pointer:
    """A table's or view's row in the metastore, as it was read.

    metadata_location, previous_metadata_location: HMS parameters, byte for byte.
    parameters: all HMS parameters.
    table: the driver's record of the whole row. A swap writes it back with its changes and loses nothing else.
    location: the table's folder as the row names it (HMS: the location of its storage descriptor); None if the row
    names none. A swap sets it to that of the new metadata.
    is_view: whether it is an Iceberg view's.
    """

    name: TableName
    metadata_location: str
    previous_metadata_location: str | None
    parameters: Mapping[str, str]
    table: Any
    location: str | None = None
    is_view: bool = False

    @property
    def owns_folder(self) -> bool:
        """Whether the row records that its folder is the table's alone (`OWNED_FOLDER`)."""
        return bool(self.location) and same_folder(self.parameters.get(OWNED_FOLDER), self.location)

    @property
    def hive_table(self) -> str | None:
        """Where the row is kept that the table had as a Hive table, if it can be turned back into it (`HIVE_TABLE`)."""
        return self.parameters.get(HIVE_TABLE)

    def without_record(self, key: str = OWNED_FOLDER) -> Pointer:
        """The same row without a record of ours: a swap from it removes the parameter."""
        return replace(self, parameters={each: value for each, value in self.parameters.items() if each != key})


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a table or view of any kind, as its row names it. is_partitioned: it has partition keys, and each
    of its partitions a folder, which may lie anywhere."""

    name: TableName
    location: str
    is_partitioned: bool = False


@dataclass(frozen=True)
class Swapped:
    """The metastore answered that it made the swap."""


@dataclass(frozen=True)
class Refused:
    """The metastore answered with an error. That does not prove that the swap was not made: a metastore that retries
    inside can refuse its own committed change. Look at the pointer.

    conflict: the metastore says that the table is not what we expected.
    error: what to raise once it is known that the swap was not made.
    in_doubt: the error came from the metastore's database, which may still commit the transaction later. False: no
        later effect is possible.
    """

    conflict: bool
    error: Exception
    in_doubt: bool = False


@dataclass(frozen=True)
class Unanswered:
    """No answer came. The swap may have been made, may be made later, or never.

    atomic: the request carried an expected value to a server that is proven to compare and swap atomically. So the
        caller may send it again, and once the pointer has moved on the swap can no longer be made.
    waited_seconds: how long the driver waited for the answer.
    """

    error: Exception
    atomic: bool = False
    waited_seconds: float = 0.0


SwapAnswer = Swapped | Refused | Unanswered


@dataclass(frozen=True)
class UuidMatches:
    """Rows of Iceberg tables that may have a given table UUID.

    matching: the row's parameters name this UUID. without_uuid: they name none, since not every writer sets it."""

    matching: Sequence[Pointer]
    without_uuid: Sequence[Pointer]


def tell_nobody() -> None:
    """For what has no caller that could leave."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What a driver heeds as it sends a swap, rename or drop.

    locks: protect the request; `HeldLock.ensure_held` has just found them held. Since then the driver may have waited
        for a connection, opened it, and asked its server whether it compares and swaps.
    require_cas: the request may go only to a server that is proven to compare and swap atomically. For any other the
        driver sends nothing, and raises CompareAndSwapUnproven.
    overdue: called on the thread that sends, at most once, when the ordinary time for an answer is over and the driver
        goes on waiting. Does not raise.
    """

    locks: Sequence[HeldLock] = ()
    require_cas: bool = False
    overdue: Callable[[], None] = tell_nobody

    def require_fresh_locks(self) -> None:
        """Before a request that only its locks protect. Raises LockLost if one was not renewed for half of its lease.
        Does not renew it here: that takes a connection, and the driver holds one already, perhaps the last."""
        for lock in self.locks:
            if lock.seconds_since_renewal() > lock.lease_seconds / 2:
                raise LockLost("a lock was not renewed for half of its lease before the request could be sent")

    def require_unexpired_locks(self) -> None:
        """Before a swap that its server compares atomically. It overwrites nothing there, but behind one address there
        may be another server, which compares nothing, and on which a writer that took our expired lock swaps over ours.
        Raises LockLost if a lock was not renewed for its lease."""
        for lock in self.locks:
            lock.seconds_since_renewal()


class TablePointer(Protocol):
    """Rows of Iceberg tables in the metastore. Never touches a row that is not an Iceberg table's.

    Just before a swap, rename or drop is sent the driver calls `Sending.require_fresh_locks` if only a lock protects it
    (no atomic compare-and-swap), else `require_unexpired_locks`; the LockLost that these raise proves that nothing was
    sent. Where only a lock protects it the driver waits for the answer for up to
    `metastore.unanswered-swap-timeout-ms`, and calls `Sending.overdue` when the ordinary timeout is over.

    All calls raise MetastoreUnavailable, AccessDenied or MetastoreRefused for failures before anything was sent.
    """

    def load(self, name: TableName) -> Pointer:
        """One metastore call, never from a cache. Raises NoSuchTable (no row), NotAnIcebergTable (another kind of
        table)."""
        ...

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: TableMetadata,
        replaced: TableMetadata,
        sending: Sending,
        *,
        owns_folder: bool = False,
    ) -> SwapAnswer:
        """Point the row at `location`, with `base.metadata_location` as the expected value. Writes the whole row back
        from `base.table`, with the parameters and columns that `metadata` implies; removes parameters for properties
        that `replaced` (the metadata at `base`) had and `metadata` lacks.

        Sends the request once. After Unanswered(atomic=True) the caller may send the same swap again, with
        `Sending.require_cas`. owns_folder: record that the table owns the folder that `metadata` names. Without it a
        row that owns another folder owns none afterwards."""
        ...

    def accepts_writes(self, name: TableName) -> bool | None:
        """Whether the metastore carries out a write: tries one on a scratch row beside the table, and removes the row.
        None if that cannot be tried there. Raises nothing."""
        ...

    def create(
        self, name: TableName, location: str, metadata: TableMetadata, owner: str | None, *, owns_folder: bool = False
    ) -> SwapAnswer:
        """Insert a new row; the metastore refuses a taken name, which is the compare-and-swap. A taken name is
        Refused(conflict=True, AlreadyExists), a missing database Refused(conflict=False, NoSuchNamespace).
        owner: the caller by name; None: the owner that the table's properties name, else the setting `user`.
        owns_folder: record that the table owns its folder."""
        ...

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """Give the row another name, with `base.metadata_location` as the expected value. That is right again once the
        table was renamed there and back, so Unanswered is never atomic. A taken name is Refused(conflict=True,
        AlreadyExists)."""
        ...

    def databases(self) -> Sequence[str]:
        """The names of all databases. One metastore call, never from a cache."""
        ...

    def database_folders(self, *, timeout_seconds: float) -> Mapping[str, Sequence[str]]:
        """The folders of each database: its own, and from Hive 3 on that of its managed tables if it has another. One
        metastore call for each database, never from a cache. Raises MetastoreUnavailable when time runs out."""
        ...

    def folders_in(self, namespace: str, *, timeout_seconds: float) -> Sequence[TableFolder]:
        """The folders of all tables and views of a database, Hive's too; of rows that name none, none. Reads every row
        of the database, never from a cache. None if the database does not exist.

        Raises MetastoreUnavailable when time runs out."""
        ...

    def partition_folders(self, name: TableName, *, timeout_seconds: float) -> Iterator[str]:
        """The folders of the partitions that the metastore has of a table, Hive's too; none if there is no such table.
        Read in pages, never from a cache. Raises MetastoreUnavailable when time runs out."""
        ...

    def find_by_uuid(self, namespace: str, uuid: str, *, timeout_seconds: float) -> UuidMatches:
        """The rows of a database that may be the table with this UUID, whatever its case; none if the database does not
        exist. A table that stays in the database, under any name, is never missed. Never from a cache.

        Raises MetastoreUnavailable when time runs out, or when tables came and went all the while."""
        ...

    def find_by_folder(self, namespace: str, folder: str, *, timeout_seconds: float) -> Sequence[Pointer]:
        """The Iceberg tables and views of a database whose metadata files lie in a folder, or in the folder `metadata`
        of one that contains it; perhaps others too. None if the database does not exist. Folders are compared by their
        last names alone, so that no other spelling is missed. Never from a cache.

        Raises InvalidInput for a folder that is no location, MetastoreUnavailable when time runs out."""
        ...

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:
        """Remove the row; files stay. The metastore takes no expected value here: only the lock and a re-read under it
        protect a drop."""
        ...


class HeldLock(Protocol):
    """An acquired lock. Its driver keeps it alive until `release` or `let_expire`."""

    @property
    def lease_seconds(self) -> float:
        """How long the server keeps the lock after the last heartbeat that it saw."""
        ...

    @property
    def row(self) -> Pointer | None:
        """The table's row, if the driver read it under the lock (to learn which lock the table takes); no writer that
        takes the lock has moved the table since. None: the driver did not read it, or there is no such table."""
        ...

    @property
    def exclusive(self) -> bool:
        """Whether the lock keeps other writers out. False: nothing is locked (`lock=none`)."""
        ...

    @property
    def require_cas(self) -> bool:
        """Swaps and renames under this lock may go only to a server that is proven to compare and swap atomically:
        nothing is locked, or other writers may remove the lock of a holder that sleeps or has ended (see
        `TableLock.acquire`, `use`)."""
        ...

    @property
    def behind_foreign_writer(self) -> bool:
        """Whether a foreign writer held the lock, or was queued before us, when we asked for it. False if the driver
        cannot tell."""
        ...

    def seconds_since_renewal(self) -> float:
        """Seconds since the last successful lock or heartbeat call was *sent*, by the clock that advanced most. Raises
        LockLost, also when that is more than the lease: another writer may have the lock by then."""
        ...

    def ensure_held(self, *, blind: bool = False) -> None:
        """Called before each swap, rename or drop. Raises LockLost if none may start: the lock is gone, or no server
        can be asked. Renews a lock that was not renewed for half of its lease, which may raise MetastoreUnavailable.
        blind: the request may overwrite later commits on any server."""
        ...

    def renew(self) -> None:
        """One heartbeat, now. Raises LockLost, MetastoreUnavailable. If the lease passed before the heartbeat was
        answered the lock is lost, even if its entry is still there: a waiter that saw no renewal for a whole lease may
        be about to remove it."""
        ...

    def release(self) -> None:
        """Unlock. Never raises: the driver logs a failure, and the lease ends the lock. Harmless twice, and on another
        thread than that which uses the lock: from then on `ensure_held` and the like raise LockLost."""
        ...

    def let_expire(self) -> None:
        """Stop the heartbeats and do not unlock: a swap that was sent under the lock may still be made, and the lease
        keeps other writers out meanwhile. Never raises; `release` does nothing afterwards."""
        ...


class LockUse(IntEnum):
    """What the caller sends under a lock. It decides how long a lease the lock needs."""

    #: Something that may overwrite later commits, such as a drop: the server's full lease, and no waiter may remove the
    #: lock.
    BLIND = 0
    #: Only requests with an expected value: a short lease will do.
    CAS = 1
    #: The same, but a short lease was lost before, so the metastore may be too slow for one: the server's full lease.
    CAS_FULL_LEASE = 2


class TableLock(Protocol):
    def acquire(self, name: TableName, *, wait_seconds: float, request: str, use: LockUse = LockUse.BLIND) -> HeldLock:
        """Wait for the exclusive lock on a table (which need not exist) and keep it alive.

        request: names the request to operators; at most 36 characters of [0-9a-z-].
        use: BLIND unless everything that the caller has under way on the table carries an expected value, one that is
        never right again once the table has moved. Otherwise the lock may be `require_cas`, and for CAS its lease may
        be much shorter than the server's.
        Raises LockNotAcquired (timed out; no entry is left behind), LockUnavailable, MetastoreUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that a listing found.

    location: as the listed folder was spelled, then the rest. length: bytes. modified_ms: when the store says that it
    was written last, in milliseconds since 1970 UTC.
    """

    location: str
    length: int
    modified_ms: int


class Deleted(NamedTuple):
    """What became of files that were to be deleted.

    locations: of those that are gone; one that is neither here nor in `failed` was not there. S3 does not say which
    were there, so it has all of them here. failed: why a file may still be there, by its location.
    """

    locations: Sequence[str]
    failed: Mapping[str, IcebergHmsError]


class Files(Protocol):
    """Whole files by location. Locations are byte for byte; file:/x, file:///x and /x are one file."""

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        """Reads again after a transient error of its store. Raises MissingFile, StorageError; CorruptFile for more
        bytes than `limit`, however many there are."""
        ...

    def write(self, location: str, data: bytes) -> None:
        """Create a new file, with its folders, and make sure that the store has all of it. Raises AlreadyExists
        (nothing is overwritten), StorageError, after which a remote store may have the file."""
        ...

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """`write` for several new files, given as location and content; costs less than one after the other. Raises as
        `write`, and then removes all of them, as far as it can."""
        ...

    def make_folder(self, location: str) -> None:
        """Make a folder with its parents, if the file system is one in which a writer may not find it missing: a local
        disk. HDFS makes the folders of a file with the file, and an object store has none. Harmless if the folder is
        there. Raises StorageError."""
        ...

    def length(self, location: str) -> int:
        """Bytes. Raises MissingFile, StorageError."""
        ...

    def delete(self, location: str) -> bool:
        """Remove a file; False if there was none. Raises StorageError."""
        ...

    def delete_all(self, locations: Sequence[str]) -> Deleted:
        """Remove files in as few requests as their store can. Raises nothing of ours."""
        ...

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        """The files below a folder, at any depth, in no order; none if there is no such folder. Links are neither
        listed nor followed. A file that comes or goes meanwhile may be listed or not; every other one is listed. Raises
        InvalidInput; and while it is read StorageError, after which the listing is not complete."""
        ...

    def list_links(self, folder: str) -> Iterator[str]:
        """The locations of the symbolic links below a folder on a local disk, at any depth, to files or to folders, in
        no order: what `list_files` leaves out. None in all other stores. Raises InvalidInput, StorageError."""
        ...

    def folder_exists(self, location: str) -> bool | None:
        """Whether there is a folder, empty or not; False for a file too. None where the store has no folders, such as
        S3: there is one as long as it has files. Raises InvalidInput, StorageError."""
        ...

    def real_path(self, location: str) -> str:
        """The location that names the same file or folder without `..` and, on a local disk, symbolic links. What it
        names need not exist. Raises InvalidInput, StorageError."""
        ...

    def is_link(self, location: str) -> bool:
        """Whether a location on a local disk is a symbolic link; its folders may be links all the same. False for what
        does not exist, and in all other stores. Raises InvalidInput, StorageError."""
        ...


class ThreadEvent(Protocol):
    """A flag that threads wait for, as `threading.Event`."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """True when set, False after `timeout` seconds."""
        ...


class Begun(Protocol[ResultOf]):
    """A function that `Runtime.begin` took. One of both is called, once."""

    def result(self) -> ResultOf:
        """What the function returned, or raises what it raised, once it has ended; run here if no thread began it."""
        ...

    def abandon(self) -> None:
        """Begin it no more, and do not wait for it if it was begun."""
        ...


class Runtime(Protocol):
    """Time, threads and ids. In production real threads; in the simulation threads of which a seed lets one run at a
    time."""

    def now(self) -> float:
        """Monotonic seconds; for waits and durations."""
        ...

    def read_clocks(self) -> ClockReading:
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

    def event(self) -> ThreadEvent: ...

    def mutex(self) -> AbstractContextManager[Any]: ...

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        """Run a function, which must not raise, on a thread of its own. The process waits for it before it ends, unless
        background is true: then the function may be cut off anywhere."""
        ...

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run functions in parallel, in the caller's context, and return their results in order. Raises the first
        exception after all have ended. They must not block for long: all callers share a few threads."""
        ...

    def begin(self, function: Callable[[], Result]) -> Begun[Result]:
        """Run a function on another thread, in the caller's context, as soon as one is free; for results that are
        wanted one after the other, while the next ones are made. It must not block for long, as for `gather`."""
        ...

    def run_while_waiting(self, work: Callable[[], None], wait: Callable[[], Result]) -> Result:
        """Run `wait`, which may block for long, on the caller's own thread, and `work` in parallel on another thread,
        in the caller's context; or `work` after `wait`, if no thread was free. Returns what `wait` returns once both
        have ended; raises the error of either then. After an error of `wait`, `work` may never start."""
        ...


class EventListener(Protocol):
    def publish(self, event: Mapping[str, Any]) -> None:
        """Tell listeners what happened. Never raises, never blocks for long. `event["event"]` is one of:

        committed               `report`: a CommitReport
        registered              `report`: a CommitReport of the registration of a metadata file
        retry-priority-wait     `table`, `seconds`: commits waited for one with retry priority
        foreign-writer-backoff  `table`, `seconds`: commits paused to let a foreign writer commit
        lock-kept               `table`, `seconds`: the lock was kept for a commit that lost against a writer outside
        overdue                 `table`: the metastore did not answer a swap, rename or drop in time. Its callers got
                                CommitStateUnknown; the lock is kept. A later `committed` or `lock-left-to-expire` says
                                how it ended; none comes if the metastore refused it
        lock-left-to-expire     `table`, `seconds`: the outcome is still unknown, so the lock was not given back; its
                                lease ends it after so many seconds
        metrics-report          `table`, `report`: a rest.metrics_reports.MetricsReport that a REST client sent
        files-deleted           `table`, `why`, `locations`: at most 1,000 files were deleted on its behalf; `purge`,
                                `expired snapshots`, `orphans`, `old metadata`, `replaced lists` or `undo` is why
        files-left              `table`, `why`, `locations`: at most 1,000 files could not be deleted, and may still be
                                there; `why` is one of those, `own files` (of commits that failed or were staged again)
                                or `migration progress`
        manifests-merged        `table`, `snapshot_id`, `outcome`: the server's own snapshot, which merges manifests, is
                                `done`, `refused`, or `unknown`
        purged                  `table`, `metadata_location`, `ended`, `deleted`, `kept`, `failed`, `why`: how many
                                files of a dropped table were deleted, were kept since they are not its own (`why`), and
                                could not be deleted. Not `ended`: it was stopped, and that file leads to the rest
        """
        ...


@dataclass(frozen=True, slots=True)
class CommitPorts:
    """The ports that one coordinator works with.

    manifests: makes a fresh `Manifests` for each attempt of a group, which flushes only what that attempt staged.
    foreign_writer_waits: whether a foreign writer waits for a table's lock; False if that is unknown.
    lock_held_by: who holds a lock that this process waits for, as in "held by lock 7 of ann on host", by what is known
    without asking anybody; "" if nothing is.
    """

    pointer: TablePointer
    lock: TableLock
    files: Files
    manifests: Callable[[], Manifests]
    runtime: Runtime
    events: EventListener
    foreign_writer_waits: Callable[[TableName], bool] = lambda _name: False
    lock_held_by: Callable[[TableName], str] = lambda _name: ""
