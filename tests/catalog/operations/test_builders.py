"""Builders: steps, and one commit."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.operations.builders import Builder
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.schema import types
from iceberg_hms.testing.memory_files import MemoryFiles


class Words(Builder[list[str], str]):
    """Says its words; refuses the empty one, after half of its work, and to say `never`."""

    made_by = "words()"

    def __init__(self) -> None:
        self.said: list[Any] = []
        super().__init__(list, self._checked_steps, self._say)  # type: ignore[arg-type]

    def _checked_steps(self, steps: Any) -> Any:
        if "never" in self._draft:
            raise InvalidInput("never")
        return steps

    def _say(self, steps: Any) -> str:
        draft: list[str] = []
        for step in steps:
            step(draft)
        self.said.append(draft)
        return " ".join(draft)

    def steps_so_far(self) -> list[str]:
        return list(self._draft)

    def word(self, word: str) -> Words:
        def step(draft: list[str]) -> None:
            draft.append(word)
            if not word:
                raise InvalidInput("no word")

        return self._add(step)


def test_a_chain_ends_in_a_commit() -> None:
    assert Words().word("a").word("b").commit() == "a b"


def test_a_block_commits_at_its_end() -> None:
    with Words() as words:
        words.word("a")
        assert words.said == []
    assert (words.report, words.said) == ("a", [["a"]])


def test_a_block_that_ends_in_an_exception_commits_nothing() -> None:
    words = Words()

    def breaks_off() -> None:
        with words:
            words.word("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_off()
    assert (words.report, words.said) == (None, [])
    assert words.word("b").commit() == "a b"


def test_a_commit_within_the_block_is_the_only_one() -> None:
    with Words() as words:
        words.word("a").commit()
    assert words.said == [["a"]]


def test_a_refused_step_leaves_the_others() -> None:
    words = Words().word("a")
    with pytest.raises(InvalidInput, match="no word"):
        words.word("")
    assert words.steps_so_far() == ["a"]
    assert words.word("b").commit() == "a b"


def test_nothing_follows_a_commit() -> None:
    words = Words().word("a")
    words.commit()
    for late in (words.commit, lambda: words.word("b")):
        with pytest.raises(InvalidInput, match="committed already"):
            late()


def dropped(caplog: pytest.LogCaptureFixture, use: Callable[[Words], Any]) -> list[str]:
    """What the log says once a builder is gone. A refusal on the way is the caller's."""
    with contextlib.suppress(InvalidInput, ZeroDivisionError):
        use(Words())
    gc.collect()
    return [each.getMessage() for each in caplog.records]


def test_steps_that_nobody_committed_leave_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    expected = (
        "words(): 2 steps were dropped, and the table has none of them; end the chain with commit(), or use `with`"
    )
    assert dropped(caplog, lambda words: words.word("a").word("b")) == [expected]


def breaks_off(words: Words) -> None:
    with words:
        words.word("a")
        raise ZeroDivisionError


def goes_on_after_a_refusal(words: Words) -> None:
    words.word("a")
    with contextlib.suppress(InvalidInput):
        words.word("")
    words.word("b")


@pytest.mark.parametrize(
    ("use", "warnings"),
    [
        (lambda words: words, 0),
        (lambda words: words.word("a").commit(), 0),
        (lambda words: words.word("a").word(""), 0),
        (lambda words: words.word("never").commit(), 0),
        (breaks_off, 0),
        (goes_on_after_a_refusal, 1),
    ],
)
def test_a_caller_that_heard_of_it_or_committed_gets_no_warning(
    caplog: pytest.LogCaptureFixture, use: Callable[[Words], Any], warnings: int
) -> None:
    assert len(dropped(caplog, use)) == warnings


def test_a_builder_that_was_never_made_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> list[str]:
        raise InvalidInput("unknown transform")

    with pytest.raises(InvalidInput):
        Builder(refused, lambda steps: steps, lambda change: change)  # type: ignore[arg-type, return-value, var-annotated]
    gc.collect()
    assert not caplog.records


SCHEMA = pa.schema(
    [
        ("level", pa.string()),
        ("event_time", pa.timestamp("us")),
        ("size", pa.int32()),
        ("place", pa.struct([("lat", pa.float32())])),
    ]
)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("logging.events", SCHEMA, partition_spec=["day(event_time)"])


def columns(table: Table) -> list[str]:
    return [f"{field.name}: {field.type}" for field in table.schema().fields]


