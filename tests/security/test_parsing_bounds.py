"""Attacks on what parses a client's text: nothing takes more than linear time, and all that it takes is bounded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.catalog.schemas import to_order, to_spec
from iceberg_hms.changes.clients.known_senders import is_known_sender
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.requirements import check
from iceberg_hms.changes.requirements import parse as parse_requirements
from iceberg_hms.changes.summary import totals
from iceberg_hms.changes.updates import parse
from iceberg_hms.coordinator.staging.invariants import check_transition
from iceberg_hms.errors import CommitFailed, InvalidInput
from iceberg_hms.format import locations
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import schema as schemas
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.transforms import parse_transform
from iceberg_hms.format.updates.apply import APPLIERS, apply
from iceberg_hms.metastore.connection import faults
from iceberg_hms.metastore.connection.thrift_types import ttypes
from iceberg_hms.rest.payloads import Page, parse_object
from iceberg_hms.work import working_for
from tests.format import documents
from tests.format.documents import COLUMNS, NOW_MS
from tests.security.growth import is_linear, is_linear_in_time

Update = dict[str, Any]

DIGITS = "9" * 5_000


# Type strings


@pytest.mark.parametrize(
    "hostile",
    [
        lambda size: "geometry(" + " " * size,
        lambda size: "geometry(" + " " * size + ",",
        lambda size: "geography(" + " " * size,
        lambda size: "geography(" + "a " * size + "," + " " * size + "(",
        lambda size: "decimal(" + " " * size,
        lambda size: "fixed[" + " " * size,
        lambda size: "decimal(9" + " " * size + "," + " " * size,
    ],
)
def test_a_type_string_is_parsed_in_linear_time(hostile: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "MAX_TYPE_TEXT", 10**9)

    def work(size: int) -> Callable[[], object]:
        text = hostile(size)

        def run() -> None:
            with pytest.raises(InvalidInput, match="Cannot parse type string"):
                types.parse_type(text)

        return run

    assert is_linear_in_time(work, 100)
    assert is_linear_in_time(work, 2_000)


def test_a_type_string_has_a_largest_length() -> None:
    longest = "geometry(" + "x" * (types.MAX_TYPE_TEXT - 10) + ")"
    assert str(types.parse_type(longest)) == longest
    with pytest.raises(InvalidInput, match="Cannot parse type string of 4001 characters"):
        types.parse_type(longest + " ")


def test_a_schema_has_a_largest_number_of_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "MAX_FIELDS", 10)
    column = {"id": 1, "name": "x", "required": False, "type": "long"}
    Schema.parse({"fields": [column] * 10})
    list_ = {"type": "list", "element-id": 2, "element-required": False, "element": "long"}
    for fields in ([column] * 11, [column] * 9 + [{**column, "type": list_}]):
        with pytest.raises(InvalidInput, match="more than 10 fields"):
            Schema.parse({"fields": fields})


def test_deep_types_and_long_paths_of_names_are_refused() -> None:
    deep: Any = "long"
    for _ in range(types.MAX_NESTING):
        deep = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": deep}]}
    types.parse_type(deep)
    with pytest.raises(InvalidInput, match="nested deeper than"):
        types.parse_type({"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": deep}]})


def test_the_names_of_nested_fields_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field's full name has the names of all that contain it: 16 MB of them for each of 100,000 columns."""
    monkeypatch.setattr(schemas, "MAX_NAMES_TEXT", 5_000)
    leaves = [{"id": 2 + at, "name": str(at), "required": False, "type": "long"} for at in range(100)]
    outer = {"id": 1, "name": "n" * 100, "required": False, "type": {"type": "struct", "fields": leaves}}
    with pytest.raises(InvalidInput, match="the full names of a schema's fields have more than 5000 characters"):
        Schema.parse({"fields": [outer]}).validate()


# Other expressions that read a client's text


