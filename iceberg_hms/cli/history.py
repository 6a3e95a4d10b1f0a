"""`iceberg-hms history`: which snapshots were current, and what each changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from iceberg_hms.cli import output
from iceberg_hms.cli.common import (
    AsJson,
    ConfigFile,
    MetastoreUri,
    Overrides,
    TableArgument,
    Warehouse,
    load_settings,
    open_catalog,
)
from iceberg_hms.cli.tables import total
from iceberg_hms.inspect.history import HistoryRow, history_rows

_CHANGES = (
    ("rows", "added-records", "deleted-records"),
    ("files", "added-data-files", "deleted-data-files"),
    ("delete files", "added-delete-files", "removed-delete-files"),
)


def history(
    context: typer.Context,
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show only the newest N; 0 = all.")] = 0,
    metastore_uri: MetastoreUri = None,
    warehouse: Warehouse = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show which snapshots were current, since when, and what each changed."""
    settings = load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    with open_catalog(context, settings) as catalog:
        loaded = catalog.load(table)
    rows = history_rows(loaded.metadata)[-limit:]
    if as_json:
        output.print_json([asdict(row) for row in rows])
        return
    output.console().print(history_table(str(loaded.name), rows, loaded.metadata.current_snapshot_id))


def history_table(title: str, rows: Sequence[HistoryRow], current: int | None) -> Table:
    """The rows as a table, oldest first."""
    columns = ("current since", "snapshot", "parent", "operation", "changed", "rows after", "")
    return output.table(
        f"{title}: history",
        columns,
        [
            (
                output.instant(row.made_current_at_ms),
                str(row.snapshot_id),
                None if row.parent_id is None else str(row.parent_id),
                row.operation or "(expired)",
                changes(row.summary),
                total(row.summary, "total-records"),
                _remark(row, current),
            )
            for row in rows
        ],
    )


def changes(summary: Mapping[str, str]) -> str:
    """What a snapshot changed, such as `+3 -1 rows, +1 files`."""
    parts = []
    for noun, added, removed in _CHANGES:
        signs = [
            f"{sign}{summary[key]}" for sign, key in (("+", added), ("-", removed)) if summary.get(key, "0") != "0"
        ]
        if signs:
            parts.append(f"{' '.join(signs)} {noun}")
    return ", ".join(parts)


def _remark(row: HistoryRow, current: int | None) -> str:
    if row.snapshot_id == current:
        return "current"
    return "" if row.is_current_ancestor else "rolled back"
