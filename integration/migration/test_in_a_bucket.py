"""A Hive table in a bucket becomes an Iceberg table: executors list it and read its footers there.

Spark reads plain Hive tables there with hadoop-aws alone, which is not installed: the files and the rows of the
metastore come from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table
from iceberg_hms.migration import undo
from iceberg_hms.spark.s3 import AWS_BUNDLE
from integration import maven_packages
from integration.migration.program import migrate_elsewhere
from integration.migration.readers import in_order
from integration.stores.minio import ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUCKET = "lake-of-hive"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def metastore_of_bucket(
    object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalMetastore]:
    maven_packages.fetch(tmp_path_factory.mktemp("packages"), AWS_BUNDLE)
    object_store.make_bucket(BUCKET)
    with LocalMetastore(tmp_path_factory.mktemp("metastore"), warehouse=f"s3a://{BUCKET}/warehouse") as metastore:
        yield metastore
    object_store.delete_bucket(BUCKET)


def put(store: ObjectStore, folder: Path, key: str, ids: range) -> None:
    table = pa.table({"id": list(ids), "name": [f"row {each}" for each in ids]}, schema=COLUMNS)
    pq.write_table(table, folder / "one.parquet")
    client = store.client()
    client.put_object(Bucket=BUCKET, Key=key, Body=(folder / "one.parquet").read_bytes())
    client.close()


def storage(location: str) -> StorageDescriptor:
    return StorageDescriptor(
        cols=[FieldSchema(name="id", type="bigint"), FieldSchema(name="name", type="string")],
        location=location,
        inputFormat=f"{PARQUET}.MapredParquetInputFormat",
        outputFormat=f"{PARQUET}.MapredParquetOutputFormat",
        serdeInfo=SerDeInfo(serializationLib=f"{PARQUET}.serde.ParquetHiveSerDe", parameters={}),
        parameters={},
    )


def add_table(metastore: LocalMetastore, namespace: str, location: str, partitions: dict[str, str]) -> None:
    """An external table `t`. partitions: value -> folder."""
    pool = ClientPool([metastore.uri])
    try:
        row = Table(
            dbName=namespace,
            tableName="t",
            owner="hive",
            tableType="EXTERNAL_TABLE",
            partitionKeys=[FieldSchema(name="p", type="string")],
            parameters={"EXTERNAL": "TRUE"},
            sd=storage(location),
        )
        pool.call_once("create_table", tbl=row)
        for value, folder in partitions.items():
            added = Partition(dbName=namespace, tableName="t", values=[value], parameters={}, sd=storage(folder))
            pool.call_once("add_partition", new_part=added)
    finally:
        pool.close()


def keys(store: ObjectStore) -> set[str]:
    client = store.client()
    found = client.list_objects_v2(Bucket=BUCKET, Prefix="hive/").get("Contents", ())
    client.close()
    return {each["Key"] for each in found}


def test_a_hive_table_in_a_bucket_is_migrated_and_undone(
    object_store: ObjectStore, metastore_of_bucket: LocalMetastore, tmp_path: Path
) -> None:
    metastore, root = metastore_of_bucket, f"s3a://{BUCKET}/hive"
    put(object_store, tmp_path, "hive/t/p=a/000000_0", range(3))
    put(object_store, tmp_path, "hive/t/p=b c%2Fd/000000_0", range(3, 5))
    put(object_store, tmp_path, "hive/elsewhere/000000_0", range(5, 6))
    client = object_store.client()
    client.put_object(Bucket=BUCKET, Key="hive/t/p=a/_SUCCESS", Body=b"")
    client.close()
    before = keys(object_store)
    where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    with iceberg_hms.connect(**where, **object_store.settings()) as catalog:
        catalog.create_namespace("hives")
        places = {"a": f"{root}/t/p=a", "b c/d": f"{root}/t/p=b c%2Fd", "c": f"{root}/elsewhere"}
        add_table(metastore, "hives", f"{root}/t", places)
        found = migrate_elsewhere(
            metastore, tmp_path, "hives.t", library=object_store.settings(), reads_hive=False, undo=False
        )
        values = ["a", "a", "a", "b c/d", "b c/d", "c"]
        expected = [(str(number), f"row {number}", value) for number, value in enumerate(values)]
        assert (found["outcome"], found["records"]) == ("done", 6)
        assert [tuple(row) for row in found["iceberg"]] == in_order(expected)
        assert set(found["files"]) == {f"{folder}/000000_0" for folder in places.values()}
        assert by_pyiceberg(metastore, object_store) == in_order(expected)
        assert all(each.startswith("hive/t/_iceberg/") for each in keys(object_store) - before)
        undo(catalog, "hives.t")
    assert keys(object_store) == before


def by_pyiceberg(metastore: LocalMetastore, store: ObjectStore) -> list[tuple[str | None, ...]]:
    from pyiceberg.catalog import load_catalog

    properties: dict[str, Any] = {
        "s3.access-key-id": store.access_key,
        "s3.secret-access-key": store.secret_key,
        "s3.endpoint": store.endpoint,
        "s3.region": store.region,
    }
    catalog = load_catalog("lake", type="hive", uri=metastore.uri, **properties)
    rows = catalog.load_table("hives.t").scan().to_arrow().to_pylist()
    return in_order(tuple(str(value) for value in row.values()) for row in rows)
