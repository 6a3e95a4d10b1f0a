"""Each invariant is shown a transition that it must refuse, and all are shown the legal ones that look suspicious."""

import copy
from typing import Any

import pytest

from iceberg_hms.coordinator.staging import invariants
from iceberg_hms.coordinator.staging.invariants import Transition, check_transition
from iceberg_hms.errors import InvariantViolated
from iceberg_hms.format.metadata.rows import BLOCK_ROWS, Rows
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from tests.coordinator.documents import raw, snapshot

BASE = raw()
ADDED = raw(
    last_sequence_number=3,
    current_snapshot_id=12,
    snapshots=[*BASE["snapshots"], snapshot(12, 3, 3000)],
    refs={"main": {"type": "branch", "snapshot-id": 12}},
    snapshot_log=[*BASE["snapshot-log"], {"timestamp-ms": 3000, "snapshot-id": 12}],
)


def with_changes(document: dict[str, Any], **changes: Any) -> TableMetadata:
    return TableMetadata({**document, **{key.replace("_", "-"): value for key, value in changes.items()}})


def edited_snapshot() -> list[dict[str, Any]]:
    snapshots = copy.deepcopy(BASE["snapshots"])
    snapshots[0]["summary"]["operation"] = "delete"
    return snapshots


REFUSED = {
    "uuid-kept": with_changes(BASE, table_uuid="0000-2"),
    "version-never-falls": with_changes(BASE, format_version=1),
    "sequence-never-falls": with_changes(BASE, last_sequence_number=1),
    "added-snapshots-come-after": with_changes(
        ADDED, snapshots=[*BASE["snapshots"], {**snapshot(12, 2, 3000), "parent-snapshot-id": 11}]
    ),
    "counters-never-fall": with_changes(BASE, last_column_id=0),
    "snapshot-ids-unique": with_changes(ADDED, snapshots=[*ADDED["snapshots"], snapshot(12, 3, 3000)]),
    "snapshots-untouched": with_changes(BASE, snapshots=edited_snapshot()),
    "refs-name-snapshots": with_changes(BASE, refs={**BASE["refs"], "tag": {"type": "tag", "snapshot-id": 99}}),
    "current-things-exist": with_changes(BASE, default_spec_id=7),
    "snapshot-log-ordered": with_changes(
        ADDED, snapshot_log=[*BASE["snapshot-log"], {"timestamp-ms": 2000 - 60_001, "snapshot-id": 12}]
    ),
}


def test_every_invariant_has_a_case_that_it_refuses():
    assert set(REFUSED) == {invariant.name for invariant in invariants.TRANSITION}


@pytest.mark.parametrize("name", REFUSED)
def test_an_illegal_transition_is_refused_by_name(name):
    with pytest.raises(InvariantViolated, match=f"^{name}: .*the rule is: "):
        check_transition(TableMetadata(BASE), REFUSED[name])


@pytest.mark.parametrize("name", sorted(set(REFUSED) - {"uuid-kept", "version-never-falls"}))
def test_each_invariant_alone_sees_its_case(name):
    invariant = next(invariant for invariant in invariants.TRANSITION if invariant.name == name)
    assert invariant.predicate(Transition.of(TableMetadata(BASE), REFUSED[name])) is not None
    assert invariant.predicate(Transition.of(TableMetadata(BASE), TableMetadata(ADDED))) is None


def test_main_must_be_the_current_snapshot():
    with pytest.raises(InvariantViolated, match="current-snapshot-id is 10, but main is 11"):
        check_transition(TableMetadata(BASE), with_changes(BASE, current_snapshot_id=10))


@pytest.mark.parametrize(
    "legal",
    [
        TableMetadata(ADDED),
        TableMetadata(copy.deepcopy(BASE)),
        # A rollback.
        with_changes(BASE, current_snapshot_id=10, refs={"main": {"type": "branch", "snapshot-id": 10}}),
        # Expiry of an old snapshot.
        with_changes(BASE, snapshots=BASE["snapshots"][1:], snapshot_log=BASE["snapshot-log"][1:]),
        # A staged snapshot: no ref names it.
        with_changes(ADDED, current_snapshot_id=11, refs=BASE["refs"], snapshot_log=BASE["snapshot-log"]),
        with_changes(BASE, location="s3://elsewhere/t"),
        # A replaced table: its first snapshot has no parent, and another writer took the number meanwhile.
        with_changes(ADDED, snapshots=[*BASE["snapshots"], snapshot(12, 2, 3000)]),
        # A clock that is fifty seconds behind the last writer's.
        with_changes(ADDED, snapshot_log=[*BASE["snapshot-log"], {"timestamp-ms": 2000 - 50_000, "snapshot-id": 12}]),
    ],
)
def test_a_legal_transition_passes(legal):
    check_transition(TableMetadata(BASE), legal)


