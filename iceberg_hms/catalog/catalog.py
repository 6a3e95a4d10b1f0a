"""A catalog of Iceberg tables in a Hive Metastore: the Python API's first room, and what every other door stands on.

It never touches a table that is not Iceberg's: loading one raises NotAnIcebergTable, which is a NoSuchTable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from iceberg_hms.catalog import schemas
from iceberg_hms.catalog.coalesced import Coalesced
from iceberg_hms.catalog.events import Listener
from iceberg_hms.catalog.purge import purge_files
from iceberg_hms.catalog.rebase_policies import RebasePolicies
from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.table import Table
from iceberg_hms.changes.change import Change, Manifests
from iceberg_hms.changes.request import Client, from_request
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit
from iceberg_hms.errors import InvalidInput, LockUnavailable, NoSuchNamespace, NoSuchTable
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.identifiers import Identifier, new_name, table_name
from iceberg_hms.locking.lock_admin import LockAdmin
from iceberg_hms.locking.lock_modes import LOCK_MARK, LockMode

#: A lock that a dead writer left is gone after the lease; whoever waits this much longer outlives it.
LEASE_MARGIN_MS = 10_000

#: A namespace property that is where its new tables go.
LOCATION = "location"


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table's state. metadata_location is None for a table that is staged and not yet committed."""

    name: TableName
    metadata_location: str | None
    metadata: TableMetadata