def test_a_block_commits_its_steps_at_once(table: Table, catalog: Catalog) -> None:
    before = table.metadata_location
    with table.update_schema() as schema:
        schema.add_column("host", "string", doc="who sent it")
        schema.add_column("place.alt", pa.float64()).rename_column("level", "severity")
        schema.update_column("size", "long", doc="in bytes").move_first("host")
        schema.move_before("size", "level").move_after("level", after_name="place")
        assert catalog.load_table("logging.events").metadata_location == before
    assert schema.report is not None
    assert schema.report.previous_metadata_location == before
    assert columns(table) == [
        "host: string",
        "size: long",
        "event_time: timestamp",
        "place: struct<5: lat: optional float, 7: alt: optional double>",
        "severity: string",
    ]
    assert catalog.load_table("logging.events").schema().same_as(table.schema())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("decimal(10,2)", "decimal(10, 2)"),
        (types.TIMESTAMPTZ, "timestamptz"),
        (pa.decimal128(5, 1), "decimal(5, 1)"),
        (pa.list_(pa.string()), "list<string>"),
        (pa.map_(pa.string(), pa.struct([("x", pa.int32())])), "map<string, struct<9: x: optional int>>"),
        ({"type": "list", "element-id": 1, "element": "int", "element-required": True}, "list<int>"),
    ],
)
def test_types_are_ours_the_specs_or_pyarrows(table: Table, given: Any, expected: str) -> None:
    table.update_schema().add_column("new", given).commit()
    assert str(table.schema().fields[-1].type) == expected


@pytest.mark.parametrize("given", ["varchar(10)", pa.uint64(), 5, None, {"type": "lost"}])
def test_what_is_no_type_is_refused_by_the_columns_name(table: Table, given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"Column place\.x: "):
        table.update_schema().add_column(("place", "x"), given)


def test_a_union_takes_schemas_of_all_kinds(table: Table) -> None:
    other = pa.schema([("level", pa.string()), ("a", pa.int32(), False)])
    table.update_schema().union_by_name(other).commit()
    table.update_schema().union_by_name(
        {"type": "struct", "fields": [{"id": 1, "name": "b", "required": False, "type": "int"}]}
    ).commit()
    table.update_schema().union_by_name(table.schema()).commit()
    assert columns(table)[-2:] == ["a: int", "b: int"]
    assert not table.schema().fields[-2].required


