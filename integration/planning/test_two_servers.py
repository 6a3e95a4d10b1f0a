"""Several servers of one metastore plan scans: each answers the tasks of the others, and none holds anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import iceberg_hms
from integration import interop
from integration.command_line import running
from integration.planning.in_turns import InTurns, Passed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Files of the table, each in a manifest of its own, and files in one answer.
FILES, FILES_MAX = 24, 4
#: Plans that nobody fetches, and what they may cost a server. Its pools start their threads one by one.
ABANDONED, GROWTH_KIB, GROWTH_THREADS = 200, 40 * 1024, 8
SECONDS = 60.0
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@dataclass(frozen=True)
class Served:
    uri: str
    process: Popen[str]

    def state(self) -> Mapping[str, int]:
        """Threads, and KiB of memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return {"threads": int(fields["Threads"]), "memory": int(fields["VmRSS"].split()[0])}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)


@pytest.fixture
def served(metastore: Any, tmp_path: Path) -> Iterator[list[Served]]:
    """Two servers that share a key."""
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef" * 4)
    key.chmod(0o600)
    options = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--port", "0", "--no-auth"]
    for setting in (
        f"rest.signing-key-file={key}",
        "rest.scan-planning=offered",
        f"rest.planning-max-files={FILES_MAX}",
        "rest.merge-manifests=false",
    ):
        options += ["--set", setting]
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("w"))
        started = [stack.enter_context(running("serve", *options, stderr=log)) for _ in range(2)]
        yield [Served(str(event["uri"]), process) for process, event in started]


@pytest.fixture
def table(metastore: Any, namespace: str, tmp_path: Path) -> str:
    name = f"{namespace}.t"
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        made = catalog.create_table(name, COLUMNS, properties={"commit.manifest-merge.enabled": "false"})
        for number in range(FILES):
            path = interop.small_parquet(tmp_path / f"{number}.parquet", range(number * 10, number * 10 + 10))
            made.append([f"file:{path}"])
    return name


def ids(uri: str, table: str) -> list[int]:
    catalog = RestCatalog("planned", uri=uri, **{"scan-planning-mode": "server"})
    rows = catalog.load_table(table).scan("id >= 20").to_arrow()
    return sorted(rows["id"].to_pylist())


EXPECTED = list(range(20, FILES * 10))


def spark_ids(spark: Any, uri: str, table: str, name: str) -> list[int]:
    catalog = interop.add_spark_catalog(spark, name, type="rest", uri=uri, scan_planning_mode="server")
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {catalog}.{table} WHERE id >= 20").collect())


@pytest.mark.parametrize("client", ["pyiceberg", "spark"])
def test_two_servers_answer_in_turns(served: list[Served], table: str, spark: Any, client: str) -> None:
    with InTurns([each.uri for each in served]) as proxy:
        found = ids(proxy.uri, table) if client == "pyiceberg" else spark_ids(spark, proxy.uri, table, "in_turns")
        assert found == EXPECTED
        assert len(proxy.plans()) == 1
        assert {each.status for each in proxy.tasks()} == {200}
        assert {each.server for each in proxy.tasks()} == {each.uri for each in served}


@pytest.mark.parametrize("client", ["pyiceberg", "spark"])
def test_a_server_that_is_killed_after_it_planned_is_not_missed(
    served: list[Served], table: str, spark: Any, client: str
) -> None:
    first, second = served
    with InTurns([first.uri]) as proxy:

        def kill(passed: Passed) -> None:
            if passed.is_plan:
                first.kill()
                proxy.servers[:] = [second.uri]

        proxy.then = kill
        found = ids(proxy.uri, table) if client == "pyiceberg" else spark_ids(spark, proxy.uri, table, "killed")
        assert found == EXPECTED
        assert [each.server for each in proxy.plans()] == [first.uri]
        assert {(each.server, each.status) for each in proxy.tasks()} == {(second.uri, 200)}


def plan(client: httpx.Client, uri: str, table: str) -> dict[str, Any]:
    namespace, name = table.split(".")
    answer = client.post(f"{uri}/v1/namespaces/{namespace}/tables/{name}/plan", json={"filter": True})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.content)
    return found


def test_plans_that_nobody_fetches_cost_nothing(served: list[Served], table: str) -> None:
    server = served[0]
    with httpx.Client(timeout=SECONDS, trust_env=False) as client:
        for _ in range(ABANDONED // 2):
            assert plan(client, server.uri, table)["plan-tasks"]
        before = server.state()
        for _ in range(ABANDONED):
            plan(client, server.uri, table)
        after = server.state()
    assert after["threads"] - before["threads"] <= GROWTH_THREADS
    assert after["memory"] - before["memory"] < GROWTH_KIB
    assert ids(server.uri, table) == EXPECTED


def test_a_task_of_another_table_or_changed_is_none(served: list[Served], table: str, metastore: Any) -> None:
    namespace, name = table.split(".")
    with (
        httpx.Client(timeout=SECONDS, trust_env=False) as client,
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog,
    ):
        catalog.create_table(f"{namespace}.other", catalog.load_table(table).schema())
        task = plan(client, served[0].uri, table)["plan-tasks"][0]
        middle = len(task) // 2
        changed = task[:middle] + ("A" if task[middle] != "A" else "B") + task[middle + 1 :]
        for place, sent in (("other", task), (name, changed), (name, "nonsense"), (name, "")):
            uri = f"{served[1].uri}/v1/namespaces/{namespace}/tables/{place}/tasks"
            answer = client.post(uri, json={"plan-task": sent})
            assert answer.status_code in (400, 404), (place, sent, answer.text)
        right = client.post(f"{served[1].uri}/v1/namespaces/{namespace}/tables/{name}/tasks", json={"plan-task": task})
        assert right.status_code == 200
