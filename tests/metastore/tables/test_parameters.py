from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import HIVE_TABLE
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.metastore.connection.storable import PARAMETERS_MAX
from iceberg_hms.metastore.tables.parameters import (
    hive_engine_enabled,
    is_iceberg,
    parameters_for,
    view_parameters_for,
)
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from tests.format.views import samples

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


@pytest.mark.parametrize(
    "key", ["EXTERNAL", "table_type", "metadata_location", "previous_metadata_location", HIVE_TABLE]
)
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


def many(count: int) -> dict[str, str]:
    return {f"p{number:06}": "v" for number in range(count)}


def properties_in(written: Mapping[str, str]) -> list[str]:
    return [key for key in written if key not in write(metadata_with())]


def test_only_so_many_properties_are_parameters_and_always_the_same() -> None:
    count = PARAMETERS_MAX + 1
    written = write(metadata_with(many(count)))
    assert properties_in(written) == sorted(many(count))[:PARAMETERS_MAX]
    assert write(metadata_with()).items() <= written.items()
    turned = write(metadata_with(dict(reversed(many(count).items()))))
    assert turned == written


@pytest.mark.parametrize("crowd", ["a", "iceberg-hms.a", "engine.hive.a", "write.a"])
def test_what_is_read_from_the_row_is_a_parameter_beside_any_crowd(crowd: str) -> None:
    """One who may set any other property cannot hide the lock of the table or the folders that it writes to."""
    read = {
        "iceberg-hms.lock": "zookeeper",
        "iceberg-hms.exclusive": "true",
        "engine.hive.lock-enabled": "false",
        "engine.hive.enabled": "true",
        "write.data.path": "file:/elsewhere",
        "write.metadata.path": "file:/elsewhere/metadata",
        "gc.enabled": "false",
        "comment": "c",
        "format-version": "2",
    }
    written = write(metadata_with({**{crowd + key: "v" for key in many(5_000)}, **read}))
    assert {key: value for key, value in read.items() if key != "gc.enabled"}.items() <= written.items()
    assert written["external.table.purge"] == "false"


def test_engines_settings_go_before_a_users_own_properties() -> None:
    settings = {"spark.sql.sources.provider": "iceberg", "write.format.default": "orc", "history.expire.max": "1"}
    written = write(metadata_with({**{f"a{key}": "v" for key in many(5_000)}, **settings}))
    assert settings.items() <= written.items()


def test_a_row_with_more_parameters_shrinks_and_keeps_what_is_foreign() -> None:
    before = metadata_with(many(5_000))
    current = {**write(metadata_with()), **many(5_000), "numFiles": "4", "foreign": "x"}
    after = write(metadata_with({**many(5_000), "p000001": "new"}), current, replaced=before)
    assert len(properties_in(after)) == PARAMETERS_MAX + len(("numFiles", "foreign", "previous_metadata_location"))
    assert (after["numFiles"], after["foreign"], after["p000001"]) == ("4", "x", "new")
    fewer = write(metadata_with({"p004999": "v"}), after, replaced=before)
    assert [key for key in fewer if key.startswith("p0")] == ["p004999"]


def test_a_property_beyond_the_bound_leaves_no_foreign_value_under_its_name() -> None:
    assert "z" not in write(metadata_with({**many(PARAMETERS_MAX), "z": "mine"}), {"z": "foreign"}, metadata_with())


def test_a_view_has_as_many() -> None:
    raw = samples.version(1, "SELECT 1")
    metadata = new_view_metadata("0" * 8, "file:/w/v", many(5_000), samples.schema(0), raw, now_ms=1_000)
    written = view_parameters_for({}, "file:/v1", metadata, replaced=None, max_size=32_672)
    assert [key for key in written if key.startswith("p0")] == sorted(many(PARAMETERS_MAX))


def test_a_record_of_a_hive_table_stays_whatever_a_client_sets() -> None:
    current = {**write(metadata_with()), HIVE_TABLE: "file:/saved"}
    set_ = write(metadata_with({HIVE_TABLE: "mine"}), current=current, replaced=metadata_with())
    removed = write(metadata_with(), current=current, replaced=metadata_with({HIVE_TABLE: "mine"}))
    assert set_[HIVE_TABLE] == removed[HIVE_TABLE] == "file:/saved"
