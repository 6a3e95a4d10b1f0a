from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from iceberg_hms.format.manifests.manifest import FileContent
from simulation.actors.client_snapshots import CommitKind, SnapshotBuilder
from simulation.checks.contents import ContentsReader
from simulation.world.cluster import TABLE, ClusterNode
from simulation.world.history import WriteAttempt
from tests.simulation.manual_schedule import SentCommit, on_a_node, sent_commit

A, B, MINE = (f"file:/t/data/{name}.parquet" for name in ("1", "2", "mine"))
_OPERATIONS = {
    CommitKind.APPEND: "append",
    CommitKind.VALIDATED: "append",
    CommitKind.MERGE: "append",
    CommitKind.DELETE: "delete",
    CommitKind.MASK: "delete",
    CommitKind.REWRITE: "replace",
}


def rows(made: SentCommit) -> Counter[str]:
    return ContentsReader(made.storage).read(made.metadata.snapshot_by_id(77)).rows


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("commit_kind", sorted(_OPERATIONS))
def test_every_kind_is_taken_and_does_what_it_says(commit_kind: CommitKind, version: str) -> None:
    made = sent_commit(commit_kind, properties={"format-version": version})
    if (commit_kind, version) == (CommitKind.MASK, "1"):
        assert made.snapshot is None
        return
    snapshot = made.metadata.snapshot_by_id(77)
    assert snapshot is not None
    assert snapshot.operation == _OPERATIONS[commit_kind]
    wanted = Counter((A, B)) if made.attempt.row is None else Counter((A, B, MINE))
    assert rows(made) == wanted - Counter(made.attempt.deleted_rows)
    assert len(made.attempt.deleted_rows) == (commit_kind in (CommitKind.DELETE, CommitKind.MASK))
    files = ContentsReader(made.storage).read(snapshot).files.total()
    assert snapshot.summary["total-data-files"] == str(files)


def test_a_merge_stands_for_manifests_of_the_table_and_a_rewrite_for_files() -> None:
    merged = sent_commit(CommitKind.MERGE)
    listed = merged.storage.store.lists[merged.snapshot.made[0] if merged.snapshot else ""]
    assert len(listed) < 3
    assert listed[0].existing_files_count == 3 - len(listed)
    rewritten = sent_commit(CommitKind.REWRITE)
    assert rewritten.storage.rows(MINE) == (A, B)


@pytest.mark.parametrize(("forgets", "is_there"), [(False, True), (True, True), (False, False)])
def test_a_merge_that_is_sent_again_names_its_manifest_again_while_what_it_merged_is_there(
    forgets: bool, is_there: bool
) -> None:
    made: list[Sequence[str]] = []

    def work(node: ClusterNode) -> None:
        coordinator = node.coordinator()
        first = WriteAttempt("first", "p", snapshot_id=1, data_file="file:/t/data/1.parquet")
        coordinator.commit(TABLE, node.append(first), wait_seconds=60.0)
        builder = SnapshotBuilder(
            node, WriteAttempt("mine", "p", snapshot_id=77, data_file="file:/t/data/2.parquet"), CommitKind.MERGE
        )
        base = coordinator.load(TABLE).metadata
        for table in (base, base if is_there else base.replace(refs={}, **{"current-snapshot-id": None})):
            snapshot = builder.make(table)
            assert snapshot is not None
            made.append(snapshot.made)
            if forgets:
                builder.forget()

    on_a_node(work)
    assert made[0][0] != made[1][0], "the list is new each time"
    assert (made[0][1:] == made[1][1:]) is (is_there and not forgets)


def test_a_mask_names_its_data_file_and_leaves_it() -> None:
    made = sent_commit(CommitKind.MASK)
    deletes = [
        entry.data_file
        for entries in made.storage.store.manifests.values()
        for entry in entries
        if entry.data_file.content == FileContent.POSITION_DELETES
    ]
    assert [each.referenced_data_file for each in deletes] == sorted(made.attempt.deleted_rows)
    assert ContentsReader(made.storage).read(made.metadata.current_snapshot).files.total() == 2


def test_where_there_is_nothing_to_delete_or_rewrite_nothing_is_sent() -> None:
    for commit_kind, files in ((CommitKind.DELETE, 0), (CommitKind.MASK, 0), (CommitKind.REWRITE, 1)):
        made = sent_commit(commit_kind, files=files)
        assert made.snapshot is None
        assert made.attempt.parents_seen == []


@pytest.mark.parametrize(
    ("commit_kind", "word", "never_rebased"),
    [
        (CommitKind.APPEND, "plain", False),
        (CommitKind.VALIDATED, "plain", True),
        (CommitKind.VALIDATED, "all", False),
        (CommitKind.MERGE, "none", True),
        (CommitKind.REWRITE, "all", False),
        (CommitKind.DELETE, "all", True),
    ],
)
def test_what_may_not_be_rebased_is_known_from_its_kind_and_the_table_s_word(
    commit_kind: CommitKind, word: str, never_rebased: bool
) -> None:
    assert (
        sent_commit(commit_kind, properties={"iceberg-hms.rebase-appends": word}).attempt.never_rebased is never_rebased
    )


def test_a_clumsy_one_sends_a_property_a_snapshot_and_what_cannot_be_applied() -> None:
    snapshot = sent_commit(CommitKind.INVALID).snapshot
    assert snapshot is not None
    assert [each["action"] for each in snapshot.updates] == [
        "set-properties",
        "add-snapshot",
        "set-snapshot-ref",
        "set-snapshot-ref",
    ]


def test_a_branch_that_is_not_there_begins_at_main() -> None:
    made = sent_commit(CommitKind.APPEND, branch="audit")
    assert {name: ref.snapshot_id for name, ref in made.metadata.refs.items()} == {"main": 2, "audit": 77}
    assert rows(made) == Counter((A, B, MINE))
