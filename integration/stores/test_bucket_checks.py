"""The checker of tables in a bucket finds what is missing, lost, refused and left over, and nothing in a sound one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.stores import open_files
from iceberg_hms.testing.history import HistoryRule
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.stores.bucket_checks import BucketReport, check_bucket
from integration.stores.minio import ObjectStore

pytestmark = pytest.mark.slow

NAME = TableName("db", "t")
SCHEMA = pa.schema([("id", pa.int64())])


class BucketTable:
    """A table of three appends in a bucket, and the means to damage it."""

    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self.store = store
        self.bucket = bucket
        self.client = store.client()
        files: Any = open_files(Settings.load(store.settings(), environ={}))
        self.catalog = memory_catalog(files=files, warehouse=f"s3a://{bucket}/ware house")
        self.catalog.create_namespace("db")
        self.table = self.catalog.create_table(NAME, SCHEMA)
        self.paths = [f"s3a://{bucket}/ware house/db.db/t/data/{number}.parquet" for number in range(3)]
        for number, path in enumerate(self.paths):
            self.put(path)
            self.table.append(
                [DataFile(path, "PARQUET", record_count=1, file_size_in_bytes=4)],
                snapshot_properties={"commit-number": str(number)},
            )
        self.ids = [each.snapshot_id for each in self.table.snapshots()]

    @property
    def location(self) -> str:
        return self.catalog.pointer(NAME).metadata_location

    def key(self, location: str) -> str:
        return location.removeprefix(f"s3a://{self.bucket}/")

    def put(self, location: str) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self.key(location), Body=b"rows")

    def delete(self, location: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=self.key(location))

    def check(self, **answers: Any) -> BucketReport:
        return check_bucket(self.store, self.location, **answers)

    def close(self) -> None:
        self.catalog.close()
        self.client.close()


@pytest.fixture
def table(object_store: ObjectStore, bucket: str) -> Iterator[BucketTable]:
    table = BucketTable(object_store, bucket)
    yield table
    table.close()


def test_a_sound_table_has_no_findings_and_nothing_besides(table: BucketTable) -> None:
    report = table.check(
        acknowledged=[*table.paths, *table.ids],
        refused=[f"s3a://{table.bucket}/never.parquet", 17],
        summaries={"commit-number": ["0", "1", "2"]},
    )
    report.raise_if_broken()
    assert report.unreferenced == ()
    assert (report.history.metadata_files, report.history.snapshots) == (4, 3)
    assert report.history.data_files == tuple(table.paths)


@pytest.mark.parametrize("what", ["data file", "manifest list", "manifest", "metadata file of the log"])
def test_a_missing_object_is_found(table: BucketTable, what: str) -> None:
    first = table.table.snapshots()[0]
    manifests = table.catalog.services.ports.manifests()
    found = {
        "data file": table.paths[1],
        "manifest list": str(first.manifest_list),
        "manifest": manifests.list(first)[0].manifest_path,
        "metadata file of the log": str(table.table.metadata.metadata_log[1]["metadata-file"]),
    }
    table.delete(found[what])
    report = table.check()
    assert report.history.broken >= {HistoryRule.DANGLING}
    assert found[what] in str(report.findings)
    with pytest.raises(AssertionError, match="DANGLING"):
        report.raise_if_broken()


def test_a_lost_a_doubled_and_a_refused_commit_are_found(table: BucketTable) -> None:
    table.table.append(
        [DataFile(f"{table.paths[0]}2", "PARQUET", record_count=1, file_size_in_bytes=4)],
        snapshot_properties={"commit-number": "2"},
    )
    table.put(f"{table.paths[0]}2")
    assert table.check().findings == ()
    assert table.check(acknowledged=[17]).history.broken == {HistoryRule.LOST}
    assert table.check(acknowledged=[f"s3://{table.bucket}/none"]).history.broken == {HistoryRule.LOST}
    assert table.check(refused=[table.paths[0]]).history.broken == {HistoryRule.REFUSED}
    lost = table.check(summaries={"commit-number": ["0", "2", "3"]}).lost
    assert [str(each) for each in lost] == [
        "LOST: 2 snapshots have commit-number=2",
        "LOST: 0 snapshots have commit-number=3",
    ]


def test_an_object_below_the_folder_to_which_nothing_leads_is_named(table: BucketTable) -> None:
    orphan = f"{table.paths[0]}.orphan"
    table.put(orphan)
    # The marker of a folder is no file.
    table.put(f"{table.paths[0].rpartition('/')[0]}/")
    table.put(f"s3a://{table.bucket}/ware house/db.db/t2/data/of another.parquet")
    report = table.check()
    report.raise_if_broken()
    assert report.unreferenced == (orphan,)
