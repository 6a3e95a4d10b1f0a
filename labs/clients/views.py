"""Views that another engine made, for the engines to read or to refuse."""

from __future__ import annotations

from typing import Any, Final

from labs.clients.lab import Place

SPARK: Final = "spark"


def spark_view(place: Place, name: str, table: str = "t") -> Any:
    """A view of all rows of a table with `id` and `name`, with SQL of Spark alone, as Spark's CREATE VIEW makes it."""
    fields = [
        {"id": number, "name": column, "type": kind, "required": False}
        for number, (column, kind) in enumerate((("id", "long"), ("name", "string")), 1)
    ]
    sql = f"SELECT id, name FROM {place.table(table)}"
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {"engine-name": "spark"},
        "default-namespace": [place.namespace],
        "representations": [{"type": "sql", "sql": sql, "dialect": SPARK}],
    }
    return place.lab.catalog.views.create(place.table(name), {"type": "struct", "fields": fields}, version)
