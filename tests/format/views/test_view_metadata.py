from __future__ import annotations

from typing import Any

import orjson
import pytest

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.views.view_metadata import ViewMetadata, ViewVersion
from tests.format.views.samples import schema, spec_example, sql_text, version


def test_the_example_of_the_spec_is_read_whole() -> None:
    raw = spec_example()
    metadata = ViewMetadata.parse(orjson.dumps(raw))
    assert metadata.uuid == "fa6506c3-7681-40c8-86dc-e36561f83385"
    assert metadata.location == "s3://bucket/warehouse/default.db/event_agg"
    assert (metadata.format_version, metadata.current_version_id, metadata.current_schema_id) == (1, 2, 1)
    assert metadata.properties == {"comment": "Daily event counts"}
    assert [each.version_id for each in metadata.versions] == [1, 2]
    assert [field.name for field in metadata.schema.fields] == ["event_count", "event_date"]
    assert [entry["version-id"] for entry in metadata.version_log] == [1, 2]
    current = metadata.current_version
    assert (current.timestamp_ms, current.schema_id) == (1573518981593, 1)
    assert current.summary["engine-name"] == "Spark"
    assert "prod.default.events" in str(current.sql_for("spark"))
    assert orjson.loads(metadata.to_bytes()) == raw


def test_unknown_fields_and_representations_survive() -> None:
    raw = spec_example() | {"from-the-future": {"a": 1}}
    raw["versions"][1]["hint"] = "x"
    raw["versions"][1]["representations"].append({"type": "plan", "plan": [1]})
    metadata = ViewMetadata.parse(raw)
    assert orjson.loads(metadata.to_bytes()) == raw
    assert len(metadata.current_version.sql_representations) == 1


def test_properties_may_be_missing() -> None:
    raw = spec_example()
    del raw["properties"]
    assert ViewMetadata.parse(raw).properties == {}


@pytest.mark.parametrize(
    "key", ["view-uuid", "format-version", "location", "schemas", "current-version-id", "versions", "version-log"]
)
def test_a_required_field_that_is_missing_or_of_another_type_is_named(key: str) -> None:
    raw = spec_example()
    del raw[key]
    with pytest.raises(InvalidInput, match=key):
        ViewMetadata.parse(raw)
    for wrong in (None, True, {"a": 1}, 1.5):
        with pytest.raises(InvalidInput, match=key):
            ViewMetadata.parse({**spec_example(), key: wrong})


@pytest.mark.parametrize(
    "key",
    ["version-id", "schema-id", "timestamp-ms", "summary", "default-namespace", "representations"],
)
def test_a_version_without_a_required_field_is_refused(key: str) -> None:
    raw: dict[str, Any] = version(1, "select 1")
    del raw[key]
    with pytest.raises(InvalidInput, match=key):
        ViewVersion.parse(raw)
    with pytest.raises(InvalidInput, match=key):
        ViewVersion.parse({**raw, key: "x"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"default-namespace": [1]},
        {"default-catalog": 1},
        {"summary": {"a": 1}},
        {"representations": [{"sql": "x", "dialect": "spark"}]},
        {"representations": [{"type": "sql", "dialect": "spark"}]},
        {"representations": [{"type": "SQL", "sql": "x"}]},
        {"representations": ["select 1"]},
        {"version-id": 2**31},
    ],
)
def test_a_malformed_version_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ViewVersion.parse({**version(1, "select 1"), **wrong})


def test_a_current_version_or_schema_that_is_not_there_is_refused_with_javas_words() -> None:
    with pytest.raises(InvalidInput, match=r"Cannot find current version 7 in view versions: \[1, 2\]"):
        ViewMetadata.parse({**spec_example(), "current-version-id": 7})
    with pytest.raises(InvalidInput, match=r"Cannot find current schema with id 1 in schemas: \[3\]"):
        ViewMetadata.parse({**spec_example(), "schemas": [schema(3)]})


@pytest.mark.parametrize("key", ["versions", "schemas"])
def test_an_id_that_two_have_is_refused(key: str) -> None:
    raw = spec_example()
    raw[key].append(raw[key][0])
    with pytest.raises(InvalidInput, match=f"two of its {key}"):
        ViewMetadata.parse(raw)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_another_format_version_is_not_supported(number: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"Unsupported format version: {number}"):
        ViewMetadata.parse({**spec_example(), "format-version": number})


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"1"])
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInput):
        ViewMetadata.parse(text)


def test_what_json_cannot_express_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        ViewMetadata.parse({**spec_example(), "properties": {"a": "\ud800"}}).to_bytes()
    with pytest.raises(InvalidInput, match="cannot be written"):
        _ = ViewVersion.parse(version(1, "\ud800")).content


def test_sql_is_found_by_dialect_in_any_case_else_the_first() -> None:
    texts = [{"type": "plan"}, sql_text("t", "trino"), sql_text("s", "Spark")]
    found = ViewVersion.parse(version(1, "", representations=texts))
    assert (found.sql_for("SPARK"), found.sql_for("trino"), found.sql_for("hive")) == ("s", "t", "t")
    assert found.dialects == {"trino", "spark"}
    assert ViewVersion.parse(version(1, "", representations=[])).sql_for("spark") is None


def test_versions_say_the_same_whatever_their_ids_and_times() -> None:
    one = ViewVersion.parse(version(1, "select 1"))
    reordered = dict(reversed(version(9, "select 1", time=5).items()))
    assert one.content == ViewVersion.parse(reordered).content
    without = version(1, "select 1")
    del without["default-catalog"]
    assert ViewVersion.parse(without).content == ViewVersion.parse({**without, "default-catalog": None}).content
    for other in (
        version(1, "select 2"),
        version(1, "select 1", schema_id=1),
        version(1, "select 1", summary={}),
        without,
        version(1, "select 1", **{"default-namespace": ["default", "b"]}),
        version(1, "select 1", representations=[sql_text("select 1", "trino")]),
    ):
        assert one.content != ViewVersion.parse(other).content


def test_two_equal_objects_are_equal_metadata() -> None:
    one = ViewMetadata.parse(spec_example())
    assert one == ViewMetadata.parse(spec_example())
    assert one != ViewMetadata.parse({**spec_example(), "location": "s3://b/x"})
    assert "event_agg" in repr(one)
    assert "2" in repr(one.current_version)
