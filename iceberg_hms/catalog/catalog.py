"""A catalog of Iceberg tables in a Hive Metastore: the Python API, which the REST server and the command line use too.

It never touches tables of other formats: loading one raises NotAnIcebergTable, which is a NoSuchTable. The one
exception is `drop_hive_table_in_use`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from iceberg_hms.catalog import schemas
from iceberg_hms.catalog.coalesced_loads import WAIT_SECONDS
from iceberg_hms.catalog.events import Listener
from iceberg_hms.catalog.hive_drops import HiveDrops
from iceberg_hms.catalog.locations import (
    NAMESPACE_LOCATION,
    NewFolder,
    client_folders,
    client_locations,
    new_folder,
)
from iceberg_hms.catalog.maintenance.reports import PurgeReport
from iceberg_hms.catalog.namespaces import NamespaceOperations
from iceberg_hms.catalog.purge import Purge
from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.stage_proofs import STAGE_PROOF
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.table_access import LoadedTable, TableAccess
from iceberg_hms.catalog.views import Views
from iceberg_hms.catalog.watching.new_snapshots import POLL_SECONDS, NewSnapshots
from iceberg_hms.changes.change import Change, Manifests
from iceberg_hms.changes.clients.blind_append import blind_policy
from iceberg_hms.changes.clients.request import Client, from_request
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.locations.location_policy import LocationGuard, LocationPolicy
from iceberg_hms.coordinator.locations.placement import NamespaceFolders
from iceberg_hms.coordinator.operations.row_operations import find_taken
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import LOCK_MARK, Pointer, TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import AlreadyExists, LockUnavailable, NoSuchNamespace, NoSuchTable
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.identifiers import Identifier, namespace_name, new_table_name, table_name
from iceberg_hms.locking.lock_admin import LockAdmin
from iceberg_hms.locking.lock_modes import LockMode
from iceberg_hms.memory_budget import MemoryBudget


class Catalog(NamespaceOperations):
    """Made by `iceberg_hms.connect`. Safe for threads. Close it, or use it as a context manager.

    A forked child may go on with the catalog and its tables, and closes the catalog itself: it gets connections,
    threads and caches of its own. Anything else that the catalog returned before the fork belongs to the parent.
    Every call to the metastore may raise MetastoreUnavailable, AccessDenied or MetastoreRefused.

    make_services, load_wait_seconds: see `TableAccess`.
    """

    def __init__(self, make_services: Callable[[], Services], *, load_wait_seconds: float = WAIT_SECONDS) -> None:
        self._access = TableAccess(make_services, load_wait_seconds=load_wait_seconds)
        self._locations: LocationPolicy | None = None
        self._namespace_folders: NamespaceFolders | None = None

    def for_clients(self, allowed_locations: str = "", *, strict: bool = False) -> Self:
        """This catalog for REST clients, who have fewer rights than the process. What they name outside of the
        warehouse and the folders that are allowed raises LocationNotAllowed: tables, namespaces and metadata files, and
        whatever a commit or a registered file names. It shares everything with this catalog, which is closed alone.

        allowed_locations, strict: as for `LocationPolicy`.
        Raises ConfigError for a setting that names no plain location."""
        guarded = copy.copy(self)
        ports = self.services.ports
        guarded._namespace_folders = NamespaceFolders(ports)
        guarded._locations = LocationPolicy(
            ports.files,
            warehouse=self.settings.warehouse,
            allowed=allowed_locations,
            strict=strict,
            namespaces=guarded._namespace_folders.all,
        )
        return guarded

    def use_memory(self, budget: MemoryBudget) -> None:
        """Count in this budget what is read of metadata and manifests: beyond it loads and commits raise
        ResourceExhausted. Not for the services of a forked child."""
        self.services.coordinator.use_memory(budget)
        self.services.views.use_memory(budget)
        self.services.use_manifest_memory(budget)

    def use_signing_key(self, key: bytes) -> None:
        """Sign staged tables with this key, so that every catalog that has it can create them. Not for the services of
        a forked child."""
        self.services.stage_proofs.use_key(key)

    @property
    def locations(self) -> LocationPolicy | None:
        """What REST clients may name (`for_clients`); None: everything. For other modules of this project."""
        return self._locations

    @property
    def services(self) -> Services:
        """The services of this process; for other modules of this project."""
        return self._access.services

    @property
    def settings(self) -> Settings:
        return self.services.settings

    def close(self) -> None:
        """Close connections and end threads. Waits at most 10 s for commits that hold a lock or wait for one, with
        ZooKeeper 20 s.

        A swap that the metastore has not answered by then keeps its thread, and so the process, until it is answered or
        `metastore.unanswered-swap-timeout-ms` (10 minutes) are over. That protects nothing any more: without
        connections its lock is not renewed, and ends with its lease. A process that must not wait ends itself with
        `os._exit`, as `iceberg-hms serve` does."""
        self.services.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def locks(self) -> LockAdmin:
        """Locks that are held, and which lock a table takes. Raises LockUnavailable for a catalog in memory."""
        if self.services.locks is None:
            raise LockUnavailable("This catalog has no locks to list", next_step="connect to a metastore")
        return self.services.locks

    @property
    def views(self) -> Views:
        """The Iceberg views."""
        return Views(self._access, self._locations)

    def list_tables(self, namespace: str) -> list[TableName]:
        """The Iceberg tables of a database, sorted by name. Raises NoSuchNamespace."""
        namespace = namespace_name(namespace)
        return [TableName(namespace, name) for name in self.services.lister.list_tables(namespace)]

    def list_tables_after(self, namespace: str, after: str | None, limit: int) -> tuple[list[TableName], bool]:
        """A page of `list_tables`: the first `limit` tables after the name `after`, and whether there may be more.
        after: the last name of the page before; None for the first page. Raises NoSuchNamespace."""
        namespace = namespace_name(namespace)
        names, more = self.services.lister.list_tables_after(namespace, after, limit)
        return [TableName(namespace, name) for name in names], more

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether an Iceberg table of this name exists."""
        try:
            return self._access.exists(table_name(identifier))
        except NoSuchTable:
            return False

    def load_table(self, identifier: Identifier) -> Table:
        """Raises NoSuchTable (NotAnIcebergTable if the name belongs to another kind of table), MissingFile,
        CorruptFile."""
        loaded = self.load(identifier)
        return Table(self._access, loaded.name, loaded.metadata, str(loaded.metadata_location))

    def load(self, identifier: Identifier) -> LoadedTable:
        """As `load_table`, as plain state. Concurrent callers share a load, but none that began before they called."""
        loaded = self._access.load(table_name(identifier))
        if self._locations is not None and self._locations.strict:
            self._locations.guard().check_file(str(loaded.metadata_location), "the table's metadata file")
        return loaded

    def client_folders(
        self, table: LoadedTable, may: Callable[[str], bool], serves: Callable[[str], bool]
    ) -> list[str]:
        """As `locations.client_folders`, for the REST server."""
        return client_folders(self._locations, table, may, serves)

    def pointer(self, identifier: Identifier) -> Pointer:
        """The table's row in the metastore, as it is now. Raises NoSuchTable."""
        return self.services.ports.pointer.load(table_name(identifier))

    def manifests(self) -> Manifests:
        """Reads manifest lists and manifests."""
        return self.services.ports.manifests()

    def stage_table(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, str] | None = None,
        *,
        client: Client | None = None,
    ) -> LoadedTable:
        """What `create_table` would create, without creating it: only reads the metastore, and writes no file.

        On a local disk it makes the folder of the table's metadata: clients write manifests there before the commit
        that creates the table, and DuckDB makes no folder for them. Without that commit the empty folder stays.

        location: by default `<location of the namespace>/<name>`, with a random suffix if another table there has that
        folder, or if it holds files. Raises AlreadyExists, NoSuchNamespace, StorageError, InvalidInput (also for a
        location that another Iceberg table has)."""
        name = new_table_name(identifier)
        if find_taken(self.services.ports, name) is not None:
            # Before its client writes the data.
            raise AlreadyExists(f"Table already exists: {name}")
        staged, chosen = self._staged(
            name, schema, location, partition_spec, sort_order, properties, client, staged=True
        )
        metadata = staged.metadata
        self.services.ports.files.make_folder(folder(metadata))
        if not chosen.is_owned:
            return staged
        proof = self.services.stage_proofs.sign(name, metadata.location, str(metadata.uuid))
        return replace(staged, metadata=metadata.replace(properties={**metadata.properties, STAGE_PROOF: proof}))

    def _staged(
        self,
        name: TableName,
        schema: Any,
        location: str | None,
        partition_spec: Any,
        sort_order: Any,
        properties: Mapping[str, str] | None,
        client: Client | None,
        *,
        staged: bool,
    ) -> tuple[LoadedTable, NewFolder]:
        """The new table, and its folder."""
        namespace = self.services.namespaces.load(name.namespace)
        guard = self._guard(name, namespace, client)
        if guard is not None and location:
            guard.check_folder(location, "location")
        clock = self.services.ports.runtime
        table_schema = schemas.to_schema(schema)
        spec, order = schemas.to_spec(partition_spec, table_schema), schemas.to_order(sort_order, table_schema)
        # What is malformed costs no search.
        chosen = new_folder(self.services, name, location, namespace, staged=staged)
        metadata = new_table_metadata(
            table_schema,
            spec,
            order,
            chosen.location,
            self._with_lock_property(properties or {}),
            uuid=clock.uuid(),
            now_ms=clock.now_ms(),
        )
        if guard is not None:
            guard.check_metadata(None, metadata, ())
        return LoadedTable(name, None, metadata), chosen

    def create_table(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, str] | None = None,
        *,
        client: Client | None = None,
        check: Callable[[LoadedTable], None] | None = None,
    ) -> Table:
        """Create an empty table.

        schema: an iceberg_hms Schema, pyarrow's or PyIceberg's, or the spec's JSON.
        location: as for `stage_table`.
        partition_spec, sort_order: None, ours or PyIceberg's, the spec's JSON, or terms such as ["day(event_time)"].
        properties: table properties; `format-version` chooses the version (2).
        client: its caller owns the table; else the one whom `hive.metastore.table.owner` names, or the setting `user`.
        check: is called with the table before anything is written; what it raises ends the call.
        Raises AlreadyExists (also for a Hive table or a view of this name), NoSuchNamespace, InvalidInput.
        """
        name = new_table_name(identifier)
        staged, chosen = self._staged(
            name, schema, location, partition_spec, sort_order, properties, client, staged=False
        )
        if check is not None:
            check(staged)
        change = from_request([{"type": "assert-create"}], create_updates(staged.metadata), client)
        report = self._create(name, change, client, chosen=chosen, owns_folder=chosen.is_owned)
        return Table(self._access, name, report.metadata, report.metadata_location)

    def create_table_if_not_exists(
        self,
        identifier: Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = None,
        sort_order: Any = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """`create_table`, or the Iceberg table of this name as it is, whatever its schema. Raises as `create_table`,
        and as `load_table`."""
        try:
            return self.create_table(identifier, schema, location, partition_spec, sort_order, properties)
        except AlreadyExists:
            return self.load_table(identifier)

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
        is_blind: bool = False,
    ) -> CommitReport:
        """Commit requirements and updates in the REST protocol's JSON shapes. A commit that carries `assert-create`
        creates the table.

        idempotency_key: a job's own key; if a snapshot in the ref's history has it, the commit was made before.
        is_blind: the caller knows that an append in it read nothing of the table, so it may be put on any state of its
        branch, unless the table's own property `iceberg-hms.rebase-appends` says otherwise.
        wait_seconds: how long to wait for a group and the lock; by default `default_wait_seconds`.
        Raises as `Coordinator.commit`. After CommitStateUnknown the caller must not delete files: the commit may be in
        the table.
        """
        creates = any(requirement.get("type") == "assert-create" for requirement in requirements)
        name = new_table_name(identifier) if creates else table_name(identifier)
        owns_folder = False
        if creates:
            updates, owns_folder = self.services.stage_proofs.take(name, updates)
        change = self._client_change(name, requirements, updates, client, idempotency_key, is_blind=is_blind)
        if creates:
            return self._create(name, change, client, owns_folder=owns_folder)
        return self.commit_change(name, change, client=client, wait_seconds=wait_seconds, size=size)

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
        """`commit` to an existing table for callers that must not block: returns as soon as the change is queued.
        `Coordinator.submit` says what they must do then. Raises InvalidInput and QueueFull at once."""
        name = table_name(identifier)
        change = self._client_change(name, requirements, updates, client, idempotency_key)
        wait = self._access.wait_seconds(wait_seconds)
        locations = client_locations(self._locations, name, client)
        return self.services.coordinator.submit(name, change, wait_seconds=wait, size=size, locations=locations)

    def refusal(
        self,
        identifier: Identifier,
        requirements: Sequence[Mapping[str, Any]],
        updates: Sequence[Mapping[str, Any]],
        error: Exception,
    ) -> Exception:
        """As `Coordinator.refusal`, for a commit to an existing table. Raises InvalidInput as `commit`."""
        name = table_name(identifier)
        change = self._client_change(name, requirements, updates, None, None)
        wait = self._access.wait_seconds(None)
        return self.services.coordinator.refusal(name, change, error, wait_seconds=wait)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(event)` for every event of this catalog's commits (`coordinator.ports.EventListener` lists
        them), on the thread that published it; it should return at once."""
        self.services.subscribe(listener)

    def new_snapshots(
        self,
        watch: Collection[str | Identifier],
        *,
        token: str | None = None,
        poll_seconds: float = POLL_SECONDS,
        from_beginning: bool = False,
        outage_seconds: float | None = None,
    ) -> NewSnapshots:
        """What any client does to main of many tables: `for change in catalog.new_snapshots([...])`.

        watch: namespaces, with all tables that they ever have, and tables: `["nyc", "logging.events"]`.
        token: of a change or watcher before, to go on after it; what it does not have begins now.
        poll_seconds: the wait between two polls. from_beginning: what begins, begins with the tables' oldest snapshots.
        outage_seconds: how long to wait for a metastore that does not answer; None: for ever.
        Raises InvalidInput (also for a token that is damaged or of something else), NoSuchNamespace, NoSuchTable."""
        return NewSnapshots(
            self.services,
            watch,
            token=token,
            poll_seconds=poll_seconds,
            from_beginning=from_beginning,
            outage_seconds=outage_seconds,
        )

    def commit_change(
        self,
        identifier: Identifier,
        change: Change,
        *,
        client: Client | None = None,
        wait_seconds: float | None = None,
        size: int = 0,
    ) -> CommitReport:
        """Commit any `Change`: an operation of `iceberg_hms.changes`, or the caller's own. Raises as `commit`."""
        name = table_name(identifier)
        return self.services.coordinator.commit(
            name,
            change,
            wait_seconds=self._access.wait_seconds(wait_seconds),
            size=size,
            locations=client_locations(self._locations, name, client),
        )

    @property
    def default_wait_seconds(self) -> float:
        """How long a commit waits if its caller does not say."""
        return self._access.default_wait_seconds

    def drop_table(self, identifier: Identifier, *, wait_seconds: float | None = None) -> None:
        """Remove a table from the metastore; its files stay. Raises NoSuchTable, LockNotAcquired."""
        self._drop(identifier, wait_seconds)

    def purge_table(
        self,
        identifier: Identifier,
        *,
        wait_seconds: float | None = None,
        run_purge: Callable[[Purge], object] = Purge.run,
    ) -> PurgeReport | None:
        """`drop_table`, and delete the table's files once the drop is proved: metadata, manifests and, unless the table
        has `gc.enabled=false`, data. Files that do not lie in a folder which the table owns (`own_files`) are kept. The
        report, the log and the event `purged` say so, and which files could not be deleted.

        run_purge: runs the purge, or sees to it that it runs later. Returns None for one that runs later, and if the
        drop is not proved, or its metadata cannot be read: then all files stay, and the log says so. Raises as
        `drop_table`."""
        dropped = self._drop(identifier, wait_seconds)
        if dropped is None:
            return None
        guard = None if self._locations is None else self._locations.table_guard(dropped.pointer, dropped.metadata)
        purge = Purge(self.services.ports, dropped, guard)
        run_purge(purge)
        return purge.report

    def _drop(self, identifier: Identifier, wait_seconds: float | None) -> TableVersion | None:
        return self.services.coordinator.operations.drop(
            table_name(identifier), wait_seconds=self._access.wait_seconds(wait_seconds)
        )

    def drop_hive_table_in_use(
        self,
        identifier: Identifier,
        *,
        wait_seconds: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> TableName | None:
        """Remove the row of a Hive table whose files an Iceberg table reads, and keep the files: the metastore, which
        any other client asks to drop it, would delete them. Returns the Iceberg table. None: no Iceberg table reads the
        files, or there is no such Hive table; then nothing was changed. For doors to clients that drop Hive tables
        themselves, as Spark's session catalog does.

        check: raises to keep the row. Raises HiveTableKept if it is not proved whether one does; NoSuchTable,
        LockNotAcquired, CommitStateUnknown, and as the check."""
        drops = HiveDrops(self.services, self._locations)
        found = drops.reader(table_name(identifier))
        if found is None:
            return None
        if check is not None:
            check()
        table, reader = found
        drops.drop(table, wait_seconds=self._access.wait_seconds(wait_seconds))
        return reader

    def rename_table(
        self, from_identifier: Identifier, to_identifier: Identifier, *, wait_seconds: float | None = None
    ) -> None:
        """Give a table another name, in the same or another namespace; its files stay where they are.
        Raises NoSuchTable, NoSuchNamespace, AlreadyExists."""
        name, to = table_name(from_identifier), new_table_name(to_identifier)
        if not self.services.namespaces.exists(to.namespace):
            raise NoSuchNamespace(to.namespace)
        self.services.coordinator.operations.rename(name, to, wait_seconds=self._access.wait_seconds(wait_seconds))

    def register_table(
        self,
        identifier: Identifier,
        metadata_location: str,
        overwrite: bool = False,
        *,
        wait_seconds: float | None = None,
        check: Callable[[TableMetadata, TableMetadata | None], None] | None = None,
        owner: str = "",
        client: Client | None = None,
    ) -> Table:
        """Make a table of an existing metadata file. With `overwrite`, point a table of this name at a copy of the
        file. check: as `CatalogOperations.register`. owner: of a new table; "": as its properties say, else the
        setting `user`.
        Raises AlreadyExists, NoSuchNamespace, MissingFile, CorruptFile."""
        name = new_table_name(identifier)
        namespace = self.services.namespaces.load(name.namespace)
        report = self.services.coordinator.operations.register(
            name,
            metadata_location,
            root=namespace.get(NAMESPACE_LOCATION),
            guard=self._guard(name, namespace, client),
            overwrite=overwrite,
            owner=owner or None,
            wait_seconds=self._access.wait_seconds(wait_seconds),
            check=check,
        )
        return Table(self._access, name, report.metadata, report.metadata_location)

    def _client_change(
        self,
        name: TableName,
        requirements: Sequence[Mapping[str, Any]],
        updates: Sequence[Mapping[str, Any]],
        client: Client | None,
        idempotency_key: str | None,
        *,
        is_blind: bool = False,
    ) -> Change:
        return from_request(
            requirements,
            updates,
            client,
            idempotency_key=idempotency_key,
            rebase_policy=blind_policy if is_blind else partial(self._access.rebase_policies.of, name.namespace),
            max_updates=self.settings.max_updates,
        )

    def _create(
        self,
        name: TableName,
        change: Change,
        client: Client | None,
        *,
        chosen: NewFolder | None = None,
        owns_folder: bool = False,
    ) -> CommitReport:
        """Create a table. chosen: its folder, if the server has just looked whether it is free."""
        namespace = self.services.namespaces.load(name.namespace)
        return self.services.coordinator.operations.create(
            name,
            change,
            owner=change.identity.caller or None,
            guard=self._guard(name, namespace, client),
            root=namespace.get(NAMESPACE_LOCATION),
            folder_is_free=chosen is not None,
            folder_is_new=chosen is not None and chosen.is_new,
            owns_folder=owns_folder,
        )

    def _guard(self, name: TableName, namespace: Mapping[str, str], client: Client | None) -> LocationGuard | None:
        """The guard of a request for a new table in a namespace with these properties; None if its caller may name
        every location."""
        locations = client_locations(self._locations, name, client)
        return None if locations is None else locations.guard(namespace.get(NAMESPACE_LOCATION))

    def _with_lock_property(self, properties: Mapping[str, str]) -> dict[str, str]:
        """With lock=zookeeper, new tables get the property that makes all writers use ZooKeeper."""
        marks = {LOCK_MARK: LockMode.ZOOKEEPER.value} if self.settings.lock == LockMode.ZOOKEEPER else {}
        return {**marks, **properties}
