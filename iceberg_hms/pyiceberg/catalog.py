"""PyIceberg's Catalog interface on our coordinator."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ViewAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.view import View
from pyiceberg.view.metadata import ViewMetadata, ViewVersion

from iceberg_hms import errors
from iceberg_hms.assembly import assemble
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.changes.clients.request import Client
from iceberg_hms.pyiceberg import upstream
from iceberg_hms.pyiceberg.configuration import file_io_properties, merged, settings_of
from iceberg_hms.pyiceberg.errors import as_pyiceberg
from iceberg_hms.pyiceberg.held_loads import Loaded, held_while_away
from iceberg_hms.pyiceberg.tables import HmsTable, commits_blind_append

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_hms.catalog.table_access import LoadedTable
    from iceberg_hms.catalog.views import LoadedView

_CLIENT = Client(user_agent=upstream.USER_AGENT, is_here=True)


class HmsCatalog(MetastoreCatalog):
    """A PyIceberg catalog that commits through the coordinator, in process.

    name, properties: as for `pyiceberg.catalog.load_catalog` (`configuration.py` lists the properties). Raises
    ConfigError. Safe for threads, as are the tables that it returns, each of which belongs to one thread at a time.
    Close it, or use it as a context manager; one that is forgotten closes itself. Its errors are PyIceberg's
    (`errors.py`).
    """

    def __init__(self, name: str, **properties: str) -> None:
        given = merged(name, properties)
        settings = settings_of(given)
        super().__init__(name, **{**file_io_properties(settings), **given})
        self._hms = assemble(settings)
        # PyIceberg's programs close no catalog. At the end of the process there is nothing to tidy up.
        self._forgotten = weakref.finalize(self, _close_later, self._hms, os.getpid())
        self._forgotten.atexit = False

    @property
    def hms(self) -> Catalog:
        """The same catalog by our own API: locks, snapshots, maintenance. The caller closes one of the two: from now on
        this one does not close itself."""
        self._forgotten.detach()
        return self._hms

    def close(self) -> None:
        """End connections and threads. What the catalog returned may read on, and commit nothing."""
        self._forgotten.detach()
        self._hms.close()

    # Tables

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create an empty table. location: by default our rule for folders chooses it. Raises TableAlreadyExistsError,
        NoSuchNamespaceError, ValueError."""
        name, parts = self._new_table(identifier, schema, location, partition_spec, sort_order, properties)
        with as_pyiceberg():
            self._hms.create_table(name, *parts, client=_CLIENT)
        return self.load_table(name)

    def _create_staged_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> StagedTable:
        name, parts = self._new_table(identifier, schema, location, partition_spec, sort_order, properties)
        with as_pyiceberg():
            staged = self._hms.stage_table(name, *parts, client=_CLIENT)
        metadata = _parsed(staged)
        # As PyIceberg's REST catalog: a staged table has no metadata file.
        nowhere: Any = None
        io = self._load_file_io(metadata.properties, metadata.location)
        return StagedTable(name, metadata, nowhere, io, self)

    def _new_table(self, identifier: str | Identifier, *given: Any) -> tuple[tuple[str, str], tuple[Any, ...]]:
        """A new table's name, and what our own API makes it of. given: the other arguments of `create_table`."""
        name = self.identifier_to_database_and_table(identifier)
        body = upstream.create_table_request(name[1], *given)
        parts = ("schema", "location", "partition-spec", "write-order", "properties")
        return name, tuple(body.get(part) for part in parts)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Raises NoSuchTableError (NoSuchIcebergTableError for a table of another format), FileNotFoundError."""
        name = self._table(identifier)
        with as_pyiceberg():
            loaded = self._held(lambda: self._hms.load(name))
        metadata = _parsed(loaded)
        location = str(loaded.metadata_location)
        io = self._load_file_io(metadata.properties, location)
        return HmsTable(name, metadata, location, io, self, plans=lambda: self._hms.services, ours=loaded.metadata)

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether there is an Iceberg table of this name."""
        try:
            name = self._table(identifier)
        except NoSuchTableError:
            return False
        with as_pyiceberg():
            return self._held(lambda: self._hms.table_exists(name))

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Make a table of a metadata file. Raises TableAlreadyExistsError, NoSuchNamespaceError, FileNotFoundError."""
        name = self.identifier_to_database_and_table(identifier)
        with as_pyiceberg():
            self._hms.register_table(name, metadata_location, overwrite=overwrite, client=_CLIENT)
        return self.load_table(name)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Remove a table from the metastore; its files stay. Raises NoSuchTableError, CommitFailedException."""
        name = self._table(identifier)
        with as_pyiceberg():
            self._hms.drop_table(name)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Remove a table, and delete the files in the folders that it owns (docs/security.md). Raises as
        `drop_table`."""
        name = self._table(identifier)
        with as_pyiceberg():
            self._hms.purge_table(name)

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Raises NoSuchTableError, NoSuchNamespaceError, TableAlreadyExistsError."""
        old, new = self._table(from_identifier), self.identifier_to_database_and_table(to_identifier)
        with as_pyiceberg():
            self._hms.rename_table(old, new)
        return self.load_table(new)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """The Iceberg tables of a namespace. Raises NoSuchNamespaceError."""
        with as_pyiceberg():
            return [(each.namespace, each.name) for each in self._hms.list_tables(self._namespace(namespace))]

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates under requirements; an append that read nothing of the table on any state of its branch.

        Raises CommitFailedException, after which PyIceberg tries again, and ValidationException, both only where
        nothing was changed; NoSuchTableError; CommitStateUnknownException, after which no file may be deleted."""
        name = self._table(table.name())
        body = upstream.commit_table_request(name, requirements, updates)
        with as_pyiceberg(commit=True):
            report = self._hms.commit(
                name, body["requirements"], body["updates"], client=_CLIENT, is_blind=commits_blind_append()
            )
        found = {"metadata": _metadata(report.metadata.fields), "metadata-location": report.metadata_location}
        return CommitTableResponse.model_validate(found)

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Nothing: the coordinator deletes what falls out of the metadata log, where the table says so."""

    # Namespaces

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Raises NamespaceAlreadyExistsError, ValueError."""
        with as_pyiceberg(exists=NamespaceAlreadyExistsError):
            self._hms.create_namespace(self.identifier_to_database(namespace), upstream.texts(properties))

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        with as_pyiceberg():
            self._hms.drop_namespace(self._namespace(namespace))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """All namespaces; none below another one. Raises NoSuchNamespaceError."""
        with as_pyiceberg():
            if namespace:
                self._hms.load_namespace_properties(self._namespace(namespace))
                return []
            return [(each,) for each in self._hms.list_namespaces()]

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Whether there is a namespace of this name."""
        try:
            name = self._namespace(namespace)
        except NoSuchNamespaceError:
            return False
        with as_pyiceberg():
            return self._hms.namespace_exists(name)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Raises NoSuchNamespaceError."""
        with as_pyiceberg():
            return self._hms.load_namespace_properties(self._namespace(namespace))

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Raises NoSuchNamespaceError, ValueError for a key in both."""
        with as_pyiceberg():
            done = self._hms.update_namespace_properties(self._namespace(namespace), removals, upstream.texts(updates))
        return PropertiesUpdateSummary(list(done.removed), list(done.updated), list(done.missing))

    # Views

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        """Raises ViewAlreadyExistsError (also for a table of this name), NoSuchNamespaceError, ValueError."""
        name = self.identifier_to_database_and_table(identifier)
        body = upstream.create_view_request(name[1], schema, view_version, location, properties)
        parts = (body["schema"], body["view-version"], body.get("location"), body["properties"])
        with as_pyiceberg(exists=ViewAlreadyExistsError):
            return _view(name, self._hms.views.create(name, *parts, client=_CLIENT))

    def load_view(self, identifier: str | Identifier) -> View:
        """Raises NoSuchViewError, FileNotFoundError."""
        name = self._view_name(identifier)
        with as_pyiceberg():
            return _view(name, self._hms.views.load(name))

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Whether there is an Iceberg view of this name."""
        try:
            name = self._view_name(identifier)
        except NoSuchViewError:
            return False
        with as_pyiceberg():
            return self._hms.views.exists(name)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """The Iceberg views of a namespace. Raises NoSuchNamespaceError."""
        with as_pyiceberg():
            return [(each.namespace, each.name) for each in self._hms.views.list(self._namespace(namespace))]

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Make a view of a metadata file. Raises ViewAlreadyExistsError, NoSuchNamespaceError, FileNotFoundError."""
        name = self.identifier_to_database_and_table(identifier)
        with as_pyiceberg(exists=ViewAlreadyExistsError):
            return _view(name, self._hms.views.register(name, metadata_location, client=_CLIENT))

    def drop_view(self, identifier: str | Identifier) -> None:
        """Raises NoSuchViewError."""
        name = self._view_name(identifier)
        with as_pyiceberg():
            self._hms.views.drop(name)

    def _held(self, load: Callable[[], Loaded]) -> Loaded:
        return held_while_away(load, self._hms.services.ports.runtime)

    # Names: each level of PyIceberg's may be anything; the metastore has one level of namespaces.

    def _table(self, identifier: str | Identifier) -> tuple[str, str]:
        return self.identifier_to_database_and_table(identifier, NoSuchTableError)

    def _view_name(self, identifier: str | Identifier) -> tuple[str, str]:
        try:
            return self.identifier_to_database_and_table(identifier)
        except ValueError as error:
            raise NoSuchViewError(str(error)) from None

    def _namespace(self, namespace: str | Identifier) -> str:
        return self.identifier_to_database(namespace, NoSuchNamespaceError)


def _close_later(hms: Catalog, process: int) -> None:
    """Close what nobody refers to any more. On a thread of its own: the garbage collector comes by on any, while it may
    hold what closing waits for. process: a forked child does not close what its parent uses."""
    if os.getpid() == process:
        hms.services.ports.runtime.spawn("close", hms.close, background=True)


def _parsed(loaded: LoadedTable) -> TableMetadata:
    return _metadata(loaded.metadata.fields)


def _metadata(fields: Mapping[str, Any]) -> TableMetadata:
    try:
        return TableMetadataUtil.parse_obj(dict(fields))
    except ValueError as error:
        raise errors.UnsupportedFormat(f"PyIceberg cannot read the table's metadata: {error}") from error


def _view(name: tuple[str, str], loaded: LoadedView) -> View:
    return View(name, ViewMetadata.model_validate_json(loaded.metadata.to_bytes()))
