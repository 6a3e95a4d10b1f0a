"""Expiring snapshots and removing orphans, as callers do it; what they keep is tested in tests/catalog/maintenance."""

import copy
import datetime
import re

import pytest

from iceberg_hms.catalog.transaction import Transaction
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
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
    assert {each.snapshot_id for each in lab.table.snapshots()} == {first, lab.table.current_snapshot().snapshot_id}


def test_two_expirations_at_once_delete_each_file_once_or_not_at_all(lab):
    other = lab.catalog.load_table("db.t")
    first = lab.table.expire_snapshots(FUTURE)
    second = other.expire_snapshots(FUTURE)
    assert (len(first.snapshot_ids), second.snapshot_ids, second.files.deleted) == (2, (), [])
    assert lab.present() == lab.reachable()


def test_a_dry_run_refuses_what_the_call_would(lab):
    head = lab.table.current_snapshot().snapshot_id
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


SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def files():
    return MemoryFiles()


@pytest.fixture
def pointer():
    return MemoryTablePointer(namespaces=("logging",))


@pytest.fixture
def table(files, pointer):
    with memory_catalog(files=files, pointer=pointer) as catalog:
        yield with_three_files(catalog)


def with_three_files(catalog):
    made = catalog.create_table("logging.events", SCHEMA)
    for name in "abc":
        made.append([DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)])
    return made


def test_the_manifests_become_one(table):
    report = table.rewrite_manifests(snapshot_properties={"job": "nightly"})
    assert table.current_snapshot().snapshot_id == report.snapshot_ids[0]
    summary = table.current_snapshot().summary
    assert (summary["operation"], summary["manifests-replaced"], summary["job"]) == ("replace", "3", "nightly")


def test_a_second_rewrite_leaves_the_table_as_it_is(table):
    before = table.rewrite_manifests()
    again = table.rewrite_manifests()
    assert (again.metadata_location, again.snapshot_ids) == (before.metadata_location, ())


def test_it_may_be_a_step_of_a_transaction(table, files):
    with table.transaction() as tx:
        tx.append([DataFile("file:/in/d.parquet", "PARQUET", 1, 10)])
        tx.rewrite_manifests()
        tx.rewrite_manifests()
    assert len(tx.report.snapshot_ids) == 2
    assert table.current_snapshot().summary["total-data-files"] == "4"


def test_a_spec_that_the_table_lacks_is_refused_and_leaves_no_file(table, files):
    before = set(files.locations())
    with pytest.raises(InvalidInput, match="no partition spec 3"):
        table.rewrite_manifests(spec_id=3)
    assert set(files.locations()) == before


def test_a_rewrite_that_cannot_read_a_manifest_leaves_none_of_its_own(files, pointer):
    """Those of the newer spec are written when one of the older is missed."""
    with memory_catalog(files=files, pointer=pointer) as catalog:
        table = with_three_files(catalog)
        table.update_spec().add_field("id", "bucket[4]").commit()
        for name in "de":
            table.append([DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10, {"id_bucket_4": 1}, spec_id=1)])
        listed = catalog.manifests().list(table.current_snapshot())
    [lost, *_] = [each.manifest_path for each in listed if each.partition_spec_id == 0]
    files.delete(lost)
    before = set(files.locations())
    with memory_catalog(files=files, pointer=pointer) as catalog:
        table = catalog.load_table("logging.events")
        with pytest.raises(MissingFile, match=re.escape(lost)):
            table.rewrite_manifests()
    assert set(files.locations()) == before


def test_an_upgrade_that_overtakes_a_rewrite_leaves_every_file_its_sequence_number(files, pointer):
    """rewrite: looks ahead on version 1, which has none | another: upgrades | rewrite: as version 2 wants it"""
    with memory_catalog(files=files, pointer=pointer) as catalog:
        table = catalog.create_table("logging.events", SCHEMA, properties={"format-version": "1"})
        for name in "ab":
            table.append([DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)])
        stale = copy.copy(table)
        table.upgrade_table_version(2)
        stale.rewrite_manifests()
        manifests = catalog.manifests()
        entries = list(manifests.entries(manifests.list(stale.current_snapshot())))
    assert [(each.sequence_number, each.file_sequence_number) for each in entries] == [(0, 0), (0, 0)]
