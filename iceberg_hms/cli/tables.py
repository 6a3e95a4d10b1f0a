"""`iceberg-hms tables`: the Iceberg tables of the metastore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_hms.changes.summary import whole_number
from iceberg_hms.cli import output
from iceberg_hms.cli.common import (
    AsJson,
    ConfigFile,
    MetastoreUri,
    Overrides,
    Warehouse,
    load_settings,
    one_line,
    open_catalog,
)
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CorruptFile, InvalidInput, NotFound, StorageError

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table. Without `--long` only its name is known; `error` says why a table could not be read."""

    namespace: str
    name: str
    format_version: int | None = None
    snapshots: int | None = None
    current_snapshot_id: int | None = None
    records: int | None = None
    files: int | None = None
    size: int | None = None
    last_updated_ms: int | None = None
    error: str | None = None


def tables(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Argument(help="Only this database.")] = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="Read each table's metadata, too.")] = False,
    metastore_uri: MetastoreUri = None,
    warehouse: Warehouse = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """List Iceberg tables."""
    settings = load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    with open_catalog(context, settings) as catalog:
        namespaces = catalog.list_namespaces() if namespace is None else [namespace]
        names = [name for each in namespaces for name in catalog.list_tables(each)]
        rows = [describe(catalog, name) if long else TableRow(name.namespace, name.name) for name in names]
    if as_json:
        output.print_json([asdict(row) if long else {"namespace": row.namespace, "name": row.name} for row in rows])
    elif long:
        print_long(rows)
    else:
        output.console().print(output.table("", ("namespace", "table"), [(row.namespace, row.name) for row in rows]))


def describe(catalog: Catalog, name: TableName) -> TableRow:
    """A table's numbers. If its files are missing or damaged, the row says why, and the listing goes on."""
    try:
        metadata = catalog.load(name).metadata
    except (NotFound, CorruptFile, StorageError, InvalidInput) as error:
        return TableRow(name.namespace, name.name, error=one_line(error.message))
    snapshot = metadata.current_snapshot
    summary: Mapping[str, str] = {} if snapshot is None else snapshot.summary
    return TableRow(
        namespace=name.namespace,
        name=name.name,
        format_version=metadata.format_version,
        snapshots=len(metadata.snapshots),
        current_snapshot_id=metadata.current_snapshot_id,
        records=total(summary, "total-records"),
        files=total(summary, "total-data-files"),
        size=total(summary, "total-files-size"),
        last_updated_ms=metadata.last_updated_ms,
    )


def total(summary: Mapping[str, str], key: str) -> int | None:
    """A number of a snapshot summary; None where the writer left it out or wrote something else."""
    found = whole_number(summary.get(key))
    return found if found is not None and found >= 0 else None


def print_long(rows: list[TableRow]) -> None:
    """The rows of `--long` as a table."""
    columns = ("table", "format", "snapshots", "current snapshot", "rows", "files", "size", "last updated", "error")
    shown = [
        (
            f"{row.namespace}.{row.name}",
            row.format_version,
            row.snapshots,
            row.current_snapshot_id,
            row.records,
            row.files,
            output.size(row.size),
            output.instant(row.last_updated_ms),
            row.error,
        )
        for row in rows
    ]
    used = [index for index, name in enumerate(columns) if name != "error" or any(row.error for row in rows)]
    output.console().print(
        output.table("", [columns[index] for index in used], [[row[index] for index in used] for row in shown])
    )
