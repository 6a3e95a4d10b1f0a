from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, MetastoreUnavailable
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import ShowLocksRequest
from tests.forking import said_by
from tests.metastore.fake_hms import DropAfter, DropBefore, FakeHms, Late, Running, StoreClosed, pool_of, running
from tests.polling import eventually


def databases(client: MetastoreClient) -> list[str]:
    names: list[str] = client.call("get_all_databases")
    return names


def test_a_connection_is_used_again(server: Running) -> None:
    with pool_of(server) as pool:
        used = {pool.run(lambda client: id(client), idempotent=True) for _ in range(5)}
    assert len(used) == 1


def test_errors_of_the_server_pass_through_and_keep_the_connection(server: Running) -> None:
    with pool_of(server) as pool:
        first = pool.run(lambda client: id(client), idempotent=True)
        with pytest.raises(ServerFault):
            pool.run(lambda client: client.call("get_database", name="nope"), idempotent=True)
        assert pool.run(lambda client: id(client), idempotent=True) == first


def test_an_idempotent_call_without_answer_is_asked_again_once(server: Running) -> None:
    with pool_of(server) as pool:
        server.hms.misbehave["get_all_databases"] += [DropAfter()]
        assert pool.run(databases, idempotent=True) == ["db"]
        server.hms.misbehave["get_all_databases"] += [DropBefore(), DropAfter()]
        with pytest.raises(MetastoreUnavailable, match="did not answer"):
            pool.run(databases, idempotent=True)
    assert server.hms.calls == ["get_all_databases"] * 4


def test_a_read_that_meets_a_closed_store_is_sent_again_on_a_fresh_connection(server: Running) -> None:
    with pool_of(server) as pool:
        assert pool.run(databases, idempotent=True) == ["db"]
        server.close_stores()
        assert pool.run(databases, idempotent=True) == ["db"]
        assert server.hms.calls == ["get_all_databases"] * 3
        assert pool.run(databases, idempotent=True) == ["db"]
        assert server.hms.calls == ["get_all_databases"] * 4


def test_a_read_that_fails_inside_of_the_server_is_sent_again_once(server: Running) -> None:
    def locks(client: MetastoreClient) -> int:
        return len(client.call("show_locks", rqst=ShowLocksRequest()).locks)

    with pool_of(server) as pool:
        pool.run(databases, idempotent=True)
        server.close_stores()
        assert pool.run(locks, idempotent=True) == 0
        server.hms.misbehave["show_locks"] += [StoreClosed(), StoreClosed()]
        with pytest.raises(ServerFault, match="Internal error"):
            pool.run(locks, idempotent=True)
        server.hms.misbehave["show_locks"] += [StoreClosed()]
        with pytest.raises(ServerFault, match="Internal error"):
            pool.run(locks, idempotent=False)
    assert server.hms.calls.count("show_locks") == 5


@pytest.mark.parametrize("bad", [DropBefore, DropAfter, StoreClosed])
def test_a_call_that_is_not_idempotent_is_sent_once(server: Running, bad: type[Exception]) -> None:
    with pool_of(server) as pool:
        server.hms.misbehave["get_all_databases"] += [bad()]
        with pytest.raises(NoAnswer):
            pool.run(databases, idempotent=False)
        assert server.hms.calls == ["get_all_databases"]
        assert pool.run(databases, idempotent=False) == ["db"]


def test_a_single_call_is_asked_again_or_sent_once(server: Running) -> None:
    with pool_of(server) as pool:
        server.hms.misbehave["get_all_databases"] += [DropAfter(), None, DropAfter()]
        assert pool.ask("get_all_databases") == ["db"]
        with pytest.raises(NoAnswer):
            pool.call_once("get_all_databases")
        assert pool.call_once("get_all_tables", db_name="db") == []
    assert server.hms.calls == ["get_all_databases"] * 3 + ["get_all_tables"]


def test_connections_that_the_server_closed_are_replaced_before_anything_is_sent(server: Running) -> None:
    with pool_of(server) as pool:
        pool.run(databases, idempotent=False)
        server.hang_up()
        assert pool.run(databases, idempotent=False) == ["db"]


def test_the_next_server_of_the_list_steps_in_and_stays(server: Running) -> None:
    with running() as first, pool_of(first, server) as pool:
        pool.run(databases, idempotent=True)
        first.stop()
        for _ in range(3):
            assert pool.run(lambda client: client.uri, idempotent=True) == server.uri
        assert pool.run(databases, idempotent=False) == ["db"]


