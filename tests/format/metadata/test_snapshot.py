"""Snapshots and refs."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import Ref, Snapshot

LONE = {"snapshot-id": 1, "timestamp-ms": 2}


def test_every_field_is_read() -> None:
    raw = {
        "snapshot-id": 5,
        "parent-snapshot-id": 4,
        "sequence-number": 3,
        "timestamp-ms": 2,
        "manifest-list": "a.avro",
        "summary": {"operation": "append", "added-records": "1"},
        "schema-id": 1,
        "first-row-id": 10,
        "added-rows": 7,
        "key-id": "k",
        "tomorrow": {},
    }
    snapshot = Snapshot.parse(raw)
    assert snapshot.raw == raw
    assert (snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.sequence_number, snapshot.timestamp_ms) == (
        5,
        4,
        3,
        2,
    )
    assert (snapshot.manifest_list, snapshot.manifests, snapshot.operation) == ("a.avro", (), "append")
    assert (snapshot.schema_id, snapshot.first_row_id, snapshot.added_rows, snapshot.key_id) == (1, 10, 7, "k")
    assert snapshot.summary["added-records"] == "1"


def test_fields_that_v1_leaves_out_have_defaults() -> None:
    snapshot = Snapshot.parse({**LONE, "manifests": ["a", "b"]})
    assert (snapshot.parent_snapshot_id, snapshot.sequence_number, snapshot.manifest_list) == (None, 0, None)
    assert (snapshot.manifests, snapshot.summary, snapshot.operation) == (("a", "b"), {}, None)
    assert (snapshot.schema_id, snapshot.first_row_id, snapshot.added_rows, snapshot.key_id) == (None, None, None, None)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        {"snapshot-id": 1},
        {"timestamp-ms": 1},
        {**LONE, "snapshot-id": "1"},
        {**LONE, "snapshot-id": 2**63},
        {**LONE, "parent-snapshot-id": "x"},
        {**LONE, "sequence-number": 1.5},
        {**LONE, "manifest-list": 1},
        {**LONE, "manifests": [1]},
        {**LONE, "summary": {"operation": "append", "added-records": 1}},
        {**LONE, "schema-id": True},
        {**LONE, "schema-id": 2**31},
        {**LONE, "schema-id": -(2**31) - 1},
        {**LONE, "sequence-number": 2**63},
        {**LONE, "timestamp-ms": True},
        {**LONE, "summary": []},
        [1],
    ],
)
def test_json_that_is_not_a_snapshot_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInput):
        Snapshot.parse(raw)


def test_null_equals_absent() -> None:
    snapshot = Snapshot.parse({**LONE, "parent-snapshot-id": None, "summary": None, "manifests": None})
    assert (snapshot.parent_snapshot_id, snapshot.summary, snapshot.manifests) == (None, {}, ())


def test_a_ref_has_the_values_of_its_json() -> None:
    raw = {
        "snapshot-id": 1,
        "type": "branch",
        "min-snapshots-to-keep": 2,
        "max-snapshot-age-ms": 3,
        "max-ref-age-ms": 4,
    }
    ref = Ref.parse(raw, "b")
    assert ref == Ref(1, "branch", 2, 3, 4)
    assert ref.is_branch
    assert ref.to_json() == raw
    assert Ref(1).to_json() == {"snapshot-id": 1, "type": "branch"}
    assert Ref.parse({"snapshot-id": 1, "type": "TAG", "max-ref-age-ms": None}, "t") == Ref(1, "tag")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (None, "ref 'r' must be a JSON object"),
        ({"type": "branch"}, "missing: snapshot-id"),
        ({"snapshot-id": 1}, "missing: type"),
        ({"snapshot-id": 1, "type": "twig"}, "must be branch or tag"),
        ({"snapshot-id": 1, "type": "tag", "min-snapshots-to-keep": 1}, "tags do not support"),
        ({"snapshot-id": 1, "type": "tag", "max-snapshot-age-ms": 1}, "tags do not support"),
        ({"snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 0}, "greater than 0"),
        ({"snapshot-id": 1, "type": "branch", "max-ref-age-ms": -1}, "greater than 0"),
    ],
)
def test_json_that_is_not_a_ref_is_refused(raw: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Ref.parse(raw, "r")
