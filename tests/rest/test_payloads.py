from __future__ import annotations

import contextlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from iceberg_hms.rest.payloads import (
    CommitTable,
    Fields,
    Page,
    boolean,
    decode_segment,
    idempotency_key,
    new_namespace,
    parse_object,
    renamed,
    single_level,
    single_namespace,
)


def body(value: Any) -> bytes:
    return orjson.dumps(value)


@pytest.mark.parametrize(
    ("segment", "name"),
    [("a%1Fb", "a\x1fb"), ("a+b", "a b"), ("a%20b", "a b"), ("a%2Bb", "a+b"), ("a%2Fb", "a/b"), ("%C3%BC", "ü")],
)
def test_a_segment_is_decoded_as_java_and_python_clients_encode_it(segment: str, name: str) -> None:
    assert decode_segment(segment) == name


def test_a_segment_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="UTF-8"):
        decode_segment("%FF")


def test_a_namespace_of_several_parts_does_not_exist() -> None:
    assert single_namespace("db") == "db"
    with pytest.raises(NoSuchNamespace, match=r"Namespace does not exist: a\.b"):
        single_namespace("a\x1fb")


def test_a_table_in_a_namespace_of_several_parts_is_a_missing_table() -> None:
    assert single_level("db", "t", NoSuchTable) == ("db", "t")
    with pytest.raises(NoSuchTable, match=r"Table does not exist: db\.tbl\.files"):
        single_level("db\x1ftbl", "files", NoSuchTable)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'"x"', b"null", b'{"a": 1} x', b"\xff", b'{"a": NaN}', b"[" * 2000]
)
def test_a_body_that_is_not_a_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_object(data)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(parse_object(data), dict)


FIELD = st.sampled_from(
    [
        *("name", "schema", "properties", "namespace", "updates", "requirements", "source", "destination", "removals"),
        *("identifier", "location", "stage-create", "partition-spec", "metadata-location", "overwrite", "write-order"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(FIELD, children, max_size=4),
    max_leaves=8,
)
READERS = ("text", "optional_text", "flag", "object", "optional_object", "objects", "strings", "string_map")


@given(st.dictionaries(FIELD, JSON, max_size=8))
def test_any_json_is_parsed_or_refused(value: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(CommitTable.parse(body(value)), CommitTable)
    with contextlib.suppress(InvalidInput, NoSuchTable, NoSuchNamespace):
        assert len(renamed(body(value), NoSuchTable)) == 2
    fields = Fields.parse(body(value))
    for name in value:
        for reader in READERS:
            with contextlib.suppress(InvalidInput):
                getattr(fields, reader)(name)


def test_fields_are_read_as_what_they_are_and_null_counts_as_absent() -> None:
    fields = Fields.parse(body({"a": "t", "b": {"c": "d"}, "e": None, "f": True, "g": ["h"], "i": [{}]}))
    assert (fields.text("a"), fields.optional_text("a"), fields.optional_text("e")) == ("t", "t", None)
    assert fields.object("b") == fields.optional_object("b") == fields.string_map("b") == {"c": "d"}
    assert (fields.optional_object("e"), fields.optional_object("x"), fields.string_map("x")) == (None, None, {})
    assert (fields.flag("f"), fields.flag("e"), fields.flag("x")) == (True, False, False)
    assert (fields.strings("g"), fields.strings("e"), fields.objects("i"), fields.objects("x")) == (["h"], [], [{}], [])


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        ("text", None),
        ("text", ""),
        ("text", 5),
        ("object", None),
        ("object", "struct"),
        ("optional_object", []),
        ("optional_text", 1),
        ("string_map", {"a": 1}),
        ("string_map", {"a": None}),
        ("flag", "yes"),
        ("strings", [1]),
        ("objects", [[]]),
    ],
)
def test_a_wrong_field_is_named(reader: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="Field some-name "):
        getattr(Fields.parse(body({"some-name": value})), reader)("some-name")


def test_a_commit() -> None:
    parsed = CommitTable.parse(body({"requirements": [{"type": "x"}], "updates": [{"action": "y"}]}))
    assert parsed == CommitTable(None, [{"type": "x"}], [{"action": "y"}])
    odd = {
        "requirements": [{"type": "Assert-UUID"}, {"type": 1}, {}],
        "updates": [{"action": "SET-PROPERTIES", "a": 1}],
    }
    folded = CommitTable(None, [{"type": "assert-uuid"}, {"type": 1}, {}], [{"action": "set-properties", "a": 1}])
    assert CommitTable.parse(body(odd)) == folded
    named = CommitTable.parse(body({"identifier": {"namespace": ["a", "b"], "name": "t"}, "updates": None}))
    assert named == CommitTable((["a", "b"], "t"), [], [])


@pytest.mark.parametrize(
    "value",
    [
        {"requirements": ["x"], "updates": []},
        {"updates": {}},
        {"identifier": {"namespace": [], "name": "t"}, "updates": []},
        {"requirements": []},
    ],
)
def test_a_commit_of_another_shape_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        CommitTable.parse(body(value))


def rename(source: list[str], destination: list[str]) -> bytes:
    return body({"source": {"namespace": source, "name": "s"}, "destination": {"namespace": destination, "name": "d"}})


def test_a_rename() -> None:
    assert renamed(rename(["a"], ["b"]), NoSuchTable) == (("a", "s"), ("b", "d"))
    for missing in (NoSuchTable, NoSuchView):
        with pytest.raises(missing):
            renamed(rename(["a", "b"], ["b"]), missing)
    with pytest.raises(NoSuchNamespace):
        renamed(rename(["a"], ["b", "c"]), NoSuchTable)


@pytest.mark.parametrize("catalog", ["spark_catalog", "Spark_Catalog"])
def test_a_new_name_may_begin_with_sparks_session_catalog(catalog: str) -> None:
    assert renamed(rename(["a"], [catalog, "b"]), NoSuchView)[1] == ("b", "d")
    assert renamed(rename(["a"], [catalog]), NoSuchView)[1] == (catalog, "d")
    with pytest.raises(NoSuchNamespace):
        renamed(rename(["a"], [catalog, "b", "c"]), NoSuchView)


@pytest.mark.parametrize("parts", [[], ["a", "b"], [""], ["a\x1fb"]])
def test_a_namespace_to_create_has_one_level(parts: list[str]) -> None:
    with pytest.raises(InvalidInput):
        new_namespace(parts)
    assert new_namespace(["a"]) == "a"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("false", False)])
