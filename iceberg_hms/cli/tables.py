"""`iceberg-hms tables`: the Iceberg tables of the metastore."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from iceberg_hms.changes.summary import whole_number
from iceberg_hms.cli import common, output
from iceberg_hms.cli.render import moment
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CorruptFile, InvalidInput, NotFound, StorageError

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog


#: What `--long` shows besides the name; all None but `error`, which says why, for a table that could not be read.
_NUMBERS: Final = (
    "format_version",
    "snapshots",
    "current_snapshot_id",
    "records",
    "files",
    "size",
    "last_updated_ms",
    "error",
)


def tables(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Argument(help="Only this database.")] = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="Read each table's metadata, too.")] = False,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """List Iceberg tables."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    with common.open_catalog(context, settings) as catalog:
        namespaces = catalog.list_namespaces() if namespace is None else [namespace]
        names = [name for each in namespaces for name in catalog.list_tables(each)]
        rows = [describe(catalog, name) if long else _named(name) for name in names]
    if as_json:
        output.print_json(rows)
    elif long:
        print_long(rows)
    else:
        output.console().print(output.records("", rows, {"namespace": "namespace", "table": "name"}))


def _named(name: TableName) -> dict[str, Any]:
    return {"namespace": name.namespace, "name": name.name}


def describe(catalog: Catalog, name: TableName) -> dict[str, Any]:
    """A table's numbers. If its files are missing or damaged, the row says why, and the listing goes on."""
    row = _named(name) | dict.fromkeys(_NUMBERS)
    try:
        metadata = catalog.load(name).metadata
    except (NotFound, CorruptFile, StorageError, InvalidInput) as error:
        return row | {"error": common.one_line(error.message)}
    snapshot = metadata.current_snapshot
    summary: Mapping[str, str] = {} if snapshot is None else snapshot.summary
    return row | {
        "format_version": metadata.format_version,
        "snapshots": len(metadata.snapshots),
        "current_snapshot_id": metadata.current_snapshot_id,
        "records": total(summary, "total-records"),
        "files": total(summary, "total-data-files"),
        "size": total(summary, "total-files-size"),
        "last_updated_ms": metadata.last_updated_ms,
    }


def total(summary: Mapping[str, str], key: str) -> int | None:
    """A number of a snapshot summary; None where the writer left it out or wrote something else."""
    found = whole_number(summary.get(key))
    return found if found is not None and found >= 0 else None


def print_long(rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows of `--long` as a table."""
    columns: dict[str, str | Callable[[Any], object]] = {
        "table": lambda row: f"{row['namespace']}.{row['name']}",
        "format": "format_version",
        "snapshots": "snapshots",
        "current snapshot": "current_snapshot_id",
        "rows": "records",
        "files": "files",
        "size": lambda row: output.size(row["size"]),
        "last updated": moment("last_updated_ms"),
        "error": "error",
    }
    if not any(row["error"] for row in rows):
        del columns["error"]
    output.console().print(output.records("", rows, columns))
