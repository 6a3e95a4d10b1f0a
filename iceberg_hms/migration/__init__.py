"""Hive tables become Iceberg tables where they lie, on Spark: their files stay, and their metadata is made anew.

    from iceberg_hms import migration

    report = migration.migrate(spark, "nyc.flights")
    migration.undo(catalog, "nyc.flights")

Needs the extra `spark`. docs/migration.md says what is migrated, how long it takes, and how to undo it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iceberg_hms.migration.database import migrate_database as migrate_database
    from iceberg_hms.migration.driver import spark_session as spark_session
    from iceberg_hms.migration.in_place import migrate as migrate
    from iceberg_hms.migration.more_files import add_files as add_files
    from iceberg_hms.migration.more_files import late_files as late_files
    from iceberg_hms.migration.report import MigrationReport as MigrationReport
    from iceberg_hms.migration.reversal import keep as keep
    from iceberg_hms.migration.reversal import undo as undo
    from iceberg_hms.migration.snapshot_table import snapshot as snapshot

_HOMES = {
    "MigrationReport": "report",
    "add_files": "more_files",
    "keep": "reversal",
    "late_files": "more_files",
    "migrate": "in_place",
    "migrate_database": "database",
    "snapshot": "snapshot_table",
    "spark_session": "driver",
    "undo": "reversal",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"iceberg_hms.migration.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark":
            raise
        from iceberg_hms.errors import EngineError

        raise EngineError(
            "The pyspark package is not installed", next_step="pip install 'iceberg-hms[spark]'"
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
