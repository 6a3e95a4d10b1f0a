"""apply: creating tables, and invariants of every sequence of updates."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.changes.updates import SHAPES
from iceberg_hms.errors import InvalidInput, RequirementFailed, UnsupportedFormat
from iceberg_hms.format.metadata.rows import BLOCK_ROWS
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import APPLIERS, apply
from tests.format import documents, sequences
from tests.format.documents import NOW_MS, OLD_V1, V1, V2, V3, add_snapshot, set_ref

CREATE: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": documents.UUID},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": {"type": "struct", "fields": documents.COLUMNS}, "last-column-id": 3},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": documents.FIELDS}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-location", "location": "s3://b/t"},
    {"action": "set-properties", "updates": {"a": "b"}},
]


def without(action: str) -> list[dict[str, Any]]:
    return [update for update in CREATE if update["action"] != action]


@st.composite
def runs(draw: st.DrawFn) -> tuple[TableMetadata, list[tuple[list[dict[str, Any]], TableMetadata]]]:
    """A document, and updates with the result of each."""
    start = TableMetadata.parse(copy.deepcopy(draw(st.sampled_from([OLD_V1, V1, V2, V3])))).verify()
    metadata, done = start, []
    for step in range(draw(st.integers(1, 8))):
        updates = draw(st.sampled_from(sequences.KINDS))(draw, metadata, step)
        metadata = apply(metadata, updates, now_ms=NOW_MS + step)
        done.append((updates, metadata))
    return start, done


@given(runs())
@settings(max_examples=150)
def test_every_legal_update_keeps_the_table_s_invariants(
    run: tuple[TableMetadata, list[tuple[list[dict[str, Any]], TableMetadata]]],
) -> None:
    before, done = run
    for updates, after in done:
        TableMetadata.parse(after.to_bytes()).verify()
        assert after.uuid == before.uuid
        assert after.format_version >= before.format_version
        assert after.last_updated_ms >= before.last_updated_ms
        assert after.last_sequence_number >= before.last_sequence_number
        assert after.last_column_id >= max(before.last_column_id, after.schema.highest_field_id)
        assert after.last_partition_id >= max([before.last_partition_id, *(s.last_field_id for s in after.specs)])
        assert after.next_row_id >= before.next_row_id
        for snapshot_id in before.raw_snapshots_by_id.keys() & after.raw_snapshots_by_id.keys():
            assert after.raw_snapshots_by_id[snapshot_id] is before.raw_snapshots_by_id[snapshot_id]
        times = [entry["timestamp-ms"] for entry in after.snapshot_log]
        assert times == sorted(times)
        if after.current_snapshot_id != before.current_snapshot_id and after.current_snapshot_id is not None:
            assert after.snapshot_log[-1]["snapshot-id"] == after.current_snapshot_id
            assert after.snapshot_log[-1]["timestamp-ms"] <= after.last_updated_ms
        assert after.raw.get("a-field-of-tomorrow") == before.raw.get("a-field-of-tomorrow")
        assert apply(after, updates[:0], now_ms=NOW_MS) is after
        before = after


@given(st.data())
@settings(max_examples=100)
def test_the_base_is_never_changed(data: st.DataObject) -> None:
    base = TableMetadata.parse(copy.deepcopy(data.draw(st.sampled_from([OLD_V1, V1, V2, V3])))).verify()
    original = copy.deepcopy(base.raw)
    updates = data.draw(st.composite(lambda draw: draw(st.sampled_from(sequences.KINDS))(draw, base, 0))())
    sent = copy.deepcopy(updates)
    derived = (base.refs, base.raw_snapshots_by_id, base.schemas, base.specs)
    derived_copy = copy.deepcopy(derived)
    after = apply(base, updates, now_ms=NOW_MS)
    apply(after, [{"action": "set-properties", "updates": {"z": "z"}}, set_ref(1, "none")][:1], now_ms=NOW_MS)
    assert base.raw == original
    assert updates == sent
    assert (base.refs, base.raw_snapshots_by_id, base.schemas, base.specs) == derived_copy


@given(runs())
@settings(max_examples=60)
def test_cached_values_equal_freshly_computed_ones(
    run: tuple[TableMetadata, list[tuple[list[dict[str, Any]], TableMetadata]]],
) -> None:
    for _, after in run[1]:
        assert after.to_bytes() == orjson.dumps(after.raw)
        fresh = TableMetadata.parse(after.to_bytes())
        assert after.raw_snapshots_by_id == fresh.raw_snapshots_by_id
        assert (after.refs, after.location, after.snapshots) == (fresh.refs, fresh.location, fresh.snapshots)
        assert (after.schemas, after.specs, after.sort_orders) == (fresh.schemas, fresh.specs, fresh.sort_orders)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_staged_create_with_a_snapshot_makes_a_table(version: int) -> None:
    create = [{**update, "format-version": version} if "format-version" in update else update for update in CREATE]
    rows = {"first_row_id": 0, "added_rows": 4} if version == 3 else {}
    number = None if version == 1 else 1
    snapshot = add_snapshot(9, sequence_number=number, parent_snapshot_id=None, schema_id=0, **rows)
    made = apply(None, [*create, snapshot, set_ref(9)], now_ms=5).verify()
    assert made.format_version == version
    assert made.current_snapshot_id == 9
    assert made.last_updated_ms == NOW_MS - 1
    assert made.snapshot_log == [{"timestamp-ms": NOW_MS - 1, "snapshot-id": 9}]
    assert made.last_sequence_number == (number or 0)
    assert made.next_row_id == (4 if version == 3 else 0)
    assert TableMetadata.parse(orjson.loads(made.to_bytes())) == made


def test_a_new_table_has_version_2_by_default() -> None:
    assert apply(None, without("upgrade-format-version"), now_ms=5).format_version == 2


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("assign-uuid", "UUID is required"),
        ("add-schema", "no schema has been added"),
        ("add-spec", "no spec has been added"),
        ("add-sort-order", "no sort order has been added"),
        ("set-location", "needs a location"),
    ],
)
def test_a_new_table_needs_everything(action: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        apply(None, without(action), now_ms=5)


def test_a_new_table_needs_a_schema_a_spec_and_an_order() -> None:
    identity = [CREATE[0], CREATE[8]]
    for updates, why in [([], "schema"), (CREATE[2:4], "partition spec"), (CREATE[2:6], "sort order")]:
        with pytest.raises(InvalidInput, match=f"a {why} must be added first"):
            apply(None, [*identity, *updates], now_ms=5)


@pytest.mark.parametrize("version", [0, -1])
def test_a_new_table_of_an_unsupported_version_is_refused(version: int) -> None:
    with pytest.raises(InvalidInput):
        apply(None, [{"action": "upgrade-format-version", "format-version": version}], now_ms=5)
    with pytest.raises(UnsupportedFormat):
        apply(None, [{"action": "upgrade-format-version", "format-version": 4}], now_ms=5)


def test_an_unknown_action_is_named() -> None:
    with pytest.raises(InvalidInput, match="Unknown update action: 'add-view-version'"):
        apply(documents.metadata(), [{"action": "add-view-version"}], now_ms=5)


@pytest.mark.parametrize("action", sorted(set(APPLIERS) - {"remove-encryption-key"}))
def test_an_update_that_lacks_its_field_fails(action: str) -> None:
    with pytest.raises((InvalidInput, KeyError)):
        apply(documents.metadata(), [{"action": action}], now_ms=5)


def test_every_action_that_parse_accepts_can_be_applied() -> None:
    assert set(APPLIERS) == set(SHAPES) - {"add-encryption-key"}


def test_updates_without_effect_return_the_base_itself() -> None:
    base = documents.metadata()
    assert apply(base, [], now_ms=NOW_MS) is base
    idle = [
        {"action": "assign-uuid", "uuid": documents.UUID.upper()},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": {**V2["schemas"][1], "schema-id": 99}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-location", "location": documents.LOCATION + "/"},
        {"action": "set-properties", "updates": dict(V2["properties"])},
        {"action": "remove-properties", "removals": ["none"]},
        {"action": "remove-snapshots", "snapshot-ids": [5]},
        {"action": "remove-snapshot-ref", "ref-name": "none"},
        {"action": "remove-statistics", "snapshot-id": 5},
        set_ref(documents.SECOND),
    ]
    assert apply(base, idle, now_ms=NOW_MS) is base


def test_last_updated_ms_never_falls() -> None:
    base = documents.metadata(last_updated_ms=NOW_MS * 2)
    changed = apply(base, [{"action": "set-properties", "updates": {"a": "b"}}], now_ms=NOW_MS)
    assert changed.last_updated_ms == NOW_MS * 2
    later = apply(base, [{"action": "set-properties", "updates": {"a": "b"}}], now_ms=NOW_MS * 3)
    assert later.last_updated_ms == NOW_MS * 3


def test_a_schema_must_keep_what_spec_and_order_need() -> None:
    schema = {"type": "struct", "fields": documents.COLUMNS[1:]}
    change = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    with pytest.raises(InvalidInput, match="Cannot find source column for partition field"):
        apply(documents.metadata(), change, now_ms=5)
    unpartitioned = [{"action": "add-spec", "spec": {"fields": []}}, {"action": "set-default-spec", "spec-id": -1}]
    assert apply(documents.metadata(), [*change, *unpartitioned], now_ms=5).schema.find("x") is None
    short = {"type": "struct", "fields": documents.COLUMNS[:2]}
    with pytest.raises(InvalidInput, match="Cannot find source column for sort field"):
        apply(documents.metadata(), [{"action": "add-schema", "schema": short}, change[1]], now_ms=5)


def test_v1_keeps_the_fields_that_old_readers_read() -> None:
    base = TableMetadata.parse(OLD_V1)
    column = {"id": 4, "name": "w", "required": False, "type": "string"}
    schema = {"type": "struct", "fields": [*documents.COLUMNS, column]}
    spec = {"fields": [*OLD_V1["partition-spec"], {"source-id": 4, "transform": "identity", "name": "w"}]}
    updates = [
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    after = apply(base, updates, now_ms=NOW_MS).verify()
    assert [field["name"] for field in after.raw["schema"]["fields"]] == ["x", "y", "z", "w"]
    assert [field["field-id"] for field in after.raw["partition-spec"]] == [1000, 1001]
    assert [item["schema-id"] for item in after.raw["schemas"]] == [0, 1]
    assert [item["spec-id"] for item in after.raw["partition-specs"]] == [0, 1]
    assert after.raw["last-partition-id"] == 1001
    assert "last-sequence-number" not in after.raw
    assert "schemas" not in base.raw


def test_work_does_not_grow_with_unused_snapshots() -> None:
    class Untouchable(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise AssertionError(key)

        get = __getitem__  # type: ignore[assignment]

    base = documents.metadata()
    sealed = TableMetadata({**base.raw, "snapshots": [Untouchable(raw) for raw in V2["snapshots"]]})
    updates = [{"action": "set-properties", "updates": {"a": "b"}}, {"action": "set-location", "location": "s3://n"}]
    assert apply(sealed, updates, now_ms=5).raw["snapshots"] is sealed.raw["snapshots"]


def test_an_append_extends_the_shared_rows_and_a_removal_does_not() -> None:
    base = documents.metadata()
    for number in range(BLOCK_ROWS):
        base = apply(base, documents.append(base, 10_000 + number), now_ms=NOW_MS)
    after = apply(base, documents.append(base, 20_000), now_ms=NOW_MS)
    assert after.snapshot_rows.since(base.snapshot_rows) == (after.raw["snapshots"][-1],)
    assert after.log_rows.since(base.log_rows) == (after.raw["snapshot-log"][-1],)
    removed = apply(after, [{"action": "remove-snapshots", "snapshot-ids": [10_000]}], now_ms=NOW_MS)
    assert removed.snapshot_rows.since(base.snapshot_rows) is None
    assert removed.to_bytes() == orjson.dumps(removed.raw)
    assert set(after.raw_snapshots_by_id) - set(removed.raw_snapshots_by_id) == {10_000}
    assert [each.snapshot_id for each in removed.snapshots] == list(removed.raw_snapshots_by_id)


def test_the_index_of_snapshots_is_passed_to_the_new_version() -> None:
    first = apply(documents.metadata(), [add_snapshot(77), set_ref(77)], now_ms=5)
    assert "raw_snapshots_by_id" in first.__dict__
    second = apply(first, [add_snapshot(78, sequence_number=36)], now_ms=5)
    assert set(second.raw_snapshots_by_id) - set(first.raw_snapshots_by_id) == {78}


def numbered_field(source_id: int, field_id: int) -> dict[str, Any]:
    return {"name": f"f{field_id}", "transform": "identity", "source-id": source_id, "field-id": field_id}


#: Entries that three writers may add, each to a list of its own, and the key of the id.
ADDED = {
    "schema": ("add-schema", "schema", "schema-id", {"type": "struct", "fields": documents.COLUMNS[:2]}),
    "partition spec": ("add-spec", "spec", "spec-id", {"fields": [numbered_field(1, 1000), numbered_field(2, 1001)]}),
    "sort order": (
        "add-sort-order",
        "sort-order",
        "order-id",
        {"fields": [{"transform": "bucket[4]", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}]},
    ),
}


def adding(what: str, id_: int | None) -> dict[str, Any]:
    action, name, id_name, value = ADDED[what]
    return {"action": action, name: value if id_ is None else {**value, id_name: id_}}


def next_id(what: str) -> int:
    """The id that the document assigns next."""
    return {"schema": 2, "partition spec": 1, "sort order": 4}[what]


@pytest.mark.parametrize("what", ADDED)
def test_entries_added_with_a_snapshot_keep_the_id_that_the_client_sent(what: str) -> None:
    base = TableMetadata.parse(copy.deepcopy(V2))
    sent = next_id(what)
    added = add_snapshot(77)
    assert apply(base, [adding(what, sent), added], now_ms=NOW_MS) is not base
    with pytest.raises(
        RequirementFailed, match=f"the {what} that was sent as {sent + 1} would become {sent}"
    ) as caught:
        apply(base, [adding(what, sent + 1), added], now_ms=NOW_MS)
    assert (caught.value.name, caught.value.expected, caught.value.found) == (
        f"added-{what.replace(' ', '-')}-id",
        sent + 1,
        sent,
    )
    for claims_nothing in (None, -1):
        apply(base, [adding(what, claims_nothing), added], now_ms=NOW_MS)
    apply(base, [adding(what, sent + 1)], now_ms=NOW_MS)


@pytest.mark.parametrize("what", ADDED)
def test_an_existing_equal_entry_keeps_its_id_and_must_be_sent_with_it(what: str) -> None:
    """Java adds an equal schema again, under an id of its own, if the table's last column id has grown."""
    known = next_id(what)
    base = apply(TableMetadata.parse(copy.deepcopy(V2)), [adding(what, known)], now_ms=NOW_MS)
    apply(base, [adding(what, known), add_snapshot(77)], now_ms=NOW_MS)
    with pytest.raises(RequirementFailed, match=f"sent as {known + 1} would become {known}"):
        apply(base, [adding(what, known + 1), add_snapshot(77)], now_ms=NOW_MS)


def test_a_new_table_assigns_its_own_ids() -> None:
    sent = [{**update, "spec": {**update["spec"], "spec-id": 7}} if "spec" in update else update for update in CREATE]
    assert apply(None, [*sent, add_snapshot(77, sequence_number=1)], now_ms=NOW_MS).default_spec_id == 0
