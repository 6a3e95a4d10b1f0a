"""How main went from one snapshot to another, on small histories written out."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.catalog.watching.head_moves import ChangeKind, Head, moves
from iceberg_hms.format.metadata.table_metadata import TableMetadata

SNAPSHOT, GAP, ROLLBACK = ChangeKind.SNAPSHOT, ChangeKind.GAP, ChangeKind.ROLLBACK


def metadata(main: int | None, parents: dict[int, int | None], *, numbers: bool = True) -> TableMetadata:
    """A table with these snapshots, id -> parent; an id is its sequence number, too."""
    snapshots: list[dict[str, Any]] = []
    for id_, parent in parents.items():
        row = {"snapshot-id": id_, "timestamp-ms": id_}
        row |= {"sequence-number": id_} if numbers else {}
        snapshots.append(row if parent is None else {**row, "parent-snapshot-id": parent})
    return TableMetadata({"snapshots": snapshots, "current-snapshot-id": -1 if main is None else main})


def followed(
    head: int | None, current: TableMetadata, seen: TableMetadata | None = None, *, number: int | None = None
) -> list[tuple[ChangeKind, int | None]]:
    at = Head(head, (head or 0) if number is None else number)
    return [(each.kind, each.snapshot and each.snapshot.snapshot_id) for each in moves(at, current, lambda: seen)]


def not_asked() -> TableMetadata:
    raise AssertionError("the metadata that was seen last is not needed here")


LINE = {1: None, 2: 1, 3: 2, 4: 3}


def test_all_snapshots_between_are_gained_oldest_first() -> None:
    assert followed(2, metadata(4, LINE)) == [(SNAPSHOT, 3), (SNAPSHOT, 4)]
    assert followed(None, metadata(2, LINE)) == [(SNAPSHOT, 1), (SNAPSHOT, 2)]
    assert list(moves(Head(2, 2), metadata(4, LINE), not_asked)) != []


@pytest.mark.parametrize("main", [None, 4])
def test_a_main_that_did_not_move_makes_nothing(main: int | None) -> None:
    assert followed(main, metadata(main, LINE)) == []


def test_the_expired_snapshot_that_was_seen_last_makes_no_gap() -> None:
    assert followed(2, metadata(4, {3: 2, 4: 3})) == [(SNAPSHOT, 3), (SNAPSHOT, 4)]


def test_expired_snapshots_that_nobody_saw_are_a_gap_and_named() -> None:
    seen = metadata(1, {1: None})
    assert followed(1, metadata(4, {3: 2, 4: 3}), seen) == [(GAP, 3), (SNAPSHOT, 4)]
    longer = metadata(2, {1: None, 2: 1})
    [gap, _] = moves(Head(1, 1), metadata(4, {3: 2, 4: 3}), lambda: longer)
    assert (gap.kind, gap.expired, gap.left) == (GAP, (2,), ())


def test_a_new_table_whose_oldest_snapshots_expired_begins_with_a_gap() -> None:
    [gap, next_] = moves(Head(), metadata(4, {3: 2, 4: 3}), not_asked)
    assert (gap.kind, gap.snapshot and gap.snapshot.snapshot_id, gap.expired) == (GAP, 3, (2,))
    assert next_.kind == SNAPSHOT


def test_expired_snapshots_in_the_middle_are_a_gap_there() -> None:
    seen = metadata(4, LINE)
    assert followed(1, metadata(5, {1: None, 2: 1, 4: 3, 5: 4}), seen) == [(SNAPSHOT, 2), (GAP, 4), (SNAPSHOT, 5)]


def test_a_rollback_names_what_was_left_and_new_snapshots_follow() -> None:
    [left] = moves(Head(4, 4), metadata(2, LINE), not_asked)
    assert (left.kind, left.snapshot and left.snapshot.snapshot_id, left.left) == (ROLLBACK, 2, (4, 3))
    assert followed(4, metadata(5, {**LINE, 5: 2})) == [(ROLLBACK, 2), (SNAPSHOT, 5)]
    assert followed(2, metadata(4, LINE)) == [(SNAPSHOT, 3), (SNAPSHOT, 4)]


def test_a_rollback_is_seen_by_the_former_metadata_if_what_was_left_expired() -> None:
    seen = metadata(4, LINE)
    assert followed(4, metadata(5, {1: None, 2: 1, 5: 2}), seen) == [(ROLLBACK, 2), (SNAPSHOT, 5)]
    [gap, *rest] = moves(Head(4, 4), metadata(6, {5: 2, 6: 5}), lambda: seen)
    assert (gap.kind, gap.snapshot and gap.snapshot.snapshot_id, gap.left, gap.expired) == (GAP, 5, (4, 3), ())
    assert [each.kind for each in rest] == [SNAPSHOT]


def test_a_replaced_history_leaves_everything_and_begins_anew() -> None:
    assert followed(4, metadata(6, {**LINE, 5: None, 6: 5})) == [(ROLLBACK, None), (SNAPSHOT, 5), (SNAPSHOT, 6)]
    [left] = moves(Head(4, 4), metadata(None, LINE), not_asked)
    assert (left.kind, left.snapshot, left.left) == (ROLLBACK, None, (4, 3, 2, 1))


def test_a_main_without_a_snapshot_left_all_even_where_the_oldest_expired() -> None:
    [left] = moves(Head(4, 4), metadata(None, {3: 2, 4: 3}), not_asked)
    assert (left.kind, left.snapshot, left.left[:2]) == (ROLLBACK, None, (4, 3))


def test_what_nobody_knows_is_a_gap_and_only_what_is_surely_new_follows() -> None:
    gone = metadata(7, {2: 1, 5: 2, 6: 5, 7: 6})
    assert followed(4, gone) == [(GAP, 5), (SNAPSHOT, 6), (SNAPSHOT, 7)]
    assert followed(4, metadata(2, {2: 1})) == [(GAP, 2)]
    assert followed(4, metadata(7, {6: 5, 7: 6}, numbers=False), number=0) == [(GAP, 7)]


def test_parents_in_a_circle_come_to_an_end() -> None:
    assert followed(9, metadata(2, {1: 2, 2: 1})) == [(GAP, 2)]


def test_each_move_leads_to_the_same_rest() -> None:
    seen = metadata(4, LINE)
    for current in (metadata(7, {5: 2, 6: 5, 7: 6}), metadata(5, {1: None, 2: 1, 4: 3, 5: 4}), metadata(2, LINE)):
        whole = list(moves(Head(4, 4), current, lambda: seen))
        for at, move in enumerate(whole, 1):
            rest = list(moves(Head.of(move.snapshot), current, lambda: seen))
            assert rest == whole[at:]
