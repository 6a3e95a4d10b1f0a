"""Follows main of many tables, by the metastore alone: what happens to them, in each table's order.

A poll asks where the pointers of all tables are, and reads the metadata of those alone whose pointer moved. The first
poll is exact; a later one may overlook a table that moved, which the next ones then see (`TableLister.locations_in`).
How far a watcher got is a token, so that another process goes on there.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.watching.head_moves import ChangeKind, Head, moves
from iceberg_hms.catalog.watching.positions import TABLES_MAX, Position, Positions, from_token, to_token
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    CorruptFile,
    IcebergHmsError,
    InvalidInput,
    MetastoreUnavailable,
    MissingFile,
    NoSuchNamespace,
    StorageError,
)
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.identifiers import Identifier, namespace_name, table_name

logger = logging.getLogger(__name__)

#: How long to wait between two polls: by default, at least and at most; seconds.
POLL_SECONDS: Final = 30.0
POLL_MIN_SECONDS: Final = 0.1
POLL_MAX_SECONDS: Final = 86_400.0
#: How many metadata files are read at a time, and held.
_READS: Final = 16


@dataclass(frozen=True, slots=True)
class TableChange:
    """What happened to a table.

    kind: SNAPSHOT, and a consumer applies the snapshot to what it has of the table. GAP, ROLLBACK, CREATED or REPLACED,
    and it begins anew with the table as of `snapshot`. RENAMED, and it has the right thing under the wrong name.
    table: its name after the change.
    snapshot: where main is after the change; None: at none. Always None for DROPPED and RENAMED.
    left: the ids of the snapshots that main left, newest first, as far as they are known (ROLLBACK, GAP).
    expired: the ids of the snapshots that nobody can read any more, oldest first, as far as they are known (GAP).
    previous_name: of a RENAMED table.
    """

    table: TableName
    kind: ChangeKind
    snapshot: Snapshot | None = None
    left: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()
    previous_name: TableName | None = None
    _watched: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    _positions: Positions = field(default_factory=Positions, repr=False, compare=False)

    @property
    def token(self) -> str:
        """The text from which another watcher goes on after this change: save it once the change is dealt with."""
        return to_token(self._watched, self._positions)


class _Moved(NamedTuple):
    """A table whose row names a metadata file that was not followed, and what is in the file."""

    name: TableName
    location: str
    metadata: TableMetadata


class NewSnapshots:
    """The changes of many tables: `for change in ...` waits for them, `poll` does not. Made by
    `Catalog.new_snapshots`, for one thread; `stop` may be called by any.

    A table whose metadata cannot be read is logged, is in `unreadable`, and is tried again in each poll: nothing of it
    is lost. One that was so from the beginning counts as created later.
    """

    def __init__(
        self,
        services: Services,
        watch: Collection[str | Identifier],
        *,
        token: str | None = None,
        poll_seconds: float = POLL_SECONDS,
        from_beginning: bool = False,
        outage_seconds: float | None = None,
    ) -> None:
        if not POLL_MIN_SECONDS <= poll_seconds <= POLL_MAX_SECONDS:
            raise InvalidInput(f"poll_seconds is {poll_seconds}, not {POLL_MIN_SECONDS} to {POLL_MAX_SECONDS:,.0f}")
        self._services = services
        self._runtime = services.ports.runtime
        self._poll_seconds = poll_seconds
        self._from_beginning = from_beginning
        self._outage_seconds = outage_seconds
        self._outage_since: float | None = None
        self._namespaces, self._tables = _parsed(watch)
        self._stopped = self._runtime.event()
        #: What the last scan found, and how many there were.
        self._seen: dict[TableName, str] = {}
        self._turn = 0
        #: Tables whose metadata could not be read in the last poll, with the reason.
        self.unreadable: dict[TableName, IcebergHmsError] = {}
        begun, positions = (frozenset[str](), Positions()) if token is None else from_token(token)
        #: The namespaces and tables that the positions are of.
        self._begun = begun & self._watched
        self._positions = Positions({name: each for name, each in positions.items() if self._is_in(name, self._begun)})

    @property
    def token(self) -> str:
        """The text from which another watcher goes on: after the last change that was handed out."""
        return to_token(self._begun, self._positions)

    def stop(self) -> None:
        """End the iteration, at once if it waits, else after the change that it hands out."""
        self._stopped.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __iter__(self) -> Iterator[TableChange]:
        """The changes, until `stop`. While no metastore answers it waits, and raises MetastoreUnavailable once that
        takes longer than `outage_seconds`. Raises otherwise as `poll`."""
        while not self._stopped.is_set():
            try:
                yield from self.poll()
                self._note_answer()
            except MetastoreUnavailable as error:
                self._note_outage(error)
            self._stopped.wait(self._poll_seconds)

    def poll(self) -> Iterator[TableChange]:
        """What changed since the last poll, as far as it is iterated. The first one of a name that the token does not
        have only notes where its tables are.

        Raises MetastoreUnavailable and the like; for names that begin NoSuchNamespace, NoSuchTable, and StorageError if
        a table's store does not answer; InvalidInput for more tables than `TABLES_MAX`."""
        rows = self._scan()
        if any(name not in rows for name in self._positions):
            # A table that is renamed while its namespaces are read may be missed under both names.
            rows = self._scan()
        self._begin(rows)
        for change in self._changes(rows):
            yield change
            if self._stopped.is_set():
                return

    @property
    def _watched(self) -> frozenset[str]:
        return frozenset((*self._namespaces, *map(str, self._tables)))

    def _changes(self, rows: Mapping[TableName, str]) -> Iterator[TableChange]:
        for name in [each for each in self.unreadable if each not in rows]:
            del self.unreadable[name]
        for name, previous in self._renamed(rows).items():
            position = self._positions[previous]
            self._positions = self._positions.without(previous).with_position(name, position)
            yield self._change(name, ChangeKind.RENAMED, previous_name=previous)
        for name in [each for each in self._positions if each not in rows]:
            self._positions = self._positions.without(name)
            yield self._change(name, ChangeKind.DROPPED)
        for moved in self._read_moved(rows):
            yield from self._follow(moved)

    def _scan(self) -> dict[TableName, str]:
        """The metadata location of each table that is watched and there; but for the first time a table that moved may
        be where the last scan saw it."""
        lister = self._services.lister
        last: dict[str, dict[str, str]] = defaultdict(dict)
        for name, location in self._seen.items():
            last[name.namespace][name.name] = location
        found: dict[TableName, str] = {}
        for namespace in sorted(self._namespaces):
            there = lister.locations_in(namespace, known=last[namespace], turn=self._turn)
            _add(namespace, there, found)
        alone: dict[str, list[str]] = defaultdict(list)
        for table in sorted(self._tables):
            if table.namespace not in self._namespaces:
                alone[table.namespace].append(table.name)
        for namespace, names in alone.items():
            _add(namespace, lister.locations_in(namespace, names), found)
        self._seen = found
        self._turn += 1
        return found

    def _begin(self, rows: Mapping[TableName, str]) -> None:
        """Note where the tables of new names are. They are at their beginning instead for `from_beginning`."""
        new = self._watched - self._begun
        if not new:
            return
        for namespace in self._namespaces & new:
            if not self._services.namespaces.exists(namespace):
                raise NoSuchNamespace(namespace)
        for table in self._tables:
            if str(table) in new and table not in rows:
                self._services.ports.pointer.load(table)
        there = {
            name: location
            for name, location in rows.items()
            if self._is_in(name, new) and not self._is_in(name, self._begun)
        }
        positions = self._positions
        for name, location, metadata in self._read(there, needed=True):
            head = Head.of(metadata.current_snapshot)
            begun = Position(metadata.uuid) if self._from_beginning else Position(metadata.uuid, location, head)
            positions = positions.with_position(name, begun)
        self._positions, self._begun = positions, self._watched

    def _renamed(self, rows: Mapping[TableName, str]) -> dict[TableName, TableName]:
        """The former names of the tables that have new ones."""
        new = {name: location for name, location in rows.items() if name not in self._positions}
        away = {name: each for name, each in self._positions.items() if rows.get(name) != each.metadata_location}
        if not new or not away:
            return {}
        by_location = {each.metadata_location: name for name, each in away.items()}
        by_uuid = {each.uuid.lower(): name for name, each in away.items() if each.uuid}
        found = {name: by_location[location] for name, location in new.items() if location in by_location}
        others = {name: location for name, location in new.items() if name not in found}
        for name, _, metadata in self._read(others):
            previous = by_uuid.get((metadata.uuid or "").lower())
            if previous is not None and previous not in found.values():
                found[name] = previous
        return {name: previous for name, previous in found.items() if self._has_left(previous, rows)}

    def _has_left(self, name: TableName, rows: Mapping[TableName, str]) -> bool:
        """Whether the table that was followed under a name is not there any more."""
        if name not in rows:
            return True
        there = {name: rows[name]}
        return any(not _is_same(self._positions[name], metadata) for _, _, metadata in self._read(there))

    def _read_moved(self, rows: Mapping[TableName, str]) -> Iterator[_Moved]:
        """The tables whose pointer is not where it was followed to, by name."""
        moved = {}
        for name in sorted(rows):
            position = self._positions.get(name)
            if position is None or position.metadata_location != rows[name]:
                moved[name] = rows[name]
        return self._read(moved)

    def _read(self, locations: Mapping[TableName, str], *, needed: bool = False) -> Iterator[_Moved]:
        """The metadata files at these locations, a few at a time, without those that cannot be read. needed: raises
        StorageError for a store that does not answer."""
        left = list(locations.items())
        for start in range(0, len(left), _READS):
            batch = left[start : start + _READS]
            found = self._runtime.gather([partial(self._load, location) for _, location in batch])
            for (name, location), metadata in zip(batch, found, strict=True):
                if isinstance(metadata, IcebergHmsError):
                    if needed and _may_pass(metadata):
                        raise metadata
                    self._note_unreadable(name, metadata)
                else:
                    yield _Moved(name, location, metadata)

    def _load(self, location: str) -> TableMetadata | IcebergHmsError:
        try:
            return self._services.coordinator.read_metadata(location)
        except (MissingFile, StorageError, InvalidInput) as error:
            return error

    def _load_followed(self, location: str) -> TableMetadata | None:
        """The metadata file that a table was followed to; None if it is gone. Raises StorageError."""
        found = self._load(location) if location else None
        if not isinstance(found, IcebergHmsError):
            return found
        if _may_pass(found):
            raise found
        return None

    def _follow(self, moved: _Moved) -> Iterator[TableChange]:
        """The changes of one table, up to the metadata that its row named."""
        name, location, metadata = moved
        position = self._positions.get(name)
        if position is None or not _is_same(position, metadata):
            kind = ChangeKind.CREATED if position is None else ChangeKind.REPLACED
            position = Position(metadata.uuid)
            self._positions = self._positions.with_position(name, position)
            yield self._change(name, kind)
        try:
            steps = list(moves(position.head, metadata, partial(self._load_followed, position.metadata_location)))
        except StorageError as error:
            self._note_unreadable(name, error)
            return
        self.unreadable.pop(name, None)
        for at, step in enumerate(steps, 1):
            followed = location if at == len(steps) else position.metadata_location
            reached = replace(position, metadata_location=followed, head=Head.of(step.snapshot))
            self._positions = self._positions.with_position(name, reached)
            yield self._change(name, step.kind, step.snapshot, left=step.left, expired=step.expired)
        if not steps:
            ended = replace(position, uuid=metadata.uuid, metadata_location=location)
            self._positions = self._positions.with_position(name, ended)

    def _change(
        self,
        name: TableName,
        kind: ChangeKind,
        snapshot: Snapshot | None = None,
        *,
        left: tuple[int, ...] = (),
        expired: tuple[int, ...] = (),
        previous_name: TableName | None = None,
    ) -> TableChange:
        return TableChange(name, kind, snapshot, left, expired, previous_name, self._begun, self._positions)

    def _is_in(self, name: TableName, watched: Collection[str]) -> bool:
        return name.namespace in watched or str(name) in watched

    def _note_unreadable(self, name: TableName, error: IcebergHmsError) -> None:
        if name not in self.unreadable:
            logger.warning("The metadata of %s cannot be read, and is tried again in each poll: %s", name, error)
        self.unreadable[name] = error

    def _note_outage(self, error: MetastoreUnavailable) -> None:
        """Raises the error if the outage takes too long."""
        now = self._runtime.now()
        if self._outage_since is None:
            self._outage_since = now
            logger.warning("No metastore answers; the watch goes on when one does: %s", error)
        if self._outage_seconds is not None and now - self._outage_since >= self._outage_seconds:
            raise error

    def _note_answer(self) -> None:
        if self._outage_since is not None:
            logger.info("A metastore answers again, after %.0f s", self._runtime.now() - self._outage_since)
            self._outage_since = None


