from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from iceberg_hms.format.manifests.manifest import Content
from simulation.actors.shipments import Doing, Shipper
from simulation.checks.contents import ContentsReader
from simulation.world.history import CommitCall
from simulation.world.site import TABLE, Node
from tests.simulation.worlds import Shipped, on_a_node, shipped

A, B, MINE = (f"file:/t/data/{name}.parquet" for name in ("1", "2", "mine"))
_OPERATIONS = {
    Doing.APPEND: "append",
    Doing.VALIDATED: "append",
    Doing.MERGE: "append",
    Doing.DELETE: "delete",
    Doing.MASK: "delete",
    Doing.REWRITE: "replace",
}


def rows(made: Shipped) -> Counter[str]:
    return ContentsReader(made.storage).read(made.metadata.snapshot_by_id(77)).rows


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("doing", sorted(_OPERATIONS))
def test_every_kind_is_taken_and_does_what_it_says(doing: Doing, version: str) -> None:
    made = shipped(doing, properties={"format-version": version})
    if (doing, version) == (Doing.MASK, "1"):
        assert made.shipment is None
        return
    snapshot = made.metadata.snapshot_by_id(77)
    assert snapshot is not None
    assert snapshot.operation == _OPERATIONS[doing]
    wanted = Counter((A, B)) if made.attempt.row is None else Counter((A, B, MINE))
    assert rows(made) == wanted - Counter(made.attempt.takes)
    assert len(made.attempt.takes) == (doing in (Doing.DELETE, Doing.MASK))
    files = ContentsReader(made.storage).read(snapshot).files.total()
    assert snapshot.summary["total-data-files"] == str(files)


def test_a_merge_stands_for_manifests_of_the_table_and_a_rewrite_for_files() -> None:
    merged = shipped(Doing.MERGE)
    listed = merged.storage.store.lists[merged.shipment.made[0] if merged.shipment else ""]
    assert len(listed) < 3
    assert listed[0].existing_files_count == 3 - len(listed)
    rewritten = shipped(Doing.REWRITE)
    assert rewritten.storage.rows(MINE) == (A, B)


@pytest.mark.parametrize(("forgets", "is_there"), [(False, True), (True, True), (False, False)])
def test_a_merge_that_is_sent_again_names_its_manifest_again_while_what_it_merged_is_there(
    forgets: bool, is_there: bool
) -> None:
    made: list[Sequence[str]] = []

    def work(node: Node) -> None:
        coordinator = node.coordinator()
        first = CommitCall("first", "p", snapshot_id=1, data_file="file:/t/data/1.parquet")
        coordinator.commit(TABLE, node.append(first), wait_seconds=60.0)
        shipper = Shipper(
            node, CommitCall("mine", "p", snapshot_id=77, data_file="file:/t/data/2.parquet"), Doing.MERGE
        )
        base = coordinator.load(TABLE).metadata
        for table in (base, base if is_there else base.replace(refs={}, **{"current-snapshot-id": None})):
            shipment = shipper.make(table)
            assert shipment is not None
            made.append(shipment.made)
            if forgets:
                shipper.forget()

    on_a_node(work)
    assert made[0][0] != made[1][0], "the list is new each time"
    assert (made[0][1:] == made[1][1:]) is (is_there and not forgets)


def test_a_mask_names_its_data_file_and_leaves_it() -> None:
    made = shipped(Doing.MASK)
    deletes = [
        entry.data_file
        for entries in made.storage.store.manifests.values()
        for entry in entries
        if entry.data_file.content == Content.POSITION_DELETES
    ]
    assert [each.referenced_data_file for each in deletes] == sorted(made.attempt.takes)
    assert ContentsReader(made.storage).read(made.metadata.current_snapshot).files.total() == 2


def test_where_there_is_nothing_to_delete_or_rewrite_nothing_is_sent() -> None:
    for doing, files in ((Doing.DELETE, 0), (Doing.MASK, 0), (Doing.REWRITE, 1)):
        made = shipped(doing, files=files)
        assert made.shipment is None
        assert made.attempt.seen == []


@pytest.mark.parametrize(
    ("doing", "word", "stays"),
    [
        (Doing.APPEND, "plain", False),
        (Doing.VALIDATED, "plain", True),
        (Doing.VALIDATED, "all", False),
        (Doing.MERGE, "none", True),
        (Doing.REWRITE, "all", False),
        (Doing.DELETE, "all", True),
    ],
)
def test_what_may_not_be_rebased_is_known_from_its_kind_and_the_table_s_word(
    doing: Doing, word: str, stays: bool
) -> None:
    assert shipped(doing, properties={"iceberg-hms.rebase-appends": word}).attempt.stays is stays


def test_a_clumsy_one_sends_a_property_a_snapshot_and_what_cannot_be_applied() -> None:
    shipment = shipped(Doing.CLUMSY).shipment
    assert shipment is not None
    assert [each["action"] for each in shipment.updates] == [
        "set-properties",
        "add-snapshot",
        "set-snapshot-ref",
        "set-snapshot-ref",
    ]


def test_a_branch_that_is_not_there_begins_at_main() -> None:
    made = shipped(Doing.APPEND, branch="audit")
    assert {name: ref.snapshot_id for name, ref in made.metadata.refs.items()} == {"main": 2, "audit": 77}
    assert rows(made) == Counter((A, B, MINE))
