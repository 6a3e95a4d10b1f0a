"""Clients without credentials of their own, whom the store itself keeps to the folders of their tables."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
import pyarrow as pa
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from pyiceberg.catalog import load_catalog

import iceberg_hms
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.rest.access.tokens import TokenFile
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from integration.stores.minio import ObjectStore
from tests.security.callers import write_tokens

pytestmark = [pytest.mark.minio, pytest.mark.slow]

BUCKET = "vended"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
SCOPES = {"a": "write[a]", "b": "write[b]", "reader": "read[a]", "admin": "admin[*]"}
ASKS = {"X-Iceberg-Access-Delegation": "vended-credentials"}
#: Hadoop's file system for a metastore without a client of S3: it makes its folders on the local disk.
_STAND_IN = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"


@dataclass(frozen=True)
class Lake:
    """A server whose warehouse is in the store, and the token of each caller."""

    uri: str
    tokens: Mapping[str, str]
    store: ObjectStore

    def catalog(self, caller: str) -> Any:
        """PyIceberg without a setting for S3."""
        return load_catalog(f"vended-{caller}", type="rest", uri=self.uri, token=self.tokens[caller])

    def get(self, caller: str, path: str, headers: Mapping[str, str] = ASKS) -> Any:
        """What the server answers, as JSON."""
        sent = {**headers, "Authorization": f"Bearer {self.tokens[caller]}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.uri}{path}", headers=sent), timeout=60) as found:
            return json.load(found)

    def client(self, caller: str, table: str = "/v1/namespaces/a/tables/t") -> Any:
        """A client of S3 with nothing but the credentials that come with a table."""
        config = self.get(caller, table)["config"]
        return botocore.session.Session().create_client(
            "s3",
            endpoint_url=config["s3.endpoint"],
            region_name=config["client.region"],
            aws_access_key_id=config["s3.access-key-id"],
            aws_secret_access_key=config["s3.secret-access-key"],
            aws_session_token=config["s3.session-token"],
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def keys(self, prefix: str) -> list[str]:
        """Of the objects below a prefix, as the store's owner sees them."""
        client = self.store.client()
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
        client.close()
        return [each["Key"] for each in found]


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder: Path = tmp_path_factory.mktemp("vended")
    (folder / "stand-in").mkdir()
    conf = {"fs.s3a.impl": _STAND_IN, f"fs.viewfs.mounttable.{BUCKET}.linkMergeSlash": f"file://{folder}/stand-in"}
    object_store.make_bucket(BUCKET)
    settings: dict[str, Any] = {
        "s3.endpoint": object_store.endpoint,
        "s3.access-key-id": object_store.access_key,
        "s3.secret-access-key": object_store.secret_key,
        "s3.region": object_store.region,
    }
    vends = RestSettings(rest_vended_credentials="sts", rest_vended_duration_seconds=900)
    tokens = write_tokens(folder / "tokens", SCOPES)
    access = TokenFile(folder / "tokens", SYSTEM_CLOCK)
    warehouse = f"s3a://{BUCKET}/wh"
    with (
        LocalMetastore(folder / "hms", warehouse=warehouse, conf=conf) as metastore,
        iceberg_hms.connect(metastore.uri, warehouse, **settings) as catalog,
    ):
        for namespace, table in (("a", "t"), ("a", "t2"), ("b", "t")):
            if not catalog.namespace_exists(namespace):
                catalog.create_namespace(namespace)
            catalog.create_table((namespace, table), ROWS.schema)
        with RestServer(catalog, host="127.0.0.1", port=0, access=access, settings=vends) as server:
            yield Lake(server.uri, tokens, object_store)
    object_store.delete_bucket(BUCKET)


def refused(call: Any, **arguments: Any) -> None:
    with pytest.raises(ClientError) as raised:
        call(Bucket=BUCKET, **arguments)
    assert raised.value.response["Error"]["Code"] in ("AccessDenied", "403")


def test_a_stock_client_writes_and_reads_without_credentials_of_its_own(lake: Lake) -> None:
    table = lake.catalog("a").create_table("a.own", ROWS.schema)
    for _ in range(2):
        table.append(ROWS)
    assert table.location() == f"s3a://{BUCKET}/wh/a.db/own"
    assert lake.catalog("reader").load_table("a.own").scan().to_arrow().num_rows == 4
    table.delete("id = 1")
    assert lake.catalog("a").load_table("a.own").scan().to_arrow()["id"].to_pylist() == [2, 2]


def test_a_stock_client_stages_a_table_without_credentials_of_its_own(lake: Lake) -> None:
    with lake.catalog("a").create_table_transaction("a.staged", ROWS.schema) as transaction:
        transaction.append(ROWS)
    assert lake.catalog("reader").load_table("a.staged").scan().to_arrow().num_rows == 2


