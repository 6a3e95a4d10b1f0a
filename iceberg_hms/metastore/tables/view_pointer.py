"""Rows of Iceberg views in the metastore, as Java's HiveViewOperations writes them: the ViewPointer port over
Thrift."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.errors import NoSuchView, NotAnIcebergView
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.storable import VALUE_MAX, fits
from iceberg_hms.metastore.tables.parameters import (
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    VIRTUAL_VIEW,
    is_iceberg,
    is_iceberg_view,
    owner_of,
    view_parameters_for,
)
from iceberg_hms.metastore.tables.rows import HmsRows, kind_of
from iceberg_hms.metastore.tables.table_names import TableNames
from iceberg_hms.metastore.tables.view_text import expanded_sql, row_sql

logger = logging.getLogger(__name__)


class HmsViewPointer:
    """coordinator.view_ports.ViewPointer on a metastore."""

    def __init__(self, pool: ClientPool, settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_parameter_size = settings.table_property_max_size
        self._user = settings.user
        self._rows = HmsRows(pool, clock, kind="View", missing=NoSuchView)
        self._names = TableNames(pool, clock=clock)

    def load(self, name: TableName) -> Pointer:
        return _pointer(name, self._rows.load(name))

    def swap(
        self, base: Pointer, location: str, metadata: ViewMetadata, replaced: ViewMetadata, sending: Sending
    ) -> SwapAnswer:
        view = copy.copy(base.table)
        view.parameters = view_parameters_for(
            base.parameters, location, metadata, replaced=replaced, max_size=self._max_parameter_size
        )
        return self._rows.alter(base, self._with_content(view, metadata), sending)

    def create(self, name: TableName, location: str, metadata: ViewMetadata, owner: str | None) -> SwapAnswer:
        """As the port says. Raises InvalidInput, before anything is sent, for a name, owner or location that the
        metastore cannot hold."""
        parameters = view_parameters_for({}, location, metadata, replaced=None, max_size=self._max_parameter_size)
        owner = owner_of(metadata.properties, owner, self._user)
        view = self._rows.new(name, VIRTUAL_VIEW, parameters, owner)
        return self._rows.create(name, self._with_content(view, metadata))

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As the port says. Raises InvalidInput as `create`."""
        return self._rows.rename(base, to, sending)

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:
        return self._rows.drop(base.name, sending)

    def list_views(self, namespace: str) -> Sequence[str]:
        names = self._names.views_in(namespace)
        if not names:
            # The metastore answers an empty list for a database that is not there.
            self._rows.check_namespace(namespace)
        return sorted(names)

    def _with_content(self, view: Any, metadata: ViewMetadata) -> Any:
        """The row with the columns, the folder and the SQL of this metadata."""
        current = view.sd.cols if view.sd is not None else []
        view = self._rows.with_columns(view, self._rows.columns(metadata.schema, current), metadata.location)
        sql, expanded = row_sql(metadata), expanded_sql(metadata)
        if sql is None or expanded is None:
            return view
        is_held = fits(expanded, VALUE_MAX)
        if not is_held:
            name = f"{view.dbName}.{view.tableName}"
            logger.warning("The SQL of %s is left out of its row: not every metastore holds it", name)
        # Not cut: Hive would run that as another query.
        view.viewOriginalText, view.viewExpandedText = (sql, expanded) if is_held else (None, None)
        return view


def _pointer(name: TableName, view: Any) -> Pointer:
    """The row of an Iceberg view. Raises NotAnIcebergView."""
    parameters = view.parameters or {}
    location = parameters.get(METADATA_LOCATION)
    if not is_iceberg_view(view.tableType, parameters) or not location:
        raise NotAnIcebergView(name, kind_of(view), is_table=is_iceberg(parameters))
    folder = None if view.sd is None else view.sd.location
    previous = parameters.get(PREVIOUS_METADATA_LOCATION)
    return Pointer(name, location, previous, parameters, view, folder or None, is_view=True)
