"""Data files as rows."""

from __future__ import annotations

from iceberg_hms.inspect.files import column_metrics, file_rows, manifest_rows
from tests.inspect import samples


def test_live_files_are_rows_with_readable_partitions() -> None:
    metadata = samples.metadata()
    data, deletes = file_rows(metadata, metadata.snapshots[1], samples.manifests())
    assert (data["path"], data["content"], data["status"]) == (samples.DATA.file_path, "data", "added")
    assert data["partition"] == {"event_time_day": "2021-04-01", "gone_odd": "1"}
    assert (data["records"], data["size"], data["spec_id"], data["sequence_number"]) == (2, 2_048, 1, 1)
    assert (deletes["content"], deletes["equality_ids"], deletes["partition"]) == ("equality deletes", (1,), {})
    assert deletes["status"] == "existing"


def test_deleted_entries_are_left_out() -> None:
    metadata = samples.metadata()
    rows = file_rows(metadata, metadata.snapshots[0], samples.manifests())
    assert [(row["status"], row["partition"]["event_time_day"]) for row in rows] == [("added", "2021-04-01")]


def test_every_column_with_any_metric_is_a_row_and_bounds_are_readable() -> None:
    rows = column_metrics(samples.metadata(), samples.DATA)
    assert list(rows[0]) == ["field_id", "column", "type", "size", "values", "nulls", "nans", "lower", "upper"]
    assert [tuple(row.values()) for row in rows] == [
        (1, "level", "string", 50, 2, 0, None, "ERROR", "WARN\x1b[2J"),
        (2, "event_time", "timestamp", None, 2, 1, None, "2021-04-01T00:00:00", "0x73686f7274"),
        (3, "message", "string", None, None, None, None, "0xff", None),
        (99, "#99", None, 5, None, None, None, "0x0102", None),
    ]


def test_a_file_without_metrics_has_no_column_rows() -> None:
    assert column_metrics(samples.metadata(), samples.REMOVED) == []


def test_manifests_are_read_only_when_their_files_are_asked_for() -> None:
    metadata = samples.metadata()
    manifests = samples.manifests()
    manifests.contents = {samples.MANIFEST.manifest_path: manifests.contents[samples.MANIFEST.manifest_path]}
    assert next(file_rows(metadata, metadata.snapshots[1], manifests))["path"] == samples.DATA.file_path


def test_a_file_of_a_spec_that_the_table_lost_is_shown_without_partition() -> None:
    metadata = samples.metadata(partition_specs=[{"spec-id": 0, "fields": []}], default_spec_id=0)
    (row,) = file_rows(metadata, metadata.snapshots[0], samples.manifests())
    assert row["partition"] == {}


def test_a_manifest_is_a_row_with_readable_partitions() -> None:
    metadata = samples.metadata()
    (row,) = manifest_rows(metadata, metadata.snapshots[0], samples.manifests())
    assert (row["content"], row["length"], row["spec_id"], row["added_snapshot_id"]) == (
        "data",
        5_000,
        1,
        samples.FIRST,
    )
    assert (row["added_files"], row["existing_files"], row["deleted_files"]) == (2, 0, 1)
    assert (row["added_rows"], row["existing_rows"], row["deleted_rows"]) == (3, 0, None)
    assert [(part["field"], part["lower"], part["upper"]) for part in row["partitions"]] == [
        ("event_time_day", "2021-04-01", "2021-04-02"),
        ("gone_odd", "\x01", None),
    ]


def test_a_manifest_without_counts_or_summaries_is_a_row_as_well() -> None:
    metadata = samples.metadata()
    row = manifest_rows(metadata, metadata.snapshots[1], samples.manifests())[1]
    assert (row["content"], row["added_files"], row["partitions"]) == ("deletes", None, [])


def test_a_manifest_of_a_spec_that_the_table_lost_is_shown_without_partitions() -> None:
    metadata = samples.metadata(partition_specs=[{"spec-id": 0, "fields": []}], default_spec_id=0)
    (row,) = manifest_rows(metadata, metadata.snapshots[0], samples.manifests())
    assert (row["spec_id"], row["partitions"]) == (1, [])


def test_manifests_keep_the_order_of_the_list() -> None:
    metadata = samples.metadata()
    rows = manifest_rows(metadata, metadata.snapshots[1], samples.manifests())
    assert [row["path"] for row in rows] == [samples.MANIFEST.manifest_path, samples.OLD_MANIFEST.manifest_path]
