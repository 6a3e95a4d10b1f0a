from __future__ import annotations

import pytest

from simulation.actors import requests
from simulation.world.history import Answer, MoveKind
from simulation.world.metastore import METADATA_LOCATION, iceberg_row
from simulation.world.site import TABLE
from tests.simulation.worlds import OTHER, World


def test_what_is_dropped_and_not_purged_may_be_registered() -> None:
    for kind, pool in ((MoveKind.DROP, 1), (MoveKind.PURGE, 0)):
        world = World(movers=1)
        location = world.location
        world.mover(kind, "mover1")
        world.drop("mover1")
        assert world.schedule.judge.pool == [location][:pool]


def test_a_move_is_made_by_its_own_process_and_as_good_by_any() -> None:
    world = World(movers=2)
    mine, other = world.mover(MoveKind.RENAME, "mover1"), world.mover(MoveKind.RENAME, "mover2")
    world.rename("mover2")
    assert (mine.made, mine.as_good) == (False, True)
    assert (other.made, other.as_good) == (True, True)


def test_a_move_that_comes_after_the_answer_does_not_make_it_true() -> None:
    world = World(movers=2)
    mine = world.mover(MoveKind.RENAME, "mover1")
    world.history.tell_move(mine, Answer.UNKNOWN)
    world.rename("mover2")
    assert not mine.as_good


def test_an_attempt_has_landed_for_good_and_is_excused_when_its_table_goes() -> None:
    world = World(movers=1)
    mine, nobodys = world.attempt(1), world.attempt(2)
    world.append(1)
    assert (mine.landed, nobodys.landed) == (True, False)
    assert world.schedule.judge.has(mine)
    world.drop("mover1")
    assert not world.schedule.judge.has(mine)
    assert (mine.landed, mine.excused) == (True, True)
    assert not nobodys.excused


def test_who_purges_one_of_two_names_of_a_table_is_to_blame_himself() -> None:
    world = World(movers=2)
    location = world.location
    world.schedule.metastore.insert(iceberg_row(OTHER, {METADATA_LOCATION: location}), process="mover2")
    world.mover(MoveKind.PURGE, "mover1")
    world.drop("mover1")
    world.storage.delete(location)
    assert world.failure is None
    assert world.schedule.judge.forgave


@pytest.mark.parametrize(("process", "forgiven"), [("mover1", True), ("w1", False)])
def test_a_creation_that_comes_once_more_after_a_purge_is_nobodys_fault(process: str, forgiven: bool) -> None:
    """create | another purges the table | the metastore carries out the same creation again, which has no expected
    value. Whoever else points at what was purged is at fault."""
    world = World(movers=2)
    row = {METADATA_LOCATION: world.location}
    world.mover(MoveKind.CREATE, "mover1")
    world.mover(MoveKind.PURGE, "mover2")
    world.drop("mover2")
    world.storage.delete(row[METADATA_LOCATION])
    assert world.failure is None
    world.schedule.metastore.insert(iceberg_row(TABLE, row), process=process)
    assert (world.failure is None) == forgiven
    assert world.schedule.judge.forgave == forgiven


@pytest.mark.parametrize(("moved_on", "may_fail"), [("", False), ("dropped", True), ("renamed", False)])
def test_a_creation_that_somebody_dropped_may_be_answered_as_failed(moved_on: str, may_fail: bool) -> None:
    world = World(movers=2)
    world.mover(MoveKind.PURGE, "mover2")
    world.drop("mover2")
    creation = world.mover(MoveKind.CREATE, "mover1")
    location = "file:/t/metadata/made.metadata.json"
    world.storage.files[location] = world.storage.files["file:/t/metadata/00000-first.metadata.json"]
    world.schedule.metastore.insert(iceberg_row(TABLE, {METADATA_LOCATION: location}), process="mover1")
    if moved_on == "dropped":
        world.mover(MoveKind.DROP, "mover3")
        world.drop("mover3")
    elif moved_on == "renamed":
        world.mover(MoveKind.RENAME, "mover3")
        world.rename("mover3")
    world.history.tell_move(creation, Answer.FAILED)
    assert (world.failure is None) == may_fail


def test_what_a_blind_swap_of_another_takes_away_did_not_land() -> None:
    for process, landed in (("locker1", False), ("w1", True)):
        world = World(kept=frozenset())
        first = world.location
        mine = world.attempt(1)
        world.append(1)
        assert mine.landed
        world.update(world.mark("x"), base=first, process=process)
        assert mine.landed is landed


def test_a_replacement_excuses_what_main_had_before_it() -> None:
    world = World(movers=1)
    mine = world.attempt(1)
    world.append(1)
    world.tell(mine, Answer.COMMITTED)
    world.attempt(9, snapshot_id=None, data_file=None, mark="replaced", replaces=True)
    world.update(requests.remove_snapshot_ref("main"), world.mark("replaced"))
    assert mine.excused
    assert world.failure is None
