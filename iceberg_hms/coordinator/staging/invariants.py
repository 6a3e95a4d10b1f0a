"""What must hold between the metadata that is replaced and the metadata that replaces it.

Each invariant is a named predicate that runs before every swap. It returns None when it holds, else one line that says
what it found. An invariant must not refuse what is legal: snapshots of replaced tables have no parent, v1 has no
sequence numbers, a rollback moves main back, files may lie outside the table's location, and schemas, specs and
snapshots may be removed when nothing points at them.

With base B and new N:

    uuid            N.uuid = B.uuid, once B has one
    version         N.format-version >= B.format-version
    sequence        N.last-sequence-number >= B.last-sequence-number; the number of an added snapshot with a parent is
                    above B's
    ids             snapshot ids are unique in N; last-column-id, last-partition-id and next-row-id never fall
    untouched       a snapshot in both is the same JSON in both
    refs            every ref of N names a snapshot of N, and main is the current snapshot
    current         current schema, default spec and default sort order of N exist in N
    log             an entry that N adds to the snapshot log is at most a minute older than the entry before it
    clock           no snapshot that N adds is from the future (`check_clock`)

What may go backwards: current-snapshot-id, every ref, the default spec, schema and order, the number of snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from iceberg_hms.clock import CLOCK_SKEW_MS
from iceberg_hms.errors import InvalidInput, InvariantViolated
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Transition:
    """A step from one metadata to the next.

    base: None for a new table. added: the JSON of the snapshots that are in `new` and not in `base`, in their order.
    keeps_all: the snapshots of `new` begin with those of `base`, as the same objects. A commit that removes none leaves
    them so, and then one comparison covers thousands of snapshots.
    """

    base: TableMetadata | None
    new: TableMetadata
    added: Sequence[Mapping[str, Any]]
    keeps_all: bool

    @classmethod
    def of(cls, base: TableMetadata | None, new: TableMetadata) -> Transition:
        if base is None:
            return cls(base, new, new.snapshot_rows, keeps_all=True)
        added = new.snapshot_rows.since(base.snapshot_rows)
        if added is not None:
            return cls(base, new, added, keeps_all=True)
        known = base.raw_snapshots_by_id
        return cls(base, new, [raw for raw in new.snapshot_rows if raw["snapshot-id"] not in known], keeps_all=False)


Predicate = Callable[[Transition], str | None]


@dataclass(frozen=True, slots=True)
class Invariant:
    """name: for messages and metrics. sentence: the rule, as the table specification has it."""

    name: str
    sentence: str
    predicate: Predicate


def uuid_is_kept(step: Transition) -> str | None:
    before, after = None if step.base is None else step.base.uuid, step.new.uuid
    if before is not None and before != after:
        return f"table-uuid went from {before} to {after}"
    return None


def version_never_falls(step: Transition) -> str | None:
    before, after = 1 if step.base is None else step.base.format_version, step.new.format_version
    return f"format-version went from {before} to {after}" if after < before else None


def sequence_never_falls(step: Transition) -> str | None:
    before, after = 0 if step.base is None else step.base.last_sequence_number, step.new.last_sequence_number
    return f"last-sequence-number went from {before} to {after}" if after < before else None


def added_snapshots_come_after(step: Transition) -> str | None:
    if step.base is None or step.base.format_version == 1:
        return None
    before, last = step.base.last_sequence_number, step.new.last_sequence_number
    for raw in step.added:
        id_, number = raw["snapshot-id"], raw.get("sequence-number", 0)
        # Equal to the last number is refused too: a delete file could not tell the two snapshots apart. A snapshot
        # without a parent starts a history of its own (a replaced table), so no number of the table is before it.
        after = before if raw.get("parent-snapshot-id") is not None else -1
        if not after < number <= last:
            return f"snapshot {id_} has sequence-number {number}, which is not in ({after}, {last}]"
    return None


def counters_never_fall(step: Transition) -> str | None:
    base, new = step.base, step.new
    if base is None:
        return None
    for name, before, after in (
        ("last-column-id", base.last_column_id, new.last_column_id),
        ("last-partition-id", base.last_partition_id, new.last_partition_id),
        ("next-row-id", base.next_row_id, new.next_row_id),
    ):
        if after < before:
            return f"{name} went from {before} to {after}"
    return None


def snapshot_ids_are_unique(step: Transition) -> str | None:
    if len(step.new.raw_snapshots_by_id) != len(step.new.snapshot_rows):
        return "two snapshots have the same snapshot-id"
    return None


def kept_snapshots_are_untouched(step: Transition) -> str | None:
    if step.base is None or step.keeps_all:
        return None
    known = step.base.raw_snapshots_by_id
    for raw in step.new.snapshot_rows:
        was = known.get(raw["snapshot-id"])
        if was is not None and was is not raw and orjson.dumps(was) != orjson.dumps(raw):
            return f"snapshot {raw['snapshot-id']} was changed"
    return None


def refs_name_snapshots(step: Transition) -> str | None:
    refs, snapshots, current = step.new.refs, step.new.raw_snapshots_by_id, step.new.current_snapshot_id
    for name, ref in refs.items():
        if ref.snapshot_id not in snapshots:
            return f"ref {name} names snapshot {ref.snapshot_id}, which is not in the table"
    main = refs[MAIN_BRANCH].snapshot_id if MAIN_BRANCH in refs else None
    return f"current-snapshot-id is {current}, but main is {main}" if current != main else None


def current_things_exist(step: Transition) -> str | None:
    new = step.new
    for name, wanted, present in (
        ("current-schema-id", new.current_schema_id, new.schemas_by_id),
        ("default-spec-id", new.default_spec_id, new.specs_by_id),
        ("default-sort-order-id", new.default_sort_order_id, new.sort_orders_by_id),
    ):
        if wanted not in present:
            return f"{name} is {wanted}, which is not in the table"
    return None


def snapshot_log_is_in_order(step: Transition) -> str | None:
    last_old, log = None if step.base is None else step.base.log_rows.last, step.new.log_rows
    later = None
    for place, entry in enumerate(reversed(log)):
        if later is not None and later["timestamp-ms"] < entry["timestamp-ms"] - CLOCK_SKEW_MS:
            return f"snapshot-log entry {len(log) - place} is older than the one before it"
        if entry is last_old:
            return None
        later = entry
    return None


TRANSITION: tuple[Invariant, ...] = (
    Invariant("uuid-kept", "the table UUID is assigned once and identifies the table", uuid_is_kept),
    Invariant("version-never-falls", "a table's format version is only ever upgraded", version_never_falls),
    Invariant("sequence-never-falls", "last-sequence-number is a monotonically increasing long", sequence_never_falls),
    Invariant(
        "added-snapshots-come-after",
        "a snapshot's sequence number is the next after the table's last one",
        added_snapshots_come_after,
    ),
    Invariant(
        "counters-never-fall", "ids of fields, partition fields and rows are never given out twice", counters_never_fall
    ),
    Invariant("snapshot-ids-unique", "a unique long ID for every snapshot", snapshot_ids_are_unique),
    Invariant("snapshots-untouched", "snapshots are immutable once they are committed", kept_snapshots_are_untouched),
    Invariant(
        "refs-name-snapshots",
        "the main branch is the current snapshot, and every reference points to a valid snapshot",
        refs_name_snapshots,
    ),
    Invariant(
        "current-things-exist",
        "the current schema, spec and order are ids of entries of their lists",
        current_things_exist,
    ),
    Invariant(
        "snapshot-log-ordered", "the snapshot log records when the current snapshot changed", snapshot_log_is_in_order
    ),
)


def check_transition(base: TableMetadata | None, new: TableMetadata) -> Transition:
    """Run every invariant. Raises InvariantViolated with the first that does not hold; nothing was published then."""
    step = Transition.of(base, new)
    for invariant in TRANSITION:
        found = invariant.predicate(step)
        if found is not None:
            raise InvariantViolated(f"{invariant.name}: {found}; the rule is: {invariant.sentence}")
    return step


def check_clock(base: TableMetadata | None, added: Sequence[Mapping[str, Any]], now_ms: int) -> None:
    """Raise InvalidInput for a snapshot that is added with a timestamp more than a minute ahead of the clock.

    added: JSON, as `Transition` has it. now_ms: this process's wall clock. If the table's last-updated-ms is
    already further ahead, as it may be in a registered table, the minute counts from there, so that writers with the
    same fast clock can go on. The error is not a conflict: a client that retries at once still has the wrong clock.
    """
    # Java refuses to build metadata whose log goes back by more than a minute (TableMetadata: "Expected sorted snapshot
    # log entries"). So a snapshot from the future keeps every honest Java client from committing until its own clock
    # has caught up. A table within the minute does not count as ahead, else each of many fast clocks could move it on
    # by another minute.
    latest = now_ms + CLOCK_SKEW_MS
    if base is not None and base.last_updated_ms > latest:
        latest = base.last_updated_ms + CLOCK_SKEW_MS
    for raw in added:
        timestamp_ms = raw["timestamp-ms"]
        if timestamp_ms > latest:
            raise InvalidInput(
                f"snapshot {raw['snapshot-id']} has a timestamp {(timestamp_ms - now_ms) // 1000} s ahead of this "
                f"clock: timestamp-ms is {timestamp_ms}, and now is {now_ms}",
                next_step="correct the writer's clock, or this one's if it is behind; then write again",
            )