@pytest.mark.parametrize(
    ("hostile", "reads"),
    [
        (lambda size: "bucket[" + "1" * size, parse_transform),
        (lambda size: "a" * size + ":", locations.parse.__wrapped__),
        (lambda size: "a:" + "/" * size, locations.parse.__wrapped__),
        (lambda size: {"engine-name": "trino", "engine-version": "1." * size}, is_known_sender),
        (lambda size: {"engine-name": "trino", "engine-version": "1" * size}, is_known_sender),
        (
            lambda size: ttypes.MetaException(message="x\n" + "JDO" * size),
            lambda error: faults.classify(error, "alter_table"),
        ),
        (
            lambda size: ttypes.MetaException(message="Error executing SQL query" * size),
            lambda error: faults.classify(error, "alter_table"),
        ),
    ],
)
def test_text_of_clients_is_read_in_linear_time(hostile: Callable[[int], Any], reads: Callable[[Any], object]) -> None:
    def work(size: int) -> Callable[[], object]:
        text = hostile(size)

        def run() -> None:
            try:
                reads(text)
            except InvalidInput:
                return

        return run

    assert is_linear_in_time(work, 2_000)


@pytest.mark.parametrize("term", ["x" + " " * 100_000 + "y", "x" + " as" * 50_000, "x" + " nulls" * 50_000])
def test_a_term_has_a_largest_length(term: str) -> None:
    schema = Schema.parse({"fields": COLUMNS})
    with pytest.raises(InvalidInput, match="A partition term has at most"):
        to_spec([term], schema)
    with pytest.raises(InvalidInput, match="A sort term has at most"):
        to_order([term], schema)


# Many updates in one commit


def add_schemas(size: int) -> list[Update]:
    return [
        {
            "action": "add-schema",
            "schema": {"type": "struct", "fields": [*COLUMNS, {**COLUMNS[0], "id": 9, "name": f"n{at}"}]},
        }
        for at in range(size)
    ]


def add_specs(size: int) -> list[Update]:
    return [
        {"action": "add-spec", "spec": {"fields": [{"name": f"p{at}", "transform": "identity", "source-id": 2}]}}
        for at in range(size)
    ]


def add_orders(size: int) -> list[Update]:
    order = {"source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    return [
        {
            "action": "add-sort-order",
            "sort-order": {"order-id": 1, "fields": [{**order, "transform": f"bucket[{at + 2}]"}]},
        }
        for at in range(size)
    ]


def snapshot(at: int) -> Update:
    return {
        "snapshot-id": 10 + at,
        "sequence-number": 40 + at,
        "timestamp-ms": NOW_MS,
        "manifest-list": f"s3://b/{at}",
        "summary": {"operation": "append"},
    }


def file(at: int) -> Update:
    return {
        "snapshot-id": 10 + at,
        "statistics-path": f"s3://b/{at}",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }


def large_table(size: int) -> TableMetadata:
    """Has as many entries of each kind."""
    raw = copy.deepcopy(documents.V2)
    schema, spec = raw["schemas"][1], raw["partition-specs"][0]
    raw["schemas"] += [
        {**schema, "schema-id": 10 + at, "fields": [{**COLUMNS[0], "name": f"s{at}"}]} for at in range(size)
    ]
    raw["partition-specs"] += [
        {**spec, "spec-id": 10 + at, "fields": [{**spec["fields"][0], "name": f"q{at}"}]} for at in range(size)
    ]
    raw["sort-orders"] += [
        {"order-id": 10 + at, "fields": [{**raw["sort-orders"][0]["fields"][0], "transform": f"bucket[{at + 2}]"}]}
        for at in range(size)
    ]
    raw["snapshots"] += [{**snapshot(at), "sequence-number": 1} for at in range(size)]
    raw["refs"] |= {f"t{at}": {"snapshot-id": 10 + at, "type": "tag"} for at in range(size)}
    raw["statistics"] = [file(at) for at in range(size)]
    raw["partition-statistics"] = [file(at) for at in range(size)]
    raw["properties"] |= {f"k{at}": "v" for at in range(size)}
    return TableMetadata.parse(raw).verify()


