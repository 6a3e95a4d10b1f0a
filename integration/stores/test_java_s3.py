"""Tables in a bucket that Java's HiveCatalog and we change by turns and at once, each with its own S3 client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.local.metastore import LocalMetastore
from integration import interop
from integration.faults import LIMIT
from integration.stores.bucket_checks import BucketReport, check_bucket
from integration.stores.java_s3 import RESOLVING_FILE_IO, JavaOnS3, java_on_s3, java_properties
from integration.stores.minio import ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUCKET = "lake-of-java"
WRITERS = 4
APPENDS = 5
#: Of the table of many writers: Java's default of 4 retries is too few for them.
RETRIES = {"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "20", "commit.retry.max-wait-ms": "500"}
#: The reserved columns of a file of position deletes.
POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


@dataclass(frozen=True)
class Lake:
    """A metastore and a bucket. java: a JVM; theirs: its catalog. ours: of this process. folder: for new files."""

    metastore: LocalMetastore
    store: ObjectStore
    java: JavaOnS3
    theirs: Any
    ours: Any
    folder: Path

    def connect(self) -> Any:
        return iceberg_hms.connect(
            metastore_uri=self.metastore.uri, warehouse=self.metastore.warehouse, **self.store.settings()
        )

    def upload(self, location: str, file: Path) -> str:
        """location: as the table's files are spelled. Returns it."""
        client = self.store.client()
        client.put_object(Bucket=BUCKET, Key=location.partition(f"://{BUCKET}/")[2], Body=file.read_bytes())
        client.close()
        return location

    def parquet(self, name: str, ids: Sequence[int]) -> Path:
        return interop.small_parquet(self.folder / name, ids)

    def deletes(self, name: str, of: str, position: int) -> Path:
        """One position delete."""
        pq.write_table(pa.table({"file_path": [of], "pos": [position]}, POSITIONS), self.folder / name)
        return self.folder / name

    def check(self, table: str, acknowledged: Sequence[int | str] = ()) -> BucketReport:
        report = check_bucket(self.store, self.ours.pointer(table).metadata_location, acknowledged=acknowledged)
        report.raise_if_broken()
        return report


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    object_store.make_bucket(BUCKET)
    metastore = LocalMetastore(tmp_path_factory.mktemp("metastore of java"), warehouse=f"s3://{BUCKET}/warehouse")
    with metastore, java_on_s3(tmp_path_factory.mktemp("java on s3")) as java:
        theirs = java.catalog("theirs", metastore, java_properties(object_store))
        where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
        with iceberg_hms.connect(**where, **object_store.settings()) as ours:
            yield Lake(metastore, object_store, java, theirs, ours, tmp_path_factory.mktemp("files of java"))
        theirs.close()
    object_store.delete_bucket(BUCKET)


def rows(ids: Sequence[int], **others: Any) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"row {number}", **others} for number in ids]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_java_and_we_change_one_table_by_turns_and_its_locations_stay_as_java_spelled_them(
    lake: Lake, scheme: str
) -> None:
    java, name, root = lake.java, f"turns_{scheme}.events", f"{scheme}://{BUCKET}/by {scheme} 100%/"
    java.make_namespace(lake.theirs, f"turns_{scheme}", root)
    theirs = java.make_table(lake.theirs, name, {"write.metadata.compression-codec": "gzip", "format-version": "2"})
    location = str(theirs.location())
    row = interop.metastore_row(lake.metastore, name)
    assert location.startswith(root.rstrip("/"))
    ours = lake.ours.load_table(name)

    def put(file: Path) -> str:
        return lake.upload(f"{location}/data/{file.name}", file)

    def java_appends(number: int, ids: Sequence[int]) -> str:
        file = lake.parquet(f"java {number}.parquet", ids)
        theirs.newAppend().appendFile(java.data_file(put(file), file)).commit()
        return f"{location}/data/{file.name}"

    def we_append(number: int, ids: Sequence[int]) -> str:
        at = put(lake.parquet(f"our {number}.parquet", ids))
        ours.append([at])
        return at

    first = java_appends(1, [0, 1])
    second = we_append(1, [2, 3])
    assert java.rows(theirs, ["id", "name"]) == rows(range(4))

    theirs.updateSchema().addColumn("theirs", java.iceberg.types.Types.IntegerType.get()).commit()
    with ours.refresh().update_schema() as change:
        change.add_column("ours", "long").rename_column("theirs", "of_java")
    theirs.refresh()
    columns = ["id", "name", "of_java", "ours"]
    assert [str(field.name()) for field in theirs.schema().columns()] == columns
    third, fourth = java_appends(2, [4]), we_append(2, [5])

    file = lake.deletes("by java.parquet", second, 0)
    theirs.newRowDelta().addDeletes(java.position_deletes(put(file), file)).commit()
    file = lake.deletes("by us.parquet", first, 1)
    size = file.stat().st_size
    ours.row_delta(deletes=[DataFile(put(file), "PARQUET", 1, size, content=FileContent.POSITION_DELETES)])
    assert java.rows(theirs, columns) == rows([0, 3, 4, 5], of_java=None, ours=None)
    # By its record: given a path, py4j finds a method of the same name that deletes the file itself.
    theirs.newDelete().deleteFile(java.data_file(fourth, lake.folder / "our 2.parquet")).commit()
    ours.delete_files([third])
    assert java.rows(theirs, columns) == rows([0, 3], of_java=None, ours=None)

    report = lake.check(name, [first, second, java_appends(3, [6])])
    assert report.unreferenced == ()
    ours.refresh()
    after = interop.metastore_row(lake.metastore, name)
    assert (ours.metadata.location, after.sd.location) == (location, row.sd.location)
    logged = [each["metadata-file"] for each in ours.metadata.metadata_log]
    lists = [each.manifest_list for each in ours.snapshots()]
    manifests = lake.ours.manifests()
    lines = [line.manifest_path for each in ours.snapshots() for line in manifests.list(each)]
    written = [ours.metadata_location, *logged, *lists, *lines]
    assert [each for each in written if not str(each).startswith(f"{location}/metadata/")] == []
    assert [each for each in [ours.metadata_location, *logged] if not each.endswith(".gz.metadata.json")] == []