def test_identifier_fields_are_set(table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.add_column("id", "long", required=True).set_identifier_fields("id")
    assert table.schema().identifier_field_ids == {table.schema().fields[-1].id}


def test_defaults_need_version_three(table: Table) -> None:
    with pytest.raises(InvalidInput, match="column n: defaults are not supported until v3"):
        table.update_schema().add_column("n", "int", default_value=1)
    table.upgrade_table_version(3)
    table.update_schema().add_column("n", "int", default_value=1, required=True).set_default_value(
        "level", "INFO"
    ).commit()
    assert table.schema().fields[-1].initial_default == 1


def test_bad_input_writes_nothing(table: Table, files: MemoryFiles) -> None:
    before = set(files.locations())
    with pytest.raises(InvalidInput, match="multiple fields for name level"):
        table.update_schema().rename_column("size", "level").commit()
    with pytest.raises(InvalidInput, match="column event_time: partition field event_time_day uses it"):
        table.update_schema().delete_column("event_time").commit()
    assert set(files.locations()) == before


def test_case_is_ignored_on_demand(table: Table) -> None:
    table.update_schema(case_sensitive=False).rename_column("LEVEL", "severity").commit()
    assert columns(table)[0] == "severity: string"


def test_writers_who_saw_one_state_both_succeed(table: Table, catalog: Catalog) -> None:
    other = catalog.load_table("logging.events")
    table.update_schema().add_column("a", "int").commit()
    report = other.update_schema().add_column("b", "int").commit()
    assert columns(other)[-2:] == ["a: int", "b: int"]
    assert report.metadata.last_column_id == 7


def test_the_second_of_two_equal_names_is_refused_and_nothing_is_left(
    table: Table, catalog: Catalog, files: MemoryFiles
) -> None:
    other = catalog.load_table("logging.events")
    table.update_schema().add_column("a", "int").commit()
    before = set(files.locations())
    with pytest.raises(RequirementFailed, match="name already exists: a"):
        other.update_schema().add_column("a", "int").commit()
    assert set(files.locations()) == before


def test_many_writers_at_once_lose_no_column_and_share_no_id(table: Table, catalog: Catalog) -> None:
    tables = [catalog.load_table("logging.events") for _ in range(16)]

    def add(at: int) -> str:
        name = f"c{at}" if at % 2 else "shared"
        try:
            tables[at].update_schema().add_column(name, "int").commit()
        except RequirementFailed as refused:
            assert "name already exists: shared" in str(refused)  # noqa: PT017 - both outcomes are right
            return "refused"
        return name

    with ThreadPoolExecutor(16) as pool:
        outcomes = sorted(pool.map(add, range(16)))
    assert outcomes == sorted([*(f"c{at}" for at in range(1, 16, 2)), "shared", *["refused"] * 7])
    added = [field for field in table.refresh().schema().fields if field.id > 5]
    assert sorted(field.name for field in added) == sorted({*outcomes} - {"refused"})
    assert sorted(field.id for field in added) == list(range(6, 15))


def test_a_column_that_was_renamed_meanwhile_is_named(table: Table, catalog: Catalog) -> None:
    other = catalog.load_table("logging.events")
    table.update_schema().rename_column("level", "severity").commit()
    with pytest.raises(RequirementFailed, match="column level was renamed to severity"):
        other.update_schema().update_column("level", doc="x").commit()


def test_a_step_of_a_transaction_returns_none_and_is_seen_by_the_next(table: Table, catalog: Catalog) -> None:
    with table.transaction() as tx:
        assert tx.update_schema().add_column("mine", "date").commit() is None
        with tx.update_schema() as schema:
            schema.update_column("mine", doc="ours")
        catalog.load_table("logging.events").update_schema().add_column("theirs", "int").commit()
    assert columns(table)[-2:] == ["theirs: int", "mine: date"]
    assert table.schema().fields[-1].doc == "ours"


FLAT_SCHEMA = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us")), ("id", pa.int64())])


@pytest.fixture
def events(catalog: Catalog) -> Table:
    return catalog.create_table("logging.events", FLAT_SCHEMA, partition_spec=["day(event_time)"])


def fields(events: Table) -> list[str]:
    return [str(field) for field in events.spec().fields]


def test_fields_are_added_removed_and_renamed(events: Table) -> None:
    with events.update_spec() as spec:
        spec.add_field("id", "bucket(16)").add_identity("level").add_field("event_time", "hours", "at")
        spec.remove_field("event_time_day")
    assert fields(events) == ["1001: id_bucket_16: bucket[16](3)", "1002: level: identity(1)", "1003: at: hour(2)"]
    events.update_spec().rename_field("at", "hour_of_event").remove_field("id", "bucket[16]").commit()
    assert fields(events) == ["1002: level: identity(1)", "1003: hour_of_event: hour(2)"]


def test_equal_fields_get_their_id_again(events: Table) -> None:
    events.update_spec().remove_field("event_time", "day").add_identity("level").commit()
    events.update_spec().add_field("event_time", "days").commit()
    assert fields(events) == ["1001: level: identity(1)", "1000: event_time_day: day(2)"]


@pytest.mark.parametrize("transform", ["zorder", "bucket[0]", None])
def test_unknown_transforms_are_refused(events: Table, transform: Any) -> None:
    with pytest.raises(InvalidInput):
        events.update_spec().add_field("level", transform)


def test_writers_who_add_different_fields_both_succeed(events: Table, catalog: Catalog) -> None:
    other = catalog.load_table("logging.events")
    events.update_spec().add_identity("level").commit()
    other.update_spec().add_field("id", "bucket[4]").commit()
    assert fields(other)[1:] == ["1001: level: identity(1)", "1002: id_bucket_4: bucket[4](3)"]
    with pytest.raises(RequirementFailed, match="Cannot add duplicate partition field"):
        events.update_spec().add_field("id", "bucket[4]").commit()


def test_the_sort_order_is_replaced(events: Table) -> None:
    events.update_sort_order().asc("level").desc("id", transform="bucket[4]", null_order="nulls-first").commit()
    assert [str(field) for field in events.metadata.sort_order.fields] == [
        "identity(1) asc nulls-first",
        "bucket[4](3) desc nulls-first",
    ]
    with events.update_sort_order(case_sensitive=False) as order:
        order.desc("EVENT_TIME")
    assert [str(field) for field in events.metadata.sort_order.fields] == ["identity(2) desc nulls-last"]
    events.update_sort_order().commit()
    assert events.metadata.sort_order.is_unsorted


def test_a_column_to_sort_by_exists(events: Table) -> None:
    with pytest.raises(InvalidInput, match="missing column: none"):
        events.update_sort_order().asc("none")


def test_a_partition_column_goes_after_its_field_in_one_transaction(events: Table, catalog: Catalog) -> None:
    with events.transaction() as tx:
        tx.update_spec().remove_field("event_time_day").add_identity("level").commit()
        tx.update_schema().delete_column("event_time").commit()
        tx.update_sort_order().asc("id").commit()
    assert catalog.load_table("logging.events").metadata.current_schema_id == 1
    assert fields(events) == ["1001: level: identity(1)"]