@dataclass(frozen=True, slots=True)
class NamespaceUpdate:
    """Which properties an update set, which it removed, and which it should have removed but did not find."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]


class _Parts:
    """What a catalog is made of in one process."""

    def __init__(self, services: Services) -> None:
        self.services = services
        runtime = services.world.runtime
        self.bases = Coalesced(runtime, services.coordinator.load)
        self.pointers = Coalesced(runtime, services.world.pointer.load)
        self.rebase_words = RebasePolicies(
            runtime,
            setting=services.settings.rebase_appends,
            max_age_seconds=services.settings.rebase_appends_max_age_ms / 1000,
            load=services.namespaces.load,
        )


class Catalog:
    """Made by `iceberg_hms.connect`. Safe for threads. Close it, or use it as a context manager.

    A forked child may go on with the catalog and with its tables, and closes it itself: it has connections, threads and
    caches of its own. What else a catalog gave out before the fork stays with the parent.
    Every call that asks the metastore may raise MetastoreUnavailable, AccessDenied or MetastoreRefused.

    make_services: called at once, and by each forked child that uses the catalog. It shares nothing between processes
    that has threads, locks or connections.
    """

    def __init__(self, make_services: Callable[[], Services]) -> None:
        self._make_services = make_services
        # By process. The parent's are kept in the child, and not used: there, its threads are gone, and its mutexes may
        # be locked for good.
        self._made = {os.getpid(): _Parts(make_services())}

    @property
    def _parts(self) -> _Parts:
        process = os.getpid()
        made = self._made.get(process)
        # Several threads of a child may come first. One of them stores what it made; nothing is connected by then.
        return made or self._made.setdefault(process, _Parts(self._make_services()))

    @property
    def services(self) -> Services:
        """What it stands on in this process; for the other modules of this package."""
        return self._parts.services

    @property
    def settings(self) -> Settings:
        return self.services.settings

    def close(self) -> None:
        """Give back connections and threads."""
        self.services.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def locks(self) -> LockAdmin:
        """Which locks are held, and which lock a table takes. Raises LockUnavailable for a catalog in memory."""
        if self.services.locks is None:
            raise LockUnavailable("This catalog has no locks to look at", next_step="connect to a metastore")
        return self.services.locks

    def list_namespaces(self) -> list[str]:
        """Names of all databases, Hive's own among them."""
        return self.services.namespaces.list()

    def namespace_exists(self, namespace: str) -> bool:
        return self.services.namespaces.exists(namespace.lower())

    def create_namespace(self, namespace: str, properties: Mapping[str, str] | None = None) -> None:
        """Create a database. Without a `location` it goes to `<warehouse>/<namespace>.db`, as Hive puts it.
        Raises AlreadyExists, InvalidInput."""
        name = new_name(namespace, "namespace")
        wanted = dict(properties or {})
        if LOCATION not in wanted and self.settings.warehouse:
            wanted[LOCATION] = f"{self.settings.warehouse.rstrip('/')}/{name}.db"
        self.services.namespaces.create(name, wanted)

    def load_namespace(self, namespace: str) -> dict[str, str]:
        """A database's properties. Raises NoSuchNamespace."""
        return self.services.namespaces.load(namespace.lower())

    def update_namespace(
        self, namespace: str, updates: Mapping[str, str] | None = None, removals: Collection[str] = ()
    ) -> NamespaceUpdate:
        """Set and remove properties. Raises NoSuchNamespace, InvalidInput (a key in both)."""
        updates = updates or {}
        both = sorted(set(updates) & set(removals))
        if both:
            raise InvalidInput(f"to be set and removed at once: {', '.join(both)}")
        present = self.load_namespace(namespace)
        removed = tuple(sorted(key for key in removals if key in present))
        missing = tuple(sorted(key for key in removals if key not in present))
        if updates or removed:
            self.services.namespaces.update(namespace.lower(), updates, removed)
        return NamespaceUpdate(tuple(sorted(updates)), removed, missing)

    def drop_namespace(self, namespace: str) -> None:
        """Drop an empty database. Raises NoSuchNamespace, NamespaceNotEmpty."""
        self.services.namespaces.drop(namespace.lower())

    def list_tables(self, namespace: str) -> list[TableName]:
        """The Iceberg tables of a database, sorted by name. Raises NoSuchNamespace."""
        namespace = namespace.lower()
        return [TableName(namespace, name) for name in self.services.lister.list_tables(namespace)]

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether an Iceberg table of this name is there."""
        try:
            self._parts.pointers.get(table_name(identifier))
        except NoSuchTable:
            return False
        return True

    def load_table(self, identifier: Identifier) -> Table:
        """Raises NoSuchTable (NotAnIcebergTable if the name is somebody else's), MissingFile, CorruptFile."""
        loaded = self.load(identifier)
        return Table(self, loaded.name, loaded.metadata, str(loaded.metadata_location))

    def load(self, identifier: Identifier) -> LoadedTable:
        """As `load_table`, as plain state. Those who load a table at the same time share a look at the metastore, never
        one that began before they came."""
        name = table_name(identifier)
        base = self._parts.bases.get(name)
        return LoadedTable(name, base.pointer.metadata_location, base.metadata)

    def pointer(self, identifier: Identifier) -> Pointer:
        """The table's row in the metastore, as it is now. Raises NoSuchTable."""
        return self.services.world.pointer.load(table_name(identifier))

    def manifests(self) -> Manifests:
        """Reads manifest lists and manifests."""
        return self.services.world.manifests()

    def stage_table(
        self,
        identifier: Identifier,
        schema: Any,
        partition_spec: Any = None,
        sort_order: Any = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> LoadedTable:
        """What `create_table` would create, without creating it: no file is written and the metastore is only read.
        Raises NoSuchNamespace, InvalidInput."""
        name = table_name(identifier)
        new_name(name.name, "table")
        namespace = self.services.namespaces.load(name.namespace)
        clock = self.services.world.runtime
        table_schema = schemas.to_schema(schema)
        metadata = new_table_metadata(
            table_schema,
            schemas.to_spec(partition_spec, table_schema),
            schemas.to_order(sort_order, table_schema),
            (location or self._default_location(name, namespace)).rstrip("/"),
            self._marked(properties or {}),
            uuid=clock.uuid(),
            now_ms=clock.now_ms(),
        )
        return LoadedTable(name, None, metadata)

    def create_table(
        self,
        identifier: Identifier,
        schema: Any,
        partition_spec: Any = None,
        sort_order: Any = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Create an empty table.

        schema: an iceberg_hms Schema, a pyarrow Schema, or the spec's JSON.
        partition_spec: None, a PartitionSpec, the spec's JSON, or transforms such as ["day(event_time)", "level"].
        properties: table properties; `format-version` chooses the version (2).
        Raises AlreadyExists (also for a Hive table or a view of this name), NoSuchNamespace, InvalidInput.
        """
        staged = self.stage_table(identifier, schema, partition_spec, sort_order, location, properties)
        change = from_request([{"type": "assert-create"}], create_updates(staged.metadata), Client())
        report = self._create(staged.name, change)
        return Table(self, staged.name, report.metadata, report.metadata_location)

    def commit(
        self,
        identifier: Identifier,
        requirements: Sequence[Mapping[str, Any]],
        updates: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> CommitReport:
        """Commit requirements and updates in the REST protocol's JSON shapes. A commit that carries `assert-create`
        creates the table.

        idempotency_key: a job's own key; if a snapshot in the ref's history carries it, the commit is done already.
        wait_seconds: how long to wait for a turn and the lock; the default outlives a dead writer's lock.
        Raises as Coordinator.commit: CommitFailed and its like prove that nothing was changed; CommitStateUnknown means
        that files must not be deleted.
        """
        name = table_name(identifier)
        change = self._sent(name, requirements, updates, client, idempotency_key)
        if any(requirement.get("type") == "assert-create" for requirement in requirements):
            return self._create(name, change)
        return self.commit_change(name, change, wait_seconds=wait_seconds, size=size)

    def submit(
        self,
        identifier: Identifier,
        requirements: Sequence[Mapping[str, Any]],
        updates: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> PendingCommit:
        """`commit` to a table that is there, for callers that must not block: returns as soon as the change is queued.
        See `Coordinator.submit` for what they owe. Raises InvalidInput and QueueFull at once."""
        name = table_name(identifier)
        change = self._sent(name, requirements, updates, client, idempotency_key)
        wait = self._wait(wait_seconds)
        return self.services.coordinator.submit(name, change, wait_seconds=wait, size=size)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(event)` for every event of this catalog's commits (`coordinator.ports.Events` lists them), on
        the thread that made it; it should return at once."""
        self.services.subscribe(listener)

    def commit_change(
        self, identifier: Identifier, change: Change, *, wait_seconds: float | None = None, size: int = 0
    ) -> CommitReport:
        """Commit any change: an operation of `iceberg_hms.changes`, or one's own. Raises as `commit`."""
        name = table_name(identifier)
        return self.services.coordinator.commit(name, change, wait_seconds=self._wait(wait_seconds), size=size)

    @property
    def default_wait_seconds(self) -> float:
        settings = self.settings
        return max(settings.lock_timeout_ms, settings.lock_lease_default_ms + LEASE_MARGIN_MS) / 1000

    def drop_table(self, identifier: Identifier, *, purge: bool = False, wait_seconds: float | None = None) -> None:
        """Remove a table from the metastore. With `purge` its files are deleted too, once the drop is proven: metadata,
        manifests and, unless the table says `gc.enabled=false`, data. Raises NoSuchTable, LockNotAcquired."""
        dropped = self.services.coordinator.operations.drop(
            table_name(identifier), wait_seconds=self._wait(wait_seconds)
        )
        if purge and dropped is not None:
            purge_files(self.services.world, dropped.metadata, dropped.pointer.metadata_location)

    def rename_table(self, old: Identifier, new: Identifier, *, wait_seconds: float | None = None) -> None:
        """Give a table another name, in the same or another namespace; its files stay where they are.
        Raises NoSuchTable, NoSuchNamespace, AlreadyExists."""
        to = table_name(new)
        new_name(to.name, "table")
        if not self.services.namespaces.exists(to.namespace):
            raise NoSuchNamespace(to.namespace)
        self.services.coordinator.operations.rename(table_name(old), to, wait_seconds=self._wait(wait_seconds))

    def register_table(
        self,
        identifier: Identifier,
        metadata_location: str,
        *,
        overwrite: bool = False,
        wait_seconds: float | None = None,
    ) -> Table:
        """Make a table of a metadata file that is there. With `overwrite` a table of this name is pointed at a copy of
        it. Raises AlreadyExists, NoSuchNamespace, MissingFile, CorruptFile."""
        name = table_name(identifier)
        new_name(name.name, "table")
        if not self.services.namespaces.exists(name.namespace):
            raise NoSuchNamespace(name.namespace)
        report = self.services.coordinator.operations.register(
            name,
            metadata_location,
            overwrite=overwrite,
            owner=self.settings.user or None,
            wait_seconds=self._wait(wait_seconds),
        )
        return Table(self, name, report.metadata, report.metadata_location)

    def _sent(
        self,
        name: TableName,
        requirements: Sequence[Mapping[str, Any]],
        updates: Sequence[Mapping[str, Any]],
        client: Client | None,
        idempotency_key: str | None,
    ) -> Change:
        return from_request(
            requirements,
            updates,
            client,
            idempotency_key=idempotency_key,
            rebase_policy=partial(self._parts.rebase_words.of, name.namespace),
        )

    def _wait(self, wait_seconds: float | None) -> float:
        return self.default_wait_seconds if wait_seconds is None else wait_seconds

    def _create(self, name: TableName, change: Change) -> CommitReport:
        new_name(name.name, "table")
        if not self.services.namespaces.exists(name.namespace):
            raise NoSuchNamespace(name.namespace)
        return self.services.coordinator.operations.create(name, change, owner=self.settings.user or None)

    def _marked(self, properties: Mapping[str, str]) -> dict[str, str]:
        """With lock=zookeeper new tables say so, for all writers to see."""
        marks = {LOCK_MARK: LockMode.ZOOKEEPER.value} if self.settings.lock == LockMode.ZOOKEEPER else {}
        return {**marks, **properties}

    def _default_location(self, name: TableName, namespace: Mapping[str, str]) -> str:
        leaf = name.name
        if self.settings.unique_table_location:
            leaf = f"{leaf}-{self.services.world.runtime.uuid().replace('-', '')}"
        root = namespace.get(LOCATION) or f"{self.settings.warehouse.rstrip('/')}/{name.namespace}.db"
        return f"{root.rstrip('/')}/{leaf}"
