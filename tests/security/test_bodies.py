"""Bodies that are small to send and large to hold: they are counted before they are parsed."""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from contextlib import ExitStack
from typing import Any

import pytest

from iceberg_hms.rest.settings import RestSettings
from tests.polling import eventually
from tests.rest.fakes import ScriptedCatalog
from tests.security.raw import TABLE, Raw, request, serving

MIB = 1024 * 1024
POST = b"POST /v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def message(body: bytes) -> str:
    return json.loads(body)["error"]["message"]


def test_the_largest_body_is_16_mib() -> None:
    with serving() as (server, _), Raw(server) as client:
        client.send(POST + b"Content-Length: %d\r\n\r\n" % (16 * MIB + 1))
        assert client.answer().status == 413


@pytest.mark.parametrize("unit", [b"[[],[],", b'{"a":', b'{"a":0},', b"0,", b"[", b'"",'])
def test_a_body_of_countless_values_is_refused_before_it_is_parsed(unit: bytes) -> None:
    body = unit * (2 * MIB // len(unit))
    with serving(rest_max_body_values=100_000) as (server, _), Raw(server) as attacker:
        for path in ("/v1/namespaces", TABLE, f"{TABLE}/metrics", "/v1/tables/rename"):
            answer = attacker.ask("POST", path, body)
            assert (answer.status, "more than 100000 values" in message(answer.body)) == (413, True)


def test_a_body_of_countless_values_is_refused_by_default() -> None:
    assert RestSettings().rest_max_body_values <= 500_000
    with serving() as (server, _), Raw(server) as attacker:
        assert attacker.ask("POST", TABLE, b"[[],[]," * (2 * MIB)).status == 413


def test_a_deep_body_is_refused() -> None:
    for depth in (1_500, 100_000):
        with serving() as (server, _), Raw(server) as attacker:
            answer = attacker.ask("POST", TABLE, b'{"updates":' + b"[" * depth + b"]" * depth + b"}")
            assert answer.status == 400


def test_a_caller_without_patience_gets_429_and_others_their_answers() -> None:
    with serving(rest_max_requests_per_caller=2) as (server, catalog), ExitStack() as stack:
        catalog.gate = threading.Event()
        running = [stack.enter_context(Raw(server, "127.0.0.2")) for _ in range(2)]
        for each in running:
            each.send(request("GET", "/v1/namespaces"))
            assert catalog.waiting.acquire(timeout=30)
        more = stack.enter_context(Raw(server, "127.0.0.2"))
        answer = more.ask("GET", "/v1/namespaces")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        gate, catalog.gate = catalog.gate, None
        with Raw(server) as honest:
            assert honest.ask("GET", TABLE).status == 200
        gate.set()
        assert [each.answer().status for each in running] == [200, 200]
        assert more.ask("GET", "/v1/namespaces").status == 200


def test_bodies_on_their_way_hold_a_bounded_memory_and_half_of_it_for_one_caller() -> None:
    with serving(rest_memory_max_bytes=3 * MIB, max_metadata_bytes=100_000) as (server, _), ExitStack() as stack:
        attackers = [stack.enter_context(Raw(server, "127.0.0.2")) for _ in range(8)]
        head = (
            b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
            % TABLE.encode()
        )
        for each in attackers:
            each.send(head + b"[" * 200_000)
        refused = []

        def some_are_refused() -> bool:
            with Raw(server, "127.0.0.2") as one_more:
                refused.append(one_more.ask("POST", TABLE, b"[" * 200_000).status)
            return refused[-1] == 429

        assert eventually(some_are_refused)
        with Raw(server) as honest:
            assert honest.ask("POST", TABLE, commit(a="b")).status == 200


def commit(**properties: str) -> bytes:
    return json.dumps({"updates": [{"action": "set-properties", "updates": properties}]}).encode()


#: Commits that a queue may hold, each of about 60 kB: the event loop parses them one after the other.
COMMITS: dict[str, Any] = {
    "properties": {"action": "set-properties", "updates": {f"k{i}": f"v{i}" for i in range(2_500)}},
    "removals": {"action": "remove-properties", "removals": [f"key{i}" for i in range(4_500)]},
    "ids": {"action": "remove-snapshots", "snapshot-ids": list(range(1_000, 9_000))},
    "objects": {"action": "set-properties", "updates": {"a": "b"}, "x": [{"a": {}}] * 4_500},
    "lists": {"action": "set-properties", "updates": {"a": "b"}, "x": [[]] * 15_000},
    "text": {"action": "set-properties", "updates": {"a": "😀" + "x" * 60_000}},
}


@pytest.mark.parametrize("update", COMMITS.values(), ids=COMMITS)
def test_the_queue_counts_what_a_commit_takes_in_memory(update: dict[str, Any]) -> None:
    limit, body = 4 * MIB, json.dumps({"updates": [update]}).encode()
    assert 40_000 < len(body) < 64 * 1024
    with serving(queue_max_bytes=limit) as (server, catalog), ExitStack() as stack:
        clients = [stack.enter_context(Raw(server, f"127.0.0.{n % 200 + 2}")) for n in range(80)]
        with catalog.locked("logging", "events"):
            clients.pop().send(request("POST", TABLE, commit(first="yes")))
            assert eventually(lambda: submissions(catalog) == 1)
            gc.collect()
            tracemalloc.start()
            try:
                for client in clients:
                    client.send(request("POST", TABLE, body))
                assert eventually(lambda: submissions(catalog) >= len(clients))
                gc.collect()
                taken = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
        assert taken < limit + 2 * MIB


def submissions(catalog: ScriptedCatalog) -> int:
    return sum(name == "submit" for name, _ in catalog.calls)