def test_a_boolean_parameter(text: str, value: bool) -> None:
    assert boolean({"p": text}, "p") is value
    assert boolean({}, "p") is False


@pytest.mark.parametrize("text", ["", "1", "yes"])
def test_a_malformed_boolean_parameter_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="p must be"):
        boolean({"p": text}, "p")


def test_an_idempotency_key_is_a_uuid() -> None:
    key = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"
    assert idempotency_key({"idempotency-key": key}) == key
    assert idempotency_key({}) is None
    for wrong in ("", "x", key + "0", key[:-1]):
        with pytest.raises(InvalidInput, match="UUID"):
            idempotency_key({"idempotency-key": wrong})


def test_without_a_page_token_the_response_is_complete() -> None:
    names = [f"t{i:02}" for i in range(30)]
    assert Page.parse({"pageSize": "3"}).cut(names) == (names, None)
    assert Page.parse({}).cut(names) == (names, None)
    assert Page.parse({"pageToken": ""}).cut(names) == (names, None)


@given(st.sets(st.text(min_size=1, max_size=5).filter(lambda s: s.isprintable()), max_size=20), st.integers(1, 7))
def test_pages_together_are_the_whole_list(names: set[str], size: int) -> None:
    token: str | None = ""
    seen: list[str] = []
    for _ in range(len(names) + 1):
        page, token = Page.parse({"pageToken": token or "", "pageSize": str(size)}).cut(list(names))
        assert len(page) <= size
        seen += page
        if token is None:
            break
    assert seen == sorted(names)


def test_names_added_or_dropped_between_pages_do_not_shift_others() -> None:
    first, token = Page.parse({"pageToken": "", "pageSize": "2"}).cut(["b", "d", "f", "h"])
    assert first == ["b", "d"]
    rest, _ = Page.parse({"pageToken": token or ""}).cut(["a", "c", "e", "f", "h"])
    assert rest == ["e", "f", "h"]


@pytest.mark.parametrize("query", [{"pageSize": "0"}, {"pageSize": "-1"}, {"pageSize": "x"}, {"pageSize": "1" * 20}])
def test_a_malformed_page_size_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="pageSize"):
        Page.parse(query)


@pytest.mark.parametrize("token", ["x", "a.b", "===", "ü", "_w==", "ZXZlbnRz", "AAAAAAAAZXZlbnRz"])
def test_a_foreign_page_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="pageToken"):
        Page.parse({"pageToken": token})


@given(st.text(max_size=20))
def test_a_token_is_of_one_list(name: str) -> None:
    token = Page("tables sales").token(name)
    assert Page.parse({"pageToken": token}, "tables sales").after == name
    for other in ("tables sale", "views sales", ""):
        with pytest.raises(InvalidInput, match="another list"):
            Page.parse({"pageToken": token}, other)


def test_a_page_is_never_larger_than_the_server_allows() -> None:
    for query, size in (({}, 5), ({"pageSize": "3"}, 3), ({"pageSize": "9"}, 5)):
        assert Page.parse({"pageToken": "", **query}, max_size=5).size == size
    assert Page.parse({"pageSize": "3"}, max_size=5).size is None
