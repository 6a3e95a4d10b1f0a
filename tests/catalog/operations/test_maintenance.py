"""Expiring snapshots and removing orphans, as callers do it; what they keep is tested in tests/catalog/maintenance."""

import datetime
import re
from pathlib import Path

import pytest

from iceberg_hms.catalog.transaction import Transaction
from iceberg_hms.errors import InvalidInput, RequirementFailed
from tests.catalog.maintenance.lab import FUTURE, Lab


@pytest.fixture
def lab():
    made = Lab()
    for _ in range(3):
        made.append()
    return made


def test_an_expiration_takes_times_and_leaves_the_table_object_at_its_result(lab):
    first, second, third = lab.table.snapshots()
    report = lab.table.expire_snapshots(datetime.datetime.fromtimestamp(first.timestamp_ms / 1000, datetime.UTC))
    assert (report.snapshot_ids, report.files.deleted) == ((), [])
    report = lab.table.expire_snapshots(older_than=third.timestamp_ms + 1, retain_last=2)
    assert report.snapshot_ids == (first.snapshot_id,)
    assert lab.table.snapshots() == [second, third]
    assert (lab.table.metadata, report.commit.metadata) == (report.commit.metadata, lab.table.metadata)


def test_an_expiration_of_nothing_leaves_the_table_as_it_is(lab):
    location = lab.table.metadata_location
    assert lab.table.expire_snapshots().commit.metadata_location == location


def test_a_time_without_a_zone_is_refused(lab):
    with pytest.raises(InvalidInput, match="has no time zone"):
        lab.table.expire_snapshots(datetime.datetime(2021, 1, 1))  # noqa: DTZ001 - that is the point


def test_a_snapshot_that_another_caller_tagged_meanwhile_is_kept(lab):
    first = lab.table.snapshots()[0].snapshot_id
    lab.catalog.load_table("db.t").create_tag("kept", first)
    with pytest.raises(RequirementFailed, match=f"snapshot {first} cannot expire: tag kept names it"):
        lab.table.expire_snapshots(snapshot_ids=[first])
    assert lab.reachable() <= lab.present()
    lab.table.refresh().expire_snapshots(FUTURE)
    assert {each.snapshot_id for each in lab.table.snapshots()} == {first, lab.table.current_snapshot.snapshot_id}


def test_two_expirations_at_once_delete_each_file_once_or_not_at_all(lab):
    other = lab.catalog.load_table("db.t")
    first = lab.table.expire_snapshots(FUTURE)
    second = other.expire_snapshots(FUTURE)
    assert (len(first.snapshot_ids), second.snapshot_ids, second.files.deleted) == (2, (), [])
    assert lab.present() == lab.reachable()


def test_a_dry_run_refuses_what_the_call_would(lab):
    head = lab.table.current_snapshot.snapshot_id
    with pytest.raises(RequirementFailed, match="branch main names it"):
        lab.table.expire_snapshots(snapshot_ids=[head], dry_run=True)
    lab.table.set_properties({"gc.enabled": "false"})
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        lab.table.expire_snapshots(FUTURE, dry_run=True)


def test_they_are_no_steps_of_a_transaction():
    assert not hasattr(Transaction, "expire_snapshots")
    assert not hasattr(Transaction, "remove_orphan_files")


def test_what_a_refused_append_left_is_found_as_an_orphan(lab):
    left = f"{lab.table.metadata.location}/metadata/left-m0.avro"
    lab.files.write(left, b"x")
    assert lab.table.remove_orphan_files(FUTURE, force=True, dry_run=True).files.locations == [left]
    told = []
    report = lab.table.remove_orphan_files(FUTURE, force=True, on_progress=lambda *each: told.append(each))
    assert report.files.locations == [left]
    assert ("deleting", 1) in told


def test_the_examples_of_the_documentation_run(lab):
    page = Path(__file__).parents[3] / "docs" / "maintenance.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 2
    lab.catalog.create_namespace("logging")
    lab.catalog.rename_table("db.t", "logging.events")
    head = lab.table.current_snapshot
    names = {"catalog": lab.catalog}
    for example in examples:
        exec(compile(example, str(page), "exec"), names)
    assert names["table"].current_snapshot == head
    assert len(names["table"].snapshots()) == 2