def test_v1_has_no_sequence_numbers_to_compare():
    v1 = raw(format_version=1, last_sequence_number=0)
    for each in v1["snapshots"]:
        del each["sequence-number"]
    added = {**snapshot(12, 0, 3000)}
    del added["sequence-number"]
    new = {**v1, "snapshots": [*v1["snapshots"], added]}
    check_transition(TableMetadata(v1), TableMetadata(new))


def test_a_first_metadata_has_no_base_to_be_compared_with():
    check_transition(None, TableMetadata(BASE))
    with pytest.raises(InvariantViolated, match="refs-name-snapshots"):
        check_transition(None, with_changes(BASE, snapshots=[]))


def long_table(snapshots: int, **changes: Any) -> dict[str, Any]:
    """With one snapshot for each number from 1 on, the last of them current."""
    rows = [
        {**snapshot(1000 + number, number, number), "nested": {"a": 1, "b": 2}} for number in range(1, snapshots + 1)
    ]
    log = [{"timestamp-ms": row["timestamp-ms"], "snapshot-id": row["snapshot-id"]} for row in rows]
    refs = {"main": {"type": "branch", "snapshot-id": 1000 + snapshots}}
    return raw(
        snapshots=rows,
        snapshot_log=log,
        refs=refs,
        current_snapshot_id=1000 + snapshots,
        last_sequence_number=snapshots,
        **changes,
    )


LONG = 2 * BLOCK_ROWS + 5


@pytest.mark.parametrize("place", [0, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS, LONG - 1])
@pytest.mark.parametrize("edit", [{"nested": {"b": 2, "a": 1}}, {"nested": {"a": True, "b": 2}}, {"x": None}])
def test_a_long_table_keeps_every_byte_of_its_snapshots(place, edit):
    base, new = long_table(LONG), long_table(LONG + 1)
    check_transition(TableMetadata(base), TableMetadata(new))
    new["snapshots"][place].update(edit)
    with pytest.raises(InvariantViolated, match=f"^snapshots-untouched: snapshot {1001 + place} was changed"):
        check_transition(TableMetadata(base), TableMetadata(new))


def append_to(base: TableMetadata, id_: int) -> TableMetadata:
    added = {**snapshot(id_, base.next_sequence_number, 9_000), "parent-snapshot-id": base.current_snapshot_id}
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id_}
    return apply(base, [{"action": "add-snapshot", "snapshot": added}, ref], now_ms=9_000)


def test_what_an_append_carries_over_is_not_looked_through(monkeypatch):
    base = TableMetadata(long_table(LONG))
    new = append_to(append_to(base, 5), 6)
    check_transition(base, new)

    def looked_through(rows: Rows) -> Any:
        raise AssertionError(f"{len(rows)} rows were looked through")

    base.refs, new.refs  # noqa: B018 - computed before the rows are sealed
    monkeypatch.setattr(Rows, "__iter__", looked_through)
    check_transition(base, new)


def test_an_edit_behind_the_back_of_an_append_is_seen():
    base = TableMetadata(long_table(LONG))
    rows = [*append_to(base, 5).raw["snapshots"]]
    rows[3] = {**rows[3], "manifest-list": "file:/other"}
    with pytest.raises(InvariantViolated, match="snapshot 1004 was changed"):
        check_transition(base, append_to(base, 5).replace(snapshots=rows))


def test_two_snapshots_of_one_id_are_seen_in_a_long_table():
    base = TableMetadata(long_table(LONG))
    new = append_to(base, 5)
    twice = new.replace(snapshots=new.snapshot_rows.with_row(new.snapshot_rows[0]))
    with pytest.raises(InvariantViolated, match="snapshot-ids-unique"):
        check_transition(base, twice)
