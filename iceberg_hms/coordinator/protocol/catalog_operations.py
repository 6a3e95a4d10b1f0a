"""The other moves of a table's pointer: create, register, rename, drop. Each is a swap, with its own fence.

    create, register   the metastore refuses a taken name: that is the compare-and-swap. No lock is needed.
    register over      a lock, a re-read, and a swap to a *copy* of the given file: a name that was used before would
                       open an A-B-A hole in everybody's compare-and-swap. Its outcome is told as a commit's.
    rename             locks on both names, in the order of the names, a re-read, the expected value.
    drop               a lock and a re-read; the metastore takes no expected value for it. So only an answer that the
                       lock covered proves which table it was: a name that is gone may have been renamed by another.

For all of them a refusal or a lost reply is looked up in the metastore before anything is believed, and nothing is
deleted without proof. A creation that is sent again after it landed finds its own table under the name: it is
acknowledged, since "the name is taken" would make its client delete files that the table names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeVar

from iceberg_hms.changes.change import Change
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Manifests,
    Pointer,
    Refused,
    SwapAnswer,
    Swapped,
    TableName,
    Unanswered,
)
from iceberg_hms.coordinator.protocol.caller_timeouts import notify_caller_timeout
from iceberg_hms.coordinator.protocol.cleanup import delete_files
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.coordinator.protocol.commit_status import CommitStatus, trace
from iceberg_hms.coordinator.protocol.lease_check import renew_if_half_expired, sending_under
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.protocol.staging import Noted, stage_one
from iceberg_hms.coordinator.protocol.status_checks import status_checks, status_checks_while_pending
from iceberg_hms.coordinator.protocol.swap_outcome import Swap, SwapResolution, may_still_land
from iceberg_hms.coordinator.protocol.unanswered_swaps import leave_locks_to_expire, run_with_caller_timeout
from iceberg_hms.coordinator.protocol.usage import measured
from iceberg_hms.coordinator.protocol.uuid_lookup import UuidLookup
from iceberg_hms.errors import (
    AlreadyExists,
    CommitConflict,
    CommitStateUnknown,
    CompareAndSwapUnproven,
    IcebergHmsError,
    LockLost,
    NoSuchTable,
    NotAnIcebergTable,
    proved,
)
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

T = TypeVar("T")


class CatalogOperations:
    """Safe for threads; needs no queue, since the metastore orders these moves."""

    def __init__(self, world: CommitPorts, cache: MetadataCache, settings: Settings, whereabouts: UuidLookup) -> None:
        self._world = world
        self._cache = cache
        self._settings = settings
        self._whereabouts = whereabouts

    def create(self, name: TableName, change: Change, *, owner: str | None = None) -> CommitReport:
        """Create a table from a change whose base is nothing (`assert-create` and the updates that build the metadata).
        A change that made this very table before is reported as already committed, with the table as it is now.

        Raises AlreadyExists, NoSuchNamespace, InvalidInput, CommitStateUnknown, MetastoreError, StorageError.
        """
        return self._told(lambda: self._create(name, change, owner))

    def _create(self, name: TableName, change: Change, owner: str | None) -> CommitReport:
        manifests = self._world.manifests()
        taken = self._taken(name)
        if taken is not None:
            return self._already_created(taken, change, manifests)
        metadata, staged = stage_one(None, change, Noted(manifests), self._world.runtime.now_ms)
        location = metadata_file.new_location(metadata, None, self._world.runtime.uuid())
        data = metadata_file.encode(metadata)
        lists, _ = self._world.runtime.gather([manifests.flush, lambda: self._world.files.write(location, data)])
        self._cache.put(location, metadata)
        try:
            answer = self._send(lambda: self._world.pointer.create(name, location, metadata, owner))
        except IcebergHmsError:
            delete_files(self._world.files, [location, *lists, *staged.files])
            raise
        # It was sent, so its files stay whatever comes of it: a sweep for orphans finds them when they are old.
        another = self._settle_creation(answer, name, location, metadata)
        if another is not None:
            return self._already_created(another, change, manifests)
        return _report(name, location, metadata, None, change.identity.snapshot_ids)

    def _already_created(self, taken: Pointer, change: Change, manifests: Manifests) -> CommitReport:
        """The report of a change that made the table which has its name. Raises AlreadyExists if the table is another;
        CommitStateUnknown where that is not known of a change whose snapshots the table may have, or may have had.

        A staged table gets its uuid when it is staged, so two creations with one uuid are the same one, sent twice.
        """
        ids = change.identity.snapshot_ids
        refused = AlreadyExists(f"Table already exists: {taken.name}")
        try:
            metadata = self._cache.get(taken.metadata_location)
        except IcebergHmsError as error:
            if not ids:
                raise refused from error
            raise _perhaps_created(taken.name, f"its metadata cannot be read: {error}") from error
        uuid = _assigned_uuid(change, manifests)
        same = uuid is not None and metadata.uuid is not None and uuid.lower() == metadata.uuid.lower()
        present = [id_ for id_ in ids if metadata.snapshot_by_id(id_) is not None]
        if len(present) == len(ids) and (same or (uuid is None and ids)):
            return _already(taken, metadata, ids)
        if present:
            raise _perhaps_created(
                taken.name, f"it has {present} of the snapshots {list(ids)}, and uuid {metadata.uuid}"
            )
        if same:
            # What expired snapshots brought may live on in later ones.
            raise _perhaps_created(taken.name, f"it has the uuid {uuid}, and none of the snapshots {list(ids)}")
        raise refused

    def register(
        self, name: TableName, location: str, *, overwrite: bool, owner: str | None = None, wait_seconds: float
    ) -> CommitReport:
        """Point a new table at a metadata file that is there. With `overwrite` a table of this name is pointed at a
        copy of the file instead. Raises as `create`, and MissingFile or CorruptFile for the given file.

        Tables without a catalog give the names of their metadata files again (`v1.metadata.json`), so the file is read
        whatever is known of its name."""

        def register() -> CommitReport:
            return self._told(lambda: self._register(name, location, overwrite, owner, wait_seconds))

        return (
            run_with_caller_timeout(self._world, name, f"registration of {name}", register) if overwrite else register()
        )

    def _register(
        self, name: TableName, location: str, overwrite: bool, owner: str | None, wait_seconds: float
    ) -> CommitReport:
        metadata = self._cache.read_anew(location)
        taken = self._taken(name)
        if taken is None:
            answer = self._send(lambda: self._world.pointer.create(name, location, metadata, owner))
            another = self._settle_creation(answer, name, location, metadata, new_file=False)
            if another is not None:
                # Whoever registers a file twice has one UUID twice.
                raise _perhaps_created(name, f"{another.name} has the uuid {metadata.uuid}")
            return _report(name, location, metadata, None)
        if not overwrite:
            raise AlreadyExists(f"Table already exists: {name}")
        copy = metadata_file.new_location(metadata, taken.metadata_location, self._world.runtime.uuid())
        data = metadata_file.encode(metadata)
        self._world.files.write(copy, data)
        self._cache.put(copy, metadata)
        sent: list[Swap] = []
        try:
            previous = self._compared(lambda use: self._repoint(name, copy, metadata, wait_seconds, use, sent))
        except IcebergHmsError:
            if not sent:
                delete_files(self._world.files, [copy])
            raise
        return _report(name, copy, metadata, previous)

    def rename(self, name: TableName, to: TableName, *, wait_seconds: float) -> None:
        """Give a table another name. Raises NoSuchTable, NoSuchNamespace, AlreadyExists, LockNotAcquired,
        CommitStateUnknown."""

        def rename() -> None:
            self._compared(lambda use: self._rename(name, to, wait_seconds, use))

        run_with_caller_timeout(self._world, name, f"rename of {name}", rename)

    def _rename(self, name: TableName, to: TableName, wait_seconds: float, use: LockUse) -> None:
        with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:
            self._refuse_taken(to)
            base = self._world.pointer.load(name)
            rename = partial(self._world.pointer.rename, base, to)
            answer = self._send(partial(_fenced_as_asked, locks, rename), locks)
            if self._seen(name, answer, lambda: self._points_at(to, base.metadata_location), locks):
                return
            still = self._points_at(name, base.metadata_location)
            self._raise_unmade(answer, still_there=still, what=f"rename of {name}")

    def drop(self, name: TableName, *, wait_seconds: float) -> TableVersion | None:
        """Remove a table's row; its files stay. Returns what the table was, for whoever purges it. None: the name is
        gone, but the metadata cannot be read, or it is not proved that this very table was removed and by this call
        (another may have renamed it meanwhile). Then no file of it may be deleted.

        Raises NoSuchTable, NotAnIcebergTable, LockNotAcquired, CommitStateUnknown.
        """
        return run_with_caller_timeout(self._world, name, f"drop of {name}", lambda: self._drop(name, wait_seconds))

    def _drop(self, name: TableName, wait_seconds: float) -> TableVersion | None:
        # A drop carries no expected value: one that wakes after its lease would remove what others committed since.
        with self._locked([name], wait_seconds, use=LockUse.BLIND) as locks:
            pointer = self._world.pointer.load(name)
            answer = self._send(lambda: self._world.pointer.drop(pointer), locks, blind=True)
            if not self._seen(name, answer, lambda: self._is_gone(name), locks):
                still = self._points_at(name, pointer.metadata_location)
                self._raise_unmade(answer, still_there=still, what=f"drop of {name}")
            if not (isinstance(answer, Swapped) and self._covered(locks)):
                logger.warning("%s is gone, but it is not proved that this drop removed it: its files are kept", name)
                return None
        try:
            return TableVersion(pointer, self._cache.get(pointer.metadata_location))
        except IcebergHmsError as error:
            logger.warning("the metadata of the dropped table %s cannot be read: %s", name, error)
            return None

    def _settle_creation(
        self, answer: SwapAnswer, name: TableName, location: str, metadata: TableMetadata, *, new_file: bool = True
    ) -> Pointer | None:
        """What became of a creation that was sent. None: it was made. A table: it has the UUID of ours, and is not what
        this creation made, as far as its metadata files tell. Raises the refusal, proved, or CommitStateUnknown.
        new_file: nobody else can have made a table of it.

            the name                            our UUID                what the caller hears
            points at our file, or to what      -                       made
            came after it
            is another's, or free               a table has it, and     made: another has renamed it since
                                                came after our file
            is another's, or free               another table has it    what `_already_created` says
            is another's                        nowhere                 a refusal; without an answer: unknown
            is free                             nowhere                 a refusal that the name is taken: unknown, since
                                                                        ours may have been made, refused by a metastore
                                                                        that retries inside, and dropped by another; any
                                                                        other refusal; without an answer: unknown
            whatever                            nobody can look         unknown; or a refusal that is not of the name,
                                                                        and proves nothing, if that is free

        A refusal that is final is over, and cannot be made any more. So a table that is nowhere then was not made
        (`whereabouts` says what that rests on). One that is not final counts as no answer.
        """
        what = f"creation of {name}"
        if self._seen(name, answer, lambda: self._points_at(name, location)):
            return None
        free = False
        try:
            if self._is_ours(self._world.pointer.load(name), location):
                return None
        except NotAnIcebergTable:
            pass
        except NoSuchTable:
            free = True
        except IcebergHmsError as error:
            logger.warning("the outcome of the creation of %s could not be looked up: %s", name, error)
            self._raise_unmade(answer, still_there=False, what=what)
        conflict = isinstance(answer, Refused) and answer.conflict
        found = self._with_uuid(metadata, name)
        if found is None:
            self._raise_unmade(answer, still_there=free and not conflict, what=what)
        if not found:
            perhaps_dropped = free and conflict
            if isinstance(answer, Refused) and not answer.in_doubt and not perhaps_dropped:
                answer = replace(answer, error=proved(answer.error))
            self._raise_unmade(answer, still_there=not perhaps_dropped, what=what)
        return None if new_file and any(self._is_ours(each, location) for each in found) else found[0]

    def _is_ours(self, found: Pointer, location: str) -> bool:
        """Whether a table points at a metadata file, or did."""
        return trace(self._cache, found.metadata_location, ours=location, base="") is CommitStatus.SUCCESS

    def _with_uuid(self, metadata: TableMetadata, known_as: TableName) -> Sequence[Pointer] | None:
        """All tables with the UUID of a new one. None: nobody can tell."""
        if metadata.uuid is None:
            return None
        try:
            return [base.pointer for base in self._whereabouts.find(metadata.uuid, known_as)]
        except IcebergHmsError as error:
            logger.warning("%s could not be looked for under other names: %s", known_as, error)
            return None

    def _repoint(
        self,
        name: TableName,
        location: str,
        metadata: TableMetadata,
        wait_seconds: float,
        use: LockUse,
        sent: list[Swap],
    ) -> str:
        """Swap a table to metadata that does not follow from its own. Returns what was replaced. sent: gets each swap
        that was sent."""
        with self._locked([name], wait_seconds, use=use) as locks:
            [lock] = locks
            for _ in range(self._settings.commit_retry_num_retries + 1):
                pointer = self._world.pointer.load(name)
                base = TableVersion(pointer, self._cache.get(pointer.metadata_location))
                swap = partial(self._world.pointer.swap, pointer, location, metadata, base.metadata)
                answer = self._send(partial(_fenced_as_asked, locks, swap), locks)
                sent.append(Swap(base, location, metadata, ()))
                resolution = SwapResolution(
                    self._world, self._cache, self._settings, sent[-1], lock, overdue=notify_caller_timeout
                )
                found = resolution.resolve(answer)
                if found is CommitStatus.SUCCESS:
                    return pointer.metadata_location
                if may_still_land(answer, found):
                    leave_locks_to_expire(self._world, name, locks)
                if found is CommitStatus.UNKNOWN or not (isinstance(answer, Refused) and answer.conflict):
                    self._raise_unmade(
                        answer, still_there=found is CommitStatus.FAILURE, what=f"registration of {name}"
                    )
        raise CommitConflict(f"{name} moved under every attempt to register it, although its lock was held")

    def _compared(self, move: Callable[[LockUse], T]) -> T:
        """A move that carries an expected value. Where the metastore is too slow for a short lease, or has a server
        that cannot be proven, nothing was sent, and it is made under locks with the server's lease."""
        try:
            return move(LockUse.CAS)
        except (LockLost, CompareAndSwapUnproven) as error:
            logger.info("a table's lock is taken again, with the server's lease: %s", error)
            return move(LockUse.CAS_FULL_LEASE)

    @contextmanager
    def _locked(self, names: Sequence[TableName], wait_seconds: float, *, use: LockUse) -> Iterator[Sequence[HeldLock]]:
        """Locks in the order of the names, so that two renames that cross cannot wait for each other."""
        request = self._world.runtime.uuid()
        held: list[HeldLock] = []
        try:
            for name in names:
                lock = self._world.lock.acquire(name, wait_seconds=wait_seconds, request=request, use=use)
                held.append(lock)
            yield held
        finally:
            for lock in reversed(held):
                lock.release()

    def _send(
        self, move: Callable[[], SwapAnswer], locks: Sequence[HeldLock] = (), *, blind: bool = False
    ) -> SwapAnswer:
        try:
            for lock in locks:
                lock.ensure_held(blind=blind)
        except IcebergHmsError as error:
            raise proved(error) from error.__cause__
        try:
            with sending_under(locks):
                return move()
        except IcebergHmsError as error:
            # The ports raise their own errors only for what happened before anything was sent.
            raise proved(error) from error.__cause__
        except Exception as error:  # noqa: BLE001 - whatever this is, the move may have been sent
            return Unanswered(error)

    def _seen(
        self, name: TableName, answer: SwapAnswer, made: Callable[[], bool], locks: Sequence[HeldLock] = ()
    ) -> bool:
        """Whether a move was made. Without a final answer it may still be under way, so it is looked for more than
        once; where nothing but `locks` fences it, until it can hardly be made any more."""
        match answer:
            case Swapped():
                return True
            case Refused(in_doubt=False):
                return made()
            case Unanswered(atomic=False, waited_seconds=waited_seconds) if locks:
                under_way = status_checks_while_pending(
                    self._world.runtime, self._settings, waited_seconds, notify_caller_timeout
                )
                seen = any(made() for _ in under_way)
                if not seen:
                    leave_locks_to_expire(self._world, name, locks)
                return seen
            case Refused() | Unanswered():
                return any(made() for _ in status_checks(self._world.runtime, self._settings))

    def _covered(self, locks: Sequence[HeldLock]) -> bool:
        """Whether the locks were held until now: what was moved is then what was loaded under them."""
        try:
            for lock in locks:
                renew_if_half_expired(lock)
        except IcebergHmsError:
            return False
        return True

    def _raise_unmade(self, answer: SwapAnswer, *, still_there: bool, what: str) -> NoReturn:
        # The metastore found the table otherwise than it stands: another has undone what may have been our move.
        came_back = isinstance(answer, Refused) and answer.conflict and not isinstance(answer.error, AlreadyExists)
        if isinstance(answer, Refused) and not answer.in_doubt and still_there and not came_back:
            raise answer.error
        raise CommitStateUnknown(
            f"it is not known whether the {what} was made: {answer}",
            next_step="look at the table before you try again, and delete nothing",
        )

    def _taken(self, name: TableName) -> Pointer | None:
        """The Iceberg table that has a name; None if it is free. Raises AlreadyExists if something else has it."""
        try:
            return self._world.pointer.load(name)
        except NotAnIcebergTable as error:
            raise AlreadyExists(f"Table already exists: {name}") from error
        except NoSuchTable:
            return None

    def _refuse_taken(self, name: TableName) -> None:
        if self._taken(name) is not None:
            raise AlreadyExists(f"Table already exists: {name}")

    def _points_at(self, name: TableName, location: str) -> bool:
        try:
            return self._world.pointer.load(name).metadata_location == location
        except IcebergHmsError:
            return False

    def _is_gone(self, name: TableName) -> bool:
        try:
            self._world.pointer.load(name)
        except NoSuchTable:
            return True
        except IcebergHmsError:
            return False
        return False

    def _told(self, move: Callable[[], CommitReport]) -> CommitReport:
        """Make a move, and publish its report with what it took, unless it was made before."""
        started = self._world.runtime.now()
        with measured() as usage:
            report = move().with_usage(usage)
        report = replace(report, total_ms=(self._world.runtime.now() - started) * 1000)
        if not report.already_committed:
            self._world.events.publish({"event": "committed", "report": report})
        return report


