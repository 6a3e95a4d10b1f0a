"""What all formats' records have in common."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.datafiles.described_file import missing_required, needed_name_mapping, without_unsure_bounds
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.datafiles.orc_footer import KINDS
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.name_mapping import name_mapping
from tests.catalog.parquet import open_input, table_for, with_ids, write
from tests.datafiles.orc_messages import file_of, footer_of, message, packed


def test_required_fields_are_those_that_every_row_has() -> None:
    inner = pa.struct([pa.field("must", pa.int64(), nullable=False), ("may", pa.int64())])
    metadata = table_for(
        pa.schema(
            [pa.field("sure", inner, nullable=False), ("perhaps", inner), pa.field("id", pa.int64(), nullable=False)]
        )
    )
    names = [metadata.schema.name_of(each.id) for each in missing_required(metadata.schema, frozenset())]
    assert names == ["sure", "sure.must", "id"]


def test_a_required_field_with_a_default_may_be_missing() -> None:
    field = {"id": 1, "name": "c", "required": True, "type": "long", "initial-default": 5}
    schema = table_for({"type": "struct", "fields": [field]}, version=3).schema
    assert missing_required(schema, frozenset()) == []


def test_a_file_without_ids_needs_a_name_mapping_unless_the_table_has_one(tmp_path: Path) -> None:
    arrow = pa.schema([("id", pa.int64())])
    metadata = table_for(arrow)
    bare = describe(write(tmp_path / "a.parquet", pa.table({"id": [1]})), TableOfFiles(metadata), open_input)
    rows = pa.table([[1]], schema=with_ids(arrow, metadata))
    marked = describe(write(tmp_path / "b.parquet", rows), TableOfFiles(metadata), open_input)
    assert (bare.has_field_ids, marked.has_field_ids) == (False, True)
    asked = needed_name_mapping(metadata, [marked, bare])
    assert asked is not None
    assert orjson.loads(asked) == name_mapping(metadata.schema)
    assert needed_name_mapping(metadata, [marked]) is None
    mapped = table_for(arrow, properties={"schema.name-mapping.default": "[]"})
    assert (needed_name_mapping(mapped, [bare]), needed_name_mapping(mapped, [marked])) == ("[]", None)


def test_records_keep_upper_bounds_of_floats_of_which_they_count_nan() -> None:
    columns = pa.schema([("f", pa.float32()), ("s", pa.struct([("d", pa.float64())])), ("l", pa.int64())])
    schema = table_for(columns).schema
    f, d, i = (getattr(schema.find(each), "id", 0) for each in ("f", "s.d", "l"))
    bounds = dict.fromkeys((f, d, i), b"x")
    given = DataFile("file:/a", "PARQUET", 3, 10, lower_bounds=bounds, upper_bounds=bounds)
    (unsure,) = without_unsure_bounds([given], schema)
    assert (unsure.lower_bounds, unsure.upper_bounds) == (bounds, {i: b"x"})
    (half,) = without_unsure_bounds([replace(given, nan_value_counts={f: 1})], schema)
    assert half.upper_bounds == {f: b"x", i: b"x"}
    counted = [replace(given, nan_value_counts={f: 1, d: 0}), replace(given, upper_bounds=None)]
    assert without_unsure_bounds(counted, schema) == counted
    assert without_unsure_bounds([given], table_for(pa.schema([("l", pa.int64())])).schema) == [given]


REQUIRED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.struct([pa.field("x", pa.string(), nullable=False)]), nullable=False),
        ("o", pa.struct([pa.field("y", pa.int64(), nullable=False)])),
    ]
)
ROW = {"id": 1, "s": {"x": "a"}, "o": None}


def parquet(*, nullable: bool, counted: bool) -> bytes:
    fields = [
        pa.field("id", pa.int64(), nullable=nullable),
        pa.field("s", pa.struct([pa.field("x", pa.string(), nullable=nullable)]), nullable=nullable),
        REQUIRED.field("o"),
    ]
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([ROW], schema=pa.schema(fields)), target, write_statistics=counted)
    return target.getvalue()


def orc(*, counted: bool) -> bytes:
    long, text, struct = (KINDS.index(each) for each in ("long", "string", "struct"))
    kinds = [
        message((1, struct), (2, packed(1, 2)), (3, "id"), (3, "s")),
        message((1, long)),
        message((1, struct), (2, packed(3)), (3, "x")),
        message((1, text)),
    ]
    return file_of(footer_of(kinds, [message((1, 1))] * 4 if counted else [], rows=1))


def avro(id_type: Any = "long", x_type: Any = "string", *, outer: bool = False) -> bytes:
    inner: Any = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": x_type}]}
    fields = [{"name": "id", "type": id_type}, {"name": "s", "type": ["null", inner] if outer else inner}]
    target = io.BytesIO()
    fastavro.writer(target, {"type": "record", "name": "t", "fields": fields}, [ROW])
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "column"),
    {
        "counted": (parquet(nullable=True, counted=True), None),
        "required in Parquet": (parquet(nullable=False, counted=False), None),
        "neither": (parquet(nullable=True, counted=False), "id"),
        "counted in ORC": (orc(counted=True), None),
        "not counted in ORC": (orc(counted=False), "id"),
        "no unions": (avro(), None),
        "a union": (avro(["null", "long"]), "id"),
        "a union in a struct": (avro(x_type=["null", "string"]), "s.x"),
        "a struct in a union": (avro(outer=True), "s.x"),
    }.values(),
)
def test_a_required_column_has_no_nulls_for_sure(data: bytes, column: str | None) -> None:
    arguments = "file:/a", TableOfFiles(table_for(REQUIRED)), lambda _: pa.BufferReader(data)
    if column is None:
        assert describe(*arguments) is not None
    else:
        with pytest.raises(
            InvalidInput, match=f"requires column {column}, and the file does not tell whether"
        ) as caught:
            describe(*arguments)
        assert "write it with statistics" in caught.value.next_step