KINDS: dict[str, Callable[[int], Update]] = {
    "remove-schemas": lambda at: {"schema-ids": [10 + at]},
    "remove-partition-specs": lambda at: {"spec-ids": [10 + at]},
    "set-current-schema": lambda at: {"schema-id": 1},
    "set-default-spec": lambda at: {"spec-id": 10 + at},
    "set-default-sort-order": lambda at: {"sort-order-id": 10 + at},
    "remove-snapshots": lambda at: {"snapshot-ids": [10 + at]},
    "set-snapshot-ref": lambda at: {"ref-name": f"t{at}", "type": "tag", "snapshot-id": 10 + at},
    "remove-snapshot-ref": lambda at: {"ref-name": f"t{at}"},
    "set-properties": lambda at: {"updates": {f"k{at}": "w"}},
    "remove-properties": lambda at: {"removals": [f"k{at}"]},
    "set-statistics": lambda at: {"statistics": file(at)},
    "remove-statistics": lambda at: {"snapshot-id": 10 + at},
    "set-partition-statistics": lambda at: {"partition-statistics": file(at)},
    "remove-partition-statistics": lambda at: {"snapshot-id": 10 + at},
    "set-location": lambda at: {"location": f"s3://b/{at}"},
    "upgrade-format-version": lambda at: {"format-version": 2},
    "assign-uuid": lambda at: {"uuid": documents.UUID},
    "remove-encryption-key": lambda at: {"key-id": "k"},
}


def many(size: int) -> dict[str, list[Update]]:
    """By their name, so many updates of each kind, and mixtures of two that undo each other."""
    made = {action: [{"action": action, **fields(at)} for at in range(size)] for action, fields in KINDS.items()}
    made |= {"add-schema": add_schemas(size), "add-spec": add_specs(size), "add-sort-order": add_orders(size)}
    made["add-snapshot"] = [
        {"action": "add-snapshot", "snapshot": {**snapshot(at), "snapshot-id": -2 - at}} for at in range(size)
    ]
    made["schemas in and out"] = _mixed(made["add-schema"], made["remove-schemas"])
    made["specs in and out"] = _mixed(made["add-spec"], made["remove-partition-specs"])
    made["snapshots in and out"] = _mixed(made["add-snapshot"], made["remove-snapshots"])
    made["new refs"] = [
        {"action": "set-snapshot-ref", "ref-name": f"n{at}", "type": "tag", "snapshot-id": 10 + at}
        for at in range(size)
    ]
    return made


def _mixed(first: list[Update], second: list[Update]) -> list[Update]:
    return [update for pair in zip(first, second, strict=True) for update in pair]


@pytest.mark.parametrize("kind", many(0))
def test_a_commit_of_many_updates_takes_linear_time(kind: str) -> None:
    def work(size: int) -> Callable[[], object]:
        base, updates = large_table(size), parse(many(size)[kind])

        def run() -> None:
            check_transition(base, apply(base, updates, now_ms=NOW_MS))

        return run

    assert is_linear(work, 60)


def test_every_kind_of_update_is_attacked() -> None:
    assert set(APPLIERS) <= {update["action"] for updates in many(1).values() for update in updates}


def test_many_requirements_are_checked_in_linear_time() -> None:
    def work(size: int) -> Callable[[], object]:
        base = large_table(size)
        raw = [{"type": "assert-ref-snapshot-id", "ref": f"t{at}", "snapshot-id": 10 + at} for at in range(size)]
        raw += [{"type": "assert-default-spec-id", "default-spec-id": base.default_spec_id}] * size
        raw += [
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": base.last_partition_id}
        ] * size
        return lambda: check(parse_requirements(raw), base)

    assert is_linear(work, 60)


def test_a_commit_has_a_largest_number_of_updates() -> None:
    update = {"action": "set-location", "location": "s3://b"}
    requirement = {"type": "assert-table-uuid", "uuid": documents.UUID}
    from_request([requirement], [update] * 9, max_updates=10).check(documents.metadata())
    large = from_request([requirement, requirement], [update] * 9, max_updates=10)
    with pytest.raises(InvalidInput, match="a commit of 11 requirements and updates is too large") as refused:
        large.check(documents.metadata())
    assert "`commit.max-updates`" in refused.value.next_step


