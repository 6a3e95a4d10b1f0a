"""Files and manifests of a set of partitions."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from iceberg_hms.changes.partition_set import PartitionSet, partition_key, schema_of_spec
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import FieldSummary, ManifestFile
from tests.changes.operations.stored_tables import StoredTable, data_file
from tests.changes.tables import BY_LEVEL, FIELDS, table


def test_files_of_the_same_values_are_in_it_and_no_others() -> None:
    partitions = PartitionSet([data_file("a", "info"), data_file("b", "info"), data_file("c", "warn")])
    assert len(partitions) == 2
    assert data_file("x", "warn") in partitions
    assert data_file("x", "error") not in partitions
    assert data_file("x", "info", spec_id=1) not in partitions


def test_a_null_is_a_partition_and_a_void_field_may_be_left_out() -> None:
    null = DataFile("f", "PARQUET", 1, 1, {"level": None, "old": None})
    assert partition_key(null) == partition_key(DataFile("g", "PARQUET", 1, 1, {"level": None}))
    assert partition_key(null) != partition_key(data_file("x", "null"))


@pytest.mark.parametrize(("one", "other", "same"), [(float("nan"), float("nan"), True), (0.0, -0.0, False)])
def test_floats_differ_by_their_bits(one: float, other: float, *, same: bool) -> None:
    keys = [partition_key(DataFile("f", "PARQUET", 1, 1, {"x": value})) for value in (one, other)]
    assert (keys[0] == keys[1]) is same


def test_a_manifest_outside_of_the_bounds_is_left_out() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"), data_file("b", "warn"))
    (manifest,) = stored.state().manifests
    for level, may_contain in (("info", True), ("trace", True), ("error", False), ("xerr", False)):
        assert PartitionSet([data_file("x", level)]).may_contain(manifest, stored.metadata) is may_contain, level
    null = PartitionSet([DataFile("f", "PARQUET", 1, 1, {"level": None})])
    assert not null.may_contain(manifest, stored.metadata)
    assert not PartitionSet([data_file("x", "info", spec_id=1)]).may_contain(manifest, stored.metadata)


def test_a_manifest_without_bounds_may_contain_every_partition_of_its_spec() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, data_file("a", "info"))
    (manifest,) = stored.state().manifests
    partitions = PartitionSet([data_file("x", "error")])
    assert partitions.may_contain(replace(manifest, partitions=None), stored.metadata)
    assert partitions.may_contain(replace(manifest, partitions=()), stored.metadata)


def test_a_partition_with_nulls_only_in_a_manifest() -> None:
    stored = StoredTable(partitioned=True)
    stored.append(100, DataFile("file:/data/n.parquet", "PARQUET", 1, 1, {"level": None}))
    (manifest,) = stored.state().manifests
    assert PartitionSet([DataFile("f", "PARQUET", 1, 1, {"level": None})]).may_contain(manifest, stored.metadata)
    assert not PartitionSet([data_file("x", "info")]).may_contain(manifest, stored.metadata)


def test_the_bounds_of_uuids_rule_out_nothing() -> None:
    """Java orders them as signed numbers: what begins with f comes before what begins with 0."""
    fields = [{"id": 1, "name": "key", "required": False, "type": "uuid"}]
    by_key = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "key", "transform": "identity"}]}
    base = table(spec=by_key, schemas=[{"type": "struct", "schema-id": 0, "fields": fields}], last_column_id=1)
    low, high = UUID("f" * 32), UUID("0" * 31 + "f")
    manifest = replace(
        ManifestFile("file:/m.avro", 1, 0, 1), partitions=(FieldSummary(False, False, low.bytes, high.bytes),)
    )
    for each in (low, high, UUID("0" * 32)):
        files = PartitionSet([DataFile("f", "PARQUET", 1, 1, {"key": each})])
        assert files.may_contain(manifest, base)


def test_the_current_schema_serves_if_it_has_the_columns() -> None:
    base = table(spec=BY_LEVEL)
    assert schema_of_spec(base, base.spec) is base.schema


def test_a_dropped_column_is_found_in_an_older_schema() -> None:
    both = {"type": "struct", "schema-id": 0, "fields": FIELDS}
    id_only = {"type": "struct", "schema-id": 1, "fields": FIELDS[:1]}
    base = table(spec=BY_LEVEL, schemas=[both, id_only], current_schema_id=1, default_spec_id=0)
    assert schema_of_spec(base, base.specs[0]).schema_id == 0
