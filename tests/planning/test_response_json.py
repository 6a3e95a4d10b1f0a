"""File scan tasks in JSON, compared with what the rows say and with PyIceberg's parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest.scan_planning import ScanTasks

from iceberg_hms.expressions.expression import ALWAYS_TRUE, Expression, col
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortOrder
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.planning.planner import PlannedFiles
from iceberg_hms.planning.response_json import TasksJson

SCHEMA = Schema.parse(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "day", "required": False, "type": "date"},
            {"id": 2, "name": "town", "required": False, "type": "string"},
            {"id": 3, "name": "size", "required": False, "type": "long"},
        ],
    }
)
SPEC = PartitionSpec.parse(
    {
        "spec-id": 0,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"},
            {"source-id": 2, "field-id": 1001, "name": "town", "transform": "identity"},
        ],
    }
)
METADATA: TableMetadata = new_table_metadata(
    SCHEMA, SPEC, SortOrder.parse({"order-id": 0, "fields": []}), "file:/t", {}, uuid=str(UUID(int=1)), now_ms=1
)


@dataclass
class Plan:
    delete_files: Sequence[ManifestEntry] = ()
    residuals: list[Expression] = field(default_factory=lambda: [ALWAYS_TRUE])


def batch(rows: int, **columns: Any) -> pa.RecordBatch:
    required = {
        "file_path": pa.array([f"s3://lake/t/data/{at}.parquet" for at in range(rows)], pa.string()),
        "file_format": pa.array(["PARQUET"] * rows, pa.string()),
        "record_count": pa.array(range(rows), pa.int64()),
        "file_size_in_bytes": pa.array([at * 1_000 for at in range(rows)], pa.int64()),
        "residual": pa.array([0] * rows, pa.int32()),
        "deletes": pa.array([[]] * rows, pa.list_(pa.int32())),
    }
    return pa.RecordBatch.from_pydict({**required, **{name.replace("__", "."): each for name, each in columns.items()}})


def written(*batches: pa.RecordBatch, plan: Plan | None = None, stats: Sequence[int] = ()) -> dict[str, Any]:
    tasks = TasksJson(METADATA, stats, plan or Plan())
    for number, each in enumerate(batches):
        tasks.add(PlannedFiles(number, 0, each))
    text = b"{" + tasks.fields() + b"}"
    found: dict[str, Any] = orjson.loads(text)
    assert tasks.count == len(found["file-scan-tasks"])
    return found


def test_nothing_planned_is_an_empty_list() -> None:
    assert written() == {"file-scan-tasks": []}
    assert written(batch(0)) == {"file-scan-tasks": []}


def test_columns_without_values_leave_no_fields() -> None:
    (task,) = written(batch(1))["file-scan-tasks"]
    assert task == {
        "data-file": {
            "spec-id": 0,
            "content": "data",
            "file-path": "s3://lake/t/data/0.parquet",
            "file-format": "parquet",
            "partition": [None, None],
            "file-size-in-bytes": 0,
            "record-count": 0,
        },
        "residual-filter": True,
    }


def test_each_row_has_its_own_values_however_the_batch_is_cut() -> None:
    rows = 50
    columns: dict[str, Any] = {
        "split_offsets": pa.array(
            [None if at % 3 == 0 else [4] * (at % 3) for at in range(rows)], pa.list_(pa.int64())
        ),
        "sort_order_id": pa.array([at if at % 2 else None for at in range(rows)], pa.int32()),
        "first_row_id": pa.array([at * 7 if at % 5 else None for at in range(rows)], pa.int64()),
        "key_metadata": pa.array([bytes([at]) if at % 4 == 0 else None for at in range(rows)], pa.binary()),
        "partition__1000": pa.array([at % 3 or None for at in range(rows)], pa.int32()),
        "partition__1001": pa.array([f"t\u00e4\n{at % 4}" for at in range(rows)], pa.string()),
        "residual": pa.array([at % 2 for at in range(rows)], pa.int32()),
        "deletes": pa.array(
            [None if at % 7 == 0 else [at % 4, 3][: at % 3] for at in range(rows)], pa.list_(pa.int32())
        ),
        "value_count__3": pa.array([at if at % 3 else None for at in range(rows)], pa.int64()),
        "value_count__1": pa.array([at if at % 2 else None for at in range(rows)], pa.int64()),
        "lower_bound__3": pa.array([bytes([at]) if at % 3 else None for at in range(rows)], pa.binary()),
    }
    plan = Plan(residuals=[ALWAYS_TRUE, col("size") > 5], delete_files=[delete(str(at)) for at in range(4)])
    whole = batch(rows, **columns)
    for start, length in ((0, 50), (7, 20), (49, 1)):
        found = written(whole.slice(start, length), plan=plan, stats=[1, 3])
        for at, task in enumerate(found["file-scan-tasks"], start):
            file = task["data-file"]
            assert file["file-path"] == f"s3://lake/t/data/{at}.parquet"
            assert file["record-count"] == at
            assert file.get("split-offsets") == ([4] * (at % 3) or None)
            assert file.get("sort-order-id") == (at if at % 2 else None)
            assert file.get("first-row-id") == (at * 7 if at % 5 else None)
            assert file.get("key-metadata") == (f"{at:02X}" if at % 4 == 0 else None)
            day = {0: None, 1: "1970-01-02", 2: "1970-01-03"}[at % 3]
            assert file["partition"] == [day, f"t\u00e4\n{at % 4}"]
            assert task["residual-filter"] == ({"type": "gt", "term": "size", "value": 5} if at % 2 else True)
            counts = {key: at for key, has in ((1, at % 2), (3, at % 3)) if has}
            expected = {"keys": list(counts), "values": list(counts.values())} if counts else None
            assert file.get("value-counts") == expected
            assert file.get("lower-bounds") == ({"keys": [3], "values": [f"{at:02X}"]} if at % 3 else None)
            named = [found["delete-files"][each]["file-path"] for each in task.get("delete-file-references", ())]
            assert named == ([] if at % 7 == 0 else [str(each) for each in [at % 4, 3][: at % 3]])


def delete(path: str, **more: Any) -> ManifestEntry:
    partition = {"day": 1, "town": None}
    values: dict[str, Any] = {"content": FileContent.POSITION_DELETES, "partition": partition, **more}
    return ManifestEntry(1, DataFile(path, values.pop("file_format", "PARQUET"), 3, 30, **values))


def test_only_delete_files_that_are_referenced_are_sent_and_each_once() -> None:
    plan = Plan(delete_files=[delete("a"), delete("b"), delete("c")])
    first = batch(2, deletes=pa.array([[2], [2, 1]], pa.list_(pa.int32())))
    second = batch(1, deletes=pa.array([[1]], pa.list_(pa.int32())))
    found = written(first, second, plan=plan)
    assert [each["file-path"] for each in found["delete-files"]] == ["c", "b"]
    assert [each["delete-file-references"] for each in found["file-scan-tasks"]] == [[0], [0, 1], [1]]


def test_delete_files_of_each_kind() -> None:
    path = b"s3://lake/t/data/0.parquet"
    vector = delete(
        "v.puffin", file_format="PUFFIN", referenced_data_file="x", content_offset=4, content_size_in_bytes=9
    )
    equality = delete("e", content=FileContent.EQUALITY_DELETES, equality_ids=(1, 3), sort_order_id=0)
    positions = delete("p", lower_bounds={2_147_483_546: path, 2_147_483_545: b"x"}, upper_bounds={2_147_483_546: path})
    plan = Plan(delete_files=[vector, equality, positions])
    found = written(batch(1, deletes=pa.array([[0, 1, 2]], pa.list_(pa.int32()))), plan=plan)
    shared = {"spec-id": 0, "partition": ["1970-01-02", None], "file-size-in-bytes": 30, "record-count": 3}
    bounds = {"keys": [2_147_483_546], "values": [path.hex().upper()]}
    assert found["delete-files"] == [
        {
            **shared,
            "content": "position-deletes",
            "file-path": "v.puffin",
            "file-format": "puffin",
            "referenced-data-file": "x",
            "content-offset": 4,
            "content-size-in-bytes": 9,
        },
        {
            **shared,
            "content": "equality-deletes",
            "file-path": "e",
            "file-format": "parquet",
            "equality-ids": [1, 3],
            "sort-order-id": 0,
        },
        {
            **shared,
            "content": "position-deletes",
            "file-path": "p",
            "file-format": "parquet",
            "lower-bounds": bounds,
            "upper-bounds": bounds,
        },
    ]


@pytest.mark.parametrize(
    "path", ['s3://lake/"quoted"', "s3://lake/back\\slash", "s3://lake/\u00fc\u4e2d\U0001f600", "s3://lake/\t"]
)
def test_any_path_is_written_as_it_is(path: str) -> None:
    odd = batch(2).set_column(0, "file_path", pa.array(["s3://lake/plain", path]))
    assert [each["data-file"]["file-path"] for each in written(odd)["file-scan-tasks"]] == ["s3://lake/plain", path]


def test_pyiceberg_reads_what_is_written() -> None:
    rows = 20
    columns: dict[str, Any] = {
        "partition__1000": pa.array(range(rows), pa.int32()),
        "partition__1001": pa.array(["a"] * rows, pa.string()),
        "split_offsets": pa.array([[4, 8]] * rows, pa.list_(pa.int64())),
        "deletes": pa.array([[0]] * rows, pa.list_(pa.int32())),
        "residual": pa.array([at % 2 for at in range(rows)], pa.int32()),
        "lower_bound__3": pa.array([b"\0" * 8] * rows, pa.binary()),
    }
    named = delete("p", partition={"day": 1, "town": "a"}, upper_bounds={2_147_483_546: b"x"})
    plan = Plan(residuals=[ALWAYS_TRUE, (col("size") != 5) & (col("town") == "x")], delete_files=[named])
    found = ScanTasks.model_validate_json(orjson.dumps(written(batch(rows, **columns), plan=plan, stats=[3])))
    assert [each.data_file.file_path for each in found.file_scan_tasks] == batch(rows)["file_path"].to_pylist()
    assert {str(each.residual_filter) for each in found.file_scan_tasks} == {
        "AlwaysTrue()",
        "And(left=And(left=NotNull(term=Reference(name='size')), right=NotEqualTo(term=Reference(name='size'), "
        "literal=LongLiteral(5))), right=EqualTo(term=Reference(name='town'), literal=literal('x')))",
    }
    assert [each.file_path for each in found.delete_files] == ["p"]
