"""Updates that fitted the table that their client saw, and no longer fit: whatever another writer may have caused is a
conflict, after which clients look at the table again."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.staging.staging import UPDATES_FIT, RecordedWrites, stage_one
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.tables import UUID, snapshot, table


def staged(base: TableMetadata, sent: list[Any]) -> TableMetadata:
    recorded = RecordedWrites(MemoryManifestStore().open())
    return stage_one(base, from_request([], sent), recorded, lambda: 1_000)[0]


def layout(action: str, **fields: Any) -> dict[str, Any]:
    return {"action": action, **{name.replace("_", "-"): value for name, value in fields.items()}}


def add_columns(schema_id: int, *names: str) -> dict[str, Any]:
    """columns beside `id`; their ids are 2, and from 3 on."""
    known = {"level": 2}
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    for place, name in enumerate(names, 3):
        fields.append({"id": known.get(name, place), "name": name, "required": False, "type": "string"})
    return layout("add-schema", schema={"type": "struct", "schema-id": schema_id, "fields": fields})


def add_spec(name: str, field_id: int = 1000, transform: str = "identity") -> dict[str, Any]:
    field = {"source-id": 2, "field-id": field_id, "transform": transform, "name": name}
    return layout("add-spec", spec={"spec-id": 1, "fields": [field]})


ADD_ORDER = layout(
    "add-sort-order",
    sort_order={
        "order-id": 1,
        "fields": [{"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}],
    },
)
CHOOSE_SCHEMA, CHOOSE_SPEC = layout("set-current-schema", schema_id=-1), layout("set-default-spec", spec_id=-1)
CHOOSE_ORDER = layout("set-default-sort-order", sort_order_id=-1)
DROP_LEVEL = [add_columns(1), CHOOSE_SCHEMA]
UPGRADE_2, UPGRADE_3 = (layout("upgrade-format-version", format_version=version) for version in (2, 3))

#: What a client assumes -> what there is before, what another writer does then, what the client sends, and the message.
NO_LONGER_FITS: dict[str, tuple[list[Any], list[Any], list[Any], str]] = {
    "the schema that it chooses": (
        [add_columns(1, "level", "new")],
        [layout("remove-schemas", schema_ids=[1])],
        [layout("set-current-schema", schema_id=1)],
        "Cannot set current schema to unknown schema: 1",
    ),
    "that the schema which it removes is not the current one": (
        [add_columns(1, "level", "new")],
        [layout("set-current-schema", schema_id=1)],
        [layout("remove-schemas", schema_ids=[1])],
        "Cannot remove the current schema",
    ),
    "the id of its own schema": (
        [],
        [add_columns(1, "level", "theirs")],
        [add_columns(1, "level", "ours"), layout("set-current-schema", schema_id=1)],
        "Cannot set current schema to 1: the schema that was sent as 1 is 2",
    ),
    "the spec that it chooses": (
        [add_spec("level")],
        [layout("remove-partition-specs", spec_ids=[1])],
        [layout("set-default-spec", spec_id=1)],
        "Cannot set default partition spec to unknown spec: 1",
    ),
    "that the spec which it removes is not the default": (
        [add_spec("level")],
        [layout("set-default-spec", spec_id=1)],
        [layout("remove-partition-specs", spec_ids=[1])],
        "Cannot remove the default partition spec",
    ),
    "the column by which it partitions": (
        [],
        DROP_LEVEL,
        [add_spec("level"), CHOOSE_SPEC],
        "Cannot find source column",
    ),
    "a name for a partition field": (
        [],
        [add_columns(1, "level", "bucket"), CHOOSE_SCHEMA],
        [add_spec("bucket", transform="bucket[4]")],
        "Cannot create identity partition sourced from different field",
    ),
    "an id for a partition field": (
        [],
        [add_spec("theirs", transform="bucket[4]")],
        [add_spec("ours", transform="truncate[4]")],
        "Partition field id 1000 belongs to another field already",
    ),
    "the column by which it sorts": ([], DROP_LEVEL, [ADD_ORDER, CHOOSE_ORDER], "Cannot find source column"),
    "that nobody partitions by the column that it drops": (
        [],
        [add_spec("level"), CHOOSE_SPEC],
        DROP_LEVEL,
        "Cannot find source column for partition field",
    ),
    "that nobody sorts by the column that it drops": (
        [],
        [ADD_ORDER, CHOOSE_ORDER],
        DROP_LEVEL,
        "Cannot find source column for sort field",
    ),
    "the snapshot that it tags": (
        [],
        [layout("remove-snapshots", snapshot_ids=[1])],
        [layout("set-snapshot-ref", ref_name="kept", snapshot_id=1, type="tag")],
        "Cannot set kept to unknown snapshot: 1",
    ),
    "an older format version": ([], [UPGRADE_3], [UPGRADE_2], "Cannot downgrade v3 table to v2"),
    "a format version by its property": (
        [],
        [UPGRADE_3],
        [layout("set-properties", updates={"format-version": "2"})],
        "Cannot downgrade v3 table to v2",
    ),
    "a table without a UUID": (
        [],
        [layout("assign-uuid", uuid=UUID)],
        [layout("assign-uuid", uuid=UUID.replace("9", "8"))],
        "Cannot reassign the table's UUID",
    ),
}


#: The table in the beginning, where it is not an empty one of version 2.
FIRST = {
    "the snapshot that it tags": table(2, last_sequence_number=1, snapshots=[snapshot(1)]),
    "an older format version": table(1),
    "a format version by its property": table(1),
    "a table without a UUID": table(1, table_uuid=None),
}


@pytest.mark.parametrize("assumed", NO_LONGER_FITS)
def test_what_another_writer_made_unfit_is_a_conflict(assumed: str) -> None:
    """After 400 no client tries again, and nobody learns that another writer was the cause."""
    before, others, sent, message = NO_LONGER_FITS[assumed]
    seen = staged(FIRST.get(assumed, table(2)), before)
    assert staged(seen, sent) is not seen, "it fits the table that its client saw"
    with pytest.raises(RequirementFailed, match=message) as caught:
        staged(staged(seen, others), sent)
    assert caught.value.name == UPDATES_FIT


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([add_columns(1), CHOOSE_SCHEMA, add_spec("level")], "Cannot find source column for partition field"),
        ([add_columns(1), CHOOSE_SCHEMA, ADD_ORDER], "Cannot find source column for sort field"),
        ([layout("set-current-schema", schema_id=-1)], "no schema has been added"),
        ([layout("set-snapshot-ref", ref_name="main", snapshot_id=2, type="tag")], "Cannot make main a tag"),
        ([layout("upgrade-format-version", format_version=4)], "unsupported format version: v4"),
    ],
)
def test_what_no_other_writer_can_have_caused_is_malformed(sent: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        staged(table(2), sent)
