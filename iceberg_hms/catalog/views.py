"""Iceberg views of a catalog: the Python API, which the REST server uses too.

It never touches Hive views: loading one raises NotAnIcebergView, which is a NoSuchView.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iceberg_hms.catalog.locations import NAMESPACE_LOCATION, client_locations, namespace_folder, new_view_folder
from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.changes.clients.request import Client
from iceberg_hms.changes.clients.view_commit import ViewCommit
from iceberg_hms.coordinator.locations.location_policy import LocationPolicy
from iceberg_hms.coordinator.operations.view_operations import LoadedView as LoadedView
from iceberg_hms.coordinator.operations.view_operations import (
    ViewOperations,
    check_locations,
    refuse_view_folder,
    refuse_view_paths,
)
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import NoSuchNamespace, NoSuchView
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.identifiers import Identifier, namespace_name, new_view_name, spelled, view_name


class Views:
    """Made by `Catalog.views`. Safe for threads. locations: which locations callers may name; None: all.

    Every call to the metastore may raise MetastoreUnavailable, AccessDenied or MetastoreRefused."""

    def __init__(self, access: TableAccess, locations: LocationPolicy | None) -> None:
        self._access = access
        self._locations = locations

    def list(self, namespace: str) -> list[TableName]:
        """The Iceberg views of a database, sorted by name. Raises NoSuchNamespace."""
        namespace = namespace_name(namespace)
        return [TableName(namespace, name) for name in self._operations.pointer.list_views(namespace)]

    def exists(self, identifier: Identifier) -> bool:
        """Whether an Iceberg view of this name exists."""
        try:
            self._operations.pointer.load(view_name(identifier))
        except NoSuchView:
            return False
        return True

    def load(self, identifier: Identifier) -> LoadedView:
        """The view as it is now. Raises NoSuchView (NotAnIcebergView if the name belongs to something else),
        MissingFile, CorruptFile."""
        loaded = self._operations.load(view_name(identifier))
        if self._locations is not None and self._locations.strict:
            self._locations.guard().check_file(loaded.metadata_location, "the view's metadata file")
        return loaded

    def create(
        self,
        identifier: Identifier,
        schema: Mapping[str, Any],
        version: Mapping[str, Any],
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        client: Client | None = None,
    ) -> LoadedView:
        """Create a view.

        schema, version: as the REST protocol has them in JSON (Schema, ViewVersion); their ids become 0 and 1.
        location: by default `<location of the namespace>/<name>-<random suffix>`. client: its caller owns the view;
        else the one whom `hive.metastore.table.owner` names, or the setting `user`.
        Raises AlreadyExists (also for a table of this name), NoSuchNamespace, InvalidInput (also for a location that
        is, contains or lies in that of another table or view)."""
        name = new_view_name(identifier)
        services = self._access.services
        namespace = services.namespaces.load(name.namespace)
        runtime = services.ports.runtime
        metadata = new_view_metadata(
            runtime.uuid(),
            location or new_view_folder(services, name, namespace),
            properties or {},
            schema,
            version,
            now_ms=runtime.now_ms(),
        )
        locations = client_locations(self._locations, name, client)
        if locations is not None:
            check_locations(locations.guard(namespace.get(NAMESPACE_LOCATION)), None, metadata)
        if location:
            refuse_view_folder(services.ports, name, metadata, root=namespace_folder(services, name, namespace))
        refuse_view_paths(services.ports, name, None, metadata)
        owner = None if client is None else client.caller or None
        return self._operations.create(name, metadata, owner=owner)

    def commit(
        self,
        identifier: Identifier,
        requirements: Sequence[Mapping[str, Any]],
        updates: Sequence[Mapping[str, Any]],
        *,
        client: Client | None = None,
        wait_seconds: float | None = None,
    ) -> LoadedView:
        """Commit requirements and updates in the REST protocol's JSON shapes (ViewRequirement, ViewUpdate). They are
        replayed on the view as it is under the lock. A commit that changes nothing succeeds.

        wait_seconds: how long to wait for the lock; by default `Catalog.default_wait_seconds`.
        Raises NoSuchView, InvalidInput; CommitFailed and its subtypes when it is proved that nothing changed;
        CommitStateUnknown when that is not known."""
        name = view_name(identifier)
        change = ViewCommit.parse(requirements, updates, max_updates=self._access.services.settings.max_updates)
        wait = self._access.wait_seconds(wait_seconds)
        return self._operations.commit(
            name, change, wait_seconds=wait, locations=client_locations(self._locations, name, client)
        )

    def drop(self, identifier: Identifier, *, wait_seconds: float | None = None) -> None:
        """Remove a view from the metastore; its files stay. Raises NoSuchView, LockNotAcquired, CommitStateUnknown."""
        self._operations.drop(view_name(identifier), wait_seconds=self._access.wait_seconds(wait_seconds))

    def rename(
        self, from_identifier: Identifier, to_identifier: Identifier, *, wait_seconds: float | None = None
    ) -> None:
        """Give a view another name, in the same or another namespace; its files stay where they are.
        Raises NoSuchView, NoSuchNamespace, AlreadyExists, LockNotAcquired, CommitStateUnknown."""
        name, to = view_name(from_identifier), new_view_name(to_identifier)
        what = f"Cannot rename {spelled(from_identifier)} to {spelled(to_identifier)}"
        if not self._access.services.namespaces.exists(to.namespace):
            raise NoSuchNamespace(to.namespace)
        wait = self._access.wait_seconds(wait_seconds)
        self._operations.rename(name, to, wait_seconds=wait, what=what)

    def register(
        self,
        identifier: Identifier,
        metadata_location: str,
        *,
        owner: str = "",
        client: Client | None = None,
        wait_seconds: float | None = None,  # noqa: ARG002 - a creation waits for no lock
        check: Callable[[ViewMetadata], None] | None = None,
    ) -> LoadedView:
        """Make a view of an existing metadata file. owner: of the view; "": as its properties say, else the setting
        `user`. check: raises to refuse what the file holds.
        Raises AlreadyExists, NoSuchNamespace, MissingFile, CorruptFile."""
        name = new_view_name(identifier)
        services = self._access.services
        namespace = services.namespaces.load(name.namespace)
        locations = client_locations(self._locations, name, client)
        guard = None if locations is None else locations.guard(namespace.get(NAMESPACE_LOCATION))
        root = namespace_folder(services, name, namespace)
        return self._operations.register(
            name, metadata_location, owner=owner or None, root=root, guard=guard, check=check
        )

    @property
    def _operations(self) -> ViewOperations:
        return self._access.services.views
