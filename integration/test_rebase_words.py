"""Who says which appends are rebased: the table, else its namespace, else the server; and what it costs to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import orjson
import pytest

import iceberg_hms
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.server import Server
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import FREEZE
from integration.faults import SCHEMA
from integration.load_generator import append_bodies
from integration.rest_clients import TOKEN

WORD = "iceberg-hms.rebase-appends"


def late_appends(catalog: Any, table: str, count: int, properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """A new table, and appends of a file each that were all made on its first state."""
    catalog.create_table(table, SCHEMA, properties=properties)
    files = [DataFile(f"file:/nowhere/{number}.parquet", "PARQUET", 10, 1_000) for number in range(count)]
    return [orjson.loads(body.data) for body in append_bodies(catalog, table, files)]


@pytest.mark.parametrize("door", ["rest", "python"])
@pytest.mark.parametrize(
    ("table_says", "namespace_says", "server_says", "refused"),
    [
        (None, None, "plain", "nothing shows that its client validates no append"),
        (None, None, "all", None),
        (None, "all", "plain", None),
        (None, "none", "all", f"says {WORD}=none"),
        (None, "sometimes", "all", f"says {WORD}=sometimes"),
        ("all", "none", "none", None),
        ("none", "all", "all", f"the table says {WORD}=none"),
    ],
)
def test_the_table_beats_the_namespace_and_that_the_server(
    metastore: Any,
    namespace: str,
    door: str,
    table_says: str | None,
    namespace_says: str | None,
    server_says: str,
    refused: str | None,
) -> None:
    settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse, "rebase_appends": server_says}
    with (
        iceberg_hms.connect(**settings) as catalog,
        Server(catalog, host="127.0.0.1", port=0, token=TOKEN) as server,
        httpx.Client(base_url=server.uri, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http,
    ):
        if namespace_says is not None:
            changes = {"removals": [], "updates": {WORD: namespace_says}}
            assert http.post(f"/v1/namespaces/{namespace}/properties", json=changes).status_code == 200
        own = {} if table_says is None else {WORD: table_says}
        for late, body in enumerate(late_appends(catalog, f"{namespace}.t", 2, own)):
            message = sent(catalog, http, door, namespace, body)
            assert (message is None) is (not late or refused is None), message
    if refused is not None:
        assert message is not None
        assert refused in message
    if (table_says, namespace_says, server_says) == (None, None, "plain"):
        assert message is not None
        assert f"set the property {WORD}=all on the table or its namespace" in message


def sent(catalog: Any, http: httpx.Client, door: str, namespace: str, body: dict[str, Any]) -> str | None:
    """Commit to the table `t`, through one door or the other. The message of a conflict, or None."""
    if door == "rest":
        answer = http.post(f"/v1/namespaces/{namespace}/tables/t", json=body)
        assert answer.status_code in (200, 409), answer.text
        return None if answer.status_code == 200 else str(answer.json()["error"]["message"])
    try:
        catalog.commit(f"{namespace}.t", body["requirements"], body["updates"])
    except RequirementFailed as error:
        return str(error)
    return None


def test_the_namespace_is_read_only_for_an_append_that_lost_its_place_and_then_for_a_while(
    metastore: Any, namespace: str
) -> None:
    """The tables say which lock they take: for that the namespace is asked too, every few seconds."""
    silent = {"iceberg-hms.lock": "hms"}
    with FaultProxy(metastore.uri) as proxy:
        settings = {"warehouse": metastore.warehouse, "rebase_appends": "all", "rebase_appends_max_age_ms": 600_000}
        with iceberg_hms.connect(metastore_uri=proxy.uri, **settings) as catalog:
            speaks = late_appends(catalog, f"{namespace}.speaks", 3, {**silent, WORD: "all"})
            first, *late = late_appends(catalog, f"{namespace}.t", 4, silent)
            before = proxy.count("get_database")
            for body in speaks:
                catalog.commit(f"{namespace}.speaks", body["requirements"], body["updates"])
            catalog.commit(f"{namespace}.t", first["requirements"], first["updates"])
            for number in range(3):
                catalog.commit(f"{namespace}.t", [], [{"action": "set-properties", "updates": {"n": str(number)}}])
            assert proxy.count("get_database") == before, "who keeps its place, or whose table speaks, costs no call"
            for body in late:
                catalog.commit(f"{namespace}.t", body["requirements"], body["updates"])
            assert proxy.count("get_database") == before + 1, "one for all that were overtaken"
            assert len(catalog.load(f"{namespace}.t").metadata.snapshots) == 4


def test_a_namespace_that_cannot_be_read_forbids_and_the_commit_does_not_hang(metastore: Any, namespace: str) -> None:
    with FaultProxy(metastore.uri) as proxy:
        settings = {"warehouse": metastore.warehouse, "rebase_appends": "all", "socket_timeout_ms": 2_000}
        with iceberg_hms.connect(metastore_uri=proxy.uri, **settings) as catalog:
            first, late = late_appends(catalog, f"{namespace}.t", 2, {"iceberg-hms.lock": "hms"})
            catalog.commit(f"{namespace}.t", first["requirements"], first["updates"])
            proxy.on("get_database", FREEZE, times=None)
            with pytest.raises(RequirementFailed, match=f"namespace {namespace} cannot be read, which may forbid it"):
                catalog.commit(f"{namespace}.t", late["requirements"], late["updates"])
            assert len(catalog.load(f"{namespace}.t").metadata.snapshots) == 1
