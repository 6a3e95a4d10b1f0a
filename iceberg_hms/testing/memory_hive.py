"""Hive tables in memory, in the rows of a MemoryTablePointer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final
from urllib.parse import unquote

from iceberg_hms.coordinator.hive_ports import HiveColumn, HivePartition, HiveRow, HiveTable
from iceberg_hms.coordinator.ports import HIVE_TABLE, Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.errors import AlreadyIceberg, InvalidInput, MetastoreUnavailable, NoSuchNamespace
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.tables.parameters import (
    EXTERNAL_TABLE,
    METADATA_LOCATION,
    is_iceberg,
    is_purged,
    parameters_for,
)
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer

_LAST_CHANGED: Final = "transient_lastDdlTime"


class MemoryHiveTables:
    """coordinator.hive_ports.HiveTables.

    slow: searches run out of time. now_seconds: the time of its next change."""

    def __init__(self, tables: MemoryTablePointer) -> None:
        self.tables = tables
        self.slow = False
        self.now_seconds = 1_700_000_000
        self._created: dict[TableName, int] = {}

    def add(
        self,
        name: TableName,
        location: str,
        table_type: str = "MANAGED_TABLE",
        parameters: Mapping[str, str] | None = None,
        partitions: Sequence[str] = (),
    ) -> None:
        """Add a row of a table that is not Iceberg's."""
        self.tables.rows[name] = MemoryRow(
            {_LAST_CHANGED: str(self.now_seconds), **(parameters or {})},
            location=location,
            table_type=table_type,
            columns=(HiveColumn("id", "int"),),
            partition_keys=(HiveColumn("p", "string"),) if partitions else (),
            folders=tuple(partitions),
        )
        self._created[name] = len(self._created)

    def load(self, name: TableName) -> HiveTable | None:
        """As the port says."""
        row = self.tables.rows.get(name)
        if row is None or is_iceberg(row.parameters) or row.location is None:
            return None
        if not is_purged(row.table_type, row.parameters):
            return None
        return HiveTable(name, row.location, self._created.get(name, 0), bool(row.folders))

    def iceberg_tables(self, namespace: str, *, timeout_seconds: float) -> Iterator[Pointer]:
        """As the port says."""
        self._look_at_the_clock(timeout_seconds)
        if namespace in self.tables.metastore.databases:
            for name in self.tables.list_tables(namespace):
                yield self.tables.load(TableName(namespace, name))

    def drop(self, table: HiveTable, sending: Sending) -> SwapAnswer:  # noqa: ARG002 - the port's
        """As the port says."""
        return self.tables.change("drop_hive", table.name, lambda: self.tables.metastore.remove(table.name))

    def names(self, namespace: str, *, timeout_seconds: float) -> Sequence[str]:
        """As the port says."""
        self._look_at_the_clock(timeout_seconds)
        if namespace not in self.tables.metastore.databases:
            raise NoSuchNamespace(namespace)
        rows = self.tables.rows.items()
        return sorted(
            name.name
            for name, row in rows
            if name.namespace == namespace and not is_iceberg(row.parameters) and not row.table_type.endswith("_VIEW")
        )

    def load_row(self, name: TableName) -> HiveRow:
        """As the port says."""
        row = self.tables.read(name)
        if is_iceberg(row.parameters):
            raise AlreadyIceberg(name, row.parameters.get(HIVE_TABLE))
        return _hive_row(name, row)

    def partitions(self, row: HiveRow) -> Iterator[HivePartition]:
        """As the port says. A folder that is called as Hive calls it says the values, else its number does."""
        keys = [each.name.lower() for each in row.partition_keys]
        for number, folder in enumerate(self.tables.metastore.get(row.name).folders):
            pairs = [each.partition("=") for each in folder.rstrip("/").split("/")[-len(keys) :]]
            is_called_so = [key for key, _, _ in pairs] == keys
            values = tuple(unquote(value) for _, _, value in pairs) if is_called_so else (str(number),) * len(keys)
            yield HivePartition(values, folder, None, None)

    def partition_names(self, row: HiveRow) -> Sequence[str]:
        """As the port says."""
        keys = [each.name.lower() for each in row.partition_keys]
        return sorted(
            "/".join(f"{key}={value}" for key, value in zip(keys, each.values, strict=True))
            for each in self.partitions(row)
        )

    def become_iceberg(
        self, row: HiveRow, location: str, metadata: TableMetadata, saved: str, sending: Sending
    ) -> SwapAnswer:
        """As the port says."""
        parameters = parameters_for(_unmarked(row.parameters), location, metadata, replaced=None, max_size=32_672)
        parameters |= {"EXTERNAL": "TRUE", HIVE_TABLE: saved, _LAST_CHANGED: self._later(row.last_changed)}
        changed = replace(row.table, parameters=parameters, table_type=EXTERNAL_TABLE)
        expected = _LAST_CHANGED, row.last_changed or ""
        return self.tables.replace("become_iceberg", row.name, expected, row.name, changed, sending)

    def become_hive(self, base: Pointer, row: HiveRow, mark: str, sending: Sending) -> SwapAnswer:
        """As the port says."""
        later = self._later(base.parameters.get(_LAST_CHANGED))
        parameters = {**_unmarked(row.parameters), METADATA_LOCATION: mark, _LAST_CHANGED: later}
        changed = replace(row.table, parameters=parameters)
        return self.tables.alter("become_hive", base, base.name, changed, sending)

    def clear_mark(self, row: HiveRow, sending: Sending) -> SwapAnswer:
        """As the port says."""
        parameters = {**_unmarked(row.parameters), _LAST_CHANGED: self._later(row.last_changed)}
        changed = replace(row.table, parameters=parameters)
        expected = _LAST_CHANGED, row.last_changed or ""
        return self.tables.replace("clear_mark", row.name, expected, row.name, changed, sending)

    def encode(self, row: HiveRow) -> str:
        """As the port says."""
        return json.dumps(asdict(row.table))

    def decode(self, name: TableName, text: str) -> HiveRow:
        """As the port says."""
        try:
            fields = json.loads(text)
            for key in ("columns", "partition_keys"):
                fields[key] = tuple(HiveColumn(**each) for each in fields[key])
            fields["folders"] = tuple(fields["folders"])
            return _hive_row(name, MemoryRow(**fields))
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"The text of a row cannot be read: {error}") from error

    def _later(self, last: str | None) -> str:
        return str(max(self.now_seconds, int(last or 0) + 1))

    def _look_at_the_clock(self, timeout_seconds: float) -> None:
        if self.slow or timeout_seconds <= 0:
            raise MetastoreUnavailable("There was no time to read all rows", next_step="")


def _hive_row(name: TableName, row: MemoryRow) -> HiveRow:
    return HiveRow(
        name=name,
        table_type=row.table_type,
        parameters=dict(row.parameters),
        columns=row.columns,
        partition_keys=row.partition_keys,
        location=row.location,
        input_format=row.input_format,
        serde=row.serde,
        serde_parameters={},
        bucket_columns=(),
        num_buckets=0,
        owner=row.owner,
        table=row,
    )


def _unmarked(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key != METADATA_LOCATION}
