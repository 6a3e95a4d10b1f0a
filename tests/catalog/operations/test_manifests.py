"""Rewriting manifests, as callers do it."""

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def files():
    return MemoryFiles()


@pytest.fixture
def table(files):
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace("logging")
        made = catalog.create_table("logging.events", SCHEMA)
        for name in "abc":
            made.append([DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)])
        yield made


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
