"""A server over a real metastore whose plans of a large table are made by processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.planning import PROCESS_FROM_FILES
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from tests.rest.planning_children import planners_of

DAYS = 6
PER_DAY = PROCESS_FROM_FILES // DAYS + 1
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "day", "required": False, "type": "date"}],
}
SPEC = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"}]}
SETTINGS = RestSettings(rest_planning_max_files=2 * PER_DAY, rest_planning_processes=1)


@pytest.fixture
def catalog(metastore: Any, tmp_path: Path) -> Iterator[Catalog]:
    cache = str(tmp_path / "cache")
    uri, warehouse = metastore.uri, metastore.warehouse
    with iceberg_hms.connect(metastore_uri=uri, warehouse=warehouse, planning_cache_dir=cache) as catalog:
        yield catalog


@pytest.fixture
def names(catalog: Catalog, namespace: str) -> set[str]:
    """Those of the files of a table, of whose names a plan is made, not of what is in them."""
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=SPEC)
    found = set()
    for day in range(DAYS):
        paths = [f"{table.metadata.location}/data/{day}-{number}.parquet" for number in range(PER_DAY)]
        table.append(DataFile(path, "PARQUET", 1, 100, partition={"day": day}) for path in paths)
        found |= set(paths)
    return found


@pytest.fixture
def server(catalog: Catalog) -> Iterator[RestServer]:
    with RestServer(catalog, "127.0.0.1", 0, settings=SETTINGS) as running:
        yield running


def tasks_of(client: httpx.Client, path: str, body: Any) -> Iterator[list[str]]:
    """The paths of the files of each answer."""
    kind, waiting = "plan", [body]
    while waiting:
        response = client.post(f"{path}/{kind}", json=waiting.pop())
        assert response.status_code == 200, response.text
        yield [each["data-file"]["file-path"] for each in response.json()["file-scan-tasks"]]
        kind = "tasks"
        waiting += [{"plan-task": each} for each in response.json().get("plan-tasks", ())]


def test_a_process_plans_a_large_table_and_may_be_killed(
    server: RestServer, namespace: str, names: set[str], tmp_path: Path
) -> None:
    path = f"{server.uri}/v1/namespaces/{namespace}/tables/t"
    with httpx.Client(timeout=120) as client:
        answers = tasks_of(client, path, {})
        found = next(answers)
        (first,) = planners_of(os.getpid())
        assert len(found) == 2 * PER_DAY
        os.kill(first, signal.SIGKILL)
        for each in answers:
            found += each
        assert sorted(found) == sorted(names)
        (second,) = planners_of(os.getpid())
        assert second != first
        # It kept what it decoded, in the folder that the server's settings name.
        assert any((tmp_path / "cache").rglob("*"))
        on_a_day = {"filter": {"type": "eq", "term": "day", "value": "1970-01-03"}}
        (found,) = tasks_of(client, path, on_a_day)
        assert len(found) == PER_DAY
        # The process compressed it, for a client on this machine too; another one takes it as it is.
        packed, plain = (
            client.post(f"{path}/plan", json=on_a_day, headers={"accept-encoding": each})
            for each in ("gzip", "identity")
        )
        assert (packed.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
        assert packed.json()["file-scan-tasks"] == plain.json()["file-scan-tasks"]
        assert client.post(f"{path}/plan", json={"stats-fields": ["nowhere"]}).status_code == 400
        assert planners_of(os.getpid()) == [second]
    server.stop()
    assert planners_of(os.getpid()) == []