def test_the_store_keeps_a_writer_to_the_folder_of_the_table(lake: Lake) -> None:
    client = lake.client("a")
    client.put_object(Bucket=BUCKET, Key="wh/a.db/t/data/x", Body=b"1")
    assert client.get_object(Bucket=BUCKET, Key="wh/a.db/t/data/x")["ContentLength"] == 1
    assert client.list_objects_v2(Bucket=BUCKET, Prefix="wh/a.db/t/data/")["KeyCount"] == 1
    for folder in ("wh/b.db/t", "wh/a.db/t2", "wh/a.db", "wh"):
        file = next(iter(lake.keys(f"{folder}/")))
        if folder not in ("wh/a.db", "wh"):
            refused(client.get_object, Key=file)
            refused(client.delete_object, Key=file)
        refused(client.put_object, Key=f"{folder}/x", Body=b"")
        refused(client.list_objects_v2, Prefix=f"{folder}/")
    refused(client.list_objects_v2, Prefix="wh/a.db/t")
    refused(client.list_objects_v2)
    refused(client.copy_object, Key="wh/a.db/t/copy", CopySource=f"{BUCKET}/{lake.keys('wh/b.db/t/')[0]}")
    client.delete_object(Bucket=BUCKET, Key="wh/a.db/t/data/x")
    assert "wh/a.db/t/data/x" not in lake.keys("wh/a.db/t/")
    client.close()


def test_the_store_keeps_a_reader_from_changes(lake: Lake) -> None:
    client = lake.client("reader")
    file = lake.keys("wh/a.db/t/metadata/")[0]
    assert client.get_object(Bucket=BUCKET, Key=file)["ContentLength"] > 0
    refused(client.put_object, Key="wh/a.db/t/data/x", Body=b"")
    refused(client.delete_object, Key=file)
    refused(client.create_multipart_upload, Key="wh/a.db/t/data/x")
    client.close()


def test_a_caller_of_another_namespace_gets_none(lake: Lake) -> None:
    for path in ("/v1/namespaces/a/tables/t", "/v1/namespaces/a/tables/t/credentials"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            lake.get("b", path)


def test_a_table_that_moved_to_a_namespace_keeps_its_folder_and_its_callers_get_that_alone(lake: Lake) -> None:
    admin = lake.catalog("admin")
    admin.create_table("b.moves", ROWS.schema)
    admin.rename_table("b.moves", "a.moved")
    lake.catalog("a").load_table("a.moved").append(ROWS)
    client = lake.client("a", "/v1/namespaces/a/tables/moved")
    assert client.list_objects_v2(Bucket=BUCKET, Prefix="wh/b.db/moves/")["KeyCount"] > 0
    refused(client.list_objects_v2, Prefix="wh/b.db/t/")
    client.close()


def test_the_endpoint_that_a_load_names_gives_one_credential_with_its_end(lake: Lake) -> None:
    config = lake.get("a", "/v1/namespaces/a/tables/t")["config"]
    [made] = lake.get("a", f"/{config['client.refresh-credentials-endpoint']}")["storage-credentials"]
    # Java's VendedCredentialsProvider takes only what has these four, under a prefix of s3.
    assert made["prefix"] == f"s3a://{BUCKET}/wh/a.db/t/"
    names = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.session-token-expires-at-ms")
    assert made["config"] == {name: config[name] for name in names}
    left = int(config["s3.session-token-expires-at-ms"]) - SYSTEM_CLOCK.now_ms()
    assert 300_000 <= left <= 900_000


@pytest.mark.parametrize(("table", "name"), [("blank", "with space"), ("percent", "per%20cent"), ("wide", "ümlaut-表")])
def test_a_folder_with_an_odd_name_is_narrowed_to_as_exactly(lake: Lake, table: str, name: str) -> None:
    location = f"s3a://{BUCKET}/wh/a.db/{name}"
    lake.catalog("admin").create_table(f"a.{table}", ROWS.schema, location=location)
    client = lake.client("a", f"/v1/namespaces/a/tables/{table}")
    client.put_object(Bucket=BUCKET, Key=f"wh/a.db/{name}/data/x", Body=b"")
    refused(client.put_object, Key="wh/a.db/t/data/x", Body=b"")
    refused(client.put_object, Key=f"wh/a.db/{name}2/data/x", Body=b"")
    client.close()


def test_a_name_that_means_more_in_a_policy_gets_none(lake: Lake) -> None:
    lake.catalog("admin").create_table("a.star", ROWS.schema, location=f"s3a://{BUCKET}/wh/a.db/s*r")
    assert lake.get("a", "/v1/namespaces/a/tables/star")["config"] == {}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        lake.get("a", "/v1/namespaces/a/tables/star/credentials")


def test_a_client_that_asks_for_nothing_gets_nothing(lake: Lake) -> None:
    body = lake.get("a", "/v1/namespaces/a/tables/t", headers={})
    assert (body["config"], "storage-credentials" in body) == ({}, False)
