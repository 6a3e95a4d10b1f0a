from __future__ import annotations

from simulation.checks.contents import ContentsReader
from simulation.checks.observed_table import ObservedTable
from simulation.checks.view import Step, View, name_of
from simulation.world.history import History
from simulation.world.metastore import Moved
from simulation.world.site import TABLE
from tests.simulation.worlds import World


def view(**fields: object) -> View:
    return View(ObservedTable("file:/m", None), (), History(), **fields)  # type: ignore[arg-type]


def test_a_step_is_a_move_a_deletion_an_answer_or_the_end() -> None:
    moved = Moved(TABLE, "file:/m", None, None, "w1")
    assert view(moved=moved).step is Step.MOVE
    assert view(deleted="file:/x").step is Step.DELETION
    assert view().step is Step.ANSWER
    assert view(at_rest=True).step is Step.REST


def test_a_view_tells_which_snapshots_a_move_added_and_whose_they_are() -> None:
    world = World()
    first, _ = world.attempt(1), world.attempt(2)
    before = ObservedTable.read(ContentsReader(world.storage), world.location)
    world.append(1)
    after = ObservedTable.read(ContentsReader(world.storage), world.location)
    seen = View(after, (after,), world.history, before=before)
    assert (seen.new_snapshots, seen.landed) == ({1}, [first])
    assert View(after, (after,), world.history, before=after).landed == []
    assert View(after, (after,), world.history).new_snapshots == frozenset()


def test_names_in_messages_are_short() -> None:
    assert name_of("file:/t/metadata/00001-x.metadata.json") == "00001-x.metadata.json"
    assert name_of("") == "nothing"
