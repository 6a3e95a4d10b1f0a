"""Identity, format version, location, properties and statistics in apply."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.table import RESERVED_PROPERTIES
from tests.format import documents
from tests.format.documents import FIRST, NOW_MS, OLD_V1, SECOND


def run(base: TableMetadata, *updates: dict[str, Any]) -> TableMetadata:
    return apply(base, updates, now_ms=NOW_MS)


def upgrade(version: Any) -> dict[str, Any]:
    return {"action": "upgrade-format-version", "format-version": version}


def set_properties(**updates: Any) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {key.replace("_", "-"): value for key, value in updates.items()}}


def test_a_uuid_is_assigned_once() -> None:
    base = TableMetadata.parse({key: value for key, value in OLD_V1.items() if key != "table-uuid"})
    assert base.uuid is None
    uuid = "9c12d441-03fe-4693-9a96-a0705ddf69ca"
    after = run(base, {"action": "assign-uuid", "uuid": uuid})
    assert after.uuid == uuid
    assert run(after, {"action": "assign-uuid", "uuid": uuid.upper()}) is after
    for bad in ("other", "", documents.UUID):
        with pytest.raises(InvalidInput):
            run(after, {"action": "assign-uuid", "uuid": bad})
    for bad in ("", "u", f" {uuid}", uuid.replace("-", "")):
        with pytest.raises(InvalidInput, match="uuid must be a UUID"):
            run(base, {"action": "assign-uuid", "uuid": bad})
    with pytest.raises(InvalidInput, match="UUID is required in format v2"):
        run(base, upgrade(2))
    assert run(base, upgrade(2), {"action": "assign-uuid", "uuid": uuid}).verify().uuid == uuid


@pytest.mark.parametrize("document", [OLD_V1, documents.V1])
@pytest.mark.parametrize("version", [2, 3])
def test_v1_is_upgraded_with_all_fields_of_later_versions(document: dict[str, Any], version: int) -> None:
    after = run(TableMetadata.parse(document), upgrade(version))
    again = TableMetadata.parse(after.to_bytes()).verify()
    assert (again.format_version, again.last_sequence_number) == (version, 0)
    assert not {"schema", "partition-spec"} & again.raw.keys()
    assert again.raw["schemas"][0]["schema-id"] == 0
    assert again.raw["partition-specs"][0]["fields"][0]["field-id"] == 1000
    assert again.raw["snapshots"] == document["snapshots"]
    assert (again.raw.get("next-row-id"), again.raw["current-snapshot-id"]) == (
        (0, None) if version == 3 else (None, -1)
    )


def test_v2_is_upgraded_and_never_goes_back() -> None:
    after = run(documents.metadata(2), upgrade(3)).verify()
    assert (after.format_version, after.next_row_id, after.current_snapshot_id) == (3, 0, SECOND)
    assert after.raw["a-field-of-tomorrow"] == documents.V2["a-field-of-tomorrow"]
    with pytest.raises(InvalidInput, match="Cannot downgrade v3 table to v2"):
        run(after, upgrade(2))
    with pytest.raises(UnsupportedFormat, match="unsupported format version: v4"):
        run(after, upgrade(4))


def test_the_format_version_property_upgrades() -> None:
    after = run(documents.metadata(2), set_properties(format_version="3", a="b"))
    assert after.format_version == 3
    assert after.properties["a"] == "b"
    assert "format-version" not in after.properties
    base = documents.metadata(2)
    assert run(base, set_properties(format_version="2")) is base
    for bad in ("1", "x", ""):
        with pytest.raises(InvalidInput):
            run(base, set_properties(format_version=bad))


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES - {"format-version"}))
def test_reserved_properties_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"reserved properties, but got {name}"):
        run(documents.metadata(), {"action": "set-properties", "updates": {name: "1"}})


@pytest.mark.parametrize("updates", [{"a": 1}, {"a": None}, [], "a"])
def test_properties_are_strings(updates: Any) -> None:
    with pytest.raises(InvalidInput, match="set-properties: updates"):
        run(documents.metadata(), {"action": "set-properties", "updates": updates})


@pytest.mark.parametrize(
    ("name", "value"),
    [("write.metadata.compression-codec", "zip"), ("write.metadata.previous-versions-max", "-1")],
)
def test_properties_that_prevent_the_next_metadata_file_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        run(documents.metadata(), {"action": "set-properties", "updates": {name: value}})


def test_a_value_that_another_writer_set_may_be_sent_again_but_not_changed_to_another_bad_one() -> None:
    """A client that replaces a table sends all of its properties."""
    base = documents.metadata(properties={"commit.manifest.min-count-to-merge": "x"})
    sent = {"commit.manifest.min-count-to-merge": "x", "a": "1"}
    after = run(base, {"action": "set-properties", "updates": sent})
    assert after.properties == sent
    with pytest.raises(InvalidInput, match="min-count-to-merge must be"):
        run(after, set_properties(**{"commit.manifest.min-count-to-merge": "y"}))


def test_properties_come_and_go() -> None:
    base = documents.metadata()
    after = run(base, set_properties(a="1", b="2"), {"action": "remove-properties", "removals": ["a", "a", "none"]})
    assert after.properties == {**base.properties, "b": "2"}


def test_a_location_has_no_slash_at_its_end() -> None:
    assert (
        run(documents.metadata(), {"action": "set-location", "location": "file:/a b/"}).raw["location"] == "file:/a b"
    )
    with pytest.raises(InvalidInput, match="location must not be empty"):
        run(documents.metadata(), {"action": "set-location", "location": ""})


def statistics(snapshot_id: Any = FIRST, **more: Any) -> dict[str, Any]:
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": FIRST, "sequence-number": 1, "fields": [1]}
    file = {"snapshot-id": snapshot_id, "statistics-path": "s3://p", "file-size-in-bytes": 5}
    return {**file, "file-footer-size-in-bytes": 2, "blob-metadata": [blob], **more}


@pytest.mark.parametrize(
    ("set_action", "key", "remove_action"),
    [
        ("set-statistics", "statistics", "remove-statistics"),
        ("set-partition-statistics", "partition-statistics", "remove-partition-statistics"),
    ],
)
def test_statistics_are_one_file_a_snapshot(set_action: str, key: str, remove_action: str) -> None:
    old, new, other = statistics(), statistics(**{"statistics-path": "s3://new"}), statistics(SECOND)
    base = documents.metadata()
    after = run(base, *({"action": set_action, key: file} for file in (old, other, new))).verify()
    assert after.raw[key] == [other, new]
    gone = run(after, {"action": remove_action, "snapshot-id": FIRST})
    assert gone.raw[key] == [other]
    assert run(gone, {"action": remove_action, "snapshot-id": FIRST}) is gone


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (None, "must be a JSON object"),
        (statistics("1"), "snapshot-id must be a long"),
        (statistics(**{"statistics-path": None}), "required field is missing: statistics-path"),
        (statistics(**{"statistics-path": 1}), "statistics-path must be a string"),
        (statistics(**{"blob-metadata": [{}]}), "blob-metadata: required field is missing: type"),
        (statistics(**{"blob-metadata": None}), "required field is missing: blob-metadata"),
        (statistics(**{"file-footer-size-in-bytes": "x"}), "file-footer-size-in-bytes must be a long"),
    ],
)
def test_invalid_statistics_are_refused(file: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        run(documents.metadata(), {"action": "set-statistics", "statistics": file})


def test_encryption_is_unsupported() -> None:
    base = documents.metadata(3)
    with pytest.raises(UnsupportedFormat):
        run(base, {"action": "set-properties", "updates": {"encryption.key-id": "k"}})
    assert run(base, {"action": "remove-encryption-key", "key-id": "k"}) is base
