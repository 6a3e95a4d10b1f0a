"""What Java's TestViewMetadata checks, and where this differs from Java on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.views.apply import apply, new_view_metadata
from iceberg_hms.format.views.view_metadata import ViewMetadata
from tests.format.views.samples import column, schema, sql_text, version

NOW = 5_000
Update = dict[str, Any]


def add_schema(raw: Update) -> Update:
    return {"action": "add-schema", "schema": raw}


def add_version(raw: Update) -> Update:
    return {"action": "add-view-version", "view-version": raw}


def set_current(number: int) -> Update:
    return {"action": "set-current-view-version", "view-version-id": number}


def set_properties(**properties: str) -> Update:
    return {"action": "set-properties", "updates": {key.replace("_", "."): value for key, value in properties.items()}}


UUID = {"action": "assign-uuid", "uuid": "u-1"}
LOCATION = {"action": "set-location", "location": "location"}
HISTORY = "version.history.num-entries"
ALLOWED = {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}}


def history(size: str) -> Update:
    return {"action": "set-properties", "updates": {HISTORY: size}}


def built(*updates: Update, base: ViewMetadata | None = None, now_ms: int = NOW) -> ViewMetadata:
    return apply(base, updates, now_ms=now_ms)


def new(*updates: Update) -> ViewMetadata:
    """A view with version 1, `select 1`."""
    first = (UUID, LOCATION, add_schema(schema()), add_version(version(1, "select 1")), set_current(1))
    return built(*first, *updates)


def ids(metadata: ViewMetadata) -> list[int]:
    return [each.version_id for each in metadata.versions]


def log(metadata: ViewMetadata) -> list[tuple[int, int]]:
    return [(entry["version-id"], entry["timestamp-ms"]) for entry in metadata.version_log]


def replaced(base: ViewMetadata, sql: str, *more: Update, time: int = 1_000, number: int | None = None) -> ViewMetadata:
    """As clients replace a view: a new version on the highest id, made current."""
    number = max(ids(base)) + 1 if number is None else number
    return built(*more, add_version(version(number, sql, time=time)), set_current(-1), base=base)


def test_a_new_view_has_its_version_and_log() -> None:
    metadata = new(set_properties(comment="x"))
    assert (metadata.uuid, metadata.location, metadata.format_version) == ("u-1", "location", 1)
    assert (ids(metadata), log(metadata), metadata.current_version_id) == ([1], [(1, 1_000)], 1)
    assert metadata.properties == {"comment": "x"}


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([], "Invalid location: null"),
        ([LOCATION], "Invalid view: no versions were added"),
        ([LOCATION, set_current(1)], "Cannot set current version to unknown version: 1"),
        ([LOCATION, set_current(-1)], "Cannot set last version id: no current version id has been set"),
        ([LOCATION, add_version(version(1, "x", schema_id=1))], "Cannot add version with unknown schema: 1"),
        ([LOCATION, add_version(version(1, "x", schema_id=-1))], "Cannot set last added schema: no schema has been"),
        ([LOCATION, add_schema(schema()), add_version(version(1, "x")), set_current(23)], "unknown version: 23"),
        ([LOCATION, add_schema(schema()), add_version(version(1, "x"))], "no current version"),
        ([LOCATION, add_schema(schema(1)), add_version(version(1, "x", schema_id=23))], "unknown schema: 23"),
        ([{"action": "upgrade-format-version", "format-version": 0}], "Cannot downgrade v1 view to v0"),
    ],
)
def test_what_java_refuses_is_refused_with_its_words(updates: list[Update], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        built(UUID, *updates)


def test_a_view_does_not_move_to_nowhere() -> None:
    with pytest.raises(InvalidInput, match="set-location: location must not be empty"):
        built({"action": "set-location", "location": ""}, base=new())


def test_a_newer_format_is_not_supported() -> None:
    with pytest.raises(UnsupportedFormat, match="Unsupported format version: 23"):
        new({"action": "upgrade-format-version", "format-version": 23})
    assert new({"action": "upgrade-format-version", "format-version": 1}) == new()


def test_a_uuid_is_assigned_once() -> None:
    assert built(UUID, base=new()) == new()
    with pytest.raises(InvalidInput, match="Cannot reassign uuid"):
        built({"action": "assign-uuid", "uuid": "u-2"}, base=new())


def test_what_changes_nothing_is_the_base_itself() -> None:
    base = new(set_properties(a="1"))
    for updates in (
        [],
        [LOCATION],
        [set_properties(a="1")],
        [set_properties()],
        [{"action": "remove-properties", "removals": ["b"]}],
        [set_current(1)],
        [add_schema(schema(7))],
        [add_version(version(9, "select 1")), set_current(-1)],
    ):
        assert built(*updates, base=base) is base


def test_a_replaced_view_keeps_its_versions() -> None:
    base = new()
    after = replaced(base, "select 2", time=2_000)
    assert (ids(after), after.current_version_id, log(after)) == ([1, 2], 2, [(1, 1_000), (2, 2_000)])
    assert after.current_version.sql_for("spark") == "select 2"
    assert (ids(base), log(base)) == ([1], [(1, 1_000)])


def test_an_id_that_is_taken_is_replaced_by_the_next() -> None:
    after = replaced(replaced(new(), "select 2"), "select 3", number=2)
    assert (ids(after), after.current_version_id) == ([1, 2, 3], 3)
    assert ids(replaced(new(), "select 2", number=17)) == [1, 17]


def test_an_id_that_the_request_gave_to_its_own_version_does_not_mean_anothers() -> None:
    theirs = replaced(new(), "select 2")
    ours = built(add_version(version(2, "select 3")), set_current(2), base=theirs)
    assert ours.current_version.sql_for("spark") == "select 3"
    moved = built(set_current(1), base=ours)
    assert moved.current_version.sql_for("spark") == "select 1"


def test_a_version_that_says_the_same_is_used_again() -> None:
    base = replaced(new(), "select 2")
    back = replaced(base, "select 1", number=3)
    assert (ids(back), back.current_version_id) == ([1, 2], 1)
    assert log(back)[-1] == (1, NOW)


def test_a_request_that_is_sent_again_changes_nothing() -> None:
    request = (
        add_schema(schema(1, column(1, "y"))),
        add_version(version(2, "select 2", schema_id=-1)),
        set_current(-1),
    )
    once = built(*request, base=new())
    assert (once.current_version_id, once.current_schema_id) == (2, 1)
    assert built(*request, base=once) is once


def test_a_schema_that_is_equal_is_used_again_and_another_gets_the_next_id() -> None:
    base = new()
    same = built(add_schema(schema(5)), add_version(version(2, "select 2", schema_id=-1)), set_current(-1), base=base)
    assert ([each.schema_id for each in same.schemas], same.current_schema_id) == ([0], 0)
    other = schema(0, column(1, "y"))
    after = built(add_schema(other), add_version(version(2, "select 2", schema_id=-1)), set_current(-1), base=base)
    assert ([each.schema_id for each in after.schemas], after.current_schema_id) == ([0, 1], 1)


def test_a_schema_id_that_the_request_gave_does_not_mean_anothers() -> None:
    theirs = built(
        add_schema(schema(1, column(1, "theirs"))),
        add_version(version(2, "a", schema_id=1)),
        set_current(2),
        base=new(),
    )
    ours = built(
        add_schema(schema(1, column(1, "ours"))),
        add_version(version(3, "b", schema_id=1)),
        set_current(-1),
        base=theirs,
    )
    assert [field.name for field in ours.schema.fields] == ["ours"]


def test_identifier_fields_make_another_schema() -> None:
    with_key = {**schema(0, column(1, "x", "long", required=True)), "identifier-field-ids": [1]}
    after = built(add_schema(with_key), add_version(version(2, "b", schema_id=-1)), set_current(-1), base=new())
    assert after.schema.identifier_field_ids == {1}


def test_the_log_has_one_entry_for_the_last_change_of_a_request() -> None:
    base = replaced(new(), "select 2")
    after = built(set_current(1), add_version(version(3, "select 3", time=7)), set_current(3), base=base)
    assert log(after) == [*log(base), (3, 7)]


def test_two_texts_for_one_dialect_are_refused_whatever_its_case() -> None:
    texts = [sql_text("a", "trino"), sql_text("b", "TRINO")]
    with pytest.raises(InvalidInput) as raised:
        built(add_version(version(2, "", representations=texts)), base=new())
    assert raised.value.message == "Invalid view version: Cannot add multiple queries for dialect trino"


def test_a_dialect_may_be_lost_only_if_the_view_allows_it() -> None:
    texts = [sql_text("a", "trino"), sql_text("b", "Spark")]
    base = built(add_version(version(2, "", representations=texts)), set_current(-1), base=new())
    with pytest.raises(InvalidInput) as raised:
        replaced(base, "select 3")
    assert raised.value.message == (
        "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
        "Previous dialects: [spark, trino]\nNew dialects: [spark]"
    )
    assert replaced(base, "select 3", ALLOWED).current_version.dialects == {"spark"}
    with pytest.raises(InvalidInput, match="loss of view dialects"):
        built(set_current(1), base=base)


def test_old_versions_expire_and_the_current_one_stays() -> None:
    metadata = new()
    for number in range(2, 14):
        metadata = replaced(metadata, f"select {number}")
    assert sorted(ids(metadata)) == list(range(4, 14))
    assert [number for number, _ in log(metadata)] == list(range(4, 14))
    rolled_back = built(set_current(4), history("3"), base=metadata)
    assert ids(rolled_back) == [4, 13, 12]
    # Entries before the last one whose version is gone tell nothing any more.
    assert [number for number, _ in log(rolled_back)] == [12, 13, 4]


def test_the_log_is_cut_after_the_last_unknown_version() -> None:
    metadata = new()
    for sql in ("select 2", "select 1", "select 3"):
        metadata = replaced(metadata, sql)
    assert [number for number, _ in log(metadata)] == [1, 2, 1, 3]
    # Of 1, 2 and 3, with 3 current, two are kept: 3 and 2.
    after = built(history("2"), base=metadata)
    assert (sorted(ids(after)), [number for number, _ in log(after)]) == ([2, 3], [3])


def test_versions_that_the_request_added_are_kept() -> None:
    added = [add_version(version(number, f"select {number}")) for number in range(2, 6)]
    after = built(history("2"), *added, set_current(5), base=new())
    assert sorted(ids(after)) == [2, 3, 4, 5]
    assert sorted(ids(built(set_properties(a="b"), base=after))) == [4, 5]


@pytest.mark.parametrize("size", ["0", "-1", "x", "", "1.5", " 3", "99999999999999", "\N{FULLWIDTH DIGIT ONE}"])
def test_a_history_size_that_java_refuses_is_refused(size: str) -> None:
    with pytest.raises(InvalidInput, match=HISTORY):
        new(history(size))


def test_the_largest_id_is_not_taken() -> None:
    with pytest.raises(InvalidInput, match="too large"):
        replaced(new(), "select 2", number=2**31 - 1)


def test_a_created_view_has_ids_of_its_own() -> None:
    raw = version(9, "select 1", schema_id=4, time=77)
    metadata = new_view_metadata("u", "file:/v", {"a": "b"}, schema(4), raw, now_ms=NOW)
    assert (ids(metadata), metadata.schema.schema_id, log(metadata)) == ([1], 0, [(1, 77)])
    assert metadata.current_version.summary == {"user": "some-user"}
    assert (metadata.uuid, metadata.location, metadata.properties) == ("u", "file:/v", {"a": "b"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"representations": []}, "Cannot create view without specifying a query"),
        ({"representations": [{"type": "plan"}]}, r"Found unsupported view representations: \['plan'\]"),
        ({"default-namespace": None}, "default-namespace"),
    ],
)
def test_a_view_without_a_query_or_a_namespace_is_not_created(change: Update, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        new_view_metadata("u", "file:/v", {}, schema(), {**version(1, "x"), **change}, now_ms=NOW)
