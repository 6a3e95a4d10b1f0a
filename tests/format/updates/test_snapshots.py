"""Snapshots, refs and the snapshot log in apply."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import CommitFailed, InvalidInput, UnsupportedFormat
from iceberg_hms.format.metadata.snapshot import Ref
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from tests.format import documents
from tests.format.documents import FIRST, FIRST_MS, NOW_MS, SECOND, SECOND_MS, add_snapshot, set_ref


def run(base: TableMetadata, *updates: dict[str, Any], now_ms: int = NOW_MS) -> TableMetadata:
    return apply(base, updates, now_ms=now_ms)


def log(metadata: TableMetadata) -> list[tuple[int, int]]:
    return [(entry["timestamp-ms"], entry["snapshot-id"]) for entry in metadata.snapshot_log]


OLD_LOG = [(FIRST_MS, FIRST), (SECOND_MS, SECOND)]


def test_an_append_moves_main_and_the_log() -> None:
    after = run(documents.metadata(), add_snapshot(77, tomorrow=1), set_ref(77)).verify()
    assert after.current_snapshot_id == 77
    assert after.raw["snapshots"][-1]["tomorrow"] == 1
    assert after.last_sequence_number == 35
    assert log(after) == [*OLD_LOG, (NOW_MS - 1, 77)]
    assert after.last_updated_ms == NOW_MS
    assert [snapshot.snapshot_id for snapshot in after.ancestors(77)] == [77, SECOND, FIRST]
    assert after.ref("test") == Ref(FIRST, "tag", max_ref_age_ms=10000000)


def test_a_snapshot_without_a_ref_changes_only_the_list_of_snapshots() -> None:
    after = run(documents.metadata(), add_snapshot(77))
    assert (after.current_snapshot_id, log(after)) == (SECOND, OLD_LOG)
    assert after.snapshot_by_id(77) is not None


@pytest.mark.parametrize("timestamp_ms", [1, SECOND_MS - 1, NOW_MS + 86_400_000])
def test_the_log_stays_in_order_whatever_the_writers_clock_says(timestamp_ms: int) -> None:
    after = run(documents.metadata(), add_snapshot(77, timestamp_ms=timestamp_ms), set_ref(77)).verify()
    assert log(after)[-1] == (max(timestamp_ms, SECOND_MS), 77)
    assert after.last_updated_ms == max(timestamp_ms, NOW_MS)
    later = run(after, set_ref(FIRST))
    assert log(later)[-1] == (max(timestamp_ms, NOW_MS), FIRST)


def test_a_rollback_happens_now() -> None:
    after = run(documents.metadata(), set_ref(FIRST))
    assert log(after) == [*OLD_LOG, (NOW_MS, FIRST)]
    assert (after.current_snapshot_id, after.last_updated_ms) == (FIRST, NOW_MS)


def test_old_snapshots_that_a_request_makes_current_in_between_stay_in_the_log() -> None:
    after = run(documents.metadata(), set_ref(FIRST), set_ref(SECOND, max_ref_age_ms=5))
    assert log(after) == [*OLD_LOG, (NOW_MS, FIRST), (NOW_MS, SECOND)]
    with_new = run(documents.metadata(), set_ref(FIRST), add_snapshot(77), set_ref(77), set_ref(SECOND))
    assert [entry[1] for entry in log(with_new)] == [FIRST, SECOND, FIRST, SECOND]


def test_snapshots_that_were_never_current_after_a_commit_leave_no_log_entry() -> None:
    chain = [add_snapshot(77), set_ref(77), add_snapshot(78, sequence_number=36, parent_snapshot_id=77), set_ref(78)]
    after = run(documents.metadata(), *chain).verify()
    assert log(after) == [*OLD_LOG, (NOW_MS - 1, 78)]
    assert {77, 78} <= after.raw_snapshots_by_id.keys()
    one_by_one = run(run(documents.metadata(), *chain[:2]), *chain[2:])
    assert [entry[1] for entry in log(one_by_one)] == [FIRST, SECOND, 77, 78]


@pytest.mark.parametrize("parent", [SECOND, FIRST, 999])
@pytest.mark.parametrize("number", [0, 1, 34])
def test_a_stale_sequence_number_is_a_failed_commit_and_not_bad_input(number: int, parent: int) -> None:
    with pytest.raises(CommitFailed, match=f"sequence number {number} older than last sequence number 34") as caught:
        run(documents.metadata(), add_snapshot(77, sequence_number=number, parent_snapshot_id=parent))
    assert caught.value.proved_failed


def test_a_snapshot_without_a_parent_may_have_any_number_and_the_last_one_never_falls() -> None:
    after = run(documents.metadata(), add_snapshot(77, sequence_number=3, parent_snapshot_id=None)).verify()
    assert after.last_sequence_number == 34
    assert run(documents.metadata(), add_snapshot(77, sequence_number=90)).last_sequence_number == 90


def test_v1_has_no_sequence_numbers() -> None:
    after = run(documents.metadata(1), add_snapshot(77, sequence_number=None), set_ref(77)).verify()
    assert "last-sequence-number" not in after.raw
    inline = add_snapshot(78, sequence_number=None, manifest_list=None, summary=None, manifests=["a"])
    assert run(after, inline).snapshot_by_id(78) is not None
    with pytest.raises(InvalidInput, match="must be 0 in v1"):
        run(after, add_snapshot(78))
    with pytest.raises(InvalidInput, match="missing: manifest-list"):
        run(after, add_snapshot(78, sequence_number=None, manifest_list=None))


def test_v3_assigns_row_ids() -> None:
    after = run(documents.metadata(3), add_snapshot(77, first_row_id=100, added_rows=7), set_ref(77)).verify()
    assert after.next_row_id == 107
    ahead = run(documents.metadata(3), add_snapshot(77, first_row_id=150, added_rows=7))
    assert ahead.next_row_id == 157
    none = run(documents.metadata(3), add_snapshot(77, first_row_id=100, added_rows=0))
    assert none.next_row_id == 100


def test_stale_row_ids_are_a_failed_commit_and_missing_ones_bad_input() -> None:
    base = documents.metadata(3)
    with pytest.raises(CommitFailed, match="first-row-id is behind table next-row-id: 99 < 100"):
        run(base, add_snapshot(77, first_row_id=99, added_rows=1))
    for rows in ({}, {"first_row_id": 100}, {"added_rows": 1}, {"first_row_id": 100, "added_rows": -1}):
        with pytest.raises(InvalidInput, match="Cannot add a snapshot"):
            run(base, add_snapshot(77, **rows))


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        (add_snapshot(FIRST), f"Snapshot already exists for id: {FIRST}"),
        (add_snapshot(77, sequence_number=None), "missing: sequence-number"),
        (add_snapshot(77, manifest_list=None), "missing: manifest-list"),
        (add_snapshot(77, summary=None), "missing: summary"),
        (add_snapshot(77, summary={}), "missing: operation"),
        (add_snapshot(77, summary={"operation": "append", "added-records": 5}), "is not a string"),
        (add_snapshot(77, timestamp_ms=None), "missing: timestamp-ms"),
        (add_snapshot(77, parent_snapshot_id=77), "its own parent"),
        (add_snapshot(-1), "-1 is no snapshot id"),
    ],
)
def test_an_invalid_snapshot_is_refused(snapshot: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        run(documents.metadata(), snapshot)


def test_the_same_snapshot_twice_in_one_request_is_refused() -> None:
    with pytest.raises(InvalidInput, match="already exists for id: 77"):
        run(documents.metadata(), add_snapshot(77), add_snapshot(77, sequence_number=36))


def test_encrypted_snapshots_are_unsupported() -> None:
    with pytest.raises(UnsupportedFormat):
        run(documents.metadata(3), add_snapshot(77, key_id="k", first_row_id=100, added_rows=1))


def test_branches_and_tags_come_and_go() -> None:
    after = run(documents.metadata(), set_ref(FIRST, "b", min_snapshots_to_keep=3), set_ref(SECOND, "t", type="TAG"))
    assert after.ref("b") == Ref(FIRST, min_snapshots_to_keep=3)
    assert after.raw["refs"]["t"] == {"type": "tag", "snapshot-id": SECOND}
    assert (after.current_snapshot_id, log(after)) == (SECOND, OLD_LOG)
    moved = run(after, set_ref(SECOND, "b"))
    assert moved.ref("b") == Ref(SECOND)
    gone = run(moved, {"action": "remove-snapshot-ref", "ref-name": "b"})
    assert set(gone.refs) == {"main", "test", "t"}


def test_without_main_there_is_no_current_snapshot() -> None:
    after = run(documents.metadata(), {"action": "remove-snapshot-ref", "ref-name": "main"}).verify()
    assert (after.current_snapshot_id, after.raw["current-snapshot-id"]) == (None, -1)
    assert log(after) == OLD_LOG
    replaced = run(after, add_snapshot(77, parent_snapshot_id=None), set_ref(77)).verify()
    assert log(replaced)[-1][1] == 77
    assert (
        run(documents.metadata(3), {"action": "remove-snapshot-ref", "ref-name": "main"}).raw["current-snapshot-id"]
        is None
    )


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (set_ref(9), "Cannot set main to unknown snapshot: 9"),
        (set_ref(9, "b"), "Cannot set b to unknown snapshot: 9"),
        (set_ref(FIRST, type="tag"), "Cannot make main a tag"),
        (set_ref(FIRST, ""), "ref-name must not be empty"),
        (set_ref(FIRST, "t", type="tag", min_snapshots_to_keep=1), "tags do not support"),
        (set_ref(FIRST, "b", max_ref_age_ms=0), "greater than 0"),
    ],
)
def test_an_invalid_ref_is_refused(update: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        run(documents.metadata(), update)


def remove(*ids: int) -> dict[str, Any]:
    return {"action": "remove-snapshots", "snapshot-ids": list(ids)}


def test_a_removed_snapshot_takes_its_refs_statistics_and_the_log_before_it() -> None:
    base = documents.metadata(
        statistics=[{"snapshot-id": FIRST}, {"snapshot-id": SECOND}], partition_statistics=[{"snapshot-id": FIRST}]
    )
    after = run(base, remove(FIRST, 5)).verify()
    assert set(after.raw_snapshots_by_id) == {SECOND}
    assert set(after.refs) == {"main"}
    assert after.raw["statistics"] == [{"snapshot-id": SECOND}]
    assert after.raw["partition-statistics"] == []
    assert log(after) == [(SECOND_MS, SECOND)]


def test_a_gap_in_the_middle_of_the_log_clears_what_came_before() -> None:
    base = run(documents.metadata(), add_snapshot(77), set_ref(77))
    assert log(run(base, remove(SECOND))) == [(NOW_MS - 1, 77)]


def test_without_the_current_snapshot_there_is_no_main() -> None:
    after = run(documents.metadata(), remove(SECOND)).verify()
    assert (after.current_snapshot_id, set(after.refs), log(after)) == (None, {"test"}, [])


def test_a_log_that_does_not_end_with_the_current_snapshot_is_not_rewritten() -> None:
    strange = documents.metadata(snapshot_log=[{"snapshot-id": FIRST, "timestamp-ms": 1}])
    third = run(strange, add_snapshot(77))
    with pytest.raises(InvalidInput, match="latest entry is not the current snapshot"):
        run(third, remove(77))
    assert run(documents.metadata(snapshot_log=[]), remove(FIRST)).snapshot_log == []
