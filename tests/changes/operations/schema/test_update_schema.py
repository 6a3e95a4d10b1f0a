"""Updates of a schema on a table that moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iceberg_hms.changes.evolution import incompatible_columns
from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.changes.operations.schema.schema_union import union_by_name
from iceberg_hms.changes.operations.schema.update_schema import UpdateSchema
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, name_mapping
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import PrimitiveType, walk_fields
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.columns import column, committed, evolve, names, struct, top, wide_table
from tests.changes.operations.random_steps import schemas, updates
from tests.changes.tables import BY_LEVEL

Step = Callable[[SchemaDraft], None]


def after(base: TableMetadata, *writers: Step, **options: Any) -> TableMetadata:
    """The table after writers who all saw `base`, in their order."""
    current = base
    for step in writers:
        current = committed(current, UpdateSchema(base, [step], **options))
    return current


def test_the_new_schema_is_the_current_one_and_the_old_one_stays() -> None:
    new = evolve(wide_table(), lambda draft: draft.add_column("host", types.STRING))
    assert (new.current_schema_id, len(new.schemas), new.last_column_id) == (1, 2, 20)


def test_steps_that_change_nothing_make_no_update() -> None:
    base = wide_table()
    change = UpdateSchema(base, [lambda draft: draft.update_column("id", types.LONG)])
    assert change.stage(base, MemoryManifestStore().open()).updates == []


def test_a_schema_that_the_table_had_before_is_used_again() -> None:
    base = wide_table()
    there = evolve(base, lambda draft: draft.rename_column("level", "lvl"))
    back = evolve(there, lambda draft: draft.rename_column("lvl", "level"))
    assert (back.current_schema_id, len(back.schemas)) == (0, 2)


def test_writers_who_add_different_columns_both_succeed() -> None:
    new = after(
        wide_table(),
        lambda draft: draft.add_column("a", types.INT),
        lambda draft: draft.add_column("b", types.INT),
        lambda draft: draft.add_column("place.a", types.INT),
        lambda draft: draft.add_column("place.b", types.INT),
    )
    found = names(new.schema)
    assert [found[name] for name in ("a", "b", "place.a", "place.b")] == [20, 21, 22, 23]


def test_the_second_writer_who_adds_a_name_is_refused() -> None:
    def add(draft: SchemaDraft) -> None:
        draft.add_column("host", types.INT)

    with pytest.raises(RequirementFailed, match="Cannot add column, name already exists: host") as refused:
        after(wide_table(), add, add)
    assert refused.value.name == "update-schema"


def test_two_unions_with_one_new_column_both_succeed() -> None:
    other = Schema.parse(struct(column(1, "host", "string"), column(2, "level", "string")))
    new = after(wide_table(), lambda draft: union_by_name(draft, other), lambda draft: union_by_name(draft, other))
    assert top(new.schema)[-1] == "host"
    assert new.last_column_id == 20


def test_a_union_goes_on_with_a_column_that_was_promoted_and_not_with_a_renamed_one() -> None:
    other = Schema.parse(struct(column(1, "tags", "string"), column(2, "host", "string")))
    base = wide_table(columns=[column(1, "tags", "string"), column(2, "n", "int")])
    more = Schema.parse(struct(column(1, "n", "int"), column(2, "host", "string")))
    new = after(base, lambda draft: draft.update_column("n", types.LONG), lambda draft: union_by_name(draft, more))
    assert top(new.schema) == ["tags", "n", "host"]
    with pytest.raises(RequirementFailed, match="column tags was renamed to labels"):
        after(base, lambda draft: draft.rename_column("tags", "labels"), lambda draft: union_by_name(draft, other))


CONFLICTS: list[tuple[Step, Step, str]] = [
    (
        lambda draft: draft.rename_column("level", "lvl"),
        lambda draft: draft.update_column("level", doc="x"),
        "column level was renamed to lvl",
    ),
    (
        lambda draft: draft.delete_column("level"),
        lambda draft: draft.rename_column("level", "lvl"),
        "column level was dropped",
    ),
    (
        lambda draft: draft.update_column("points.x", types.LONG),
        lambda draft: draft.update_column("points.x", doc="x"),
        "column points.x was int and is long now",
    ),
    (
        lambda draft: draft.add_column("place.z", types.INT),
        lambda draft: draft.delete_column("place"),
        r"column place has new fields: place\.z",
    ),
    (
        lambda draft: draft.rename_column("level", "lvl"),
        lambda draft: draft.rename_column("day", "lvl"),
        "multiple fields for name lvl",
    ),
    (
        lambda draft: draft.delete_column("level"),
        lambda draft: draft.move("id", after="level"),
        "column level was dropped",
    ),
    (
        lambda draft: draft.delete_column("place"),
        lambda draft: draft.add_column("place.z", types.INT),
        "column place was dropped",
    ),
    (
        lambda draft: draft.set_identifier_fields(["id"]),
        lambda draft: draft.set_identifier_fields([]),
        "the identifier fields became id",
    ),
    (
        lambda draft: draft.set_identifier_fields(["id"]),
        lambda draft: draft.delete_column("id"),
        "Cannot delete identifier field id",
    ),
]


@pytest.mark.parametrize(("first", "second", "why"), CONFLICTS)
def test_a_writer_whose_column_changed_is_refused(first: Step, second: Step, why: str) -> None:
    base = wide_table()
    UpdateSchema(base, [second]).check(base)
    with pytest.raises(RequirementFailed, match=why):
        after(base, first, second)


def test_bad_input_is_refused_when_the_update_is_made() -> None:
    with pytest.raises(InvalidInput, match="multiple fields for name id"):
        UpdateSchema(wide_table(), [lambda draft: draft.rename_column("level", "id")])


def test_columns_of_the_default_spec_and_order_stay() -> None:
    order = [{"order-id": 1, "fields": [_sort(3)]}]
    base = wide_table(spec=BY_LEVEL, sort_orders=order, default_sort_order_id=1)
    with pytest.raises(InvalidInput, match="Cannot delete column level: partition field level uses it") as refused:
        evolve(base, lambda draft: draft.delete_column("level"))
    assert "remove_field('level')" in refused.value.next_step
    with pytest.raises(InvalidInput, match=r"Cannot delete column day: sort field identity\(3\) asc"):
        evolve(base, lambda draft: draft.delete_column("day"))


def test_a_struct_around_a_partition_column_stays() -> None:
    spec = {"spec-id": 0, "fields": [{"source-id": 6, "field-id": 1000, "transform": "identity", "name": "lat"}]}
    with pytest.raises(InvalidInput, match=r"Cannot delete column place\.lat: partition field lat uses it"):
        evolve(wide_table(spec=spec), lambda draft: draft.delete_column("place"))


def test_columns_of_older_specs_and_void_fields_may_go() -> None:
    older = wide_table(partition_specs=[BY_LEVEL, {"spec-id": 1, "fields": []}], default_spec_id=1)
    assert "level" not in top(evolve(older, lambda draft: draft.delete_column("level")).schema)
    void = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "transform": "void", "name": "level"}]}
    voided = wide_table(1, spec=void)
    assert "level" not in top(evolve(voided, lambda draft: draft.delete_column("level")).schema)


def test_no_column_gets_the_name_of_a_partition_field_of_another_one() -> None:
    spec = {"spec-id": 0, "fields": [{"source-id": 3, "field-id": 1000, "transform": "month", "name": "day_month"}]}
    base = wide_table(partition_specs=[spec, {"spec-id": 1, "fields": []}], default_spec_id=1)
    for step in (
        lambda draft: draft.add_column("day_month", types.INT),
        lambda draft: draft.rename_column("level", "day_month"),
    ):
        with pytest.raises(InvalidInput, match="Cannot name column day_month: partition spec 0 has a field"):
            evolve(base, step)
    assert "day_month" in top(evolve(base, lambda draft: draft.rename_column("day", "day_month")).schema)
    without = evolve(base, lambda draft: draft.delete_column("day"))
    assert "day_month" in top(evolve(without, lambda draft: draft.add_column("day_month", types.INT)).schema)


def test_a_mapped_name_does_not_go_to_another_column() -> None:
    mapping = orjson.dumps(name_mapping(wide_table().schema)).decode()
    base = wide_table(properties={NAME_MAPPING: mapping})

    def replace(draft: SchemaDraft) -> None:
        draft.delete_column("level")
        draft.add_column("level", types.INT)

    def exchange(draft: SchemaDraft) -> None:
        draft.rename_column("place.lat", "long")
        draft.rename_column("place.long", "lat")

    for step, names_ in ((replace, "level"), (exchange, r"place\.lat, place\.long")):
        with pytest.raises(InvalidInput, match=f"Cannot give another column the name {names_}: the table has a name"):
            evolve(base, step)
        assert evolve(base, step, allow_incompatible_changes=True).properties[NAME_MAPPING] != mapping
        with pytest.raises(RequirementFailed, match="Cannot give another column the name"):
            committed(base, UpdateSchema(wide_table(), [step]))
    dropped = evolve(base, lambda draft: draft.delete_column("level"))
    with pytest.raises(InvalidInput, match="Cannot give another column the name level"):
        evolve(dropped, lambda draft: draft.rename_column("day", "level"))


def test_a_step_of_a_transaction_knows_its_own_columns_by_name() -> None:
    start = wide_table()
    added = UpdateSchema(start, [lambda draft: draft.add_column("mine", types.INT)])
    between = committed(start, added)
    documented = UpdateSchema(between, [lambda draft: draft.update_column("mine", doc="d")], start=start)
    moved = evolve(start, lambda draft: draft.add_column("theirs", types.INT))
    new = committed(committed(moved, added), documented)
    assert (new.schema.find("mine").id, new.schema.find("mine").doc) == (21, "d")  # type: ignore[union-attr]


def test_version_one_keeps_its_single_schema_up_to_date() -> None:
    new = evolve(wide_table(1), lambda draft: draft.add_column("host", types.STRING))
    assert new.raw["schema"] == new.schema.raw


def test_ids_go_on_after_those_of_deleted_columns() -> None:
    base = wide_table()
    gone = evolve(base, lambda draft: draft.delete_column("a.b"))
    new = evolve(gone, lambda draft: draft.add_column("c", types.INT))
    assert names(new.schema)["c"] == 20


def _sort(source: int) -> dict[str, Any]:
    return {"transform": "identity", "source-id": source, "direction": "asc", "null-order": "nulls-first"}


def shape(schema: Schema) -> dict[str, str]:
    """Full name -> what the column is, ids and order aside."""
    return {
        str(schema.name_of(field.id)): str(field.type)
        if isinstance(field.type, PrimitiveType)
        else type(field.type).__name__
        for field in walk_fields(schema.as_struct())
    }


def changed(was: Schema, now: Schema) -> dict[int, str | None]:
    """The columns that are gone (None) or are called something else, by id."""
    found = {}
    for field in walk_fields(was.as_struct()):
        new = now.field(field.id)
        if new is None or new.name != field.name:
            found[field.id] = None if new is None else new.name
    return found


def attempt(base: TableMetadata, seen: TableMetadata, taken: list[Step]) -> TableMetadata | None:
    try:
        change = UpdateSchema(seen, taken)
    except InvalidInput:
        return None
    try:
        return committed(base, change)
    except RequirementFailed:
        return None


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_writers_who_do_not_see_each_other_leave_what_one_after_the_other_would(data: st.DataObject) -> None:
    columns = data.draw(schemas())
    base = current = wide_table(columns=columns)
    seen = {"ann": base, "bob": base}
    born: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        writer = data.draw(st.sampled_from(sorted(seen)))
        here = [dict(field) for field in seen[writer].schema.as_struct().to_json()["fields"]]
        taken: list[Step] = list(data.draw(updates(here)))
        new = attempt(current, seen[writer], taken)
        if new is None:
            continue
        # As if the writer had looked at the table as it is.
        fresh = attempt(current, current, taken)
        assert fresh is not None
        assert fresh.schema.same_as(new.schema)
        # The writer changed the columns that it meant.
        meant = attempt(seen[writer], seen[writer], taken)
        assert meant is not None
        changes = changed(seen[writer].schema, meant.schema)
        # But for those that the other has deleted meanwhile.
        there = {id_: name for id_, name in changes.items() if current.schema.field(id_) is not None}
        assert changed(current.schema, new.schema) == there
        assert incompatible_columns(current.schema, new.schema) == []
        for field in walk_fields(new.schema.as_struct()):
            if current.schema.field(field.id) is None:
                assert field.id > current.last_column_id
                assert field.id not in born
                born[field.id] = new.current_schema_id
        assert new.last_column_id >= current.last_column_id
        seen[writer] = current = new


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_if_both_writers_succeed_it_does_not_matter_who_was_first(data: st.DataObject) -> None:
    columns = data.draw(schemas())
    base = wide_table(columns=columns)
    first, second = (list(data.draw(updates(columns))) for _ in range(2))
    after_first, after_second = attempt(base, base, first), attempt(base, base, second)
    if after_first is None or after_second is None:
        return
    one, other = attempt(after_first, base, second), attempt(after_second, base, first)
    if one is not None and other is not None:
        assert shape(one.schema) == shape(other.schema)


METRICS = "write.metadata.metrics.column."
BLOOM = "write.parquet.bloom-filter-enabled.column."


def with_properties(properties: dict[str, str]) -> TableMetadata:
    return wide_table(properties=properties)


def test_properties_follow_renamed_and_deleted_columns() -> None:
    base = with_properties(
        {
            METRICS + "level": "full",
            BLOOM + "place.lat": "true",
            METRICS + "day": "none",
            METRICS + "price": "counts",
            METRICS + "unknown": "none",
            "owner": "me",
        }
    )
    new = evolve(
        base,
        lambda draft: draft.rename_column("level", "lvl"),
        lambda draft: draft.rename_column("place", "spot"),
        lambda draft: draft.delete_column("day"),
    )
    assert new.properties == {
        METRICS + "lvl": "full",
        BLOOM + "spot.lat": "true",
        METRICS + "price": "counts",
        METRICS + "unknown": "none",
        "owner": "me",
    }


def test_properties_of_columns_that_exchange_names_are_exchanged() -> None:
    base = with_properties({METRICS + "level": "full", METRICS + "day": "none"})

    def swap(draft: SchemaDraft) -> None:
        draft.rename_column("level", "day")
        draft.rename_column("day", "level")

    assert evolve(base, swap).properties == {METRICS + "level": "none", METRICS + "day": "full"}


def test_the_name_mapping_follows() -> None:
    base = with_properties({NAME_MAPPING: orjson.dumps(name_mapping(wide_table().schema)).decode()})
    new = evolve(
        base,
        lambda draft: draft.rename_column("level", "lvl"),
        lambda draft: draft.add_column("points.z", types.INT),
        lambda draft: draft.delete_column("day"),
        lambda draft: draft.add_column("day", types.INT),
        allow_incompatible_changes=True,
    )
    mapping = {entry["field-id"]: entry for entry in orjson.loads(new.properties[NAME_MAPPING])}
    assert mapping[2]["names"] == ["level", "lvl"]
    assert mapping[3]["names"] == []
    assert mapping[21] == {"field-id": 21, "names": ["day"]}
    assert mapping[8]["fields"][0]["fields"][-1] == {"field-id": 20, "names": ["z"]}


def test_a_name_mapping_that_cannot_be_read_stays() -> None:
    for text in ("{", "{}", "[1]", '[{"field-id": 1}]', "null", '[{"field-id": [], "names": []}]'):
        new = evolve(with_properties({NAME_MAPPING: text}), lambda draft: draft.rename_column("id", "key"))
        assert new.properties == {NAME_MAPPING: text}
