from __future__ import annotations

from iceberg_hms.changes import updates
from simulation.actors.client_snapshots import CommitKind
from simulation.checks.contents import ContentsReader
from simulation.checks.observed_table import Branch, ObservedTable
from simulation.world.history import WriteAttempt
from tests.simulation.manual_schedule import ManualSchedule, sent_commit


def test_a_state_names_all_that_its_metadata_needs_and_what_of_it_is_missing() -> None:
    manual = ManualSchedule()
    first = manual.location
    manual.append(1)
    state = ObservedTable.read(ContentsReader(manual.storage), manual.location)
    assert {first, manual.location, "file:/t/data/1.parquet"} <= state.needed
    assert len(state.needed) == 5
    assert state.missing == ()
    manual.storage.data.clear()
    assert ObservedTable.read(ContentsReader(manual.storage), manual.location).missing == ("file:/t/data/1.parquet",)


def test_a_file_that_is_not_there_is_a_state_without_metadata_that_has_nothing() -> None:
    manual = ManualSchedule()
    state = ObservedTable.read(ContentsReader(manual.storage), "file:/nowhere")
    assert (state.metadata, state.missing) == (None, ("file:/nowhere",))
    assert not state.has(manual.attempt(1))
    assert not state.has_well(manual.attempt(2))


def test_each_branch_has_its_own_chain_and_rows() -> None:
    manual = ManualSchedule()
    manual.append(1)
    manual.update(updates.set_snapshot_ref("audit", 1), updates.set_snapshot_ref("release", 1, kind="tag"))
    manual.append(2)
    state = ObservedTable.read(ContentsReader(manual.storage), manual.location)
    chains = {name: [each.snapshot_id for each in branch.chain] for name, branch in state.branches.items()}
    assert chains == {"main": [2, 1], "audit": [1]}
    assert list(state.branches["audit"].rows) == ["file:/t/data/1.parquet"]
    assert state.has_well(manual.attempt(1, branch="audit"))
    assert not state.has_well(manual.attempt(2, branch="audit"))


def test_an_append_whose_row_a_later_snapshot_deletes_is_there_well() -> None:
    made = sent_commit(CommitKind.DELETE)
    [row] = made.attempt.deleted_rows
    state = ObservedTable("file:/m", made.metadata)
    assert not state.has_well(WriteAttempt("a", "p", snapshot_id=1, data_file=row))
    branch = Branch(tuple(made.metadata.ancestors(77)), gone=frozenset((row,)))
    assert branch.has(WriteAttempt("a", "p", snapshot_id=1, data_file=row))
    assert not branch.has(WriteAttempt("a", "p", snapshot_id=1, data_file="file:/t/data/lost.parquet"))


def test_a_clumsy_change_is_there_with_its_mark_alone() -> None:
    manual = ManualSchedule()
    manual.update(manual.mark("m"))
    assert ObservedTable.read(ContentsReader(manual.storage), manual.location).has(manual.attempt(1, mark="m"))


def test_an_append_is_there_well_when_it_is_on_main_and_its_file_once() -> None:
    manual = ManualSchedule()
    mine = manual.attempt(1)
    manual.append(1)
    state = ObservedTable.read(ContentsReader(manual.storage), manual.location)
    assert state.has(mine)
    assert state.has_well(mine)
    assert not state.has(manual.attempt(2))
