"""The parts of `inspect` as tables for people. The input is what `inspect --json` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from rich.console import RenderableType

from iceberg_hms.cli.output import facts, instant, size, table

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


def pointer_blocks(part: Values) -> Iterable[RenderableType]:
    """The row in the metastore."""
    rows = [(row["parameter"], shorten(row["value"]), row["meaning"]) for row in part["parameters"]]
    yield table("The row in the metastore: HMS parameters", ("parameter", "value", "meaning"), rows)


def metadata_blocks(part: Values) -> Iterable[RenderableType]:
    """The metadata file."""
    values = dict(part["facts"])
    updated = values.pop("last_updated_ms")
    shown = {name.replace("_", " "): value for name, value in values.items() if value is not None}
    yield facts("Table metadata", {**shown, "last updated": instant(updated)})
    yield table(
        "Current schema",
        ("id", "column", "type", "required", "identifier", "doc"),
        [
            (row["field_id"], row["name"], row["type"], row["required"], row["identifier"], row["doc"])
            for row in part["columns"]
        ],
    )
    yield table(
        "Partition specs",
        ("spec", "default", "field id", "field", "transform", "of column"),
        [
            (
                row["id"],
                row["is_default"],
                row["field_id"],
                row["field"] or "(unpartitioned)",
                row["transform"],
                row["source"],
            )
            for row in part["partition_specs"]
        ],
    )
    yield table(
        "Sort orders",
        ("order", "default", "column", "transform", "direction"),
        [
            (row["id"], row["is_default"], row["source"] or "(unsorted)", row["transform"], row["order"])
            for row in part["sort_orders"]
        ],
    )
    yield table(
        "Table properties", ("property", "value"), [(k, shorten(v)) for k, v in sorted(part["properties"].items())]
    )
    yield table(
        "Metadata files, oldest first",
        ("written", "file", ""),
        [
            (
                instant(row["timestamp_ms"]),
                relative(row["metadata_location"], values["location"]),
                "current" if row["is_current"] else "",
            )
            for row in part["metadata_log"]
        ],
    )


def snapshots_blocks(part: Values) -> Iterable[RenderableType]:
    """All snapshots."""
    yield table(
        "Snapshots, oldest first",
        ("snapshot", "parent", "sequence", "committed", "operation", "refs", "schema", "summary"),
        [
            (
                str(row["snapshot_id"]),
                None if row["parent_id"] is None else str(row["parent_id"]),
                row["sequence_number"],
                instant(row["timestamp_ms"]),
                row["operation"],
                row["refs"],
                row["schema_id"],
                {name: shorten(value) for name, value in row["summary"].items()},
            )
            for row in part["snapshots"]
        ],
    )


def refs_blocks(part: Values) -> Iterable[RenderableType]:
    """Branches and tags."""
    yield table(
        "Branches and tags",
        ("name", "type", "snapshot", "min snapshots to keep", "max snapshot age (ms)", "max ref age (ms)"),
        [
            (
                row["name"],
                row["type"],
                str(row["snapshot_id"]),
                row["min_snapshots_to_keep"],
                row["max_snapshot_age_ms"],
                row["max_ref_age_ms"],
            )
            for row in part["refs"]
        ],
    )


def history_blocks(part: Values) -> Iterable[RenderableType]:
    """What was current when."""
    yield table(
        "History of main, oldest first",
        ("current since", "snapshot", "parent", "ancestor of the current", "operation"),
        [
            (
                instant(row["made_current_at_ms"]),
                str(row["snapshot_id"]),
                None if row["parent_id"] is None else str(row["parent_id"]),
                row["is_current_ancestor"],
                row["operation"] or "(expired)",
            )
            for row in part["history"]
        ],
    )


def manifests_blocks(part: Values) -> Iterable[RenderableType]:
    """The manifest list and its manifests."""
    yield facts("Manifest list", {"file": part["manifest_list"] or "(no snapshot, or an inline list of v1)"})
    yield table(
        "Manifests",
        ("manifest", "content", "size", "spec", "sequence", "added", "kept", "removed", "rows", "partitions"),
        [
            (
                row["path"].rpartition("/")[2],
                row["content"],
                size(row["length"]),
                row["spec_id"],
                row["sequence_number"],
                row["added_files"],
                row["existing_files"],
                row["deleted_files"],
                _sum(row["added_rows"], row["existing_rows"]),
                [partition_text(partition) for partition in row["partitions"]],
            )
            for row in part["manifests"]
        ],
    )


def files_blocks(part: Values) -> Iterable[RenderableType]:
    """The data and delete files, then the bounds of their columns."""
    names = {row["path"]: relative(row["path"], part["location"]) for row in part["files"]}
    yield table(
        "Files",
        ("#", "file", "content", "format", "partition", "rows", "size", "sequence"),
        [
            (
                number,
                names[row["path"]],
                row["content"],
                row["format"].lower(),
                row["partition"],
                row["records"],
                size(row["size"]),
                row["sequence_number"],
            )
            for number, row in enumerate(part["files"], start=1)
        ],
    )
    if part["more"]:
        yield "There are more files: --limit 0 shows all."
    columns = [
        (number, column["column"], column["type"], column["values"], column["nulls"], column["lower"], column["upper"])
        for number, row in enumerate(part["files"], start=1)
        for column in row["columns"]
    ]
    if columns:
        yield table(
            "Bounds of columns, by the number of the file above",
            ("#", "column", "type", "values", "nulls", "lower bound", "upper bound"),
            [
                (number if first else None, *column[1:])
                for number, group in groupby(columns, key=lambda column: column[0])
                for first, column in _marked(group)
            ],
        )


def _marked(group: Iterable[tuple[object, ...]]) -> Iterable[tuple[bool, tuple[object, ...]]]:
    for position, column in enumerate(group):
        yield position == 0, column


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