def test_each_commit_of_writers_of_both_is_there_once(lake: Lake) -> None:
    java, name = lake.java, "crowd.events"
    java.make_namespace(lake.theirs, "crowd", f"s3a://{BUCKET}/crowd")
    location = str(java.make_table(lake.theirs, name, RETRIES).location())
    file = lake.parquet("any.parquet", [1])
    start = Barrier(2 * WRITERS)

    def write(writer: str, append: Callable[[str], Any]) -> list[str]:
        start.wait(LIMIT)
        acknowledged = []
        for number in range(APPENDS):
            at = lake.upload(f"{location}/data/{writer}-{number}.parquet", file)
            append(at)
            acknowledged.append(at)
        return acknowledged

    def write_by_java(number: int) -> list[str]:
        catalog = java.catalog(f"crowd {number}", lake.metastore, java_properties(lake.store))
        table = java.load(catalog, name)
        try:
            return write(
                f"java {number}", lambda at: table.newFastAppend().appendFile(java.data_file(at, file)).commit()
            )
        finally:
            catalog.close()

    def write_by_us(number: int) -> list[str]:
        with lake.connect() as catalog:
            table = catalog.load_table(name)
            return write(f"ours {number}", lambda at: table.append([at]))

    with ThreadPoolExecutor(2 * WRITERS) as pool:
        running = [pool.submit(make, number) for number in range(WRITERS) for make in (write_by_java, write_by_us)]
        acknowledged = list(itertools.chain.from_iterable(each.result() for each in running))
    assert len(acknowledged) == 2 * WRITERS * APPENDS
    report = lake.check(name, acknowledged)
    assert sorted(report.history.data_files) == sorted(acknowledged)
    assert report.history.snapshots == len(acknowledged)
    assert java.rows(java.load(lake.theirs, name), ["id"]) == [{"id": 1}] * len(acknowledged)


def test_a_table_with_old_files_on_local_disk_and_new_ones_in_the_bucket(lake: Lake, tmp_path: Path) -> None:
    """Java reads both by ResolvingFileIO; S3FileIO knows buckets alone."""
    java, name = lake.java, "moved.events"
    theirs = java.catalog("resolving", lake.metastore, java_properties(lake.store, RESOLVING_FILE_IO))
    java.make_namespace(theirs, "moved", f"file:{tmp_path}/moved db")
    table = java.make_table(theirs, name, {})
    old = lake.parquet("old.parquet", [0, 1])
    table.newAppend().appendFile(java.data_file(f"file:{old}", old)).commit()

    folder = f"s3a://{BUCKET}/moved"
    ours = lake.ours.load_table(name)
    ours.set_properties({"write.metadata.path": f"{folder}/metadata"})
    new = lake.upload(f"{folder}/data/ours.parquet", lake.parquet("new.parquet", [2]))
    ours.append([new])
    assert java.rows(table, ["id", "name"]) == rows(range(3))
    newest = lake.parquet("newest.parquet", [3])
    at = lake.upload(f"{folder}/data/java.parquet", newest)
    table.newAppend().appendFile(java.data_file(at, newest)).commit()
    ours.delete_files([f"file:{old}"])
    assert java.rows(table, ["id", "name"]) == rows([2, 3])

    lake.check(name, [new, at])
    ours.refresh()
    assert ours.metadata.location == f"file:{tmp_path}/moved db/events"
    lists = [str(each.manifest_list) for each in ours.snapshots()]
    assert [each.startswith(f"{folder}/metadata/") for each in lists] == [False, True, True, True]
    assert ours.metadata_location.startswith(f"{folder}/metadata/")
    theirs.close()