def test_without_a_server_all_addresses_are_named() -> None:
    with running() as first, running() as second:
        uris = [first.uri, second.uri]
    pool = ClientPool(uris, connect_timeout_ms=1_000)
    with pytest.raises(MetastoreUnavailable) as caught:
        pool.run(databases, idempotent=True)
    assert all(uri in str(caught.value) for uri in uris)


def test_a_pool_of_no_servers_says_what_to_set() -> None:
    with pytest.raises(MetastoreUnavailable, match="metastore_uri"):
        ClientPool([]).run(databases, idempotent=True)
    with pytest.raises(ConfigError):
        ClientPool(["h:9083"])


def test_no_more_than_its_size_are_open_and_nobody_shares(server: Running) -> None:
    together: set[int] = set()
    most: list[int] = []
    everyone = threading.Barrier(2)

    def use(client: MetastoreClient) -> None:
        assert id(client) not in together
        together.add(id(client))
        most.append(len(together))
        everyone.wait(10)
        client.call("get_all_databases")
        together.discard(id(client))

    with pool_of(server, size=2) as pool:
        threads = [threading.Thread(target=pool.run, args=(use,), kwargs={"idempotent": True}) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(most) == 2
    assert len(server.hms.calls) == 8


def test_a_caller_of_a_busy_pool_waits_and_then_gets_metastore_unavailable(server: Running) -> None:
    with pool_of(server, size=1, timeout_ms=50) as pool:

        def nested(_: MetastoreClient) -> None:
            pool.run(databases, idempotent=True)

        with pytest.raises(MetastoreUnavailable, match="busy"):
            pool.run(nested, idempotent=True)
        assert pool.run(lambda client: client.uri, idempotent=True) == server.uri


def test_who_waits_patiently_leaves_its_place_to_heartbeats(server: Running) -> None:
    late, overdue = Late(), threading.Event()
    server.hms.misbehave["get_all_tables"].append(late)
    answers: list[object] = []
    used: list[MetastoreClient] = []

    def move(client: MetastoreClient) -> None:
        used.append(client)
        answers.append(client.call_patiently("get_all_tables", db_name="db"))

    def renew(client: MetastoreClient) -> list[str]:
        used.append(client)
        return databases(client)

    with pool_of(server, size=1, timeout_ms=100) as pool:

        def wait_for_it() -> None:
            pool.run(move, idempotent=False, overdue=overdue.set)

        mover = threading.Thread(target=wait_for_it)
        mover.start()
        assert overdue.wait(10)
        assert pool.run(renew, idempotent=True) == ["db"]
        late.go.set()
        mover.join()
        assert answers == [[]]
        assert pool.run(databases, idempotent=True) == ["db"]
        assert [client.is_usable for client in used].count(True) == 1, "the pool keeps no more than its size"


@contextmanager
def hung_calls(pool: ClientPool, hms: FakeHms, count: int) -> Iterator[None]:
    """So many calls that the metastore does not answer meanwhile."""
    late = [Late() for _ in range(count)]
    hms.misbehave["get_all_tables"] += late
    before = hms.calls.count("get_all_tables")
    callers = [
        threading.Thread(
            target=lambda: pool.run(lambda client: client.call("get_all_tables", db_name="db"), idempotent=True)
        )
        for _ in late
    ]
    for caller in callers:
        caller.start()
    assert eventually(lambda: hms.calls.count("get_all_tables") >= before + count)
    try:
        yield
    finally:
        for each in late:
            each.go.set()
        for caller in callers:
            caller.join()


def test_what_keeps_a_lock_has_a_connection_of_its_own(server: Running) -> None:
    with pool_of(server, size=2, timeout_ms=2_000) as pool, hung_calls(pool, server.hms, 2):
        own = {pool.run_for_held_lock(lambda client: (id(client), *databases(client))) for _ in range(3)}
        assert len(own) == 1
        assert server.hms.calls.count("get_all_tables") == 2, "those were not given up before"


def test_what_keeps_a_lock_takes_another_connection_while_its_own_hangs(server: Running) -> None:
    late = Late()
    with pool_of(server, size=1) as pool:
        server.hms.misbehave["get_all_tables"].append(late)
        own = threading.Thread(
            target=pool.run_for_held_lock, args=(lambda client: client.call("get_all_tables", db_name="db"),)
        )
        own.start()
        assert eventually(lambda: "get_all_tables" in server.hms.calls)
        assert pool.run_for_held_lock(databases) == ["db"]
        late.go.set()
        own.join()


def test_a_closed_pool_closes_the_connection_of_held_locks(server: Running) -> None:
    with pool_of(server) as pool:
        kept: list[MetastoreClient] = []
        pool.run_for_held_lock(kept.append)
        pool.close()
        assert not kept[0].is_usable
        with pytest.raises(NotSent, match="closed"):
            pool.run_for_held_lock(databases)


def test_a_closed_pool_refuses_and_closes_what_comes_back(server: Running) -> None:
    with pool_of(server) as pool:
        kept: list[MetastoreClient] = []

        def close_meanwhile(client: MetastoreClient) -> None:
            kept.append(client)
            pool.close()

        pool.run(close_meanwhile, idempotent=True)
        assert not kept[0].is_usable
        with pytest.raises(NotSent, match="closed"):
            pool.run(databases, idempotent=True)


#: Forks in the middle of a call's function, as a callback of the caller's might.
FORKING_INSIDE = """
import os, sys
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import ShowLocksRequest

def fork(client):
    global child
    child = os.fork()

pool = ClientPool([sys.argv[1]], size=1, connect_timeout_ms=1_000, socket_timeout_ms=30_000)
pool.run(fork, idempotent=True)
names = pool.run(lambda client: client.call("get_all_databases"), idempotent=True)
if child == 0:
    os._exit(0 if names == ["db"] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), names)
"""


def test_a_child_that_was_forked_inside_of_a_call_gives_back_nothing_of_its_parents(server: Running) -> None:
    assert said_by(FORKING_INSIDE, server.uri) == "0 ['db']\n"


def test_one_server_of_the_list_has_a_pool_of_its_own() -> None:
    with running() as first, running() as second, pool_of(first, second) as pool:
        alone = pool.only(second.uri)
        second.hms.version = "second"
        assert alone.run(lambda client: client.call("getVersion"), idempotent=True) == "second"
        second.stop()
        with pytest.raises(MetastoreUnavailable):
            alone.run(lambda client: client.call("getVersion"), idempotent=True)
        alone.close()
        assert pool.run(lambda client: client.call("getVersion"), idempotent=True) == "3.0"


def test_a_pool_of_one_server_makes_connections_and_places_as_the_pool_that_it_comes_from() -> None:
    made: list[str] = []

    def connect(uri: str) -> MetastoreClient:
        made.append(uri)
        raise NotSent("nobody is there")

    places: list[int] = []

    def semaphore(size: int) -> threading.Semaphore:
        places.append(size)
        return threading.BoundedSemaphore(size)

    pool = ClientPool(["thrift://a:1", "thrift://b:2"], size=3, make_client=connect, make_places=semaphore)
    for each in (pool, pool.only("thrift://b:2")):
        with pytest.raises(MetastoreUnavailable, match="nobody is there"):
            each.run(databases, idempotent=True)
    # Each call is tried once more on a fresh connection.
    assert made == ["thrift://a:1", "thrift://b:2", "thrift://b:2"]
    assert places == [3, 1, 1, 1], "all, and those for calls with a client's location"


def calls_at_once(pool: ClientPool) -> int:
    """How many calls the pool has under way before it is busy."""

    def nested(_: MetastoreClient, depth: int = 1) -> int:
        try:
            return pool.run(lambda client: nested(client, depth + 1), idempotent=True)
        except MetastoreUnavailable:
            return depth

    return pool.run(nested, idempotent=True)


def test_settings_make_a_pool_of_all_servers_or_one_connection_to_one_of_them() -> None:
    with running() as first, running() as second:
        given = {"uri": f"{first.uri}, {second.uri}", "clients": 3, "connect_timeout_ms": 50, "socket_timeout_ms": 50}
        settings = Settings.load(given, environ={})
        pool, alone = ClientPool.configured(settings), ClientPool.configured(settings, only=second.uri)
        assert (pool.uris, calls_at_once(pool)) == ((first.uri, second.uri), 3)
        assert (alone.uris, calls_at_once(alone)) == ((second.uri,), 1)
        pool.close()
        alone.close()
