"""Table properties that follow columns."""

from __future__ import annotations

import orjson

from iceberg_hms.changes.operations.schema_draft import SchemaDraft
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, name_mapping
from tests.changes.operations.columns import evolve, wide_table

METRICS = "write.metadata.metrics.column."
BLOOM = "write.parquet.bloom-filter-enabled.column."


def with_properties(properties: dict[str, str]) -> TableMetadata:
    return wide_table(properties=properties)


def test_properties_follow_renamed_and_deleted_columns() -> None:
    base = with_properties(
        {
            METRICS + "level": "full",
            BLOOM + "place.lat": "true",
            METRICS + "day": "none",
            METRICS + "price": "counts",
            METRICS + "unknown": "none",
            "owner": "me",
        }
    )
    new = evolve(
        base,
        lambda draft: draft.rename_column("level", "lvl"),
        lambda draft: draft.rename_column("place", "spot"),
        lambda draft: draft.delete_column("day"),
    )
    assert new.properties == {
        METRICS + "lvl": "full",
        BLOOM + "spot.lat": "true",
        METRICS + "price": "counts",
        METRICS + "unknown": "none",
        "owner": "me",
    }


def test_properties_of_columns_that_exchange_names_are_exchanged() -> None:
    base = with_properties({METRICS + "level": "full", METRICS + "day": "none"})

    def swap(draft: SchemaDraft) -> None:
        draft.rename_column("level", "day")
        draft.rename_column("day", "level")

    assert evolve(base, swap).properties == {METRICS + "level": "none", METRICS + "day": "full"}


def test_the_name_mapping_follows() -> None:
    base = with_properties({NAME_MAPPING: orjson.dumps(name_mapping(wide_table().schema)).decode()})
    new = evolve(
        base,
        lambda draft: draft.rename_column("level", "lvl"),
        lambda draft: draft.add_column("points.z", types.INT),
        lambda draft: draft.delete_column("day"),
        lambda draft: draft.add_column("day", types.INT),
        allow_incompatible_changes=True,
    )
    mapping = {entry["field-id"]: entry for entry in orjson.loads(new.properties[NAME_MAPPING])}
    assert mapping[2]["names"] == ["level", "lvl"]
    assert mapping[3]["names"] == []
    assert mapping[21] == {"field-id": 21, "names": ["day"]}
    assert mapping[8]["fields"][0]["fields"][-1] == {"field-id": 20, "names": ["z"]}


def test_a_name_mapping_that_cannot_be_read_stays() -> None:
    for text in ("{", "{}", "[1]", '[{"field-id": 1}]', "null", '[{"field-id": [], "names": []}]'):
        new = evolve(with_properties({NAME_MAPPING: text}), lambda draft: draft.rename_column("id", "key"))
        assert new.properties == {NAME_MAPPING: text}
