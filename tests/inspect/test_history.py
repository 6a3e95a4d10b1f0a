"""Snapshots, refs and history as rows."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.inspect.history import choose_snapshot, history_rows, ref_rows, snapshot_rows
from tests.inspect import samples


def test_every_snapshot_is_a_row_with_the_refs_that_name_it() -> None:
    rows = snapshot_rows(samples.metadata())
    assert [(row["snapshot_id"], row["parent_id"], row["refs"]) for row in rows] == [
        (samples.FIRST, None, ["audit"]),
        (samples.SECOND, samples.FIRST, ["main"]),
        (samples.ROLLED_BACK, samples.SECOND, []),
    ]
    assert rows[0]["operation"] == "append"
    assert rows[0]["summary"]["added-records"] == "3"


def test_refs_begin_with_main_and_show_their_retention() -> None:
    unset = {"min_snapshots_to_keep": None, "max_snapshot_age_ms": None, "max_ref_age_ms": None}
    assert ref_rows(samples.metadata()) == [
        {**unset, "name": "main", "type": "branch", "snapshot_id": samples.SECOND},
        {**unset, "name": "audit", "type": "tag", "snapshot_id": samples.FIRST, "max_ref_age_ms": 86_400_000},
    ]


def test_history_shows_rolled_back_and_expired_snapshots() -> None:
    rows = history_rows(samples.metadata())
    assert [(row["snapshot_id"], row["is_current_ancestor"], row["operation"]) for row in rows] == [
        (samples.EXPIRED, False, None),
        (samples.FIRST, True, "append"),
        (samples.SECOND, True, "append"),
        (samples.ROLLED_BACK, False, "append"),
        (samples.SECOND, True, "append"),
    ]
    assert [row["made_current_at_ms"] % 1000 for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0]["summary"] == {}


def test_an_empty_table_has_no_history() -> None:
    empty = samples.metadata(**samples.EMPTY)
    assert (history_rows(empty), snapshot_rows(empty), ref_rows(empty)) == ([], [], [])
    assert choose_snapshot(empty) is None


def test_a_snapshot_is_chosen_by_id_or_ref_or_is_the_current_one() -> None:
    metadata = samples.metadata()
    chosen = [
        choose_snapshot(metadata),
        choose_snapshot(metadata, snapshot_id=samples.ROLLED_BACK),
        choose_snapshot(metadata, ref="audit"),
    ]
    assert [snapshot and snapshot.snapshot_id for snapshot in chosen] == [
        samples.SECOND,
        samples.ROLLED_BACK,
        samples.FIRST,
    ]


def test_a_missing_snapshot_is_refused_with_a_hint_at_the_existing_ones() -> None:
    metadata = samples.metadata()
    with pytest.raises(InvalidInput, match="snapshot 7 is not in the table"):
        choose_snapshot(metadata, snapshot_id=samples.EXPIRED)
    with pytest.raises(InvalidInput, match=r"no branch or tag is called 'dev'.*main, audit"):
        choose_snapshot(metadata, ref="dev")
    with pytest.raises(InvalidInput, match="both given"):
        choose_snapshot(metadata, ref="main", snapshot_id=samples.FIRST)
