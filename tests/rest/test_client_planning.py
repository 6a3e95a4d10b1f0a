from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import SortOrder
from iceberg_hms.format.updates.create import new_table_metadata
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.client_planning import table_properties
from iceberg_hms.rest.settings import RestSettings
from tests.rest.fakes import ScriptedCatalog, Web

FIELDS = [
    {"id": 1, "name": "day", "required": False, "type": "date"},
    {"id": 2, "name": "f", "required": False, "type": "float"},
    {"id": 3, "name": "d", "required": False, "type": "double"},
    {"id": 4, "name": "n", "required": False, "type": "long"},
]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": FIELDS}
BY_CLIENT = {"scan-planning-mode": "client"}


def metadata(column: int, transform: str, version: int = 2) -> TableMetadata:
    fields = [{"source-id": column, "field-id": 1000, "name": "p", "transform": transform}]
    spec = PartitionSpec.parse({"spec-id": 0, "fields": fields})
    order = SortOrder.parse({"order-id": 0, "fields": []})
    properties = {"format-version": str(version)}
    return new_table_metadata(Schema.parse(SCHEMA), spec, order, "file:/t", properties, uuid=str(UUID(int=1)), now_ms=1)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (metadata(1, "identity"), {}),
        (metadata(4, "bucket[4]"), {}),
        (metadata(2, "void"), {}),
        (metadata(2, "identity"), BY_CLIENT),
        (metadata(3, "identity"), BY_CLIENT),
        (metadata(1, "day", version=1), {}),
        (metadata(1, "day", version=3), BY_CLIENT),
    ],
)
def test_java_plans_what_it_would_misread(table: TableMetadata, expected: dict[str, str]) -> None:
    for mode in ("offered", "preferred"):
        assert table_properties(RestSettings(rest_scan_planning=mode), table) == expected
    assert table_properties(RestSettings(rest_scan_planning="off"), table) == {}


def test_a_partition_by_floats_of_a_former_spec_counts() -> None:
    table = metadata(3, "identity")
    spec = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1001, "name": "q", "transform": "identity"}]}
    changed = {"partition-specs": [*table.raw["partition-specs"], spec], "default-spec-id": 1}
    assert table_properties(RestSettings(), TableMetadata({**table.raw, **changed})) == BY_CLIENT
    # The column was dropped since.
    schemas = [*table.raw["schemas"], {"type": "struct", "schema-id": 1, "fields": FIELDS[:1]}]
    later = {**changed, "schemas": schemas, "current-schema-id": 1}
    assert table_properties(RestSettings(), TableMetadata({**table.raw, **later})) == BY_CLIENT


def test_what_the_settings_say_of_the_mode_counts() -> None:
    table = metadata(1, "day", version=3)
    chosen = RestSettings(rest_table_config="scan-planning-mode=server,a=b")
    assert table_properties(chosen, table) == {"scan-planning-mode": "server", "a": "b"}
    assert table_properties(RestSettings(rest_table_config="a=b"), table) == {"a": "b", **BY_CLIENT}


def test_a_load_says_so_and_a_commit_has_the_tag_of_the_load() -> None:
    catalog = ScriptedCatalog()
    web = Web(create_app(catalog, settings=catalog.rest_settings))
    path = "/v1/namespaces/default/tables/"
    for version, expected in (("2", {}), ("3", BY_CLIENT)):
        body: dict[str, Any] = {"name": f"t{version}", "schema": SCHEMA, "properties": {"format-version": version}}
        assert web("POST", path.rstrip("/"), body).json()["config"] == expected
        update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        committed = web("POST", f"{path}t{version}", update)
        loaded = web("GET", f"{path}t{version}")
        assert loaded.json()["config"] == expected
        assert committed.headers["etag"] == loaded.headers["etag"]
