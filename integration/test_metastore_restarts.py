"""`iceberg-hms serve` in front of a metastore that starts after it, and that is killed and started again under load.

The metastore's database is on disk, so its rows survive a kill. What clients may see of that: 503 for reads, 429 or 500
(CommitStateUnknown) for commits. Never a 404, never a 4xx that makes a client delete files, and no acknowledged commit
may be lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.testing.history import check_table
from integration.command_line import START, running
from integration.faults import SCHEMA, until
from integration.load_generator import Body, append_bodies
from integration.rest_clients import ALL
from integration.test_server_killed import data_file
from tests.polling import eventually

logger = logging.getLogger(__name__)

COMMITTERS, LOADERS = 16, 4
#: A server is ready this long after its metastore answers, at the latest. A pool replaces its dead connections at once.
READY_SECONDS = 10.0
#: What a client does before it sends again what was not made; stock clients wait as long.
AGAIN_SECONDS = 0.2

#: What clients may see: nothing after which they delete files, or ask another catalog.
COMMITS = {"200", "429 TooManyRequestsException", "500 CommitStateUnknownException"}
LOADS = {"200", "503 ServiceUnavailableException"}

pytestmark = pytest.mark.timeout(600)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Metastores:
    """One metastore after the other, on one folder and one port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._running: LocalMetastore | None = None
        self.uri = f"thrift://127.0.0.1:{self._port}"
        self.warehouse = f"file:{folder}/warehouse"

    def start(self) -> None:
        self._running = LocalMetastore(self._folder, port=self._port, warehouse=self.warehouse).start()

    def kill(self) -> None:
        """kill -9."""
        assert self._running is not None
        assert self._running.pid is not None
        os.kill(self._running.pid, signal.SIGKILL)
        self._running.stop()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()


@pytest.fixture
def metastores(tmp_path: Path) -> Iterator[Metastores]:
    with ExitStack() as stack:
        found = Metastores(tmp_path / "hms")
        stack.callback(found.stop)
        yield found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[IO[str]]:
    path = tmp_path / "serve.log"
    with path.open("w") as stream:
        yield stream
    assert "Traceback" not in path.read_text()


def serving(metastores: Metastores, log: IO[str], *, wait_ms: int = 30_000) -> Any:
    where = ["--metastore-uri", metastores.uri, "--warehouse", metastores.warehouse, "--port", "0", "--no-auth"]
    return running("serve", *where, "--set", f"rest.commit-wait-ms={wait_ms}", stderr=log)


def ready_after(uri: str, seconds: float) -> float:
    """Wait until the server is ready; how long that took."""
    begun = time.monotonic()
    assert eventually(lambda: httpx.get(f"{uri}/health/ready", timeout=START).status_code == 200, seconds)
    return time.monotonic() - begun


def test_a_server_that_starts_before_its_metastore_is_ready_when_that_answers(
    metastores: Metastores, log: IO[str]
) -> None:
    with serving(metastores, log, wait_ms=500) as (_, event):
        uri = event["uri"]
        table = f"{uri}/v1/namespaces/early/tables/t"
        assert httpx.get(f"{uri}/health/live", timeout=START).status_code == 200
        assert httpx.get(f"{uri}/health/ready", timeout=START).status_code == 503
        for method, path in (("GET", table), ("HEAD", table), ("GET", f"{uri}/v1/namespaces"), ("DELETE", table)):
            response = httpx.request(method, path, timeout=START)
            assert response.status_code == 503, (method, path)
            assert int(response.headers["Retry-After"]) >= 1
        commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        response = httpx.post(table, json=commit, timeout=START)
        assert response.status_code == 429
        assert int(response.headers["Retry-After"]) >= 1
        metastores.start()
        logger.info("ready %.2f s after the metastore", ready_after(uri, READY_SECONDS))
        assert httpx.post(f"{uri}/v1/namespaces", json={"namespace": ["early"]}, timeout=START).status_code == 200
        body = {"name": "t", "schema": {"type": "struct", "fields": []}}
        assert httpx.post(f"{uri}/v1/namespaces/early/tables", json=body, timeout=START).status_code == 200
        # Half a second is little for the first lock of a new metastore; a client sends a commit again after a conflict.
        until(lambda: httpx.post(table, json=commit, timeout=START).status_code == 200, "the commit is made")
        assert httpx.get(table, timeout=START).json()["metadata"]["properties"]["a"] == "b"


