"""View metadata in JSON: the spec's example, and what tests make of it."""

from __future__ import annotations

from typing import Any


def column(number: int, name: str, kind: str = "int", **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def schema(schema_id: int = 0, *columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": schema_id, "fields": list(columns) or [column(1, "x", "long")]}


def version(number: int, sql: str, *, schema_id: int = 0, time: int = 1_000, **more: Any) -> dict[str, Any]:
    """A version with SQL for Spark."""
    return {
        "version-id": number,
        "timestamp-ms": time,
        "schema-id": schema_id,
        "default-catalog": "prod",
        "default-namespace": ["default"],
        "summary": {"user": "some-user"},
        "representations": [sql_text(sql)],
        **more,
    }


def sql_text(sql: str, dialect: str = "spark") -> dict[str, str]:
    return {"type": "sql", "sql": sql, "dialect": dialect}


def spec_example() -> dict[str, Any]:
    """The second metadata file of the view spec's Appendix A."""
    summary = {"engine-name": "Spark", "engine-version": "3.3.2"}
    text = "SELECT\n    COUNT(1), CAST(event_ts AS DATE)\nFROM {}\nGROUP BY 2"
    columns = (column(1, "event_count", doc="Count of events"), column(2, "event_date", "date"))
    return {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "s3://bucket/warehouse/default.db/event_agg",
        "current-version-id": 2,
        "properties": {"comment": "Daily event counts"},
        "versions": [
            version(1, text.format("events"), schema_id=1, time=1573518431292, summary=summary),
            version(2, text.format("prod.default.events"), schema_id=1, time=1573518981593, summary=summary),
        ],
        "schemas": [schema(1, *columns)],
        "version-log": [
            {"timestamp-ms": 1573518431292, "version-id": 1},
            {"timestamp-ms": 1573518981593, "version-id": 2},
        ],
    }
