"""A manifest list as rows."""

from __future__ import annotations

from iceberg_hms.inspect.manifests import manifest_rows
from tests.inspect import samples


def test_a_manifest_is_a_row_with_readable_partitions() -> None:
    metadata = samples.metadata()
    (row,) = manifest_rows(metadata, metadata.snapshots[0], samples.manifests())
    assert (row.content, row.length, row.spec_id, row.added_snapshot_id) == ("data", 5_000, 1, samples.FIRST)
    assert (row.added_files, row.existing_files, row.deleted_files) == (2, 0, 1)
    assert (row.added_rows, row.existing_rows, row.deleted_rows) == (3, 0, None)
    assert [(part.field, part.lower, part.upper) for part in row.partitions] == [
        ("event_time_day", "2021-04-01", "2021-04-02"),
        ("gone_odd", "\x01", None),
    ]


def test_a_manifest_without_counts_or_summaries_is_a_row_as_well() -> None:
    metadata = samples.metadata()
    row = manifest_rows(metadata, metadata.snapshots[1], samples.manifests())[1]
    assert (row.content, row.added_files, row.partitions) == ("deletes", None, ())


def test_a_manifest_of_a_spec_that_the_table_lost_is_shown_without_partitions() -> None:
    metadata = samples.metadata(partition_specs=[{"spec-id": 0, "fields": []}], default_spec_id=0)
    (row,) = manifest_rows(metadata, metadata.snapshots[0], samples.manifests())
    assert (row.spec_id, row.partitions) == (1, ())


def test_manifests_keep_the_order_of_the_list() -> None:
    metadata = samples.metadata()
    rows = manifest_rows(metadata, metadata.snapshots[1], samples.manifests())
    assert [row.path for row in rows] == [samples.MANIFEST.manifest_path, samples.OLD_MANIFEST.manifest_path]
