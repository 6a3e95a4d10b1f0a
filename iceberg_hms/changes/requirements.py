"""The REST protocol's requirements: what a commit assumes of the table (spec: TableRequirement).

A requirement is its JSON object, {"type": "assert-table-uuid", "uuid": "..."}. `parse` checks the shape once, when a
request arrives; `check` compares it with the table, again each time the table moves. The messages are those of Java's
UpdateRequirement: clients and their users know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iceberg_hms.changes.change import Requirement
from iceberg_hms.changes.updates import read_kind
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.metadata.table_metadata import TableMetadata

ASSERT_CREATE = "assert-create"
ASSERT_TABLE_UUID = "assert-table-uuid"
ASSERT_VIEW_UUID = "assert-view-uuid"
ASSERT_REF_SNAPSHOT_ID = "assert-ref-snapshot-id"
ASSERT_LAST_ASSIGNED_FIELD_ID = "assert-last-assigned-field-id"
ASSERT_CURRENT_SCHEMA_ID = "assert-current-schema-id"
ASSERT_LAST_ASSIGNED_PARTITION_ID = "assert-last-assigned-partition-id"
ASSERT_DEFAULT_SPEC_ID = "assert-default-spec-id"
ASSERT_DEFAULT_SORT_ORDER_ID = "assert-default-sort-order-id"


@dataclass(frozen=True, slots=True)
class _Rule:
    """How to read one type of requirement, and how it fails on an existing table; None if it holds."""

    take: Callable[[Mapping[str, Any]], dict[str, Any]]
    failure: Callable[[Requirement, TableMetadata], RequirementFailed | None]


def parse(requirements: object) -> tuple[Requirement, ...]:
    """The requirements of a request, each with its known fields only.

    requirements: a list of JSON objects. Raises InvalidInput: unknown type, missing or malformed field, a view's
    requirement, or `assert-create` with others (a missing table has nothing else to assert).
    """
    if not isinstance(requirements, list | tuple):
        raise InvalidInput(f"Cannot parse requirements from non-array value: {requirements!r}")
    parsed = tuple(map(_parse_one, requirements))
    if len(parsed) > 1 and is_create(parsed):
        others = sorted({requirement["type"] for requirement in parsed} - {ASSERT_CREATE})
        raise InvalidInput(f"Invalid create requirements: assert-create must stand alone, found with it: {others}")
    return parsed


def check(requirements: Iterable[Requirement], base: TableMetadata | None) -> None:
    """Raise RequirementFailed for the first parsed requirement that the table fails; `base` None = no table."""
    for requirement in requirements:
        found = failure(requirement, base)
        if found is not None:
            raise found


def failure(requirement: Requirement, base: TableMetadata | None) -> RequirementFailed | None:
    """How a parsed requirement fails on the table; None if it holds. `base` None = no table.

    A rebased commit fails its requirement each time, so this is a value: an error that is raised and kept holds the
    frames of all its callers, with the table's metadata, until the garbage collector comes."""
    kind = requirement["type"]
    if kind == ASSERT_CREATE:
        return None if base is None else RequirementFailed(kind, "table already exists", expected=None, found=base.uuid)
    if base is None:
        return RequirementFailed(kind, "table does not exist", expected=_expected(requirement), found=None)
    return _RULES[kind].failure(requirement, base)


def existing_table(base: TableMetadata | None, uuid: str | None = None) -> TableMetadata:
    """The table. Raises RequirementFailed if there is none, or if it has another UUID; None: any."""
    if base is None:
        raise RequirementFailed(ASSERT_TABLE_UUID, "table does not exist", expected=uuid)
    if uuid is not None:
        check([assert_table_uuid(uuid)], base)
    return base


def is_create(requirements: Iterable[Requirement]) -> bool:
    """Whether parsed requirements belong to a commit that creates its table."""
    return ASSERT_CREATE in [requirement["type"] for requirement in requirements]


def assert_table_uuid(uuid: str) -> Requirement:
    """The table must have this UUID: it must not be another table of the same name."""
    return {"type": ASSERT_TABLE_UUID, "uuid": uuid}


