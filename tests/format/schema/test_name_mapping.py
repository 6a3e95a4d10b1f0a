"""A name mapping names every field."""

from __future__ import annotations

from iceberg_hms.format.schema.name_mapping import name_mapping
from iceberg_hms.format.schema.schema import Schema


def test_a_name_mapping_names_every_field_at_every_depth() -> None:
    schema = Schema.parse(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                {
                    "id": 2,
                    "name": "points",
                    "required": False,
                    "type": {
                        "type": "list",
                        "element-id": 3,
                        "element-required": True,
                        "element": {
                            "type": "struct",
                            "fields": [{"id": 4, "name": "x", "required": True, "type": "float"}],
                        },
                    },
                },
            ],
        }
    )
    assert name_mapping(schema) == [
        {"field-id": 1, "names": ["id"]},
        {
            "field-id": 2,
            "names": ["points"],
            "fields": [{"field-id": 3, "names": ["element"], "fields": [{"field-id": 4, "names": ["x"]}]}],
        },
    ]
