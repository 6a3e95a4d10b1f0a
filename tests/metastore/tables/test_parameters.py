from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.tables.parameters import hive_engine_enabled, is_iceberg, parameters_for
from iceberg_hms.testing.contracts.table_pointer import table_metadata

SUMMARY = {
    "operation": "append",
    "total-data-files": "3",
    "total-records": "10",
    "total-files-size": "999",
    "caf\u00e9": "\u4e2d",
}
SNAPSHOT = {
    "snapshot-id": 7,
    "sequence-number": 1,
    "timestamp-ms": 1_700_000_000_001,
    "manifest-list": "file:/t/metadata/snap-7.avro",
    "summary": SUMMARY,
    "schema-id": 0,
}
SPEC = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": "b"}]}
ORDER = {
    "order-id": 1,
    "fields": [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}],
}


def metadata_with(properties: Mapping[str, str] | None = None, **raw: Any) -> TableMetadata:
    return TableMetadata.parse({**table_metadata("file:/t", properties).raw, **raw})


def with_snapshot(**raw: Any) -> TableMetadata:
    return metadata_with(
        **{
            "snapshots": [SNAPSHOT],
            "current-snapshot-id": 7,
            "last-sequence-number": 1,
            "partition-specs": [{"spec-id": 0, "fields": []}, SPEC],
            "default-spec-id": 1,
            "last-partition-id": 1000,
            "sort-orders": [{"order-id": 0, "fields": []}, ORDER],
            "default-sort-order-id": 1,
            **raw,
        }
    )


def write(
    metadata: TableMetadata,
    current: Mapping[str, str] | None = None,
    replaced: TableMetadata | None = None,
    max_size: int = 32_672,
) -> dict[str, str]:
    return parameters_for(current or {}, "file:/m1", metadata, replaced=replaced, max_size=max_size)


def test_a_new_row_is_complete() -> None:
    assert write(metadata_with({"a": "1"})) == {
        "a": "1",
        "EXTERNAL": "TRUE",
        "table_type": "ICEBERG",
        "metadata_location": "file:/m1",
        "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "snapshot-count": "0",
        "DO_NOT_UPDATE_STATS": "true",
        "current-schema": json.dumps(metadata_with().schema.raw, separators=(",", ":")),
    }


def test_the_current_snapshot_is_shown_with_its_statistics() -> None:
    written = write(with_snapshot())
    assert written["current-snapshot-id"] == "7"
    assert written["current-snapshot-timestamp-ms"] == "1700000000001"
    assert json.loads(written["current-snapshot-summary"]) == {k: v for k, v in SUMMARY.items() if k != "operation"}
    assert "\u4e2d" in written["current-snapshot-summary"]
    assert (written["numFiles"], written["numRows"], written["totalSize"]) == ("3", "10", "999")
    assert written["snapshot-count"] == "1"
    assert json.loads(written["default-partition-spec"]) == SPEC
    assert json.loads(written["default-sort-order"]) == ORDER


def test_what_no_longer_holds_goes_away() -> None:
    before = write(with_snapshot())
    after = write(metadata_with(), current=before, replaced=with_snapshot())
    gone = {"current-snapshot-id", "current-snapshot-timestamp-ms", "current-snapshot-summary"}
    assert gone | {"default-partition-spec", "default-sort-order"} == before.keys() - after.keys() - {"numFiles"}
    assert after["previous_metadata_location"] == "file:/m1"


def test_removed_properties_go_and_foreign_parameters_stay() -> None:
    replaced = metadata_with({"a": "1", "b": "1", "gc.enabled": "false"})
    current = {**write(replaced), "foreign": "x", "transient_lastDdlTime": "1"}
    after = write(metadata_with({"b": "2"}), current=current, replaced=replaced)
    assert after["b"] == "2"
    assert after["foreign"] == "x"
    assert "a" not in after
    assert "external.table.purge" not in after


def test_gc_enabled_is_hives_purge_switch() -> None:
    written = write(metadata_with({"gc.enabled": "false"}))
    assert written["external.table.purge"] == "false"
    assert "gc.enabled" not in written


@pytest.mark.parametrize("key", ["EXTERNAL", "table_type", "metadata_location", "previous_metadata_location"])
def test_a_property_cannot_take_the_place_of_the_pointer(key: str) -> None:
    current = {**write(metadata_with()), "previous_metadata_location": "file:/m0"}
    set_ = write(metadata_with({key: "mine"}), current=current, replaced=metadata_with())
    removed = write(metadata_with(), current=current, replaced=metadata_with({key: "mine"}))
    assert set_ == removed
    assert "mine" not in set_.values()


