"""`iceberg-hms history`: which snapshots were current, and what each changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from iceberg_hms.cli import common, output
from iceberg_hms.cli.render import identifier, moment
from iceberg_hms.cli.tables import total
from iceberg_hms.inspect.history import history_rows

_CHANGES = (
    ("rows", "added-records", "deleted-records"),
    ("files", "added-data-files", "deleted-data-files"),
    ("delete files", "added-delete-files", "removed-delete-files"),
)


def history(
    context: typer.Context,
    table: common.TableArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show only the newest N; 0 = all.")] = 0,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Show which snapshots were current, since when, and what each changed."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    with common.open_catalog(context, settings) as catalog:
        loaded = catalog.load(table)
    rows = history_rows(loaded.metadata)[-limit:]
    if as_json:
        output.print_json(rows)
        return
    current = loaded.metadata.current_snapshot_id
    columns: output.Columns = {
        "current since": moment("made_current_at_ms"),
        "snapshot": identifier("snapshot_id"),
        "parent": identifier("parent_id"),
        "operation": lambda row: row["operation"] or "(expired)",
        "changed": lambda row: changes(row["summary"]),
        "rows after": lambda row: total(row["summary"], "total-records"),
        "": lambda row: _remark(row, current),
    }
    output.console().print(output.records(f"{loaded.name}: history", rows, columns))


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


def _remark(row: Mapping[str, Any], current: int | None) -> str:
    if row["snapshot_id"] == current:
        return "current"
    return "" if row["is_current_ancestor"] else "rolled back"
