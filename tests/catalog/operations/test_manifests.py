"""Rewriting manifests, as callers do it."""

import copy
import re

import pytest

from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

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
    report = table.rewrite_manifests(summary={"job": "nightly"})
    assert table.current_snapshot.snapshot_id == report.snapshot_ids[0]
    summary = table.current_snapshot.summary
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
    assert table.current_snapshot.summary["total-data-files"] == "4"


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
        listed = catalog.manifests().list(table.current_snapshot)
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
        table.upgrade_format_version(2)
        stale.rewrite_manifests()
        manifests = catalog.manifests()
        entries = list(manifests.entries(manifests.list(stale.current_snapshot)))
    assert [(each.sequence_number, each.file_sequence_number) for each in entries] == [(0, 0), (0, 0)]
