"""The main path on a real metastore: a table in a bucket, with many writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore
from integration.stores.bucket_checks import check_bucket
from integration.stores.minio import ObjectStore

SCHEMA = pa.schema([("id", pa.int64())])
WRITERS, APPENDS = 4, 5


def test_a_table_in_a_bucket(object_store: ObjectStore, bucket: str, tmp_path: Path) -> None:
    """Real rows of four writers at once; then the table is purged, and nothing of it is left."""
    root = f"s3a://{bucket}/ware house"
    with (
        LocalMetastore(tmp_path / "hms", warehouse=root) as metastore,
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=root, **object_store.settings()) as catalog,
    ):
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        location = table.metadata.location
        assert location == f"{root}/db.db/t"
        files = catalog.services.ports.files

        def write(writer: int) -> list[str]:
            paths = [f"{location}/data/{writer} {number}%20.parquet" for number in range(APPENDS)]
            for path in paths:
                buffer = pa.BufferOutputStream()
                pq.write_table(pa.table({"id": [writer]}, SCHEMA), buffer)
                files.write(path, buffer.getvalue().to_pybytes())
                table.append([path])
            return paths

        with ThreadPoolExecutor(WRITERS) as pool:
            written = [path for paths in pool.map(write, range(WRITERS)) for path in paths]
        report = check_bucket(object_store, catalog.pointer("db.t").metadata_location, acknowledged=written)
        assert report.findings == ()
        assert report.unreferenced == ()
        catalog.purge_table("db.t")
        assert list(files.list_files(root)) == []
