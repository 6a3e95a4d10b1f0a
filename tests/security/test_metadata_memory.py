"""Attacks by tables with giant metadata: what loads and commits hold of memory is bounded, and given back."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import ConfigError
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.server import RestServer
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.polling import eventually
from tests.rest.fakes import SCHEMA, ScriptedCatalog
from tests.security.raw import Raw, closed_for, metric

MIB = 1024 * 1024
TABLES = 9
#: Room for the largest file three times.
BUDGET = {"rest_memory_max_bytes": 42 * MIB, "max_metadata_bytes": 2 * MIB}

#: A table that no socket's buffer takes.
GIANT: dict[str, Any] = {
    "size": 15 * MIB,
    "tables": 1,
    "rest_memory_max_bytes": 256 * MIB,
    "max_metadata_bytes": 16 * MIB,
}


class Watched(ScriptedCatalog):
    """Knows the budget that the server gives it."""

    budget = MemoryBudget()

    def use_memory(self, budget: MemoryBudget) -> None:
        self.budget = budget
        super().use_memory(budget)


@contextmanager
def serving(
    *, size: int = MIB, tables: int = TABLES, **settings: Any
) -> Iterator[tuple[RestServer, ScriptedCatalog, MemoryBudget]]:
    """A server whose tables t0... have a property of so many bytes, and `small`; none of them is cached."""
    catalog = Watched(**{**BUDGET, **settings})
    with memory_catalog(files=catalog.files, pointer=catalog.metastore) as maker:
        maker.create_table(("default", "small"), SCHEMA)
        for number in range(tables):
            maker.create_table(("default", f"t{number}"), SCHEMA, properties={"long": "x" * size})
    with catalog, RestServer(catalog, "127.0.0.1", 0, settings=catalog.rest_settings) as server:
        yield server, catalog, catalog.budget


def path(name: str) -> str:
    return f"/v1/namespaces/default/tables/{name}"


def set_property(name: str) -> bytes:
    return orjson.dumps({"updates": [{"action": "set-properties", "updates": {name: "b"}}]})


def append(snapshot_id: int) -> bytes:
    """The first append to a table, by a client that deletes its files if it hears that the commit failed."""
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "timestamp-ms": 1_700_000_000_000,
        "manifest-list": f"file:/warehouse/{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    seen = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    return orjson.dumps({"requirements": [seen], "updates": [{"action": "add-snapshot", "snapshot": snapshot}, moved]})


def held_by_requests(budget: MemoryBudget) -> int:
    """What is held and no cache's."""
    assert not budget.share("nobody").resize(2**50), "caches give way before that is refused"
    return budget.held()