def test_a_commit_has_a_largest_number_of_schemas_specs_and_orders() -> None:
    updates = [*add_schemas(400), *add_specs(400), *add_orders(200)]
    from_request([], updates).check(documents.metadata())
    with pytest.raises(InvalidInput, match="a commit that adds 1001 schemas, partition specs and sort orders"):
        from_request([], [*updates, *add_specs(1)]).check(documents.metadata())


def test_a_commit_whose_caller_left_stops_between_two_updates() -> None:
    applied = 0

    def left_after_three() -> bool:
        nonlocal applied
        applied += 1
        return applied > 3

    with working_for(left_after_three), pytest.raises(CommitFailed, match="its caller left"):
        apply(documents.metadata(), many(10)["set-location"], now_ms=NOW_MS)
    assert applied == 4


# Numbers


@pytest.mark.parametrize(
    "number", [DIGITS, "-" + DIGITS, "1e400", "-1e400", "NaN", "Infinity", "-Infinity", '"\\ud800"']
)
def test_a_number_that_is_none_is_malformed_json(number: str) -> None:
    with pytest.raises(InvalidInput, match="Malformed JSON"):
        parse_object(b'{"a": ' + number.encode() + b"}")
    text = (
        TableMetadata.parse(documents.V2)
        .to_bytes()
        .replace(b'"last-column-id":3', b'"last-column-id":' + number.encode())
    )
    with pytest.raises(InvalidInput, match="not JSON"):
        TableMetadata.parse(text)


@pytest.mark.parametrize("number", ["1" * 300, "1" * 20, "1.0", "1e3", "true", '"1"'])
def test_a_number_that_is_no_long_is_refused(number: str) -> None:
    body = parse_object(b'{"action": "remove-snapshots", "snapshot-ids": [' + number.encode() + b"]}")
    with pytest.raises(InvalidInput, match="must be a list of longs"):
        parse([body])


def test_deep_json_is_malformed() -> None:
    with pytest.raises(InvalidInput, match="Malformed JSON"):
        parse_object(b'{"a":' + b"[" * 100_000)


@pytest.mark.parametrize("transform", [f"bucket[{DIGITS}]", f"truncate[-{DIGITS}]", "bucket[2147483648]", "bucket[0]"])
def test_a_transform_of_a_number_beyond_an_int_is_refused(transform: str) -> None:
    with pytest.raises(InvalidInput, match="its parameter must be > 0 and at most 2147483647"):
        parse_transform(transform)


def test_a_property_of_5000_digits_is_refused() -> None:
    for name in ("write.metadata.previous-versions-max", "format-version"):
        updates = parse([{"action": "set-properties", "updates": {name: DIGITS}}])
        with pytest.raises(InvalidInput, match="must be"):
            apply(documents.metadata(), updates, now_ms=NOW_MS)


def test_an_engine_version_of_5000_digits_is_no_known_one() -> None:
    assert not is_known_sender({"engine-name": "trino", "engine-version": DIGITS, "iceberg-version": DIGITS})


@pytest.mark.parametrize("digits", [5_000, 4_300, 19])
def test_a_total_that_is_no_long_is_left_out(digits: int) -> None:
    """The sum of two numbers of 4,300 digits has one more than Python writes: nobody could append any more."""
    parent = {"total-records": "9" * digits, "total-data-files": "1"}
    changes = {"added-records": "9" * digits, "added-data-files": "1"}
    assert totals(parent, changes) == {"total-data-files": "2"}


@pytest.mark.parametrize(
    "query", [{"pageToken": "", "pageSize": DIGITS}, {"pageToken": "\ud800"}, {"pageToken": DIGITS}]
)
def test_a_page_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="Query parameter"):
        Page.parse(query)
