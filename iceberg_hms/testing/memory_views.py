"""The ViewPointer port in memory. It shares the rows of a MemoryTablePointer, and its script of answers."""

from __future__ import annotations

from dataclasses import replace

from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.errors import NoSuchTable, NoSuchView, NotAnIcebergView
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.metastore.tables.parameters import (
    METADATA_LOCATION,
    VIRTUAL_VIEW,
    is_iceberg,
    is_iceberg_view,
    owner_of,
    view_parameters_for,
)
from iceberg_hms.metastore.tables.view_text import row_sql
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer, pointer_of

_MAX_PARAMETER_SIZE = 32_672


class MemoryViewPointer:
    """coordinator.view_ports.ViewPointer. tables: has the rows of both, so that a name is taken once."""

    def __init__(self, tables: MemoryTablePointer) -> None:
        self.tables = tables

    def load(self, name: TableName) -> Pointer:
        """As the port says."""
        try:
            row = self.tables.read(name)
        except NoSuchTable:
            raise NoSuchView(name) from None
        if not is_iceberg_view(row.table_type, row.parameters) or not row.parameters.get(METADATA_LOCATION):
            raise NotAnIcebergView(name, row.table_type, is_table=is_iceberg(row.parameters))
        return pointer_of(name, row, allow_view=True)

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: ViewMetadata,
        replaced: ViewMetadata,
        sending: Sending,
    ) -> SwapAnswer:
        """As the port says."""
        parameters = view_parameters_for(
            base.parameters, location, metadata, replaced=replaced, max_size=_MAX_PARAMETER_SIZE
        )
        row = replace(base.table, parameters=parameters, location=metadata.location, sql=row_sql(metadata))
        return self.tables.alter("swap", base, base.name, row, sending, NoSuchView)

    def create(self, name: TableName, location: str, metadata: ViewMetadata, owner: str | None) -> SwapAnswer:
        """As the port says."""
        parameters = view_parameters_for({}, location, metadata, replaced=None, max_size=_MAX_PARAMETER_SIZE)
        owned = owner_of(metadata.properties, owner, self.tables.user)
        row = MemoryRow(parameters, owned, metadata.location, VIRTUAL_VIEW, row_sql(metadata))
        return self.tables.change("create", name, lambda: self.tables.metastore.insert(name, row))

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As the port says."""
        return self.tables.alter("rename", base, to, base.table, sending, NoSuchView)

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:  # noqa: ARG002 - the port's
        """As the port says."""
        metastore = self.tables.metastore
        return self.tables.change("drop", base.name, lambda: metastore.remove(base.name), NoSuchView)

    def list_views(self, namespace: str) -> list[str]:
        """As the port says."""
        self.tables.metastore.database(namespace)
        rows = self.tables.metastore.rows_in(namespace).items()
        return sorted(name.name for name, row in rows if is_iceberg_view(row.table_type, row.parameters))