def fill(budget: MemoryBudget) -> list[Any]:
    """Two callers hold all of the budget."""
    held = [budget.share(name) for name in ("first", "second")]
    assert all(each.resize(BUDGET["rest_memory_max_bytes"] // 2) for each in held)
    return held


def fill_what_is_left(budget: MemoryBudget) -> list[Any]:
    """Others hold all but a few bytes."""
    held = []
    size = BUDGET["rest_memory_max_bytes"] // 4
    while size > 1_000:
        held.append(budget.share(f"owner {len(held)}"))
        if not held[-1].resize(size):
            size //= 2
    return held


def test_a_load_beyond_the_budget_is_tried_again_later() -> None:
    with serving() as (server, _, budget), Raw(server) as client:
        held = fill(budget)
        answer = client.ask("GET", path("t0"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert b"short of memory" in answer.body
        held.clear()
        assert client.ask("GET", path("t0")).status == 200


def test_lists_count_until_their_clients_have_them() -> None:
    """What a client does not read of its 11 MB of names waits in the server."""
    with serving() as (server, catalog, budget), ExitStack() as stack:
        names = [f"{'n' * 100}{number:05}" for number in range(80_000)]
        first = catalog.services.ports.pointer.rows[TableName("default", "t0")]  # type: ignore[attr-defined]
        for name in names:
            catalog.services.ports.pointer.rows[TableName("default", name)] = first  # type: ignore[attr-defined]
        before = held_by_requests(budget)
        slow = stack.enter_context(Raw(server, receive_buffer=4_096))
        slow.send(b"GET /v1/namespaces/default/tables HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert eventually(lambda: budget.held() >= before + 10 * MIB)
        slow.close()
        assert eventually(lambda: held_by_requests(budget) == before)
        held = fill_what_is_left(budget)
        with Raw(server) as client:
            assert client.ask("GET", "/v1/namespaces/default/tables").status == 503
            assert client.ask("GET", "/v1/namespaces/default/tables?pageToken=&pageSize=10").status == 200
            assert client.ask("GET", "/v1/namespaces").status == 200
        held.clear()


@pytest.mark.parametrize("body", [set_property("a"), append(1)], ids=["properties", "append"])
def test_a_commit_beyond_the_budget_is_tried_again_later_and_was_not_made(body: bytes) -> None:
    with serving() as (server, catalog, budget), Raw(server) as client:
        budget.share("commits").resize(1)
        held = [budget.share(name) for name in ("first", "second")]
        half = BUDGET["rest_memory_max_bytes"] // 2
        # The body fits, and the table does not.
        assert held[0].resize(half)
        assert held[1].resize(half - MIB)
        before = catalog.pointer("default.t0").metadata_location
        answer = client.ask("POST", path("t0"), body)
        assert (answer.status, answer.headers["retry-after"]) == (429, "1"), answer.body
        assert catalog.pointer("default.t0").metadata_location == before
        held.clear()
        assert client.ask("POST", path("t0"), set_property("a")).status == 200


def test_a_protected_property_of_a_table_beyond_the_budget_is_tried_again_later() -> None:
    body = orjson.dumps({"updates": [{"action": "set-properties", "updates": {"engine.hive.lock-enabled": "false"}}]})
    with serving() as (server, _, budget), Raw(server) as client:
        held = [budget.share(name) for name in ("first", "second")]
        half = BUDGET["rest_memory_max_bytes"] // 2
        assert all(each.resize(size) for each, size in zip(held, (half, half - MIB), strict=True))
        assert client.ask("POST", path("t0"), body).status == 429


def test_whatever_one_caller_loads_leaves_room_for_others() -> None:
    with serving() as (server, _, budget), ExitStack() as stack:
        greedy = [stack.enter_context(Raw(server, "127.0.0.2", receive_buffer=4_096)) for _ in range(3 * TABLES)]
        for number, each in enumerate(greedy):
            each.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path(f"t{number % TABLES}").encode())
        assert eventually(lambda: budget.held() > 5 * MIB)
        for number in range(TABLES):
            with Raw(server) as honest:
                assert honest.ask("GET", path(f"t{number}")).status == 200
                assert budget.held() <= BUDGET["rest_memory_max_bytes"]


def test_slow_clients_of_one_table_share_its_response() -> None:
    """Each had a copy of its own, which nothing counted."""
    with serving(**GIANT) as (server, _, budget), ExitStack() as stack:
        with Raw(server) as first:
            assert first.ask("GET", path("t0")).status == 200
        slow = [stack.enter_context(Raw(server, receive_buffer=4_096)) for _ in range(8)]
        tracemalloc.start()
        try:
            for each in slow:
                each.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path("t0").encode())
            assert eventually(lambda: metric(server, "rest_requests_in_flight") == len(slow) + 1)
            assert budget.held() < 5 * GIANT["size"]
            assert [each.answer().status for each in slow] == 8 * [200]
            # Each answer is for a moment in this process, too.
            assert tracemalloc.get_traced_memory()[1] < 5 * GIANT["size"]
        finally:
            tracemalloc.stop()


def test_a_client_that_takes_no_response_gives_its_memory_back_in_time() -> None:
    with serving(**GIANT, rest_send_timeout_ms=200) as (server, _, budget):
        with Raw(server, receive_buffer=4_096) as slow:
            slow.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path("t0").encode())
            assert eventually(lambda: budget.held() > MIB)
            assert eventually(lambda: closed_for(server, "response not received in time") == 1)
        assert eventually(lambda: held_by_requests(budget) == 0)


def test_what_was_answered_holds_nothing_without_the_collector() -> None:
    with serving(metadata_cache_max_bytes=0) as (server, _, budget), Raw(server) as client:
        gc.collect()
        gc.disable()
        try:
            for number in range(3 * TABLES):
                name = f"t{number % TABLES}"
                assert client.ask("GET", path(name)).status == 200
                assert client.ask("POST", path(name), set_property(f"p{number}")).status == 200
                assert client.ask("POST", path(name), b"{").status == 400
            assert eventually(lambda: held_by_requests(budget) == 0)
        finally:
            gc.enable()


def test_small_tables_are_served_beside_giants() -> None:
    with serving() as (server, _, _), ExitStack() as stack:
        over = threading.Event()

        def attack(number: int) -> None:
            with Raw(server, "127.0.0.2") as greedy:
                while not over.is_set():
                    assert greedy.ask("GET", path(f"t{number}")).status in (200, 503)

        threads = [threading.Thread(target=attack, args=(number,)) for number in range(TABLES)]
        for thread in threads:
            thread.start()
        honest = stack.enter_context(Raw(server))
        statuses = [honest.ask("GET", path("small")).status for _ in range(50)]
        statuses += [honest.ask("POST", path("small"), set_property(f"p{at}")).status for at in range(10)]
        over.set()
        for thread in threads:
            thread.join()
        assert set(statuses) == {200}


def test_the_budget_has_room_for_the_largest_file() -> None:
    def app(catalog: ScriptedCatalog, **warehouses: ScriptedCatalog) -> None:
        others = {name: (each, each.rest_settings) for name, each in warehouses.items()}
        create_app(catalog, settings=catalog.rest_settings, warehouses=others)

    small, large = (ScriptedCatalog(**{**BUDGET, "max_metadata_bytes": size * MIB}) for size in (3, 4))
    app(small)
    for given in ((large,), (small, large)):
        with pytest.raises(ConfigError, match="is 44040192, but a commit to a table may take") as refused:
            app(given[0], **{f"w{number}": each for number, each in enumerate(given[1:])})
        assert "`storage.max-metadata-bytes`" in refused.value.next_step
