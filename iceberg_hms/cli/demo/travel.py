"""Scene 4: the pointer, history and time travel, and tables that change shape in place."""

from __future__ import annotations

from iceberg_hms.cli import output
from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.inspect.history import history_rows
from iceberg_hms.inspect.pointer import parameter_rows

_TABLE = "logging.events"
#: Longer JSON (schema, spec, summary) would fill the screen.
_JSON_MAX = 60


def play(stage: Stage) -> None:
    """The pointer, then time travel, then evolution, all on the small table, where every row can be seen."""
    stage.scene(
        4,
        "One pointer, and everything that follows from it",
        "For the metastore an Iceberg table is one row with parameters; metadata_location among them points at the "
        "current metadata file. A commit writes a new metadata file and swaps that pointer. Old files stay, so the "
        "table can be read as it was, rolled back, and changed in shape without rewriting data.",
    )
    _pointer(stage)
    first, second = _history(stage)
    _time_travel(stage, first, second)
    _schema(stage)
    _partitioning(stage)


def _pointer(stage: Stage) -> None:
    loaded = stage.catalog.load(_TABLE)
    rows = parameter_rows(stage.catalog.pointer(_TABLE), loaded.metadata.properties)
    stage.table(
        "logging.events in the metastore: its TABLE_PARAMS, row by row",
        ["parameter", "value", "meaning"],
        [[row.parameter, _short(row.value), row.meaning] for row in rows],
    )


def _history(stage: Stage) -> tuple[int, int]:
    """Show the history; returns its first two snapshots."""
    rows = history_rows(stage.catalog.load(_TABLE).metadata)
    stage.table(
        "History of logging.events",
        ["made current at", "snapshot", "parent", "operation", "rows added"],
        [
            [
                output.instant(row.made_current_at_ms),
                str(row.snapshot_id),
                row.parent_id and str(row.parent_id),
                row.operation,
                row.summary.get("added-records"),
            ]
            for row in rows
        ],
    )
    return rows[0].snapshot_id, rows[1].snapshot_id


def _time_travel(stage: Stage, first: int, second: int) -> None:
    stage.tell("Time travel, by snapshot and by timestamp:")
    then = stage.query(
        f"SELECT level, event_time, message FROM logging.events VERSION AS OF {first} ORDER BY event_time"  # noqa: S608
    )
    made_ms = history_rows(stage.catalog.load(_TABLE).metadata)[0].made_current_at_ms
    moment = output.instant(made_ms)
    by_time = stage.query(f"SELECT count(*) AS rows_then FROM logging.events TIMESTAMP AS OF '{moment}'")  # noqa: S608
    stage.check("the table had 3 rows then, and has 4 now", (len(then), by_time[0][0], _count(stage)) == (3, 3, 4))
    stage.tell("Rollback to the first snapshot, and forward again to the second:")
    stage.run(f"CALL spark_catalog.system.rollback_to_snapshot('logging.events', {first})")
    back = _count(stage)
    stage.run(f"CALL spark_catalog.system.set_current_snapshot('logging.events', {second})")
    stage.check(f"after the rollback there were {back} rows, and forward again {_count(stage)}", back == 3)
    stage.query("SELECT made_current_at, snapshot_id, is_current_ancestor FROM logging.events.history")


def _schema(stage: Stage) -> None:
    stage.tell("The schema changes in place. Columns are known by id, so no data file is touched:")
    stage.run("ALTER TABLE logging.events ADD COLUMN host STRING")
    stage.run("ALTER TABLE logging.events RENAME COLUMN level TO severity")
    stage.run("ALTER TABLE logging.events DROP COLUMN call_stack")
    stage.run("INSERT INTO logging.events VALUES ('INFO', TIMESTAMP '2021-04-03 09:00:00', 'all is well', 'node-7')")
    rows = stage.query("SELECT * FROM logging.events ORDER BY event_time")
    stage.check("old rows are read with the new columns", [row[0] for row in rows].count("ERROR") == 3)


def _partitioning(stage: Stage) -> None:
    stage.tell("So does the partitioning: new files follow the new spec, old files keep theirs.")
    stage.run("ALTER TABLE logging.events ADD PARTITION FIELD severity")
    stage.run("INSERT INTO logging.events VALUES ('WARN', TIMESTAMP '2021-04-03 10:00:00', 'slow again', 'node-7')")
    files = stage.query(
        "SELECT spec_id, partition.event_time_day AS day, partition.severity, record_count FROM logging.events.files\n"
        "ORDER BY spec_id, day"
    )
    stage.check("files of both partition specs make one table", {row[0] for row in files} == {0, 1})
    stage.query("SELECT severity, count(*) AS events FROM logging.events GROUP BY severity ORDER BY severity")


def _count(stage: Stage) -> int:
    return int(stage.value("SELECT count(*) FROM logging.events"))


def _short(value: str) -> str:
    """JSON is cut: scene 5 shows the same in full. Locations never are."""
    if len(value) <= _JSON_MAX or not value.startswith("{"):
        return value
    return f"{value[:_JSON_MAX]}... ({len(value)} characters)"
