"""SIGTERM to `iceberg-hms serve` with commits in flight: it says first that it is not ready, each commit gets an
answer, no lock stays behind, and the exit code is 0."""

from __future__ import annotations

import signal
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import iceberg_hms
from integration.command_line import END, START, running
from integration.faults import LIMIT, SCHEMA, until
from integration.load_generator import append_bodies
from integration.rest_clients import ALL
from integration.test_server_killed import data_file

CLIENTS, BODIES = 16, 400
DRAIN_SECONDS = 10
JSON = {"Content-Type": "application/json"}


def ready(uri: str) -> int:
    return httpx.get(f"{uri}/health/ready", timeout=START).status_code


def is_listening(uri: str) -> bool:
    try:
        httpx.get(f"{uri}/health/live", timeout=START)
    except httpx.TransportError:
        return False
    return True


def in_flight(uri: str) -> int:
    """Requests that the server has and has not answered, this question among them."""
    lines = httpx.get(f"{uri}/metrics", timeout=START).text.splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("iceberg_hms_rest_requests_in_flight "))


def options(metastore: Any, drain_ms: int) -> list[str]:
    where = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse]
    return [*where, "--port", "0", "--no-auth", "--set", f"rest.drain-ms={drain_ms}"]


@pytest.mark.timeout(300)
def test_no_commit_is_cut_off(metastore: Any, namespace: str, tmp_path: Path) -> None:
    """
    16 clients append, each on one connection after the other; a balancer asks whether the server is ready
    SIGTERM: the server is not ready any more, and goes on
    the balancer notices, and no client sends more; then a lock makes the last commits wait
    all commits have an answer, and the server ends
    """
    where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    with iceberg_hms.connect(**where, storage_fsync=False) as catalog:
        name, path = f"{namespace}.t", f"/v1/namespaces/{namespace}/tables/t"
        catalog.create_table(name, SCHEMA, properties=ALL)
        first, *files = (data_file(tmp_path / f"{number}.parquet") for number in range(BODIES + 1))
        catalog.load_table(name).append([first])
        bodies = append_bodies(catalog, name, files)
        waiting = iter(bodies)
        landed: list[int] = []
        with (
            (tmp_path / "serve.log").open("w") as log,
            running("serve", *options(metastore, DRAIN_SECONDS * 1000), stderr=log) as (process, event),
        ):
            uri, stopping = event["uri"], False

            def client() -> None:
                with httpx.Client(base_url=uri, headers=JSON, timeout=START) as http:
                    for body in waiting:
                        response = http.post(path, content=body.data)
                        assert response.status_code == 200, response.text
                        landed.append(body.snapshot_id)
                        if stopping:
                            return

            with ThreadPoolExecutor(CLIENTS) as pool:
                assert ready(uri) == 200
                clients: list[Future[None]] = [pool.submit(client) for _ in range(CLIENTS)]
                until(lambda: bool(landed), "commits are made")
                process.send_signal(signal.SIGTERM)
                before = len(landed)
                until(lambda: ready(uri) == 503, "the server is not ready any more")
                assert httpx.get(f"{uri}/health/live", timeout=START).status_code == 200
                until(lambda: len(landed) > before, "it goes on")
                stopping = True
                for each in clients:
                    each.result(LIMIT)
            assert process.wait(END) == 0
        assert "Traceback" not in (tmp_path / "serve.log").read_text()
        snapshots = {snapshot.snapshot_id for snapshot in catalog.load(name).metadata.snapshots}
        assert set(landed) <= snapshots
        assert catalog.locks.list(name).locks == ()


@pytest.mark.timeout(300)
def test_commits_that_wait_for_a_lock_when_it_stops_have_their_answers(
    metastore: Any, namespace: str, tmp_path: Path
) -> None:
    """
    another writer holds the table's lock; commits wait for it
    SIGTERM, and nobody watches the server: it stops at once, and these commits still wait
    the other writer releases the lock: the commits are made and answered, and the server ends
    """
    where = {"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}
    with iceberg_hms.connect(**where) as catalog:
        name, path = f"{namespace}.t", f"/v1/namespaces/{namespace}/tables/t"
        table = catalog.create_table(name, SCHEMA, properties=ALL)
        commit = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        with running("serve", *options(metastore, 60_000)) as (process, event), ThreadPoolExecutor(CLIENTS) as pool:
            held = catalog.services.ports.lock.acquire(table.name(), wait_seconds=LIMIT, request="another-writer")
            answers = [pool.submit(httpx.post, event["uri"] + path, json=commit, timeout=START) for _ in range(CLIENTS)]
            until(lambda: in_flight(event["uri"]) == CLIENTS + 1, "the server has all commits")
            until(lambda: len(catalog.locks.list(name).locks) == 2, "the server waits for the lock")
            process.send_signal(signal.SIGTERM)
            until(lambda: not is_listening(event["uri"]), "the server does not listen any more")
            held.release()
            assert [each.result(LIMIT).status_code for each in answers] == [200] * CLIENTS
            assert process.wait(END) == 0
        assert catalog.locks.list(name).locks == ()


def test_a_second_signal_ends_it_at_once(metastore: Any, namespace: str) -> None:
    with running("serve", *options(metastore, 600_000)) as (process, event):
        assert ready(event["uri"]) == 200
        process.send_signal(signal.SIGTERM)
        until(lambda: ready(event["uri"]) == 503, "it drains")
        process.send_signal(signal.SIGTERM)
        assert process.wait(END) == 128 + signal.SIGTERM
