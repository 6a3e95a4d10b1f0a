"""The steps of an update of a schema, one by one and against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IcebergType

from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField, StructType, parse_type
from tests.changes.operations.columns import column, list_of, names, struct, top, wide_table
from tests.changes.operations.pyiceberg_tables import pyiceberg_table
from tests.changes.operations.random_steps import Step, schemas, steps

Steps = Callable[[SchemaDraft], Any]


def draft(version: int = 2, **options: Any) -> SchemaDraft:
    return SchemaDraft(wide_table(version), **options)


def test_a_new_column_comes_last_with_the_next_id() -> None:
    made = draft()
    made.add_column("host", types.STRING, doc="who sent it")
    new = made.finish().fields[-1]
    assert new == NestedField(20, "host", types.STRING, doc="who sent it")


def test_a_new_nested_column_gets_ids_in_the_order_of_java() -> None:
    made = draft()
    inner = struct(column(1, "p", struct(column(3, "q"))), column(2, "r"))
    made.add_column("deep", parse_type(list_of(7, inner)))
    made.add_column("after", types.INT)
    found = names(made.finish())
    assert {name: found[name] for name in found if found[name] > 19} == {
        "deep": 20,
        "deep.element": 21,
        "deep.element.p": 22,
        "deep.element.r": 23,
        "deep.element.p.q": 24,
        "after": 25,
    }


@pytest.mark.parametrize(
    ("path", "full"),
    [
        ("place.alt", "place.alt"),
        (("place", "alt"), "place.alt"),
        ("points.z", "points.element.z"),
        ("points.element.z", "points.element.z"),
        (("points", "z"), "points.element.z"),
        (("points", "element", "z"), "points.element.z"),
        ("scores.w", "scores.value.w"),
        (("scores", "value", "w"), "scores.value.w"),
        (("c.d",), "c.d"),
    ],
)
def test_columns_are_added_in_structs_elements_and_values(path: Any, full: str) -> None:
    made = draft()
    made.add_column(path, types.INT)
    made.update_column(path, types.LONG, doc="found again")
    schema = made.finish()
    field = schema.find(full)
    assert field is not None
    assert (field.id, field.type, field.doc) == (20, types.LONG, "found again")


def test_a_deleted_column_gives_its_name_to_a_new_one_with_another_id() -> None:
    made = draft()
    made.delete_column("level")
    made.add_column("level", types.INT)
    made.update_column("level", doc="the new one")
    schema = made.finish()
    assert names(schema)["level"] == 20
    assert schema.fields[-1].doc == "the new one"
    assert schema.field(2) is None


def test_an_error_says_the_old_name_to_a_step_that_uses_the_new_one() -> None:
    made = draft()
    made.rename_column("place.lat", "latitude")
    for step in (lambda: made.update_column("place.latitude", doc="d"), lambda: made.move(("place", "latitude"))):
        with pytest.raises(InvalidInput, match=r"missing column: place\.latitude") as refused:
            step()
        assert refused.value.next_step == "name it as before the first step: place.lat"


def test_two_columns_exchange_their_names() -> None:
    made = draft()
    made.rename_column("level", "day")
    made.rename_column("day", "level")
    assert top(made.finish())[:3] == ["id", "day", "level"]


def test_a_rename_and_other_updates_of_a_column_merge() -> None:
    made = draft()
    made.rename_column(("place", "lat"), "latitude")
    made.update_column("place.lat", types.DOUBLE, doc="degrees")
    made.update_column("id", required=False)
    schema = made.finish()
    assert schema.field(6) == NestedField(6, "latitude", types.DOUBLE, doc="degrees")
    assert not schema.fields[0].required


def test_a_doc_is_kept_unless_it_is_named_and_none_removes_it() -> None:
    made = SchemaDraft(wide_table(columns=[column(1, "id", doc="old"), column(2, "n", "int", doc="old")]))
    made.update_column("id", doc=None)
    made.update_column("n", types.LONG)
    assert [field.doc for field in made.finish().fields] == [None, "old"]


def test_elements_and_values_are_promoted_and_made_optional() -> None:
    made = draft(allow_incompatible_changes=True)
    made.update_column("tags.element", types.LONG, required=True)
    made.update_column("scores.value", required=True)
    schema = made.finish()
    tags, scores = schema.find("tags"), schema.find("scores")
    assert tags is not None
    assert scores is not None
    assert str(tags.type) == "list<long>"
    assert tags.type.element_required  # type: ignore[union-attr]
    assert scores.type.value_required  # type: ignore[union-attr]


def test_moves_apply_in_their_order_after_additions() -> None:
    made = draft()
    made.move("price")
    made.move("id", after="level")
    made.add_column("host", types.STRING)
    made.move("host", before="price")
    assert top(made.finish()) == ["host", "price", "level", "id", "day", "place", "points", "scores", "tags", "a.b"]


def test_fields_move_within_structs_elements_and_values() -> None:
    made = draft()
    made.add_column("place.alt", types.FLOAT)
    made.move("place.alt", before="place.lat")
    made.move("points.y")
    assert list(names(made.finish()))[4:11] == [
        "place",
        "place.alt",
        "place.lat",
        "place.long",
        "points",
        "points.element",
        "points.element.y",
    ]


def test_a_column_with_a_dot_in_its_name_is_found_by_text_and_by_tuple() -> None:
    made = draft()
    made.rename_column(("a.b",), "c")
    assert top(made.finish())[-1] == "c"
    made = draft()
    made.delete_column("a.b")
    assert "a.b" not in top(made.finish())


def test_case_is_ignored_on_demand() -> None:
    made = draft(case_sensitive=False)
    made.rename_column("LEVEL", "lvl")
    made.update_column(("Place", "LAT"), types.DOUBLE)
    made.delete_column("Tags")
    schema = made.finish()
    assert (schema.field(2).name, str(schema.field(6).type)) == ("lvl", "double")  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="name already exists: ID"):
        made.add_column("ID", types.INT)
    sensitive = draft()
    with pytest.raises(InvalidInput, match="missing column: LEVEL"):
        sensitive.rename_column("LEVEL", "lvl")
    sensitive.add_column("ID", types.INT)
    with pytest.raises(InvalidInput, match="alike but for the case: id and ID: Spark"):
        sensitive.finish()
    as_java = draft(allow_incompatible_changes=True)
    as_java.add_column("ID", types.INT)
    assert top(as_java.finish())[-1] == "ID"


def test_names_that_are_alike_already_stay() -> None:
    made = SchemaDraft(wide_table(columns=[column(1, "ab"), column(2, "aB"), column(3, "s", struct(column(4, "x")))]))
    made.update_column("ab", doc="old")
    assert top(made.finish()) == ["ab", "aB", "s"]
    made.add_column("s.X", types.INT)
    with pytest.raises(InvalidInput, match=r"alike but for the case: s\.x and s\.X"):
        made.finish()


def test_a_name_of_two_columns_but_for_the_case_is_refused() -> None:
    made = SchemaDraft(wide_table(columns=[column(1, "ab"), column(2, "aB")]), case_sensitive=False)
    made.update_column("aB", doc="exact")
    for path in ("AB", ("AB",)):
        with pytest.raises(InvalidInput, match=r"AB is ambiguous: .*ab"):
            made.update_column(path, doc="which?")


def test_identifier_fields_follow_renames_and_may_be_new_columns() -> None:
    made = SchemaDraft(wide_table(identifiers=(1,)), allow_incompatible_changes=True)
    made.rename_column("id", "key")
    assert made.finish().identifier_field_ids == {1}
    made.add_column("host", types.STRING, required=True)
    made.set_identifier_fields(["key", "host"])
    made.rename_column("level", "lvl")
    assert made.finish().identifier_field_ids == {1, 20}
    made.set_identifier_fields([])
    assert made.finish().identifier_field_ids == frozenset()


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (["none"], "Cannot add field none as an identifier field: not found"),
        (["level"], "level as an identifier field: it must be a required field"),
        (["place"], "it must be a required field of a primitive type"),
        (["place.lat"], "it must be a required field"),
    ],
)
def test_identifier_fields_that_the_spec_forbids_are_refused(paths: list[str], why: str) -> None:
    made = draft()

    def set_them() -> None:
        made.set_identifier_fields(paths)
        made.finish()

    with pytest.raises(InvalidInput, match=why):
        set_them()


def test_an_identifier_field_stays_required_and_is_not_deleted() -> None:
    optional = SchemaDraft(wide_table(identifiers=(1,)))
    optional.update_column("id", required=False)
    with pytest.raises(InvalidInput, match="id as an identifier field: it must be a required field"):
        optional.finish()
    deleted = SchemaDraft(wide_table(identifiers=(1,)))
    deleted.delete_column("id")
    with pytest.raises(InvalidInput, match="Cannot delete identifier field id"):
        deleted.finish()
    deleted.set_identifier_fields([])
    assert deleted.finish().field(1) is None


REFUSED: list[tuple[str, Steps, str]] = [
    ("taken", lambda d: d.add_column("level", types.INT), "name already exists: level"),
    ("taken inside", lambda d: d.add_column("points.x", types.INT), "name already exists: points.element.x"),
    *(
        (f"taken by a part, {path}", lambda d, path=path: d.add_column(path, types.INT), "name already exists")
        for path in ("points.element", ("points", "element"), "scores.value", "scores.key", ("scores", "key"))
    ),
    (
        "added twice",
        lambda d: (d.add_column("n", types.INT), d.add_column(("n",), types.INT)),
        "name already exists: n",
    ),
    ("ambiguous", lambda d: d.add_column("c.d", types.INT), "ambiguous name: c.d"),
    ("no name", lambda d: d.add_column("", types.INT), "without a name"),
    ("no path", lambda d: d.add_column((), types.INT), "without a name"),
    ("no text", lambda d: d.delete_column((1,)), "named by text"),
    ("no parent", lambda d: d.add_column(("none", "x"), types.INT), "Cannot find parent struct: none"),
    ("in a primitive", lambda d: d.add_column("level.x", types.INT), "non-struct column: level: string"),
    ("in a primitive element", lambda d: d.add_column("tags.x", types.INT), "non-struct column: tags: int"),
    ("in a map's key", lambda d: d.add_column("scores.key.x", types.INT), "Cannot add to map keys"),
    ("required", lambda d: d.add_column("n", types.INT, required=True), "required column without a default value: n"),
    ("default in v2", lambda d: d.add_column("n", types.INT, default=1), "column n: defaults are not supported until"),
    ("default changed in v2", lambda d: d.update_column("id", default=1), "defaults are not supported until v3"),
    ("delete missing", lambda d: d.delete_column("none"), "Cannot delete missing column: none"),
    ("delete an element", lambda d: d.delete_column("tags.element"), "Cannot delete tags.element"),
    ("delete a value", lambda d: d.delete_column("scores.value"), "Cannot delete scores.value"),
    ("delete a key", lambda d: d.delete_column("scores.key"), "Cannot delete map keys"),
    ("delete in a key", lambda d: d.delete_column("scores.key.k"), "Cannot delete map keys"),
    ("update in a key", lambda d: d.update_column("scores.key.k", types.LONG), "Cannot update map keys"),
    ("rename missing", lambda d: d.rename_column("none", "x"), "Cannot rename missing column: none"),
    ("rename to nothing", lambda d: d.rename_column("id", ""), "Cannot rename column id to ''"),
    ("rename an element", lambda d: d.rename_column("points.element", "p"), "Cannot rename points.element"),
    ("document a value", lambda d: d.update_column("scores.value", doc="d"), "Cannot document scores.value"),
    ("update missing", lambda d: d.update_column("none", doc="x"), "Cannot update missing column: none"),
    ("narrow", lambda d: d.update_column("id", types.INT), "Cannot change column type: id: long -> int"),
    ("scale", lambda d: d.update_column("price", types.decimal_type(12, 3)), "price: decimal"),
    ("nested type", lambda d: d.update_column("place", StructType(())), "Cannot change column type: place"),
    ("to nested", lambda d: d.update_column("id", StructType(())), "Cannot change column type: id"),
    ("to required", lambda d: d.update_column("level", required=True), "level: optional -> required"),
    ("move missing", lambda d: d.move("none"), "Cannot move missing column: none"),
    ("before missing", lambda d: d.move("id", before="none"), "Cannot move id before missing column: none"),
    ("after itself", lambda d: d.move("id", after="id"), "Cannot move id after itself"),
    ("to another struct", lambda d: d.move("id", after="place.lat"), "Cannot move field id to a different struct"),
    ("out of a struct", lambda d: d.move("place.lat", before="id"), "place.lat to a different struct"),
    ("move an element", lambda d: d.move("tags.element"), "Cannot move fields in non-struct type: list"),
    (
        "delete what was changed",
        lambda d: (d.rename_column("level", "l"), d.delete_column("level")),
        "a column that has updates: level",
    ),
    (
        "delete what holds changes",
        lambda d: (d.rename_column("place.lat", "l"), d.delete_column("place")),
        "a column that has updates: place",
    ),
    (
        "delete what has additions",
        lambda d: (d.add_column("place.z", types.INT), d.delete_column("place")),
        "a column that has additions: place",
    ),
    (
        "delete what was moved",
        lambda d: (d.move("id", after="level"), d.delete_column("level")),
        "a column that a move names: level",
    ),
    (
        "add to the deleted",
        lambda d: (d.delete_column("place"), d.add_column("place.z", types.INT)),
        "a column that will be deleted: place",
    ),
    (
        "add deep in the deleted",
        lambda d: (d.delete_column("points"), d.add_column("points.element.z", types.INT)),
        "a column that will be deleted: points.element",
    ),
    (
        "rename the deleted",
        lambda d: (d.delete_column("level"), d.rename_column("level", "l")),
        "Cannot rename a column that will be deleted: level",
    ),
    (
        "update in the deleted",
        lambda d: (d.delete_column("place"), d.update_column("place.lat", types.DOUBLE)),
        "Cannot update a column that will be deleted: place.lat",
    ),
    (
        "move the deleted",
        lambda d: (d.delete_column("level"), d.move("level")),
        "Cannot move a column that will be deleted: level",
    ),
    (
        "delete the last field",
        lambda d: (d.delete_column("place.lat"), d.delete_column("place.long"), d.finish()),
        "Cannot delete all fields of a struct: place",
    ),
    (
        "two of one name",
        lambda d: (d.rename_column("level", "id"), d.finish()),
        "multiple fields for name id",
    ),
    (
        "a name like a path",
        lambda d: (d.rename_column("level", "place.lat"), d.finish()),
        "multiple fields for name place.lat",
    ),
    ("a v3 type in v2", lambda d: (d.add_column("v", types.VARIANT), d.finish()), "variant is not supported until v3"),
]


@pytest.mark.parametrize(("steps", "why"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_refused_names_the_column(steps: Steps, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        steps(draft())


def test_a_table_keeps_a_column() -> None:
    made = SchemaDraft(wide_table(columns=[column(1, "only")]))
    made.delete_column("only")
    with pytest.raises(InvalidInput, match="Cannot delete all columns"):
        made.finish()
    made.add_column("other", types.INT)
    assert top(made.finish()) == ["other"]


def test_columns_become_required_only_at_the_callers_risk() -> None:
    made = draft(allow_incompatible_changes=True)
    made.update_column("level", required=True)
    made.add_column("n", types.INT, required=True)
    schema = made.finish()
    assert (schema.fields[1].required, schema.fields[-1].required) == (True, True)


def test_version_three_has_defaults() -> None:
    made = draft(3)
    made.add_column("n", types.decimal_type(9, 2), required=True, default="1.5")
    made.add_column("m", types.INT, default=3)
    made.update_column("m", default=4, required=True)
    made.update_column("level", default="INFO")
    schema = made.finish()
    assert (schema.fields[-2].initial_default, schema.fields[-2].write_default) == ("1.50", "1.50")
    assert (schema.fields[-1].initial_default, schema.fields[-1].write_default) == (3, 4)
    assert (schema.fields[1].initial_default, schema.fields[1].write_default) == (None, "INFO")
    for type_, value in ((types.INT, "x"), (types.VARIANT, 1), (StructType(()), {})):
        with pytest.raises(InvalidInput, match="Cannot set a default of column z: "):
            made.add_column("z", type_, default=value)


def test_a_default_is_promoted_with_its_column() -> None:
    made = SchemaDraft(wide_table(3, columns=[column(1, "d", "date", **{"initial-default": "2021-04-01"})]))
    made.update_column("d", types.TIMESTAMP)
    assert made.finish().fields[0].initial_default == "2021-04-01T00:00:00"


def test_unknown_becomes_any_type_also_a_nested_one() -> None:
    made = SchemaDraft(wide_table(3, columns=[column(1, "u", "unknown"), column(2, "id")]))
    made.update_column("u", parse_type(list_of(1, "int")))
    made.add_column("after", types.INT)
    assert names(made.finish()) == {"u": 1, "u.element": 3, "id": 2, "after": 4}


def pyiceberg_step(update: UpdateSchema, step: Step) -> None:
    beside = (*step.path[:-1], step.more) if step.kind in ("before", "after") else ()
    type_ = IcebergType.model_validate(parse_type(step.more).to_json()) if step.kind in ("add", "type") else None
    match step.kind:
        case "add":
            update.add_column(step.path, type_)
        case "delete":
            update.delete_column(step.path)
        case "rename":
            update.rename_column(step.path, step.more)
        case "type":
            update.update_column(step.path, type_)
        case "doc":
            update.update_column(step.path, doc=step.more)
        case "optional":
            update.make_column_optional(step.path)
        case "first":
            update.move_first(step.path)
        case "before":
            update.move_before(step.path, beside)
        case "after":
            update.move_after(step.path, beside)


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_schemas_are_those_of_pyiceberg(data: st.DataObject) -> None:
    columns = data.draw(schemas())
    base = wide_table(columns=columns)
    ours = SchemaDraft(base)
    taken = []
    for step in data.draw(st.lists(steps(columns), max_size=6)):
        try:
            step(ours)
        except InvalidInput:
            continue
        field = base.schema.find(".".join(step.path))
        # To PyIceberg a column is changed, and cannot be deleted, that is given the type that it has.
        if step.kind != "type" or field is None or field.type != parse_type(step.more):
            taken.append(step)
    try:
        schema = ours.finish()
    except InvalidInput:
        return
    transaction = pyiceberg_table(base).transaction()
    with transaction.update_schema() as update:
        for step in taken:
            pyiceberg_step(update, step)
    theirs = Schema.parse(orjson.loads(transaction.table_metadata.schema().model_dump_json()))
    assert schema.same_as(theirs), f"{taken}\n{schema}\n{theirs}"
