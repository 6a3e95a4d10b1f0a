"""Manifests as columns: value by value what `decode_manifest` says, by either reader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, ManifestEntry, read_header
from iceberg_hms.format.manifests.manifest_writer import ManifestWriter
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import IdentityTransform
from iceberg_hms.planning import arrow_avro, decode, layout
from iceberg_hms.planning.decode import decode_columns
from iceberg_hms.planning.inherit import inherited
from tests.planning.sample_manifests import SampleManifest, comparable, entries_of, manifests

READERS = ("datafusion", "ours")


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which reader decodes manifests of any size. DataFusion must not leave one to ours."""
    name: str = request.param
    read = arrow_avro.read

    def by_datafusion(*arguments: Any) -> Any:
        found = read(*arguments)
        assert found is not None, "left to our own reader"
        return found

    monkeypatch.setattr(decode, "SMALL_ENTRIES", 1)
    monkeypatch.setattr(arrow_avro, "read", by_datafusion if name == "datafusion" else lambda *_: None)
    return name


def names_of(data: bytes) -> dict[int, str]:
    return dict(read_header(data, "m.avro").partition_names)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(sample=manifests())
def test_columns_say_what_the_entries_do(reader: str, sample: SampleManifest) -> None:
    columns = decode_columns(sample.data, "m.avro", sample.line)
    found = entries_of(inherited(columns, sample.line), 3, names_of(sample.data))
    assert [comparable(each) for each in found] == [comparable(each) for each in sample.entries()]
    check_layout(columns)


def test_a_partition_column_of_nulls_is_there(reader: str) -> None:
    schema = Schema.parse({"type": "struct", "fields": [{"id": 1, "name": "key", "required": False, "type": "uuid"}]})
    writer = ManifestWriter(2, schema, PartitionSpec.of([PartitionField(1, 1000, IdentityTransform(), "key")]), 1)
    writer.add(ManifestEntry(EntryStatus.ADDED, DataFile("file:/a.parquet", "PARQUET", 1, 1, {"key": None})))
    data, line = writer.finish("m.avro")
    assert decode_columns(data, "m.avro", line).column(layout.partition(1000)).to_pylist() == [None]


def check_layout(columns: pa.RecordBatch) -> None:
    types = dict(zip(columns.schema.names, columns.schema.types, strict=True))
    for name, kind in types.items():
        begin = name.partition(".")[0]
        if name in layout.TYPES:
            assert kind == layout.TYPES[name], name
        elif begin in layout.STATISTICS:
            assert kind == (pa.binary() if begin.endswith("bound") else pa.int64()), name
        else:
            assert begin == "partition"
    assert set(layout.REQUIRED) <= types.keys()
