"""The statements by which Trino and DuckDB send snapshots, each on a table of its own.

`{t}` is the statement's table, which holds the days d1 and d2 with three rows each; `{s}` a source with one row that
the table has (id 1) and one that it lacks (id 9); `{new}` the name of a table that does not exist; `{folder}` a folder
with one Parquet file that fits the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """name: what the recording is called. statements: what is run, in order. before: run first and not recorded.
    target: which of the tables the statements write to."""

    name: str
    statements: tuple[str, ...]
    before: tuple[str, ...] = ()
    target: str = "t"


_ROWS: Final = "(1, 'd1', 10), (2, 'd1', 20), (3, 'd1', 30), (4, 'd2', 40), (5, 'd2', 50), (6, 'd2', 60)"
_SOURCE: Final = "(1, 'd1', 11), (9, 'd2', 90)"
_MERGE: Final = "MERGE INTO {t} AS t USING (SELECT * FROM {s} WHERE %s) AS s ON t.id = s.id "
_UPDATE: Final = "WHEN MATCHED THEN UPDATE SET v = s.v "
_INSERT: Final = "WHEN NOT MATCHED THEN INSERT (id, day, v) VALUES (s.id, s.day, s.v)"
_ALL, _MATCHED, _UNMATCHED, _NONE = "true", "id = 1", "id = 9", "id = 77"

_COMMON: Final = (
    Verb("insert", ("INSERT INTO {t} VALUES (7, 'd1', 70)",)),
    Verb("insert-select", ("INSERT INTO {t} SELECT * FROM {s}",)),
    Verb("insert-select-itself", ("INSERT INTO {t} SELECT id + 100, day, v FROM {t} WHERE day = 'd1'",)),
    Verb("ctas", ("CREATE TABLE {new} AS SELECT * FROM {s}",)),
    Verb("update", ("UPDATE {t} SET v = 0 WHERE id = 2",)),
    Verb("update-no-match", ("UPDATE {t} SET v = 0 WHERE id = 77",)),
    Verb("delete-partition", ("DELETE FROM {t} WHERE day = 'd1'",)),
    Verb("delete-rows", ("DELETE FROM {t} WHERE id = 2",)),
    Verb("delete-no-match", ("DELETE FROM {t} WHERE id = 77",)),
    Verb("merge-insert-no-match", (_MERGE % _UNMATCHED + _INSERT,)),
    Verb("merge-insert-some-match", (_MERGE % _ALL + _INSERT,)),
    Verb("merge-upsert-match", (_MERGE % _MATCHED + _UPDATE + _INSERT,)),
    Verb("merge-upsert-no-match", (_MERGE % _UNMATCHED + _UPDATE + _INSERT,)),
    Verb("merge-upsert-some-match", (_MERGE % _ALL + _UPDATE + _INSERT,)),
    Verb("merge-delete-match", (_MERGE % _MATCHED + "WHEN MATCHED THEN DELETE",)),
    Verb("merge-nothing", (_MERGE % _NONE + _UPDATE + _INSERT,)),
)

_TRINO_ALONE: Final = (
    Verb("ctas-no-data", ("CREATE TABLE {new} AS SELECT * FROM {s} WITH NO DATA",)),
    Verb("rtas", ("CREATE OR REPLACE TABLE {t} AS SELECT * FROM {s}",)),
    Verb("truncate", ("TRUNCATE TABLE {t}",)),
    Verb(
        "optimize",
        ("ALTER TABLE {t} EXECUTE optimize",),
        ("INSERT INTO {t} VALUES (7, 'd1', 70)", "INSERT INTO {t} VALUES (8, 'd2', 80)"),
    ),
    Verb("optimize-manifests", ("ALTER TABLE {t} EXECUTE optimize_manifests",), ("INSERT INTO {t} SELECT * FROM {s}",)),
    Verb("add-files", ("ALTER TABLE {s} EXECUTE add_files(location => '{folder}', format => 'PARQUET')",), target="s"),
    # The last, since the session keeps the setting.
    Verb(
        "insert-fast-append",
        ("INSERT INTO {t} VALUES (7, 'd1', 70)",),
        ("SET SESSION rest.merge_manifests_on_write = false",),
    ),
)

_DUCKDB_ALONE: Final = (
    Verb(
        "insert-twice-in-transaction",
        ("BEGIN", "INSERT INTO {t} VALUES (7, 'd1', 70)", "INSERT INTO {t} VALUES (8, 'd1', 80)", "COMMIT"),
    ),
    Verb(
        "delete-insert-in-transaction",
        ("BEGIN", "DELETE FROM {t} WHERE id = 2", "INSERT INTO {t} VALUES (2, 'd1', 21)", "COMMIT"),
    ),
    Verb(
        "delete-no-match-insert-in-transaction",
        ("BEGIN", "DELETE FROM {t} WHERE id = 77", "INSERT INTO {t} VALUES (77, 'd1', 77)", "COMMIT"),
    ),
    Verb(
        "read-insert-in-transaction",
        ("BEGIN", "SELECT max(v) FROM {t}", "INSERT INTO {t} VALUES (7, 'd1', 70)", "COMMIT"),
    ),
)

#: By engine: the verbs, and how its tables come to be.
VERBS: Final = {"trino": _COMMON + _TRINO_ALONE, "duckdb": _COMMON + _DUCKDB_ALONE}
TABLES: Final = {
    "trino": (
        "CREATE TABLE {t} (id bigint, day varchar, v bigint) WITH (partitioning = ARRAY['day'])",
        f"INSERT INTO {{t}} VALUES {_ROWS}",
        "CREATE TABLE {s} (id bigint, day varchar, v bigint)",
        f"INSERT INTO {{s}} VALUES {_SOURCE}",
    ),
    "duckdb": (
        "CREATE TABLE {t} (id bigint, day varchar, v bigint)",
        f"INSERT INTO {{t}} VALUES {_ROWS}",
        "CREATE TABLE {s} (id bigint, day varchar, v bigint)",
        f"INSERT INTO {{s}} VALUES {_SOURCE}",
    ),
}
