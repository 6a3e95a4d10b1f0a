"""Which JSON is refused as table metadata, and what the error names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.format.documents import FIRST, OLD_V1, SECOND, V1, V2, V3

REQUIRED = {
    1: ["format-version", "location", "last-updated-ms", "last-column-id", "current-schema-id", "default-spec-id"],
    2: ["table-uuid", "last-sequence-number", "last-partition-id", "schemas", "partition-specs", "sort-orders"],
    3: ["next-row-id", "default-sort-order-id"],
}


@pytest.mark.parametrize(
    ("version", "field"),
    [(version, field) for version in (1, 2, 3) for since in range(1, version + 1) for field in REQUIRED[since]],
)
def test_a_required_field_that_is_missing_is_named(version: int, field: str) -> None:
    raw = copy.deepcopy({1: V1, 2: V2, 3: V3}[version])
    TableMetadata.parse(raw)
    del raw[field]
    with pytest.raises(InvalidInput, match=f"required field is missing: {field}"):
        TableMetadata.parse(raw)
    raw[field] = [None] if field != "location" else 5
    with pytest.raises(InvalidInput):
        TableMetadata.parse(raw)


@pytest.mark.parametrize("field", ["schema", "partition-spec"])
def test_an_old_v1_file_needs_its_schema_and_spec(field: str) -> None:
    raw = {key: value for key, value in OLD_V1.items() if key != field}
    with pytest.raises(InvalidInput, match="required field is missing"):
        TableMetadata.parse(raw)


@pytest.mark.parametrize("version", [4, 5, 1000])
def test_later_format_versions_are_refused_as_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"unsupported version {version}"):
        TableMetadata.parse({**V3, "format-version": version})


@pytest.mark.parametrize("version", [0, -1, "2", True, 2.0, None])
def test_invalid_format_versions_are_refused(version: Any) -> None:
    with pytest.raises(InvalidInput, match="format-version") as caught:
        TableMetadata.parse({**V2, "format-version": version})
    assert not isinstance(caught.value, UnsupportedFormat)


@pytest.mark.parametrize(
    "encrypted",
    [
        {"encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "aWNl"}]},
        {"properties": {"encryption.key-id": "k"}},
        {"snapshots": [{**V3["snapshots"][0], "key-id": "k"}, V3["snapshots"][1]]},
    ],
)
def test_encrypted_tables_are_refused_as_unsupported(encrypted: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFormat, match="encrypted"):
        TableMetadata.parse({**V3, **encrypted}).verify()
    assert TableMetadata.parse({**V3, "encryption-keys": []}).verify()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"current-schema-id": 7}, "current-schema-id: there is none with id 7"),
        ({"default-spec-id": 7}, "default-spec-id: there is none with id 7"),
        ({"default-sort-order-id": 7}, "default-sort-order-id: there is none with id 7"),
        ({"schemas": []}, "schemas must not be empty"),
        ({"partition-specs": {}}, "partition-specs must be a list"),
        ({"properties": {"a": 1}}, "properties: the value of 'a'"),
        ({"properties": []}, "properties must be an object"),
        ({"snapshots": {}}, "snapshots must be a list"),
        ({"refs": []}, "refs must be a JSON object"),
        ({"last-column-id": 2**31}, "last-column-id must be an int"),
    ],
)
def test_the_shape_is_checked_at_once(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        TableMetadata.parse({**V2, **changes})


def _first(raw: dict[str, Any], **changes: Any) -> None:
    raw["snapshots"][0].update({key.replace("_", "-"): value for key, value in changes.items()})


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda raw: raw["snapshots"].append(7), "snapshot must be a JSON object"),
        (lambda raw: raw["snapshots"].append(raw["snapshots"][0]), f"same id {FIRST}"),
        (lambda raw: _first(raw, snapshot_id=None), "snapshot: snapshot-id"),
        (lambda raw: _first(raw, sequence_number=35), "greater than last sequence number 34"),
        (lambda raw: raw.update({"current-snapshot-id": 7}), "there is no snapshot 7"),
        (lambda raw: raw.update({"current-snapshot-id": FIRST}), f"does not match main branch {SECOND}"),
        (lambda raw: raw.update({"current-snapshot-id": -1}), f"does not match main branch {SECOND}"),
        (lambda raw: raw["refs"]["test"].update({"snapshot-id": 7}), "test names snapshot 7, which is not there"),
        (lambda raw: raw["refs"].update({"b": {"type": "branch"}}), "ref 'b': required field is missing: snapshot-id"),
        (lambda raw: raw["snapshot-log"].append({"snapshot-id": FIRST}), "snapshot-log: required field is missing"),
        (lambda raw: raw["metadata-log"].append({"timestamp-ms": 1}), "missing: metadata-file"),
        (lambda raw: raw.update({"statistics": [{}]}), "statistics: required field is missing: snapshot-id"),
        (lambda raw: raw.update({"partition-statistics": [1]}), "partition-statistics must be a JSON object"),
    ],
)
def test_snapshots_and_logs_are_checked_by_verify(damage: Callable[[dict[str, Any]], Any], why: str) -> None:
    raw = copy.deepcopy(V2)
    assert TableMetadata.parse(copy.deepcopy(raw)).verify().raw == raw
    damage(raw)
    with pytest.raises(InvalidInput, match=why):
        TableMetadata.parse(raw).verify()
