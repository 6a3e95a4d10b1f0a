"""The door of schemas that callers send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.new_schemas import MAX_FIELD_ID, new_table_schema, new_view_schema
from iceberg_hms.format.schema.schema import Schema
from tests.format import documents
from tests.format.schema.defaults import REFUSED, SENT, Sent

KEYS = ("initial-default", "write-default")


def column(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def struct(*columns: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, **more, "fields": list(columns)}


def text(raw: Mapping[str, Any]) -> bytes:
    return orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)


def in_struct(found: dict[str, Any]) -> dict[str, Any]:
    return column(90, "s", {"type": "struct", "fields": [found]})


def in_list(found: dict[str, Any]) -> dict[str, Any]:
    element = {"type": "struct", "fields": [found]}
    return column(90, "s", {"type": "list", "element-id": 91, "element": element, "element-required": False})


def in_map(found: dict[str, Any]) -> dict[str, Any]:
    value = {"type": "struct", "fields": [found]}
    ids = {"key-id": 91, "key": "string", "value-id": 92, "value-required": False}
    return column(90, "s", {"type": "map", **ids, "value": value})


PLACES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "top": lambda found: found,
    "struct": in_struct,
    "list": in_list,
    "map": in_map,
}


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: f"{str(sent.kind)[:16]} {sent.value!r:.40}")
@pytest.mark.parametrize("key", KEYS)
def test_a_default_is_stored_as_every_reader_takes_it_or_refused(sent: Sent, key: str) -> None:
    for place in PLACES.values():
        raw = struct(column(1, "k", "long"), place(column(99, "c", sent.kind, **{key: sent.value})))
        for door in (lambda raw: new_table_schema(raw, 3), new_view_schema):
            if sent.stored is REFUSED:
                with pytest.raises(InvalidInput, match=f"Invalid {key} of column ([a-z.]*[.])?c: "):
                    door(raw)
                continue
            found = door(raw)
            stored = struct(column(1, "k", "long"), place(column(99, "c", sent.kind, **{key: sent.stored})))
            # As text, in which 1 is not 1.0.
            assert text(found.raw) == text(stored)
            assert found.same_as(Schema.parse(found.raw))


def test_a_required_column_may_have_a_default_of_its_type() -> None:
    sent = struct({**column(1, "c", "int", **dict.fromkeys(KEYS, 7)), "required": True})
    assert new_table_schema(sent, 3).raw == sent
    for key in KEYS:
        with pytest.raises(InvalidInput, match=f"Invalid {key} of column c"):
            new_table_schema(struct({**column(1, "c", "int", **{key: "7"}), "required": True}), 3)


@pytest.mark.parametrize("kind", sorted({str(sent.kind) for sent in SENT if isinstance(sent.kind, str)}))
def test_a_default_that_is_null_is_none(kind: str) -> None:
    sent = struct(column(1, "c", kind, doc=None, **dict.fromkeys(KEYS)), **{"identifier-field-ids": None})
    assert new_table_schema(sent, 3).raw == struct(column(1, "c", kind))


@pytest.mark.parametrize("version", [1, 2])
def test_older_formats_have_no_initial_default_as_in_java(version: int) -> None:
    with pytest.raises(InvalidInput, match="Invalid initial default for c: defaults are not supported until v3"):
        new_table_schema(struct(column(1, "c", "int", **{"initial-default": 1})), version)
    sent = struct(column(1, "c", "int", **{"write-default": 1}))
    assert new_table_schema(sent, version).raw == sent


@pytest.mark.parametrize("kind", ["x", "", "list", "STRUCT", 1, True, {}, []])
def test_only_a_struct_is_a_schema(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="schema: type must be struct"):
        new_table_schema(struct(column(1, "c", "int")) | {"type": kind}, 3)


def test_a_schema_is_written_as_java_writes_it_and_unknown_fields_stay() -> None:
    more = {"more": {"a": None}}
    fields = [{**column(1, "c", "LONG"), **more}, PLACES["list"](column(2, "d", "decimal(9,2)", more=1, less=None))]
    sent = {"type": None, "fields": fields, **more, "less": None}
    written = [{**column(1, "c", "long"), **more}, PLACES["list"](column(2, "d", "decimal(9, 2)", more=1))]
    assert new_table_schema(sent, 3).raw == {"type": "struct", "fields": written, **more}


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("DECIMAL(09,2)", "decimal(9, 2)"),
        ("fixed[ 16 ]", "fixed[16]"),
        ("Timestamptz_NS", "timestamptz_ns"),
        ("geometry(srid:3857)", "geometry(srid:3857)"),
        ("geography", "geography"),
        ("geography(OGC:CRS84)", "geography(OGC:CRS84)"),
        ("geography(OGC:CRS84,KARNEY)", "geography(OGC:CRS84, karney)"),
    ],
)
def test_a_type_is_stored_as_java_writes_it(sent: str, stored: str) -> None:
    assert new_table_schema(struct(in_list(column(1, "c", sent))), 3).raw == struct(in_list(column(1, "c", stored)))


@pytest.mark.parametrize(
    "sent",
    [
        *("geography(a, foo)", "geography(,karney)", "geography( , karney)", "decimal (9,2)", "decimal(39,1)"),
        *("fixed[-1]", "integer", "bigint", "tinyint", "string(3)", "timestamptz(6)", ""),
    ],
)
def test_a_type_that_java_does_not_read_is_refused(sent: str) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot parse type string|the precision must be"):
        new_table_schema(struct(in_list(column(1, "c", sent))), 3)


RESERVED = [
    *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"),
    *("_change_type", "_change_ordinal", "_commit_snapshot_id", "_FILE", "_Row_Id", "_CHANGE_TYPE"),
]


@pytest.mark.parametrize("name", RESERVED)
def test_a_new_column_has_no_name_of_a_metadata_column(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Cannot call a column {name}: .*give the column another name"):
        new_table_schema(struct(column(1, "id", "long"), column(2, name, "string")), 3)
    for place in ("struct", "list", "map"):
        nested = struct(PLACES[place](column(10, name, "int")))
        assert new_table_schema(nested, 3).raw == nested
    assert new_view_schema(struct(column(2, name, "string"))).find(name) is not None


@pytest.mark.parametrize("name", ["file_path", "pos", "row", "_other", "file", "_", "$path"])
def test_other_names_are_free(name: str) -> None:
    assert new_table_schema(struct(column(1, name, "long")), 3).find(name) is not None


@pytest.mark.parametrize("name", RESERVED)
def test_a_column_that_the_table_has_keeps_its_name(name: str) -> None:
    known = [Schema.parse(struct(column(1, "id", "long"), column(2, name, "string")))]
    wider = struct(column(1, "id", "long"), column(2, name, "string"), column(3, "more", "int"))
    assert new_table_schema(wider, 3, known).raw == wider
    for other in (column(3, name, "string"), column(1, name, "long")):
        with pytest.raises(InvalidInput, match="Cannot call a column"):
            new_table_schema(struct(other), 3, known)


@pytest.mark.parametrize("place", PLACES)
def test_ids_of_metadata_columns_are_reserved(place: str) -> None:
    highest: dict[str, Any] = struct(PLACES[place](column(MAX_FIELD_ID, "c", "int")))
    assert new_table_schema(highest, 3).raw == highest
    sent = struct(PLACES[place](column(MAX_FIELD_ID + 1, "c", "int")))
    with pytest.raises(InvalidInput, match="Cannot give column c the id 2147483448"):
        new_table_schema(sent, 3)
    assert new_table_schema(sent, 3, [Schema.parse(sent)]).raw == sent


def test_the_example_of_the_specification_stays_as_it_is() -> None:
    for raw in documents.metadata(3).raw["schemas"]:
        assert new_table_schema(raw, 3).raw == raw
