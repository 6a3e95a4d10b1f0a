"""Which snapshots of other writers conflict with an operation, and how the error names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.conflicts import Conflicts, Since, check_isolation
from iceberg_hms.changes.operations.manifests.file_scope import EveryRow
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from tests.changes.operations.files.test_append import NOW
from tests.changes.operations.manifests.test_manifest_filter import Rows
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    equality_deletes,
    position_deletes,
)

Check = Callable[[Conflicts, Since, Manifests], None]


def no_new_data(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
    conflicts.no_new_data(since, EveryRow(), manifests)


def no_removed_data(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
    conflicts.no_removed_data(since, EveryRow(), manifests)


def no_new_deletes(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
    conflicts.no_new_deletes(since, EveryRow(), manifests)


def no_positions_for_a(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
    conflicts.no_positions_for(since, [data_file("a")], manifests)


def no_new_vector_for_a(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
    conflicts.no_new_vectors(since, frozenset({file_key("file:///data/a.parquet")}), manifests)


def started(version: int = 2) -> tuple[StoredTable, Conflicts]:
    """A table with the files a and b, and the checks of an operation that starts from there."""
    stored = StoredTable(version)
    stored.append(100, data_file("a"), data_file("b"))
    return stored, Conflicts(stored.new(900))


def refused(stored: StoredTable, conflicts: Conflicts, check: Check) -> str | None:
    """What the error says, which must rest on the newest snapshot that it names; None: nothing conflicts."""
    refusals: list[RequirementFailed] = []
    try:
        check(conflicts, conflicts.since_start(stored.state()), stored.store.open())
    except RequirementFailed as error:
        refusals.append(error)
    for each in refusals:
        assert len(each.rests_on) == 1
        assert f"snapshot {min(each.rests_on)}" in each.what
    return refusals[0].what if refusals else None


VECTORS = [deletion_vector("a", offset=4), deletion_vector("b", offset=44)]


@pytest.mark.parametrize(
    ("check", "operation", "added", "removed", "conflict"),
    [
        (no_new_data, "append", [data_file("new")], [], "added file:/data/new.parquet"),
        (no_new_data, "overwrite", [data_file("new")], ["a"], "added file:/data/new.parquet"),
        (no_new_data, "replace", [data_file("new")], ["a"], None),
        (no_new_data, "delete", [], ["a"], None),
        (no_new_data, None, [data_file("new")], [], "added file:/data/new.parquet"),
        (no_removed_data, "overwrite", [data_file("new")], ["a"], "removed file:/data/a.parquet"),
        (no_removed_data, "delete", [], ["b"], "removed file:/data/b.parquet"),
        (no_removed_data, "replace", [data_file("new")], ["a"], "removed file:/data/a.parquet"),
        (no_removed_data, "append", [data_file("new")], [], None),
        (no_new_deletes, "delete", [position_deletes("p")], [], "deleted rows with file:/data/p.parquet"),
        (no_new_deletes, "overwrite", [equality_deletes("e")], [], "deleted rows with file:/data/e.parquet"),
        (no_new_deletes, "replace", [position_deletes("p")], [], None),
        (no_new_deletes, "append", [data_file("new")], [], None),
        (no_positions_for_a, "delete", [position_deletes("p")], [], "deleted rows of file:/data/a.parquet"),
        (no_positions_for_a, "overwrite", [equality_deletes("e")], [], None),
        (no_positions_for_a, "replace", [position_deletes("p")], [], "deleted rows of file:/data/a.parquet"),
        (no_positions_for_a, "delete", [position_deletes("p", referenced_data_file="/data/b.parquet")], [], None),
        (
            no_positions_for_a,
            "delete",
            [position_deletes("p", referenced_data_file="/data/a.parquet")],
            [],
            "with file",
        ),
    ],
)
def test_what_others_did_conflicts_or_not(
    check: Check, operation: str | None, added: list[DataFile], removed: list[str], conflict: str | None
) -> None:
    stored, conflicts = started()
    stored.foreign(101, operation, *added, removed=removed)
    found = refused(stored, conflicts, check)
    assert (found is None) if conflict is None else (found is not None and conflict in found), found


@pytest.mark.parametrize("operation", ["delete", "overwrite", "replace"])
def test_a_deletion_vector_for_the_same_file_conflicts_and_for_another_does_not(operation: str) -> None:
    stored, conflicts = started(3)
    stored.foreign(101, operation, VECTORS[1])
    assert refused(stored, conflicts, no_new_vector_for_a) is None
    stored.foreign(102, operation, VECTORS[0])
    found = refused(stored, conflicts, no_new_vector_for_a)
    assert found is not None
    assert "snapshot 102 added a deletion vector for file:/data/a.parquet" in found
    assert refused(stored, conflicts, no_positions_for_a) is not None


def test_equality_deletes_are_left_out_for_files_that_keep_their_number() -> None:
    stored, conflicts = started()
    stored.foreign(101, "delete", equality_deletes("e"))
    assert refused(stored, conflicts, no_positions_for_a) is None
    stored.foreign(102, "delete", position_deletes("p"))
    assert "snapshot 102" in (refused(stored, conflicts, no_positions_for_a) or "")


def test_a_delete_file_that_was_there_before_and_is_rewritten_is_not_new() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.foreign(101, "delete", position_deletes("p"), position_deletes("q"))
    conflicts = Conflicts(stored.new(900))
    stored.foreign(102, "overwrite", removed=["p"])
    assert refused(stored, conflicts, no_positions_for_a) is None
    assert refused(stored, conflicts, no_new_deletes) is None


def test_only_files_in_the_scope_conflict() -> None:
    stored, conflicts = started()
    stored.foreign(101, "overwrite", data_file("new"), removed=["a"])

    def check(rows: Rows) -> Check:
        def both(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
            conflicts.no_new_data(since, rows, manifests)
            conflicts.no_removed_data(since, rows, manifests)

        return both

    assert refused(stored, conflicts, check(Rows("b"))) is None
    another = Conflicts(stored.new(900, start_id=100))
    assert "added file:/data/new.parquet in the rows where id < 5" in (
        refused(stored, another, check(Rows("new"))) or ""
    )
    another = Conflicts(stored.new(900, start_id=100))
    assert "removed file:/data/a.parquet" in (refused(stored, another, check(Rows(partly=("a",)))) or "")


def test_many_files_are_counted() -> None:
    stored, conflicts = started()
    stored.append(101, *(data_file(f"new{at}") for at in range(8)))
    assert "and 3 more in the table" in (refused(stored, conflicts, no_new_data) or "")


def test_manifests_that_others_only_kept_are_not_read() -> None:
    stored, conflicts = started()
    first = stored.state().manifests[0].manifest_path
    stored.foreign(101, "overwrite", data_file("new"))
    stored.files.delete(first)
    assert refused(stored, conflicts, no_removed_data) is None


def test_a_replay_reads_only_the_manifests_of_newer_snapshots() -> None:
    stored, conflicts = started()
    stored.foreign(101, "overwrite", removed=["b"])

    def check(conflicts: Conflicts, since: Since, manifests: Manifests) -> None:
        conflicts.no_new_data(since, EveryRow(), manifests)

    assert refused(stored, conflicts, check) is None
    for each in stored.state().manifests:
        stored.files.delete(each.manifest_path)
    stored.append(102, data_file("new"))
    assert "snapshot 102" in (refused(stored, conflicts, check) or "")


def without_snapshots(base: TableMetadata, *gone: int) -> TableMetadata:
    return apply(base, [{"action": "remove-snapshots", "snapshot-ids": list(gone)}], now_ms=NOW)


def test_a_history_that_expired_cannot_be_judged() -> None:
    stored, conflicts = started()
    stored.append(101, data_file("c"))
    stored.append(102, data_file("d"))
    stored.metadata = without_snapshots(stored.metadata, 100, 101)
    with pytest.raises(RequirementFailed, match="main no longer has the history since snapshot 100") as caught:
        conflicts.since_start(stored.state())
    assert caught.value.name == "starting-snapshot"


def test_an_expired_start_can_be_judged_while_its_child_is_there() -> None:
    stored, conflicts = started()
    stored.append(101, data_file("c"))
    stored.metadata = without_snapshots(stored.metadata, 100)
    since = conflicts.since_start(stored.state())
    assert [each.snapshot_id for each in since.snapshots] == [101]


def test_a_branch_that_was_rolled_back_behind_the_start_is_refused() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    stored.append(101, data_file("b"))
    conflicts = Conflicts(stored.new(900))
    stored.metadata = apply(stored.metadata, [updates.set_snapshot_ref("main", 100)], now_ms=NOW)
    with pytest.raises(RequirementFailed, match="no longer has the history since snapshot 101"):
        conflicts.since_start(stored.state())


def test_an_operation_that_started_on_an_empty_branch_sees_all_snapshots() -> None:
    stored = StoredTable()
    conflicts = Conflicts(stored.new(900))
    assert conflicts.since_start(stored.state()).snapshots == ()
    stored.append(100, data_file("a"))
    stored.append(101, data_file("b"))
    assert [each.snapshot_id for each in conflicts.since_start(stored.state()).snapshots] == [101, 100]
    stored.metadata = without_snapshots(stored.metadata, 100)
    with pytest.raises(RequirementFailed, match="since an empty branch"):
        conflicts.since_start(stored.state())


def test_earlier_steps_of_the_same_transaction_never_conflict() -> None:
    stored = StoredTable()
    stored.append(100, data_file("a"))
    conflicts = Conflicts(stored.new(900, earlier_ids=frozenset({102})))
    stored.foreign(102, "overwrite", data_file("mine"), removed=["a"])
    assert refused(stored, conflicts, no_new_data) is None
    assert refused(stored, conflicts, no_removed_data) is None


def test_the_snapshot_that_removed_a_file_is_found() -> None:
    stored, conflicts = started()
    stored.foreign(101, "replace", data_file("c"), removed=["a"])
    stored.foreign(102, "delete", removed=["c"])
    since, manifests = conflicts.since_start(stored.state()), stored.store.open()
    removers: dict[str, Any] = {}
    for name in "abc":
        found = conflicts.remover_of(since, file_key(f"file:/data/{name}.parquet"), manifests)
        removers[name] = None if found is None else found.snapshot_id
    assert removers == {"a": 101, "b": None, "c": 102}


def test_version_1_has_no_delete_files() -> None:
    stored, conflicts = started(1)
    stored.foreign(101, "overwrite", data_file("c"), removed=["b"])
    for check in (no_new_deletes, no_positions_for_a):
        assert refused(stored, conflicts, check) is None
    assert refused(stored, conflicts, no_removed_data) is not None


def test_other_levels_are_refused() -> None:
    check_isolation("serializable")
    check_isolation("snapshot")
    with pytest.raises(InvalidInput, match=r"isolation must be .* but is 'none'"):
        check_isolation("none")