def _fenced_as_asked(locks: Sequence[HeldLock], move: Callable[..., SwapAnswer]) -> SwapAnswer:
    """Locks know what they ask for once a move may start."""
    return move(require_cas=any(lock.require_cas for lock in locks))


def _perhaps_created(name: TableName, why: str) -> CommitStateUnknown:
    return CommitStateUnknown(
        f"it is not known whether this creation made the table {name}: {why}",
        next_step="look at the table's snapshots before you try again, and delete nothing",
    )


def _assigned_uuid(change: Change, manifests: Manifests) -> str | None:
    """The uuid that a creation gives its table. Raises as the change does."""
    change.check(None)
    staged = change.stage(None, manifests)
    manifests.discard(staged.files)
    return next((update["uuid"] for update in staged.updates if update["action"] == "assign-uuid"), None)


def _already(taken: Pointer, metadata: TableMetadata, snapshot_ids: tuple[int, ...]) -> CommitReport:
    return CommitReport(
        table=taken.name,
        metadata_location=taken.metadata_location,
        metadata=metadata,
        previous_metadata_location=taken.previous_metadata_location,
        snapshot_ids=snapshot_ids,
        already_committed=True,
    )


def _report(
    name: TableName, location: str, metadata: TableMetadata, previous: str | None, snapshot_ids: tuple[int, ...] = ()
) -> CommitReport:
    return CommitReport(
        table=name,
        metadata_location=location,
        metadata=metadata,
        previous_metadata_location=previous,
        snapshot_ids=snapshot_ids,
        attempts=1,
        group_size=1,
    )
