from __future__ import annotations

import pytest

from iceberg_hms.zookeeper.faults import NodeGone
from simulation.engine.scheduler import Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.ensemble import Ensemble, Expired

FOLDER = "/locks/db.t"


def ensemble(ends_after: float = 1.0, cut_off_after: float = 1.0) -> tuple[Ensemble, Scheduler]:
    scheduler = Scheduler(SeededRandom(1), WorkerPool())
    return (
        Ensemble(lambda: scheduler.now, timeout_seconds=10.0, ends_after=ends_after, cut_off_after=cut_off_after),
        scheduler,
    )


def test_nodes_are_numbered_in_the_order_of_their_creation_for_ever() -> None:
    servers, _ = ensemble()
    session = servers.begin("p")
    with pytest.raises(NodeGone):
        servers.children(session, FOLDER)
    first = servers.create(session, FOLDER, "b-", b"1")
    servers.delete(session, f"{FOLDER}/{first}")
    second = servers.create(session, FOLDER, "a-", b"2")
    assert (first, second) == ("b-0000000000", "a-0000000001")
    assert servers.children(session, FOLDER) == [second]
    assert servers.read(session, f"{FOLDER}/{second}").data == b"2"
    servers.write(session, f"{FOLDER}/{second}", b"3")
    assert servers.read(session, f"{FOLDER}/{second}").data == b"3"
    assert list(servers.nodes) == [f"{FOLDER}/{second}"]
    for call in (servers.read, servers.delete):
        with pytest.raises(NodeGone):
            call(session, f"{FOLDER}/{first}")


def test_a_session_that_nobody_hears_of_ends_and_its_nodes_with_it() -> None:
    servers, scheduler = ensemble()
    dead, alive = servers.begin("dead"), servers.begin("alive")
    node = servers.create(dead, FOLDER, "x-", b"")
    servers.create(alive, FOLDER, "y-", b"")
    gone: list[str] = []
    assert servers.watch(alive, f"{FOLDER}/{node}", lambda: gone.append("x"))
    scheduler.now = 9.0
    servers.touch(alive)
    assert servers.holders() == ["dead", "alive"]
    scheduler.now = 11.0
    assert servers.holders() == ["alive"]
    assert gone == ["x"]
    with pytest.raises(Expired):
        servers.create(dead, FOLDER, "x-", b"")
    assert not servers.watch(alive, f"{FOLDER}/{node}", lambda: gone.append("again"))


def test_servers_in_a_hurry_end_a_session_whose_connection_broke_unless_it_comes_back() -> None:
    for recovers, left in ((False, []), (True, ["p"])):
        servers, scheduler = ensemble(cut_off_after=0.1)
        session = servers.begin("p")
        servers.create(session, FOLDER, "x-", b"")
        servers.cut_off(session)
        scheduler.now = 0.5
        if recovers:
            servers.touch(session)
        scheduler.now = 2.0
        assert servers.holders() == left


def test_a_goodbye_ends_a_session_at_once_and_twice_is_harmless() -> None:
    servers, _ = ensemble()
    session = servers.begin("p")
    servers.create(session, FOLDER, "x-", b"")
    servers.end(session)
    servers.end(session)
    assert servers.holders() == []


def test_a_server_that_is_behind_shows_a_session_nothing_older_than_it_has_seen() -> None:
    servers, _ = ensemble()
    one, other = servers.begin("one"), servers.begin("other")
    first = servers.create(one, FOLDER, "a-", b"")
    second = servers.create(other, FOLDER, "b-", b"")
    assert servers.children(one, FOLDER, behind=True) == [first]
    assert sorted(servers.children(one, FOLDER)) == [first, second]
    servers.delete(other, f"{FOLDER}/{second}")
    assert sorted(servers.children(one, FOLDER, behind=True)) == [first, second]
    assert servers.children(other, FOLDER, behind=True) == [first]


def test_who_was_not_answered_does_not_know_what_it_did() -> None:
    servers, _ = ensemble()
    session = servers.begin("p")
    before = servers.seen(session)
    servers.create(session, FOLDER, "a-", b"")
    servers.forget_reply(session, before)
    assert servers.children(session, FOLDER, behind=True) == []
    servers.sync(session)
    assert servers.children(session, FOLDER, behind=True) == ["a-0000000000"]


def test_the_owner_of_the_first_node_is_reported() -> None:
    servers, _ = ensemble()
    answer: list[str] = []
    servers.on_first = answer.append
    one, other = servers.begin("one"), servers.begin("other")
    first = servers.create(one, FOLDER, "a-", b"")
    servers.create(other, FOLDER, "b-", b"")
    assert answer == ["one"]
    servers.delete(one, f"{FOLDER}/{first}")
    assert answer == ["one", "other"]


def test_watches_of_a_connection_that_is_gone_are_forgotten() -> None:
    servers, _ = ensemble()
    session = servers.begin("p")
    node = servers.create(session, FOLDER, "a-", b"")
    gone: list[str] = []

    def changed() -> None:
        gone.append("a")

    servers.watch(session, f"{FOLDER}/{node}", changed)
    servers.forget_watches({changed: None})
    servers.end(session)
    assert gone == []


def test_a_folder_lists_the_folders_in_it() -> None:
    servers = ensemble()[0]
    session = servers.begin("p")
    servers.create(session, FOLDER, "a-", b"")
    servers.create_persistent(session, "/locks/notes", b"")
    assert servers.children(session, "/locks") == ["notes", "db.t"]
    assert servers.children(session, "") == ["locks"]
    with pytest.raises(NodeGone):
        servers.children(session, "/lock")