@dataclass
class Seen:
    """What clients saw: statuses and types of errors, by what they asked for; and the bodies that were acknowledged."""

    commits: Counter[str] = field(default_factory=Counter)
    loads: Counter[str] = field(default_factory=Counter)
    acknowledged: list[Body] = field(default_factory=list)


def outcome(response: httpx.Response) -> str:
    kind = "" if response.status_code == 200 else f" {response.json()['error']['type']}"
    return f"{response.status_code}{kind}"


async def commit(client: httpx.AsyncClient, path: str, bodies: Iterator[Body], seen: Seen, over: asyncio.Event) -> None:
    """Send one body after the other, each until it is acknowledged."""
    for body in bodies:
        while True:
            response = await client.post(path, content=body.data)
            seen.commits[outcome(response)] += 1
            assert outcome(response) in COMMITS
            if response.status_code == 200:
                break
            await asyncio.sleep(AGAIN_SECONDS)
        seen.acknowledged.append(body)
        if over.is_set():
            return


async def load(client: httpx.AsyncClient, path: str, seen: Seen, over: asyncio.Event) -> None:
    while not over.is_set():
        response = await client.get(path)
        seen.loads[outcome(response)] += 1
        assert outcome(response) in LOADS
        if response.status_code != 200:
            await asyncio.sleep(AGAIN_SECONDS)


async def under_load(uri: str, bodies: Sequence[Body], metastores: Metastores, kills: int, calm: float) -> Seen:
    seen, over, path = Seen(), asyncio.Event(), "/v1/namespaces/db/tables/t"
    waiting = iter(bodies)
    limits = httpx.Limits(max_connections=64)
    headers = {"Content-Type": "application/json"}
    async with (
        httpx.AsyncClient(base_url=uri, timeout=START, limits=limits, headers=headers) as client,
        asyncio.TaskGroup() as clients,
    ):
        for _ in range(COMMITTERS):
            clients.create_task(commit(client, path, waiting, seen, over))
        for _ in range(LOADERS):
            clients.create_task(load(client, path, seen, over))
        for kill in range(kills):
            await asyncio.sleep(calm)
            before = len(seen.acknowledged)
            await asyncio.to_thread(metastores.kill)
            await asyncio.to_thread(metastores.start)
            logger.info(
                "kill %d: %d acknowledged before; ready %.2f s after the metastore answered",
                kill + 1,
                before,
                await asyncio.to_thread(ready_after, uri, READY_SECONDS),
            )
        await asyncio.sleep(calm)
        over.set()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3])
def test_a_metastore_that_is_killed_and_started_again_costs_only_retries(
    metastores: Metastores, log: IO[str], tmp_path: Path, kills: int
) -> None:
    """
    16 clients append to a table and 4 load it, for about a minute
    the metastore is killed three times, and started again each time
    each append is acknowledged in the end
    """
    metastores.start()
    with iceberg_hms.connect(
        metastore_uri=metastores.uri, warehouse=metastores.warehouse, storage_fsync=False
    ) as catalog:
        catalog.create_namespace("db")
        catalog.create_table("db.t", SCHEMA, properties=ALL)
        (tmp_path / "data").mkdir()
        first, *files = (data_file(tmp_path / "data" / f"{number}.parquet") for number in range(2_500))
        catalog.load_table("db.t").append([first])
        bodies = append_bodies(catalog, "db.t", files)
        with serving(metastores, log) as (_, event):
            seen = asyncio.run(under_load(event["uri"], bodies, metastores, kills, calm=8.0))
        logger.info("commits %s, loads %s", dict(seen.commits), dict(seen.loads))
        assert len(seen.acknowledged) < len(bodies), "the clients ran out of bodies"
        certain = [item for body in seen.acknowledged for item in (body.path, body.snapshot_id)]
        report = check_table(catalog, "db.t", acknowledged=[first.file_path, *certain])
        report.raise_if_broken()
        assert list(report.data_files) == sorted([first.file_path, *(body.path for body in seen.acknowledged)])
