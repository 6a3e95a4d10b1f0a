"""`iceberg-hms inspect`: a table from its row in the metastore down to the bounds of its data files."""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_hms.cli import common, output, render
from iceberg_hms.inspect.files import file_rows, manifest_rows
from iceberg_hms.inspect.history import choose_snapshot, history_rows, ref_rows, snapshot_rows
from iceberg_hms.inspect.metadata import column_rows, metadata_facts, metadata_log_rows, sort_order_rows, spec_rows
from iceberg_hms.inspect.pointer import parameter_rows

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog
    from iceberg_hms.catalog.table_access import LoadedTable
    from iceberg_hms.coordinator.ports import Pointer
    from iceberg_hms.format.metadata.snapshot import Snapshot

#: How often to read the row and its metadata until they match, while writers move the table.
CONSISTENT_READS_MAX = 3


class Part(StrEnum):
    """What to show."""

    POINTER = "pointer"
    METADATA = "metadata"
    SNAPSHOTS = "snapshots"
    REFS = "refs"
    HISTORY = "history"
    MANIFESTS = "manifests"
    FILES = "files"


def inspect(
    context: typer.Context,
    table: common.TableArgument,
    parts: Annotated[
        list[Part] | None, typer.Option("--part", "-p", help="Only this part; may be repeated. Default: all.")
    ] = None,
    snapshot_id: Annotated[
        int | None, typer.Option("--snapshot", metavar="ID", help="Manifests and files of this snapshot.")
    ] = None,
    ref: Annotated[str | None, typer.Option("--ref", help="Manifests and files of this branch or tag.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most N files; 0 = all.")] = 20,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Take a table apart: HMS parameters, metadata, snapshots, manifests, data files."""
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    wanted = list(dict.fromkeys(parts or Part))
    with common.open_catalog(context, settings) as catalog:
        pointer, loaded = read_together(catalog, table)
        snapshot = choose_snapshot(loaded.metadata, snapshot_id=snapshot_id, ref=ref)
        found = {part: collect(part, catalog, pointer, loaded, snapshot, limit) for part in wanted}
    if as_json:
        output.print_json(
            {
                "table": str(loaded.name),
                "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
                **{part.value: value for part, value in found.items()},
            }
        )
        return
    shown = output.console()
    for part, value in found.items():
        for block in render.BLOCKS[part.value](value):
            shown.print(block)
            shown.print()


def read_together(catalog: Catalog, table: str) -> tuple[Pointer, LoadedTable]:
    """The row and the metadata that it points at. If writers keep moving the table, the metadata may be newer."""
    for _ in range(CONSISTENT_READS_MAX):
        pointer, loaded = catalog.pointer(table), catalog.load(table)
        if pointer.metadata_location == loaded.metadata_location:
            break
    return pointer, loaded


def collect(
    part: Part, catalog: Catalog, pointer: Pointer, loaded: LoadedTable, snapshot: Snapshot | None, limit: int
) -> dict[str, Any]:
    """One part as plain values: what `--json` prints, and what the tables are made of."""
    metadata, location = loaded.metadata, pointer.metadata_location
    match part:
        case Part.POINTER:
            return {"parameters": parameter_rows(pointer, metadata.properties)}
        case Part.METADATA:
            return {
                "facts": metadata_facts(metadata, location),
                "columns": column_rows(metadata.schema),
                "partition_specs": spec_rows(metadata),
                "sort_orders": sort_order_rows(metadata),
                "properties": dict(metadata.properties),
                "metadata_log": metadata_log_rows(metadata, location),
            }
        case Part.SNAPSHOTS:
            return {"snapshots": snapshot_rows(metadata)}
        case Part.REFS:
            return {"refs": ref_rows(metadata)}
        case Part.HISTORY:
            return {"history": history_rows(metadata)}
        case Part.MANIFESTS:
            manifests = manifest_rows(metadata, snapshot, catalog.manifests()) if snapshot else []
            location_of_list = snapshot.manifest_list if snapshot else None
            return {"manifest_list": location_of_list, "manifests": manifests}
        case Part.FILES:
            rows = file_rows(metadata, snapshot, catalog.manifests()) if snapshot else iter(())
            files = list(islice(rows, limit or None))
            more = next(rows, None) is not None
            return {"files": files, "more": more, "location": metadata.location}
