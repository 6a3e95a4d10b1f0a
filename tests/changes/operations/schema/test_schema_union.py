"""The union of a table's schema with another one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema as PyIcebergSchema

from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.changes.operations.schema.schema_union import union_by_name
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.schema import Schema
from tests.changes.operations.columns import column, list_of, map_of, names, struct, wide_table
from tests.changes.operations.pyiceberg_tables import pyiceberg_table
from tests.changes.operations.random_steps import schemas


def united(*columns: dict[str, Any], version: int = 2, **options: Any) -> Schema:
    draft = SchemaDraft(wide_table(version), **options)
    union_by_name(draft, Schema.parse(struct(*columns)))
    return draft.finish()


def test_a_union_with_itself_changes_nothing() -> None:
    base = wide_table()
    draft = SchemaDraft(base)
    union_by_name(draft, base.schema)
    assert draft.finish().same_as(base.schema)


def test_what_the_table_lacks_is_added_at_every_depth() -> None:
    schema = united(
        column(1, "place", struct(column(2, "alt", "float"))),
        column(3, "points", list_of(4, struct(column(5, "z", "int", doc="third")))),
        column(6, "scores", map_of(7, struct(column(8, "k", "int")), 9, struct(column(10, "w", "int")))),
        column(11, "host", "string", required=True),
    )
    found = names(schema)
    assert {name: found[name] for name in found if found[name] > 19} == {
        "place.alt": 20,
        "points.element.z": 21,
        "scores.value.w": 22,
        "host": 23,
    }
    assert not schema.fields[-1].required
    assert schema.field(21).doc == "third"  # type: ignore[union-attr]


def test_what_it_has_is_widened_made_optional_and_documented() -> None:
    schema = united(
        column(1, "id", "long", doc="key"),
        column(2, "tags", list_of(3, "long")),
        column(4, "place", struct(column(5, "lat", "double"))),
    )
    assert (schema.fields[0].required, schema.fields[0].doc) == (False, "key")
    assert str(schema.find("tags.element").type) == "long"  # type: ignore[union-attr]
    assert str(schema.find("place.lat").type) == "double"  # type: ignore[union-attr]


def test_what_is_narrower_stays() -> None:
    base = wide_table()
    assert united(column(1, "id", "int", required=True), column(2, "price", "decimal(5, 2)")).same_as(base.schema)
    draft = SchemaDraft(wide_table(columns=[column(1, "t", "timestamp")]))
    with pytest.raises(InvalidInput, match="timestamp -> date"):
        union_by_name(draft, Schema.parse(struct(column(1, "t", "date"))))


def test_defaults_come_along_in_version_three() -> None:
    defaults = {"initial-default": 1, "write-default": 2}
    schema = united(column(1, "n", "int", **defaults), column(2, "id", "long", **{"write-default": 7}), version=3)
    assert (schema.fields[-1].initial_default, schema.fields[-1].write_default) == (1, 2)
    assert schema.fields[0].write_default == 7


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (column(1, "id", "string"), "id: long -> string"),
        (column(1, "id", struct(column(2, "x"))), "id: long -> struct"),
        (column(1, "place", "string"), "place: struct<.*> -> string"),
        (column(1, "place", list_of(2, "int")), "place: struct<.*> -> list<int>"),
        (column(1, "tags", list_of(2, struct(column(3, "x")))), "tags.element: int -> struct"),
        (
            column(1, "scores", map_of(2, struct(column(3, "k", "long")), 4, struct(column(5, "v", "int")))),
            "Cannot update map keys: scores.key.k",
        ),
    ],
)
def test_types_that_do_not_go_together_are_refused(new: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        united(new)


def test_lists_of_lists_are_united() -> None:
    deep = wide_table(columns=[column(1, "l", list_of(2, list_of(3, struct(column(4, "x", "int")))))])
    draft = SchemaDraft(deep)
    more = struct(column(1, "l", list_of(2, list_of(3, struct(column(4, "x", "long"), column(5, "y", "int"))))))
    union_by_name(draft, Schema.parse(more))
    schema = draft.finish()
    assert names(schema)["l.element.element.y"] == 5
    assert str(schema.find("l.element.element.x").type) == "long"  # type: ignore[union-attr]


def test_nested_columns_get_their_ids_before_those_of_the_struct_around_them() -> None:
    base = wide_table(columns=[column(1, "b", struct(column(2, "b", "int")))])
    draft = SchemaDraft(base)
    union_by_name(draft, Schema.parse(struct(column(1, "a", "int"), column(2, "b", struct(column(3, "a", "int"))))))
    assert {name: id_ for name, id_ in names(draft.finish()).items() if name.endswith("a")} == {"b.a": 3, "a": 4}


def test_case_is_ignored_on_demand() -> None:
    schema = united(column(1, "ID", "long"), case_sensitive=False)
    assert names(schema).keys() == names(wide_table().schema).keys()
    assert not schema.fields[0].required


@given(st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_unions_are_those_of_pyiceberg(data: st.DataObject) -> None:
    base = wide_table(columns=data.draw(schemas()))
    # PyIceberg refuses new columns that are required; Java makes them optional.
    other = struct(*data.draw(schemas(required=False)))
    draft = SchemaDraft(base)
    try:
        union_by_name(draft, Schema.parse(other))
    except InvalidInput:
        return
    transaction = pyiceberg_table(base).transaction()
    with transaction.update_schema() as update:
        update.union_by_name(PyIcebergSchema.model_validate({**other, "schema-id": 0}))
    theirs = Schema.parse(orjson.loads(transaction.table_metadata.schema().model_dump_json()))
    assert draft.finish().same_as(theirs)
