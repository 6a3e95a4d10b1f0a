"""Trino's views, and views of others."""

from __future__ import annotations

from typing import Final

from labs.clients.lab import Place
from labs.clients.results import Verdict, differs, refused
from labs.clients.trino.catalog import REST, Catalog
from labs.clients.views import SPARK, spark_view


def view(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2)
    name = catalog.table(place, "v")
    catalog.sql(f"CREATE VIEW {name} COMMENT 'words' AS SELECT id FROM {table} WHERE id > 1")
    assert catalog.sql(f"SELECT * FROM {name}") == [[2]]
    assert "already exists" in catalog.fails(f"CREATE VIEW {name} AS SELECT 1 AS x")
    if catalog.name == REST:
        # The hive_metastore catalog takes the metastore's refusal for success, as in a race for a table.
        assert "already exists" in catalog.fails(f"CREATE TABLE {name} (x bigint)")
    catalog.fails(f"CREATE VIEW {table} AS SELECT 1 AS x")
    catalog.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT id, name FROM {table} WHERE id = 1")
    assert catalog.sql(f"SELECT * FROM {name}") == [[1, "row 1"]]
    catalog.sql(f"ALTER VIEW {name} RENAME TO {catalog.table(place, 'w')}")
    assert catalog.ids(catalog.table(place, "w")) == [1]
    views = f"SELECT table_name FROM {catalog.name}.information_schema.views WHERE table_schema = '{place.namespace}'"
    assert catalog.sql(views) == [["w"]]
    ours = [each.name for each in place.lab.catalog.views.list(place.namespace)]
    assert ours == (["w"] if catalog.name == REST else []), ours
    catalog.sql(f"DROP VIEW {catalog.table(place, 'w')}")
    assert catalog.sql(views) == []
    assert catalog.ids(table) == [1, 2]
    if catalog.name != REST:
        return differs("kept as views of Hive, which no Iceberg client sees (TrinoHiveCatalog.createView)")
    return None


def foreign_view(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2)
    spark_view(place, "v")
    words = catalog.fails(f"SELECT * FROM {catalog.table(place, 'v')}")
    if catalog.name != REST:
        return differs(f"it does not know Iceberg's views: `{words[:200]}`")
    assert "dialect" in words, words
    assert SPARK in words, words
    assert catalog.sql(f"SHOW TABLES FROM {catalog.name}.{place.namespace}") == [["t"], ["v"]]
    return refused(f"a view that has no SQL for Trino: `{words[:200]}`")


CHECKS: Final = {"view": view, "foreign view": foreign_view}