def assert_no_ref(name: str) -> Requirement:
    """The table must have no branch or tag of this name."""
    return {"type": ASSERT_REF_SNAPSHOT_ID, "ref": name, "snapshot-id": None}


def _parse_one(requirement: object) -> Requirement:
    source, kind = read_kind(requirement, "type", "update requirement")
    if kind == ASSERT_VIEW_UUID:
        raise InvalidInput("Cannot validate assert-view-uuid against a table")
    rule = _RULES.get(kind)
    if rule is None:
        raise InvalidInput(f"Unrecognized update requirement. Cannot convert to json: {kind}")
    return {"type": kind, **rule.take(source)}


def _expected(requirement: Requirement) -> object:
    return {name: value for name, value in requirement.items() if name != "type"}


def _read_uuid(source: Mapping[str, Any]) -> dict[str, Any]:
    return {"uuid": read.require_str(source, "uuid", ASSERT_TABLE_UUID)}


def _uuid_failure(requirement: Requirement, base: TableMetadata) -> RequirementFailed | None:
    wanted = requirement["uuid"]
    if base.has_uuid(wanted):
        return None
    found = "null" if base.uuid is None else base.uuid
    message = f"UUID does not match: expected {found} != {wanted}"
    return RequirementFailed(ASSERT_TABLE_UUID, message, expected=wanted, found=base.uuid)


def _read_ref(source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ref": read.require_str(source, "ref", ASSERT_REF_SNAPSHOT_ID),
        "snapshot-id": read.optional_long(source, "snapshot-id", ASSERT_REF_SNAPSHOT_ID),
    }


def _ref_failure(requirement: Requirement, base: TableMetadata) -> RequirementFailed | None:
    name, wanted = requirement["ref"], requirement["snapshot-id"]
    ref = base.ref(name)
    found = None if ref is None else ref.snapshot_id
    if found == wanted:
        return None
    if ref is None:
        message = f"branch or tag {name} is missing, expected {wanted}"
    elif wanted is None:
        message = f"{ref.type} {name} was created concurrently"
    else:
        message = f"{ref.type} {name} has changed: expected id {wanted} != {found}"
    return RequirementFailed(ASSERT_REF_SNAPSHOT_ID, message, expected=wanted, found=found)


def _id_rule(kind: str, what: str, current: Callable[[TableMetadata], int]) -> _Rule:
    """The rule that one id of the table is still the one that the client read. Its field is called as the type is."""
    field = kind.removeprefix("assert-")

    def read_id(source: Mapping[str, Any]) -> dict[str, Any]:
        return {field: read.require_int(source, field, kind)}

    def id_failure(requirement: Requirement, base: TableMetadata) -> RequirementFailed | None:
        wanted, found = requirement[field], current(base)
        if wanted == found:
            return None
        message = f"{what} changed: expected id {wanted} != {found}"
        return RequirementFailed(kind, message, expected=wanted, found=found)

    return _Rule(read_id, id_failure)


#: What must be as the client read it: of each type, how messages call the id, and the table's own.
_IDS: Mapping[str, tuple[str, Callable[[TableMetadata], int]]] = {
    ASSERT_LAST_ASSIGNED_FIELD_ID: ("last assigned field id", lambda base: base.last_column_id),
    ASSERT_CURRENT_SCHEMA_ID: ("current schema", lambda base: base.current_schema_id),
    ASSERT_LAST_ASSIGNED_PARTITION_ID: ("last assigned partition id", lambda base: base.last_partition_id),
    ASSERT_DEFAULT_SPEC_ID: ("default partition spec", lambda base: base.default_spec_id),
    ASSERT_DEFAULT_SORT_ORDER_ID: ("default sort order", lambda base: base.default_sort_order_id),
}
_RULES: Mapping[str, _Rule] = {
    # `failure` handles it itself, the only requirement on a missing table.
    ASSERT_CREATE: _Rule(lambda _source: {}, lambda _requirement, _base: None),
    ASSERT_TABLE_UUID: _Rule(_read_uuid, _uuid_failure),
    ASSERT_REF_SNAPSHOT_ID: _Rule(_read_ref, _ref_failure),
    **{kind: _id_rule(kind, what, current) for kind, (what, current) in _IDS.items()},
}
