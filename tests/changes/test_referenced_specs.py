"""Partition specs that manifests reference, on a table from which another commit removes them; and sort orders that
files claim, on a table where another writer has taken the id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.changes import new_manifests, referenced_specs, updates
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.changes.referenced_specs import has_files_sorted_as
from iceberg_hms.coordinator.staging.staging import RecordedWrites, stage_one
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore
from simulation.actors import requests
from simulation.actors.requests import for_update_table
from tests.changes.tables import BY_LEVEL, UUID, branch, snapshot, table
from tests.changes.writers import NOW, Writer, data_file

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
REMOVE_0 = {"action": "remove-partition-specs", "spec-ids": [0]}


class Counting(MemoryManifests):
    """Records which lists are read."""

    def __init__(self, store: MemoryManifestStore) -> None:
        super().__init__(store)
        self.fronts: list[int] = []
        self.whole: list[int] = []

    def added(self, snapshot: Snapshot) -> Any:
        self.fronts.append(snapshot.snapshot_id)
        return super().added(snapshot)

    def list(self, snapshot: Snapshot) -> Any:
        self.whole.append(snapshot.snapshot_id)
        return super().list(snapshot)


@pytest.fixture
def writer() -> Writer:
    return Writer(MemoryManifestStore())


def commit(base: TableMetadata, change: Change, writer: Writer) -> TableMetadata:
    """As a coordinator commits it."""
    manifests = writer.store.open()
    new, _ = stage_one(base, change, RecordedWrites(manifests), lambda: NOW)
    manifests.flush()
    return new


def sent(base: TableMetadata, updates_: list[Any]) -> Change:
    return from_request(list(for_update_table(base, updates_)), updates_)


def two_specs(version: int = 2) -> TableMetadata:
    """Spec 0 was the default, and spec 1 is; no snapshot uses either."""
    base = table(version, properties={"iceberg-hms.rebase-appends": "all"})
    add = {"action": "add-spec", "spec": {**BY_LEVEL, "spec-id": 1}}
    return apply(base, [add, {"action": "set-default-spec", "spec-id": -1}], now_ms=NOW)


def ours(snapshot_id: int, spec_id: int = 0, name: str = "ours") -> Append:
    """An append of the Python API."""
    partition = {"level": "ERROR"} if spec_id else {}
    return Append(
        NewSnapshot(snapshot_id=snapshot_id, table_uuid=UUID, now_ms=lambda: NOW),
        NewDataFiles(
            [replace(data_file(name, spec_id=spec_id), partition=partition)],
            snapshot_id=snapshot_id,
            schema_id=0,
            specs={spec_id: None},
        ),
    )


def without_spec_0(base: TableMetadata) -> TableMetadata:
    return apply(base, [REMOVE_0], now_ms=NOW)


def on_main(base: TableMetadata, writer: Writer) -> list[Any]:
    return writer.fast_append(base, 10, "mine")


def staged_only(base: TableMetadata, writer: Writer) -> list[Any]:
    return writer.fast_append(base, 10, "mine")[:1]


def merged(base: TableMetadata, writer: Writer) -> list[Any]:
    old = writer.manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    entries = [(EntryStatus.EXISTING, data_file("ours")), (EntryStatus.ADDED, data_file("mine"))]
    return writer.rewrite_list(base, 10, "append", entries, old, {"added-data-files": "1"})


@VERSIONS
@pytest.mark.parametrize("planned", [on_main, staged_only])
def test_a_snapshot_of_a_removed_spec_is_refused_even_if_its_branch_did_not_move(
    writer: Writer, version: int, planned: Callable[..., list[Any]]
) -> None:
    seen = two_specs(version)
    change = sent(seen, planned(seen, writer))
    assert commit(seen, change, writer).snapshot_by_id(10) is not None
    with pytest.raises(
        RequirementFailed, match="snapshot 10 was written with partition spec 0, which is not"
    ) as caught:
        commit(without_spec_0(seen), change, writer)
    assert (caught.value.name, caught.value.expected, caught.value.found) == (
        new_manifests.SPECS_EXIST,
        [0],
        [1],
    )


@VERSIONS
def test_a_list_that_does_not_begin_with_added_manifests_is_read_to_its_end(writer: Writer, version: int) -> None:
    seen = commit(two_specs(version), ours(7), writer)
    change = sent(seen, merged(seen, writer))
    assert commit(seen, change, writer).current_snapshot_id == 10
    gone = seen.replace(**{"partition-specs": seen.raw["partition-specs"][1:]})
    with pytest.raises(RequirementFailed, match="snapshot 10 was written with partition spec 0"):
        commit(gone, change, writer)


@VERSIONS
def test_a_snapshot_of_a_removed_spec_is_refused_when_renumbered_or_rebased_too(writer: Writer, version: int) -> None:
    seen = commit(two_specs(version), ours(7, 1), writer).replace(refs={"main": branch(7), "audit": branch(7)})
    change = sent(seen, on_main(seen, writer))
    for ref in ("main", "audit"):
        now = commit(seen, sent(seen, writer.fast_append(seen, 11, "other", branch=ref)), writer)
        assert commit(now, change, writer).snapshot_by_id(10) is not None
        with pytest.raises(RequirementFailed, match="spec"):
            commit(now.replace(**{"partition-specs": now.raw["partition-specs"][1:]}), change, writer)


def test_a_commit_that_removes_the_spec_of_its_own_snapshot_is_refused(writer: Writer) -> None:
    seen = two_specs()
    with pytest.raises(RequirementFailed, match="written with partition spec 0"):
        commit(seen, sent(seen, [*on_main(seen, writer), REMOVE_0]), writer)


def test_a_spec_that_the_same_commit_adds_counts_as_existing(writer: Writer) -> None:
    base = table()
    [add, move] = writer.fast_append(base, 10, "mine")
    location = add["snapshot"]["manifest-list"]
    [own] = writer.store.lists[location]
    writer.store.lists[location] = (replace(own, partition_spec_id=1),)
    spec = {"action": "add-spec", "spec": {**BY_LEVEL, "spec-id": 1}}
    assert commit(base, sent(base, [spec, add, move]), writer).current_snapshot_id == 10
    with pytest.raises(RequirementFailed, match="written with partition spec 1"):
        commit(base, sent(base, [add, move]), writer)


def test_a_table_whose_older_snapshots_lack_a_spec_can_be_repaired(writer: Writer) -> None:
    """The table is already broken; a new append must still be possible."""
    seen = commit(two_specs(), ours(7), writer)
    broken = seen.replace(**{"partition-specs": seen.raw["partition-specs"][1:]})
    assert commit(broken, ours(8, 1, "other"), writer).current_snapshot_id == 8


def test_only_the_front_of_an_append_s_list_is_read(writer: Writer) -> None:
    seen = two_specs()
    change = sent(seen, on_main(seen, writer))
    manifests = Counting(writer.store)
    new, _ = stage_one(seen, change, RecordedWrites(manifests), lambda: NOW)
    assert new.current_snapshot_id == 10
    assert manifests.fronts == [10]


def test_a_missing_list_is_refused(writer: Writer) -> None:
    base = table()
    change = sent(base, [updates.add_snapshot(snapshot(10, manifest_list="file:/none.avro"))])
    with pytest.raises(InvalidInput, match="snapshot 10 cannot be read: Failed to open input stream") as caught:
        commit(base, change, writer)
    assert caught.value.proved_failed


@VERSIONS
def test_a_spec_s_removal_conflicts_with_an_append_that_uses_it(writer: Writer, version: int) -> None:
    seen = two_specs(version)
    removal = sent(seen, [REMOVE_0])
    assert [spec.spec_id for spec in commit(seen, removal, writer).specs] == [1]
    now = commit(seen, ours(7), writer)
    with pytest.raises(RequirementFailed, match="snapshot 7 has files of partition spec 0, which is to be") as caught:
        commit(now, removal, writer)
    assert (caught.value.name, caught.value.found) == (referenced_specs.SPECS_ARE_UNUSED, 7)


@pytest.mark.parametrize(
    ("refs", "removed", "lands"),
    [
        # 7 adds a file of spec 0; 8 and 9 keep it; the list of 12 has none.
        ({"main": 9}, [], False),
        ({"main": 9}, [7], False),
        ({"main": 9}, [7, 8], False),
        ({"main": 12}, [], False),
        ({"main": 12}, [7, 8, 9], True),
        ({"main": 12, "v1": 9}, [7, 8], False),
        ({"main": 12}, [7, 9], False),
    ],
)
def test_every_kept_snapshot_counts_and_removed_ones_do_not(
    writer: Writer, refs: dict[str, int], removed: list[int], lands: bool
) -> None:
    base = commit(commit(commit(two_specs(), ours(7), writer), ours(8, 1, "b"), writer), ours(9, 1, "c"), writer)
    alone = commit(two_specs().replace(last_sequence_number=3), ours(12, 1, "d"), writer)
    base = base.replace(
        snapshots=[*base.raw["snapshots"], *alone.raw["snapshots"]],
        refs={name: branch(id_) for name, id_ in refs.items()},
        current_snapshot_id=refs["main"],
        last_sequence_number=4,
    )
    change = sent(base, [requests.remove_snapshots(removed), REMOVE_0])
    if lands:
        assert [spec.spec_id for spec in commit(base, change, writer).specs] == [1]
        return
    with pytest.raises(RequirementFailed, match="has files of partition spec 0"):
        commit(base, change, writer)


def test_a_removal_reads_the_whole_list_of_the_oldest_alone_and_nothing_twice(writer: Writer) -> None:
    base = two_specs()
    for number in range(7, 11):
        base = commit(base, ours(number, 1, str(number)), writer)
    removal = sent(base, [requests.remove_snapshots([7]), REMOVE_0])
    manifests = Counting(writer.store)
    removal.stage(base, manifests)
    assert manifests.fronts == [10, 9]
    assert [id_ for id_ in manifests.whole if id_ not in manifests.fronts] == [8]
    later = commit(base, ours(11, 1, "later"), writer)
    again = Counting(writer.store)
    removal.stage(later, again)
    assert again.fronts == [11]


def test_commits_that_remove_no_spec_read_no_list(writer: Writer) -> None:
    base = commit(two_specs(), ours(7), writer)
    manifests = Counting(writer.store)
    for update in (updates.set_properties({"a": "b"}), {**REMOVE_0, "spec-ids": [5]}):
        sent(base, [update]).stage(base, manifests)
    assert not manifests.fronts
    assert not manifests.whole


def test_a_missing_list_of_an_old_snapshot_is_an_error(writer: Writer) -> None:
    base = commit(two_specs(), ours(7, 1), writer)
    writer.store.lists.clear()
    with pytest.raises(MissingFile):
        commit(base, sent(base, [REMOVE_0]), writer)


def order(column: int, id_: int) -> dict[str, Any]:
    field = {"transform": "identity", "source-id": column, "direction": "asc", "null-order": "nulls-first"}
    return {"order-id": id_, "fields": [field]}


def taken() -> TableMetadata:
    """A table in which another writer has added order 1."""
    return table(sort_orders=[{"order-id": 0, "fields": []}, order(1, 1)])


def replacing(writer: Writer, *claims: int | None) -> list[dict[str, Any]]:
    """The updates of a client that saw no order 1: an order, sent as 1, and a file for each claim."""
    change = Append(
        NewSnapshot(branch="main", snapshot_id=77, table_uuid=UUID, now_ms=lambda: NOW),
        NewDataFiles(
            [data_file(str(number), sort_order_id=claim) for number, claim in enumerate(claims)],
            snapshot_id=77,
            schema_id=0,
            specs={0: None},
        ),
        check_duplicates=False,
    )
    files = [dict(update) for update in change.stage(table(), writer.manifests).updates]
    writer.manifests.flush()
    return [
        {"action": "add-sort-order", "sort-order": order(2, 1)},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        *files,
    ]


def commit_on_taken(writer: Writer, sent: list[dict[str, Any]]) -> TableMetadata:
    change = from_request([{"type": "assert-table-uuid", "uuid": UUID}], sent)
    metadata, _ = stage_one(taken(), change, RecordedWrites(writer.store.open()), lambda: NOW)
    return metadata


@pytest.mark.parametrize("claims", [(), (None,), (None, 0)])
def test_files_that_claim_no_such_order_come_with_it_under_its_new_id(claims: tuple[int | None, ...]) -> None:
    """As the REST compatibility kit asks (testConcurrentReplaceTransactionSortOrderConflict)."""
    writer = Writer(MemoryManifestStore())
    metadata = commit_on_taken(writer, replacing(writer, *claims))
    assert [each.raw for each in metadata.sort_orders][1:] == [order(1, 1), order(2, 2)]
    assert (metadata.raw["default-sort-order-id"], metadata.current_snapshot_id) == (2, 77)


def test_files_that_claim_to_be_sorted_by_the_sent_id_would_claim_the_order_of_another_writer() -> None:
    writer = Writer(MemoryManifestStore())
    with pytest.raises(RequirementFailed, match="the sort order that was sent as 1 would become 2"):
        commit_on_taken(writer, replacing(writer, None, 1))


def test_a_snapshot_that_cannot_be_read_may_have_such_files() -> None:
    missing = Snapshot({"snapshot-id": 1, "manifest-list": "file:/gone"})
    assert has_files_sorted_as(1, [missing.raw], MemoryManifestStore().open())
