"""The policy for rebasing appends: the table's, else its namespace's, else the server's; and the cost of reading it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import orjson
import pytest

import iceberg_hms
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.server import RestServer
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import FREEZE
from integration.faults import SCHEMA
from integration.load_generator import append_bodies
from integration.rest_clients import TOKEN

POLICY = "iceberg-hms.rebase-appends"


def late_appends(catalog: Any, table: str, count: int, properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """A new table, and appends of one file each that clients made on its first state."""
    catalog.create_table(table, SCHEMA, properties=properties)
    files = [DataFile(f"file:/nowhere/{number}.parquet", "PARQUET", 10, 1_000) for number in range(count)]
    return [orjson.loads(body.data) for body in append_bodies(catalog, table, files)]


@pytest.mark.parametrize("api", ["rest", "python"])
@pytest.mark.parametrize(
    ("table_policy", "namespace_policy", "server_policy", "refused"),
    [
        (None, None, "plain", "nothing shows that its client validates no append"),
        (None, None, "all", None),
        (None, "all", "plain", None),
        (None, "none", "all", f"says {POLICY}=none"),
        (None, "sometimes", "all", f"says {POLICY}=sometimes"),
        ("all", "none", "none", None),
        ("none", "all", "all", f"the table says {POLICY}=none"),
    ],
)
def test_the_tables_policy_beats_its_namespaces_and_that_beats_the_servers(
    metastore: Any,
    namespace: str,
    api: str,
    table_policy: str | None,
    namespace_policy: str | None,
    server_policy: str,
    refused: str | None,
) -> None:
    settings = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse, "rebase_appends": server_policy}
    with (
        iceberg_hms.connect(**settings) as catalog,
        RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server,
        httpx.Client(base_url=server.uri, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http,
    ):
        if namespace_policy is not None:
            # REST refuses what means nothing, but other writers of the metastore may set it.
            catalog.update_namespace_properties(namespace, updates={POLICY: namespace_policy})
        own = {} if table_policy is None else {POLICY: table_policy}
        for late, body in enumerate(late_appends(catalog, f"{namespace}.t", 2, own)):
            message = commit(catalog, http, api, namespace, body)
            assert (message is None) is (not late or refused is None), message
    if refused is not None:
        assert message is not None
        assert refused in message
    if (table_policy, namespace_policy, server_policy) == (None, None, "plain"):
        assert message is not None
        assert f"set the property {POLICY}=all on the table or its namespace" in message


def commit(catalog: Any, http: httpx.Client, api: str, namespace: str, body: dict[str, Any]) -> str | None:
    """Commit to the table `t` over REST or through the Python API. Returns the message of a conflict, or None."""
    if api == "rest":
        answer = http.post(f"/v1/namespaces/{namespace}/tables/t", json=body)
        assert answer.status_code in (200, 409), answer.text
        return None if answer.status_code == 200 else str(answer.json()["error"]["message"])
    try:
        catalog.commit(f"{namespace}.t", body["requirements"], body["updates"])
    except RequirementFailed as error:
        return str(error)
    return None


def test_the_server_reads_the_namespace_only_for_an_overtaken_append_and_remembers_it_for_a_while(
    metastore: Any, namespace: str
) -> None:
    """The tables name their lock: without that the server would read the namespace for it, every few seconds."""
    names_lock = {"iceberg-hms.lock": "hms"}
    with FaultProxy(metastore.uri) as proxy:
        settings = {"warehouse": metastore.warehouse, "rebase_appends": "all", "rebase_appends_max_age_ms": 600_000}
        with iceberg_hms.connect(metastore_uri=proxy.uri, **settings) as catalog:
            with_policy = late_appends(catalog, f"{namespace}.with_policy", 3, {**names_lock, POLICY: "all"})
            first, *late = late_appends(catalog, f"{namespace}.t", 4, names_lock)
            before = proxy.count("get_database")
            for body in with_policy:
                catalog.commit(f"{namespace}.with_policy", body["requirements"], body["updates"])
            catalog.commit(f"{namespace}.t", first["requirements"], first["updates"])
            for number in range(3):
                catalog.commit(f"{namespace}.t", [], [{"action": "set-properties", "updates": {"n": str(number)}}])
            assert proxy.count("get_database") == before, "no call: none was overtaken, or the table has a policy"
            for body in late:
                catalog.commit(f"{namespace}.t", body["requirements"], body["updates"])
            assert proxy.count("get_database") == before + 1, "one call for all appends that were overtaken"
            assert len(catalog.load(f"{namespace}.t").metadata.snapshots) == 4


def test_an_unreadable_namespace_forbids_the_rebase_and_no_commit_hangs(metastore: Any, namespace: str) -> None:
    with FaultProxy(metastore.uri) as proxy:
        settings = {"warehouse": metastore.warehouse, "rebase_appends": "all", "socket_timeout_ms": 2_000}
        with iceberg_hms.connect(metastore_uri=proxy.uri, **settings) as catalog:
            first, late = late_appends(catalog, f"{namespace}.t", 2, {"iceberg-hms.lock": "hms"})
            catalog.commit(f"{namespace}.t", first["requirements"], first["updates"])
            proxy.on("get_database", FREEZE, times=None)
            with pytest.raises(RequirementFailed, match=f"namespace {namespace} cannot be read, which may forbid it"):
                catalog.commit(f"{namespace}.t", late["requirements"], late["updates"])
            assert len(catalog.load(f"{namespace}.t").metadata.snapshots) == 1