def _may_pass(error: IcebergHmsError) -> bool:
    """Whether a metadata file that could not be read may be read later: its store does not answer."""
    return isinstance(error, StorageError) and not isinstance(error, CorruptFile)


def _add(namespace: str, locations: Mapping[str, str], found: dict[TableName, str]) -> None:
    if len(found) + len(locations) > TABLES_MAX:
        raise InvalidInput(
            f"More than {TABLES_MAX:,} tables are to be watched", next_step="share them among several watchers"
        )
    found.update((TableName(namespace, name), location) for name, location in locations.items())


def _is_same(position: Position, metadata: TableMetadata) -> bool:
    """Whether it is the table that was followed. A table of format version 1 may have got its UUID meanwhile."""
    return position.uuid is None or metadata.uuid is None or metadata.has_uuid(position.uuid)


def _parsed(watch: Collection[str | Identifier]) -> tuple[frozenset[str], frozenset[TableName]]:
    """Namespaces and tables. Raises InvalidInput, NoSuchNamespace, NoSuchTable for what can be no name."""
    if isinstance(watch, str) or not watch:
        raise InvalidInput(
            f"nothing to watch: {watch!r}",
            next_step='pass a list such as ["nyc", "logging.events"]: a namespace, a table',
        )
    names = [each for each in watch if isinstance(each, str) and "." not in each]
    tables = [each for each in watch if not isinstance(each, str) or "." in each]
    return frozenset(map(namespace_name, names)), frozenset(map(table_name, tables))
