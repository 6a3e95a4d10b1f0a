"""Partition values in the types of a plan's table. What else is in it: tests/catalog/test_scan.py."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.expressions.expression import ALWAYS_TRUE
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.plan_table import PlanTable, partition_array
from iceberg_hms.planning.planner import DELETES, RESIDUAL, PlannedFiles
from tests.catalog.parquet import table_for

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": "timestamp"},
    ],
}


@pytest.mark.parametrize(
    ("stored", "of", "shown"),
    [
        (pa.array([7, None], pa.int32()), pa.int64(), [7, None]),
        (pa.array([0.5, None], pa.float32()), pa.float64(), [0.5, None]),
        (pa.array([1, None], pa.int32()), pa.date32(), [datetime.date(1970, 1, 2), None]),
        # A date that became a timestamp (format version 3).
        (pa.array([1, None], pa.int32()), pa.timestamp("us"), [datetime.datetime(1970, 1, 2), None]),  # noqa: DTZ001
        (pa.array([bytes(15) + b"\x07", None], pa.binary(16)), pa.uuid(), [uuid.UUID(int=7), None]),
        # Of a transform that nobody knows.
        (pa.array([7, None], pa.int32()), pa.string(), ["7", None]),
        (pa.array([b"x", None], pa.binary()), pa.string(), ["b'x'", None]),
        (pa.array(["x", None]), pa.string(), ["x", None]),
    ],
)
def test_values_have_the_type_of_their_column(stored: pa.Array, of: pa.DataType, shown: list[Any]) -> None:
    found = partition_array(stored, of)
    assert found.type == of
    assert found.to_pylist() == shown


def table_with(specs: list[dict[str, Any]]) -> TableMetadata:
    return TableMetadata({**table_for(SCHEMA).fields, "partition-specs": specs})


def field(field_id: int, name: str, transform: str, source: int = 1) -> dict[str, Any]:
    return {"source-id": source, "field-id": field_id, "name": name, "transform": transform}


def test_a_field_has_its_latest_name_and_its_id_besides_if_the_name_is_another_one_s() -> None:
    metadata = table_with(
        [
            {"spec-id": 0, "fields": [field(1000, "old", "identity"), field(1001, "part", "bucket[4]")]},
            {"spec-id": 1, "fields": [field(1000, "new", "identity"), field(1002, "part", "day", 2)]},
        ]
    )
    partition = PlanTable(metadata).schema.field("partition").type
    assert {each.name: each.type for each in partition} == {
        "new": pa.int64(),
        "part": pa.int32(),
        "part_1002": pa.date32(),
    }


def test_a_void_field_has_the_type_that_it_had_before() -> None:
    metadata = table_with(
        [
            {"spec-id": 0, "fields": [field(1000, "day", "day", 2)]},
            {"spec-id": 1, "fields": [field(1000, "day", "void", 2)]},
        ]
    )
    assert PlanTable(metadata).schema.field("partition").type.field("day").type == pa.date32()


def test_a_transform_of_a_later_release_is_text() -> None:
    metadata = table_with([{"spec-id": 0, "fields": [field(1000, "z", "zorder[4]")]}])
    assert PlanTable(metadata).schema.field("partition").type.field("z").type == pa.string()


def test_deletes_and_residuals_are_found_by_their_positions() -> None:
    deletes = [
        ManifestEntry(1, DataFile(name, "PARQUET", 1, 2, content=FileContent.POSITION_DELETES), 1, 3) for name in "pqr"
    ]
    columns = pa.RecordBatch.from_pydict(
        {
            layout.CONTENT: pa.array([0] * 4, pa.int32()),
            layout.FILE_PATH: ["a", "b", "c", "d"],
            layout.FILE_FORMAT: ["PARQUET"] * 4,
            layout.RECORD_COUNT: [1, 2, 3, 4],
            layout.FILE_SIZE: [5, 6, 7, 8],
            DELETES: pa.array([[2], [], [0, 2], [1]], pa.list_(pa.int32())),
            RESIDUAL: pa.array([0, 0, 0, 0], pa.int32()),
        }
    )
    table = PlanTable(table_for(SCHEMA))
    for start, paths in ((0, [["r"], [], ["p", "r"], ["q"]]), (2, [["p", "r"], ["q"]])):
        planned = PlannedFiles(0, 0, columns.slice(start))
        batch = table.batch(planned, deletes, [ALWAYS_TRUE])
        batch.validate(full=True)
        found = [[each["path"] for each in files] for files in batch.column("delete_files").to_pylist()]
        assert found == paths
        assert batch.column("sequence_number").to_pylist() == [0] * len(paths)
        assert set(batch.column("residual").to_pylist()) == {"true"}
