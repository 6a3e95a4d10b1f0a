"""Updates of tables and views with one field changed: each field, at each depth, missing, null, of other types, out of
range and in other spellings. What a client may have sent is then either refused, or stored so that all readers load it.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.format.views.view_metadata import ViewMetadata

UUID: Final = str(uuid.UUID(int=7))
HEAD: Final = 11
_VALUES: Final[list[Any]] = [
    *(None, "x", "", 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 1.5, 1.0, True),
    *({}, [], [None], ["x"], [1], {"a": None}, {"a": 1}, {"a": "b"}),
]


class Changed(NamedTuple):
    """path: of the changed field. value: what it has now; MISSING: nothing. update: with it."""

    path: str
    value: Any
    update: dict[str, Any]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def changed(update: dict[str, Any]) -> Iterator[Changed]:
    """An update with each of its fields changed, except its action."""
    for path in _paths(update, ()):
        if path in ((), ("action",)):
            continue
        was = _at(update, path)
        spelled = [was.upper(), f" {was} "] if isinstance(was, str) else []
        for value in [MISSING, *spelled, *_VALUES]:
            if repr(value) == repr(was):
                continue
            found = copy.deepcopy(update)
            around = _at(found, path[:-1])
            if value is MISSING:
                del around[path[-1]]
            else:
                around[path[-1]] = copy.deepcopy(value)
            yield Changed(".".join(map(str, path)), value, found)


def _paths(node: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from _paths(value, (*path, key))


def _at(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


def _column(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": number == 1, "type": kind, **more}


def _columns(version: int) -> list[dict[str, Any]]:
    defaults = {"initial-default": "a", "write-default": "b"} if version > 2 else {}
    element = {"type": "list", "element-id": 12, "element": "string", "element-required": False}
    ids = {"key-id": 14, "value-id": 15, "value-required": True}
    return [
        _column(1, "id", "long"),
        _column(2, "name", "string", doc="d", **defaults),
        _column(3, "amount", "decimal(9, 2)"),
        _column(9, "st", {"type": "struct", "fields": [_column(10, "x", "int", doc="d")]}),
        _column(11, "li", element),
        _column(13, "m", {"type": "map", **ids, "key": "string", "value": "int"}),
    ]


def _schema(schema_id: int, columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": schema_id, "fields": columns}


def _snapshot(version: int, number: int, **more: Any) -> dict[str, Any]:
    found = {
        "snapshot-id": number,
        "timestamp-ms": 1500 + number,
        "summary": {"operation": "append"},
        "manifest-list": "file:/w/t/metadata/s.avro",
        "schema-id": 0,
        **more,
    }
    if version > 1:
        found["sequence-number"] = number - HEAD + 1
    if version > 2:
        found |= {"first-row-id": 3 * (number - HEAD), "added-rows": 3}
    return found


def table(version: int) -> TableMetadata:
    """A table with a snapshot, and two schemas, specs and sort orders."""
    schema = Schema.parse(_schema(0, _columns(1)[:3]))
    new = new_table_metadata(
        schema, None, None, "file:/w/t", {"a": "b"}, format_version=version, uuid=UUID, now_ms=1000
    )
    fields = [{"source-id": 1, "field-id": 1000, "transform": "identity", "name": "id"}]
    by_id = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    updates: list[dict[str, Any]] = [
        {"action": "add-snapshot", "snapshot": _snapshot(version, HEAD)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": HEAD},
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": fields}},
        {"action": "add-schema", "schema": _schema(1, _columns(1)[:2])},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [by_id]}},
    ]
    return apply(new, updates, now_ms=2000)


def of_tables(version: int) -> list[dict[str, Any]]:
    """An update of each action, with all its fields, as `table` takes it."""
    blob = {
        "type": "apache-datasketches-theta-v1",
        "snapshot-id": HEAD,
        "sequence-number": 1,
        "fields": [1],
        "properties": {"ndv": "1"},
    }
    file = {"snapshot-id": HEAD, "statistics-path": "file:/w/t/s.puffin", "file-size-in-bytes": 5}
    by_name = {"transform": "identity", "source-id": 2, "direction": "desc", "null-order": "nulls-last"}
    bucket = {"source-id": 2, "field-id": 1000 if version == 1 else 1001, "transform": "bucket[4]", "name": "b"}
    ages = {"max-ref-age-ms": 5, "max-snapshot-age-ms": 6, "min-snapshots-to-keep": 7}
    schema = {**_schema(2, _columns(version)), "identifier-field-ids": [1]}
    return [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": schema, "last-column-id": 15},
        {"action": "set-current-schema", "schema-id": 1},
        {"action": "remove-schemas", "schema-ids": [1]},
        {"action": "add-spec", "spec": {"spec-id": 2, "fields": [bucket]}},
        {"action": "add-spec", "spec": {"spec-id": 2, "fields": [{**bucket, "source-ids": [2]}]}},
        {"action": "set-default-spec", "spec-id": 1},
        {"action": "remove-partition-specs", "spec-ids": [1]},
        {"action": "add-sort-order", "sort-order": {"order-id": 2, "fields": [by_name]}},
        {"action": "set-default-sort-order", "sort-order-id": 1},
        {"action": "add-snapshot", "snapshot": _snapshot(version, HEAD + 1, **{"parent-snapshot-id": HEAD})},
        {"action": "remove-snapshots", "snapshot-ids": [12]},
        {"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": HEAD, **ages},
        {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": HEAD, "max-ref-age-ms": 5},
        {"action": "remove-snapshot-ref", "ref-name": "b"},
        {"action": "set-properties", "updates": {"c": "d"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "set-location", "location": "file:/w/t2"},
        {
            "action": "set-statistics",
            "snapshot-id": HEAD,
            "statistics": {**file, "file-footer-size-in-bytes": 4, "blob-metadata": [blob], "key-metadata": "a2V5"},
        },
        {"action": "remove-statistics", "snapshot-id": HEAD},
        {"action": "set-partition-statistics", "partition-statistics": file},
        {"action": "remove-partition-statistics", "snapshot-id": HEAD},
        {"action": "remove-encryption-key", "key-id": "k"},
    ]


def _version(number: int) -> dict[str, Any]:
    return {
        "version-id": number,
        "schema-id": 0,
        "timestamp-ms": 1000 + number,
        "summary": {"engine-name": "x"},
        "default-catalog": "c",
        "default-namespace": ["d"],
        "representations": [{"type": "sql", "sql": f"select {number}", "dialect": "spark"}],
    }


def view() -> ViewMetadata:
    """A view with one version."""
    schema = _schema(0, _columns(1)[:2])
    return new_view_metadata(UUID, "file:/w/v", {"a": "b"}, schema, _version(1), now_ms=2000)


def of_views() -> list[list[dict[str, Any]]]:
    """Updates of each action, as `view` takes them."""
    return [
        [{"action": "assign-uuid", "uuid": UUID}],
        [{"action": "upgrade-format-version", "format-version": 1}],
        [{"action": "add-schema", "schema": _schema(1, _columns(3))}],
        [{"action": "set-location", "location": "file:/w/v2"}],
        [{"action": "set-properties", "updates": {"c": "d"}}],
        [{"action": "remove-properties", "removals": ["a"]}],
        [
            {"action": "add-view-version", "view-version": _version(2)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    ]