def test_the_owner_property_is_not_shown() -> None:
    written = write(metadata_with({"hive.metastore.table.owner": "ada", "Hive.Metastore.Table.Owner": "x"}))
    assert not {"ada", "x"} & set(written.values())


def test_a_managed_row_does_not_become_external() -> None:
    assert "EXTERNAL" not in write(metadata_with(), current={"table_type": "ICEBERG", "metadata_location": "file:/m0"})


def test_hives_statistics_are_not_believed_after_a_commit() -> None:
    written = write(metadata_with(), current={"COLUMN_STATS_ACCURATE": "{}", "metadata_location": "file:/m0"})
    assert "COLUMN_STATS_ACCURATE" not in written
    assert written["DO_NOT_UPDATE_STATS"] == "true"


def test_what_is_too_long_is_left_out_and_never_stale(caplog: pytest.LogCaptureFixture) -> None:
    limit = len(write(with_snapshot())["current-snapshot-summary"].encode())
    exact = write(with_snapshot(), max_size=limit)
    assert "current-snapshot-summary" in exact
    assert "current-schema" not in exact
    assert "current-schema is left out" in caplog.text
    less = write(with_snapshot(), current=write(with_snapshot()), max_size=limit - 1)
    assert "current-snapshot-summary" not in less
    assert less["current-snapshot-id"] == "7"


def test_a_size_of_zero_shows_nothing_of_the_metadata() -> None:
    written = write(with_snapshot(), current=write(with_snapshot()), max_size=0)
    shown = {"EXTERNAL", "table_type", "metadata_location", "previous_metadata_location", "uuid", "snapshot-count"}
    assert written.keys() == shown | {"DO_NOT_UPDATE_STATS", "numFiles", "numRows", "totalSize"}


def test_hives_engine_is_switched_on_by_a_property() -> None:
    on = metadata_with({"engine.hive.enabled": "TRUE"})
    assert hive_engine_enabled(on)
    assert write(on)["storage_handler"] == "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"
    assert not hive_engine_enabled(metadata_with())
    assert "storage_handler" not in write(metadata_with(), current=write(on), replaced=on)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"table_type": "ICEBERG"}, True),
        ({"table_type": "iceberg"}, True),
        ({"table_type": "ICEBERG-VIEW"}, False),
        ({}, False),
    ],
)
def test_the_table_type_parameter_makes_a_row_iceberg(parameters: dict[str, str], expected: bool) -> None:
    assert is_iceberg(parameters) is expected


def test_what_was_read_is_not_changed() -> None:
    current = {"metadata_location": "file:/m0"}
    write(metadata_with(), current=current)
    assert current == {"metadata_location": "file:/m0"}


def test_a_property_whose_name_the_database_does_not_take_is_in_the_metadata_alone() -> None:
    fits, too_long = "k" * 256, "k" * 257
    metadata = table_metadata("file:/t", {fits: "a", too_long: "b"})
    written = parameters_for({}, "file:/m1", metadata, replaced=None, max_size=32_672)
    assert fits in written
    assert too_long not in written


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("k" * 257, "v"),
        ("caf\u00e9", "v"),
        ("key ", "v"),
        ("", "v"),
        ("nul\0", "v"),
        ("key", "v" * 32_673),
        ("key", "\u4e2d" * 11_000),
        ("key", "a\0b"),
    ],
)
def test_a_property_that_no_metastore_may_hold_is_in_the_metadata_alone(key: str, value: str) -> None:
    assert write(metadata_with({key: value})).keys() == write(metadata_with({})).keys()
    known = metadata_with({key: "old"})
    assert key not in write(metadata_with({key: value}), {key: "old"}, replaced=known)


def test_a_parameter_that_the_row_has_stays() -> None:
    metadata = metadata_with({"caf\u00e9": "\u4e2d" * 11_000})
    current = {"caf\u00e9": "\u4e2d" * 11_000}
    assert current.items() <= write(metadata, current, replaced=metadata).items()


def test_a_clients_summary_and_uuid_cannot_be_too_long_for_the_row() -> None:
    long = with_snapshot(snapshots=[SNAPSHOT | {"summary": SUMMARY | {"total-records": "9" * 40_000}}])
    assert "numRows" not in write(long, {"numRows": "1"})
    assert "uuid" not in write(metadata_with(**{"table-uuid": "u" * 40_000}))


def test_long_text_is_counted_in_bytes() -> None:
    wide = "\U0001f600" * 8_200
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "a", "required": False, "type": "int", "doc": wide}],
    }
    assert "current-schema" not in write(metadata_with(schemas=[schema]))
