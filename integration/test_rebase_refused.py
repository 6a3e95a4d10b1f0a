"""Appends as other engines send them to a table that has moved: their summaries decide whether the server rebases
them, and which files they leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

import iceberg_hms
from iceberg_hms.coordinator.files import own_files
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.server import RestServer
from integration.faults import SCHEMA
from integration.load_generator import append_bodies
from integration.rest_clients import SNAPSHOT_ISOLATION, TOKEN
from integration.rest_clients import catalog as catalog
from integration.rest_clients import server as server


def sent_late(catalog: Any, uri: str, table: str, keys: Mapping[str, str]) -> tuple[httpx.Response, str]:
    """Send an append with `keys` in its summary, made before another landed; the answer, and its client's list."""
    catalog.create_table(table, SCHEMA, properties=SNAPSHOT_ISOLATION)
    files = [DataFile(f"file:/nowhere/{name}.parquet", "PARQUET", 10, 1_000) for name in ("first", "late")]
    first, late = (orjson.loads(body.data) for body in append_bodies(catalog, table, files))
    [added] = [update for update in late["updates"] if update["action"] == "add-snapshot"]
    added["snapshot"]["summary"].update(keys)
    namespace, _, name = table.partition(".")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=uri, headers=headers, timeout=60) as http:
        path = f"/v1/namespaces/{namespace}/tables/{name}"
        assert http.post(path, json=first).status_code == 200
        return http.post(path, json=late), added["snapshot"]["manifest-list"]


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({}, 200),
        ({"trino_query_id": "q", "trino_user": "etl", "iceberg-version": "Apache Iceberg 1.9.1"}, 200),
        ({"flink.job-id": "j", "flink.max-committed-checkpoint-id": "7"}, 409),
        ({"published-wap-id": "w"}, 409),
        ({"wap.id": "w"}, 409),
    ],
    ids=["plain", "trino", "flink", "published", "staged"],
)
def test_an_append_that_may_have_read_the_table_is_refused(
    catalog: Any, server: RestServer, namespace: str, keys: Mapping[str, str], status: int
) -> None:
    answer, _ = sent_late(catalog, server.uri, f"{namespace}.t", keys)
    assert answer.status_code == status, answer.text
    metadata = catalog.load(f"{namespace}.t").metadata
    assert len(metadata.snapshots) == 1 + (status == 200)
    if status != 200:
        assert next(iter(keys)) in answer.json()["error"]["message"], "it says why"


@pytest.mark.parametrize(("age_ms", "is_left"), [(1, False), (0, True)])
def test_a_client_s_replaced_list_is_deleted_after_its_age(
    metastore: Any, namespace: str, age_ms: int, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All databases are searched before one is deleted, and this metastore has those of many tests.
    monkeypatch.setattr(own_files, "SEARCH_AFTER_COMMIT_SECONDS", 60.0)
    table = f"{namespace}.t"
    with (
        iceberg_hms.connect(
            metastore_uri=metastore.uri, warehouse=metastore.warehouse, replaced_list_age_ms=age_ms
        ) as catalog,
        RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server,
    ):
        answer, theirs = sent_late(catalog, server.uri, table, {})
        assert answer.status_code == 200
        # The next commit to the table deletes it.
        for number in range(2):
            catalog.commit(table, [], [{"action": "set-properties", "updates": {"n": str(number)}}])
        named = {snapshot.manifest_list for snapshot in catalog.load(table).metadata.snapshots}
    assert theirs not in named
    assert Path(theirs.removeprefix("file:")).exists() == is_left
