"""The parts of `inspect` as tables for people. The input is what `inspect --json` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import RenderableType

from iceberg_hms.cli.output import facts, records, size, table
from iceberg_hms.clock import instant

#: Tables cut longer values, and say where to find the rest.
LONGEST_VALUE = 240

Values = Mapping[str, Any]


def shorten(text: str) -> str:
    """A value that is too long for a table, cut."""
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE - 40]}... ({len(text)} characters; --json shows all)"


def relative(path: str, location: str) -> str:
    """A path below the table's location without that location."""
    root = location.rstrip("/") + "/"
    return path.removeprefix(root)


def partition_text(partition: Values) -> str:
    """What a manifest holds of one partition field: `event_time_day: 2021-04-01 .. 2021-04-02`."""
    lower, upper = partition["lower"], partition["upper"]
    values = lower if lower == upper else f"{lower} .. {upper}"
    if values is None:
        values = "no values"
    extra = (" and null" if partition["contains_null"] else "") + (" and NaN" if partition["contains_nan"] else "")
    return f"{partition['field']}: {values}{extra}"


def identifier(name: str) -> Callable[[Values], str | None]:
    """Makes a cell of an id, which is a name and no number."""
    return lambda row: None if row[name] is None else str(row[name])


def moment(name: str) -> Callable[[Values], str | None]:
    """Makes a cell of milliseconds since 1970."""
    return lambda row: instant(row[name])


def pointer_blocks(part: Values) -> Iterable[RenderableType]:
    """The row in the metastore."""
    yield records(
        "The row in the metastore: HMS parameters",
        part["parameters"],
        {"parameter": "parameter", "value": lambda row: shorten(row["value"]), "meaning": "meaning"},
    )


def metadata_blocks(part: Values) -> Iterable[RenderableType]:
    """The metadata file."""
    values = dict(part["facts"])
    updated = values.pop("last_updated_ms")
    shown = {name.replace("_", " "): value for name, value in values.items() if value is not None}
    yield facts("Table metadata", {**shown, "last updated": instant(updated)})
    yield records(
        "Current schema",
        part["columns"],
        {
            "id": "field_id",
            "column": "name",
            "type": "type",
            "required": "required",
            "identifier": "identifier",
            "doc": "doc",
        },
    )
    yield records(
        "Partition specs",
        part["partition_specs"],
        {
            "spec": "id",
            "default": "is_default",
            "field id": "field_id",
            "field": lambda row: row["field"] or "(unpartitioned)",
            "transform": "transform",
            "of column": "source",
        },
    )
    yield records(
        "Sort orders",
        part["sort_orders"],
        {
            "order": "id",
            "default": "is_default",
            "column": lambda row: row["source"] or "(unsorted)",
            "transform": "transform",
            "direction": "order",
        },
    )
    yield table(
        "Table properties", ("property", "value"), [(k, shorten(v)) for k, v in sorted(part["properties"].items())]
    )
    yield records(
        "Metadata files, oldest first",
        part["metadata_log"],
        {
            "written": moment("timestamp_ms"),
            "file": lambda row: relative(row["metadata_location"], values["location"]),
            "": lambda row: "current" if row["is_current"] else "",
        },
    )


def snapshots_blocks(part: Values) -> Iterable[RenderableType]:
    """All snapshots."""
    yield records(
        "Snapshots, oldest first",
        part["snapshots"],
        {
            "snapshot": identifier("snapshot_id"),
            "parent": identifier("parent_id"),
            "sequence": "sequence_number",
            "committed": moment("timestamp_ms"),
            "operation": "operation",
            "refs": "refs",
            "schema": "schema_id",
            "summary": lambda row: {name: shorten(value) for name, value in row["summary"].items()},
        },
    )


def refs_blocks(part: Values) -> Iterable[RenderableType]:
    """Branches and tags."""
    yield records(
        "Branches and tags",
        part["refs"],
        {
            "name": "name",
            "type": "type",
            "snapshot": identifier("snapshot_id"),
            "min snapshots to keep": "min_snapshots_to_keep",
            "max snapshot age (ms)": "max_snapshot_age_ms",
            "max ref age (ms)": "max_ref_age_ms",
        },
    )


def history_blocks(part: Values) -> Iterable[RenderableType]:
    """What was current when."""
    yield records(
        "History of main, oldest first",
        part["history"],
        {
            "current since": moment("made_current_at_ms"),
            "snapshot": identifier("snapshot_id"),
            "parent": identifier("parent_id"),
            "ancestor of the current": "is_current_ancestor",
            "operation": lambda row: row["operation"] or "(expired)",
        },
    )


def manifests_blocks(part: Values) -> Iterable[RenderableType]:
    """The manifest list and its manifests."""
    yield facts("Manifest list", {"file": part["manifest_list"] or "(no snapshot, or an inline list of v1)"})
    yield records(
        "Manifests",
        part["manifests"],
        {
            "manifest": lambda row: row["path"].rpartition("/")[2],
            "content": "content",
            "size": lambda row: size(row["length"]),
            "spec": "spec_id",
            "sequence": "sequence_number",
            "added": "added_files",
            "kept": "existing_files",
            "removed": "deleted_files",
            "rows": lambda row: _sum(row["added_rows"], row["existing_rows"]),
            "partitions": lambda row: [partition_text(each) for each in row["partitions"]],
        },
    )


def files_blocks(part: Values) -> Iterable[RenderableType]:
    """The data and delete files, then the bounds of their columns."""
    numbered = list(enumerate(part["files"], start=1))
    yield records(
        "Files",
        [row | {"number": number} for number, row in numbered],
        {
            "#": "number",
            "file": lambda row: relative(row["path"], part["location"]),
            "content": "content",
            "format": lambda row: row["format"].lower(),
            "partition": "partition",
            "rows": "records",
            "size": lambda row: size(row["size"]),
            "sequence": "sequence_number",
        },
    )
    if part["more"]:
        yield "There are more files: --limit 0 shows all."
    columns = [
        column | {"number": None if position else number}
        for number, row in numbered
        for position, column in enumerate(row["columns"])
    ]
    if columns:
        yield records(
            "Bounds of columns, by the number of the file above",
            columns,
            {
                "#": "number",
                "column": "column",
                "type": "type",
                "values": "values",
                "nulls": "nulls",
                "lower bound": "lower",
                "upper bound": "upper",
            },
        )


def _sum(*numbers: int | None) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


#: What prints each part of `inspect`, by the part's name.
BLOCKS: Mapping[str, Callable[[Values], Iterable[RenderableType]]] = {
    "pointer": pointer_blocks,
    "metadata": metadata_blocks,
    "snapshots": snapshots_blocks,
    "refs": refs_blocks,
    "history": history_blocks,
    "manifests": manifests_blocks,
    "files": files_blocks,
}
