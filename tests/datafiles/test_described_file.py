"""What all formats' records have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa

from iceberg_hms.datafiles.described_file import missing_required, needed_name_mapping, without_unsure_bounds
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.name_mapping import name_mapping
from tests.catalog.parquet import open_input, table_for, with_ids, write


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
