"""The schema with which manifests of an old partition spec are written."""

from iceberg_hms.changes.operations.spec_schema import schema_of_spec
from tests.changes.tables import BY_LEVEL, FIELDS, table

BOTH = {"type": "struct", "schema-id": 0, "fields": FIELDS}
ID_ONLY = {"type": "struct", "schema-id": 1, "fields": FIELDS[:1]}


def test_the_current_schema_serves_if_it_has_the_columns():
    base = table(spec=BY_LEVEL)
    assert schema_of_spec(base, base.spec) is base.schema


def test_a_dropped_column_is_found_in_an_older_schema():
    base = table(spec=BY_LEVEL, schemas=[BOTH, ID_ONLY], current_schema_id=1, default_spec_id=0)
    assert schema_of_spec(base, base.specs[0]).schema_id == 0
