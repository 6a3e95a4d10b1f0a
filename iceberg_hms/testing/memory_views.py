"""The ViewPointer port in memory. It shares the rows of a MemoryTablePointer, and its script of answers."""

from __future__ import annotations

from dataclasses import replace

from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, SwapAnswer, Swapped, TableName
from iceberg_hms.errors import AlreadyExists, CompareAndSwapUnproven, NoSuchNamespace, NoSuchView, NotAnIcebergView
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.metastore.tables.parameters import (
    METADATA_LOCATION,
    PREVIOUS_METADATA_LOCATION,
    VIRTUAL_VIEW,
    is_iceberg,
    is_iceberg_view,
    owner_of,
    view_parameters_for,
)
from iceberg_hms.metastore.tables.view_text import row_sql
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer

_MAX_PARAMETER_SIZE = 32_672


class MemoryViewPointer:
    """coordinator.view_ports.ViewPointer. tables: has the rows of both, so that a name is taken once."""

    def __init__(self, tables: MemoryTablePointer) -> None:
        self.tables = tables

    def load(self, name: TableName) -> Pointer:
        """As the port says."""
        tables = self.tables
        tables.calls.append(("load", name))
        if tables.load_errors:
            raise tables.load_errors.popleft()
        row = tables.rows.get(name)
        if row is None:
            raise NoSuchView(name)
        location = row.parameters.get(METADATA_LOCATION)
        if not is_iceberg_view(row.table_type, row.parameters) or not location:
            raise NotAnIcebergView(name, row.table_type, is_table=is_iceberg(row.parameters))
        previous = row.parameters.get(PREVIOUS_METADATA_LOCATION)
        return Pointer(name, location, previous, row.parameters, row, row.location, is_view=True)

    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: ViewMetadata,
        replaced: ViewMetadata,
        sending: Sending,
    ) -> SwapAnswer:
        """As the port says."""
        self._check_cas(sending)

        def move() -> SwapAnswer:
            if (refusal := self.tables.refusal(base, NoSuchView)) is not None:
                return refusal
            parameters = view_parameters_for(
                base.parameters, location, metadata, replaced=replaced, max_size=_MAX_PARAMETER_SIZE
            )
            self.tables.rows[base.name] = replace(
                base.table, parameters=parameters, location=metadata.location, sql=row_sql(metadata)
            )
            return Swapped()

        return self.tables.move("swap", base.name, move, self.tables.atomic)

    def create(self, name: TableName, location: str, metadata: ViewMetadata, owner: str | None) -> SwapAnswer:
        """As the port says."""

        def move() -> SwapAnswer:
            if name.namespace not in self.tables.namespaces:
                return Refused(False, NoSuchNamespace(name.namespace))
            if name in self.tables.rows:
                return Refused(True, AlreadyExists(f"View already exists: {name}"))
            parameters = view_parameters_for({}, location, metadata, replaced=None, max_size=_MAX_PARAMETER_SIZE)
            owned = owner_of(metadata.properties, owner, self.tables.user)
            self.tables.rows[name] = MemoryRow(parameters, owned, metadata.location, VIRTUAL_VIEW, row_sql(metadata))
            return Swapped()

        return self.tables.move("create", name, move)

    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        """As the port says."""
        self._check_cas(sending)

        def move() -> SwapAnswer:
            if (refusal := self.tables.refusal(base, NoSuchView)) is not None:
                return refusal
            if to.namespace not in self.tables.namespaces:
                return Refused(False, NoSuchNamespace(to.namespace))
            if to in self.tables.rows:
                return Refused(True, AlreadyExists(f"View already exists: {to}"))
            self.tables.rows[to] = self.tables.rows.pop(base.name)
            return Swapped()

        return self.tables.move("rename", base.name, move)

    def drop(self, base: Pointer, sending: Sending) -> SwapAnswer:  # noqa: ARG002 - the port's
        """As the port says."""

        def move() -> SwapAnswer:
            if self.tables.rows.pop(base.name, None) is None:
                return Refused(True, NoSuchView(base.name))
            return Swapped()

        return self.tables.move("drop", base.name, move)

    def list_views(self, namespace: str) -> list[str]:
        """As the port says."""
        if namespace not in self.tables.namespaces:
            raise NoSuchNamespace(namespace)
        rows = list(self.tables.rows.items())
        views = [name for name, row in rows if is_iceberg_view(row.table_type, row.parameters)]
        return sorted(name.name for name in views if name.namespace == namespace)

    def _check_cas(self, sending: Sending) -> None:
        if sending.require_cas and not self.tables.atomic:
            raise CompareAndSwapUnproven("The metastore is not proven to compare and swap atomically")
