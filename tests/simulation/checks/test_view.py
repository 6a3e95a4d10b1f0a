from __future__ import annotations

from simulation.checks.contents import ContentsReader
from simulation.checks.observed_table import ObservedTable
from simulation.checks.view import StepKind, View, name_of
from simulation.world.cluster import TABLE
from simulation.world.history import History
from simulation.world.metastore import RowChange
from tests.simulation.manual_schedule import ManualSchedule


def view(**fields: object) -> View:
    return View(ObservedTable("file:/m", None), (), History(), **fields)  # type: ignore[arg-type]


def test_a_step_is_a_move_a_deletion_an_answer_or_the_end() -> None:
    moved = RowChange(TABLE, "file:/m", None, None, "w1")
    assert view(row_change=moved).step is StepKind.MOVE
    assert view(deleted="file:/x").step is StepKind.DELETION
    assert view().step is StepKind.ANSWER
    assert view(at_rest=True).step is StepKind.REST


def test_a_view_tells_which_snapshots_a_move_added_and_whose_they_are() -> None:
    manual = ManualSchedule()
    first, _ = manual.attempt(1), manual.attempt(2)
    before = ObservedTable.read(ContentsReader(manual.storage), manual.location)
    manual.append(1)
    after = ObservedTable.read(ContentsReader(manual.storage), manual.location)
    seen = View(after, (after,), manual.history, before=before)
    assert (seen.new_snapshots, seen.landed) == ({1}, [first])
    assert View(after, (after,), manual.history, before=after).landed == []
    assert View(after, (after,), manual.history).new_snapshots == frozenset()


def test_names_in_messages_are_short() -> None:
    assert name_of("file:/t/metadata/00001-x.metadata.json") == "00001-x.metadata.json"
    assert name_of("") == "nothing"
