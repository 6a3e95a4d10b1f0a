"""The tables that both planners read: each is a list of statements, or of calls for what Spark cannot write."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.format.manifests.manifest import DataFile, FileContent

if TYPE_CHECKING:
    from integration.planning.both_ways import BothWays

Step = str | Callable[["BothWays", str], object]

#: A row of `kinds` for each id. Whole ranges of ids are files, so that bounds leave files out.
_KINDS: Final = """
INSERT INTO {{t}} SELECT /*+ REPARTITION(1) */
  id, CAST(id AS INT) - 20,
  CASE id % 10 WHEN 3 THEN FLOAT('NaN') WHEN 4 THEN NULL ELSE CAST(id / 4.0 AS FLOAT) END,
  CASE id WHEN 7 THEN DOUBLE('NaN') WHEN 8 THEN DOUBLE('Infinity') ELSE id * 1.5D END,
  id % 2 = 0, CASE WHEN id % 5 = 0 THEN NULL ELSE concat('s', lpad(id, 3, '0')) END,
  CAST(concat('b', id) AS BINARY), CAST(id * 1.25 AS DECIMAL(9,2)), CAST(id * 0.5 AS DECIMAL(38,10)),
  date_add(DATE'2024-01-01', CAST(id AS INT)), TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, CAST(id AS INT)),
  TIMESTAMP_NTZ'2024-01-01 00:00:00' + make_dt_interval(0, 0, CAST(id AS INT)),
  named_struct('x', CAST(id AS INT), 'y', concat('y', id)), array(CAST(id AS INT), 3), map('k', CAST(id AS INT))
FROM range({first}, {last})
"""
KINDS: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, i INT, f FLOAT, d DOUBLE, b BOOLEAN, s STRING, bin BINARY, dec DECIMAL(9,2), "
    "wide DECIMAL(38,10), day DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, st STRUCT<x: INT, y: STRING>, arr ARRAY<INT>, "
    "m MAP<STRING, INT>) USING iceberg",
    *(_KINDS.format(first=first, last=first + 10) for first in range(0, 50, 10)),
)

DIMENSIONS: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (k INT, label STRING) USING iceberg PARTITIONED BY (k)",
    "INSERT INTO {t} VALUES (1, 'one'), (2, 'two'), (3, 'three'), (5, 'five')",
)

#: All transforms in one spec, over columns with nulls.
_TRANSFORMED: Final = """
INSERT INTO {{t}} SELECT id, CASE WHEN id % 7 = 0 THEN NULL ELSE concat('k', id % 3) END,
  CASE WHEN id % 11 = 0 THEN NULL ELSE concat(chr(97 + id % 4), 'name', id) END,
  add_months(DATE'2021-06-15', CAST(id AS INT)), add_months(DATE'2024-01-31', -CAST(id AS INT)),
  TIMESTAMP'2024-02-28 22:00:00' + make_dt_interval(0, CAST(id AS INT) * 5),
  TIMESTAMP_NTZ'1969-12-31 20:00:00' + make_dt_interval(0, CAST(id AS INT)), CAST(id * 3.33 AS DECIMAL(9,2))
FROM range({first}, {last})
"""
TRANSFORMS: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, kind STRING, name STRING, y DATE, mo DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, "
    "dec DECIMAL(9,2)) USING iceberg PARTITIONED BY (kind, bucket(4, id), truncate(2, name), years(y), months(mo), "
    "days(ts), hours(ntz), truncate(500, dec))",
    *(_TRANSFORMED.format(first=first, last=first + 12) for first in (0, 12)),
)

#: Null is a partition of its own; dates, decimals, binary, booleans and timestamps are partitions as they are.
NULLS: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id INT, s STRING, day DATE, dec DECIMAL(9,2), bin BINARY, b BOOLEAN, ts TIMESTAMP, n BIGINT) "
    "USING iceberg PARTITIONED BY (s, day, dec, bin, b, ts, n)",
    "INSERT INTO {t} VALUES "
    "(1, 'a', DATE'2024-01-01', 1.50, X'00ff', true, TIMESTAMP'2024-01-01 01:02:03.000004', 1099511627776), "
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, '', DATE'1969-12-31', -1.50, X'', false, "
    "TIMESTAMP'1969-12-31 23:59:59', -1), (4, 'ü \"\\\\', DATE'2024-01-01', 0.00, X'41', true, NULL, 0)",
    "INSERT INTO {t} VALUES (5, 'a', NULL, 1.50, X'00ff', NULL, TIMESTAMP'2024-01-01 01:02:03.000004', NULL)",
)

FLOATS: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id INT, f FLOAT, d DOUBLE) USING iceberg PARTITIONED BY (f, d)",
    "INSERT INTO {t} VALUES (1, 1.0, 2.0), (2, 1.5, -0.25), (3, NULL, NULL), "
    "(4, FLOAT('Infinity'), DOUBLE('-Infinity')), (5, 1e30, 1e300)",
)

#: Specs and columns that changed, with files of each state.
EVOLVED: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, a INT, b STRING, c FLOAT, gone STRING) USING iceberg PARTITIONED BY (b)",
    "INSERT INTO {t} VALUES (1, 1, 'x', 1.5, 'g1'), (2, 2, 'y', 2.5, 'g2'), (3, 3, 'x', 3.5, 'g3')",
    "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
    "INSERT INTO {t} VALUES (4, 4, 'x', 4.5, 'g4'), (5, 5, 'z', 5.5, 'g5')",
    "ALTER TABLE {t} DROP PARTITION FIELD b",
    "INSERT INTO {t} VALUES (6, 6, 'x', 6.5, 'g6'), (7, 7, 'y', 7.5, 'g7')",
    "ALTER TABLE {t} RENAME COLUMN b TO bb",
    "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN c TYPE DOUBLE",
    "ALTER TABLE {t} DROP COLUMN gone",
    "ALTER TABLE {t} ADD COLUMNS (gone INT, extra INT)",
    "INSERT INTO {t} VALUES (8, 8000000000, 'x', 8.5e100, 1, 80), (9, 9, 'y', 9.5, NULL, NULL)",
)

#: The current snapshot has other names than the table.
RENAMED: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, a INT, b STRING) USING iceberg PARTITIONED BY (b)",
    "INSERT INTO {t} VALUES (1, 1, 'x'), (2, 2, 'y')",
    "INSERT INTO {t} VALUES (3, 3, 'x'), (4, 4, 'z')",
    "ALTER TABLE {t} RENAME COLUMN b TO bb",
    "ALTER TABLE {t} RENAME COLUMN a TO aa",
)

VERSION_1: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, a INT, b STRING) USING iceberg PARTITIONED BY (b, a) "
    "TBLPROPERTIES ('format-version' = '1')",
    "INSERT INTO {t} VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'x')",
    "ALTER TABLE {t} DROP PARTITION FIELD a",
    "INSERT INTO {t} VALUES (4, 4, 'x'), (5, 5, 'z')",
)


def merge_on_read(version: int) -> tuple[Step, ...]:
    """Position deletes in version 2, deletion vectors in version 3; some files have two deletes."""
    return (
        "CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k) TBLPROPERTIES "
        f"('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read', "
        "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')",
        "INSERT INTO {t} SELECT id, concat('k', id % 3) FROM range(60)",
        "DELETE FROM {t} WHERE id IN (3, 4, 5)",
        "INSERT INTO {t} SELECT id, concat('k', id % 3) FROM range(60, 90)",
        "DELETE FROM {t} WHERE id % 10 = 9",
        "UPDATE {t} SET id = id + 1000 WHERE id = 61",
    )


#: After the upgrade, position deletes of whole partitions stay beside the deletion vectors that have their positions.
UPGRADED: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('format-version' = '2', "
    "'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')",
    "INSERT INTO {t} SELECT id, concat('k', id % 2) FROM range(20)",
    "INSERT INTO {t} SELECT id, concat('k', id % 2) FROM range(20, 40)",
    "DELETE FROM {t} WHERE id IN (2, 3, 4, 22, 23)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')",
    "DELETE FROM {t} WHERE id IN (5, 6)",
)


def _delete_equal(there: BothWays, table: str) -> None:
    """Delete the rows with id 2 and 5, by values, from all files that are there."""
    path = there.folder / f"{uuid.uuid4()}.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"id": [2, 5]}, schema=pa.schema([field])), path)
    for kind in ("a", "b"):
        deletes = DataFile(
            file_path=f"file:{path}",
            file_format="PARQUET",
            record_count=2,
            file_size_in_bytes=path.stat().st_size,
            partition={"k": kind},
            content=FileContent.EQUALITY_DELETES,
            equality_ids=[1],
            spec_id=0,
        )
        there.catalog.load_table(table).row_delta(deletes=[deletes])


EQUALITY: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k)",
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (5, 'b'), (7, 'c'), (2, 'c')",
    _delete_equal,
    "INSERT INTO {t} VALUES (2, 'a'), (9, 'b')",
)


def _add_without_partition_columns(there: BothWays, table: str) -> None:
    """Add files as Hive wrote them: partition columns are in their folders' names alone."""
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    for number, day in enumerate((19_723, 19_724)):
        path = there.folder / f"{uuid.uuid4()}.parquet"
        pq.write_table(pa.table({"id": [number, number + 10]}, schema=pa.schema([field])), path)
        partition = {"n": number, "day": day}
        file = DataFile(f"file:{path}", "PARQUET", 2, path.stat().st_size, partition=partition, spec_id=0)
        there.catalog.load_table(table).append([file])
    there.catalog.load_table(table).set_properties({"schema.name-mapping.default": "[]"})


LACKING: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, n INT, day DATE) USING iceberg PARTITIONED BY (n, day)",
    _add_without_partition_columns,
)

BRANCHES: Final[tuple[Step, ...]] = (
    "CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k)",
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
    "ALTER TABLE {t} CREATE TAG first",
    "ALTER TABLE {t} CREATE BRANCH audit",
    "INSERT INTO {t}.branch_audit VALUES (10, 'a'), (11, 'c')",
    "INSERT INTO {t} VALUES (3, 'a')",
    "DELETE FROM {t} WHERE k = 'b'",
)

EMPTY: Final[tuple[Step, ...]] = ("CREATE TABLE {t} (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k)",)

UUIDS: Final[tuple[Step, ...]] = (
    lambda there, table: there.catalog.create_table(
        table,
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "id", "required": False, "type": "long"},
                {"id": 2, "name": "u", "required": False, "type": "uuid"},
            ],
        },
    ),
    "ALTER TABLE {t} ADD PARTITION FIELD u",
    "INSERT INTO {t} VALUES (1, 'f79c3e09-677c-4bbd-a479-3f349cb785e7'), (2, '00000000-0000-4000-8000-000000000001'), "
    "(3, NULL)",
)

ALL: Final[dict[str, tuple[Step, ...]]] = {
    "kinds": KINDS,
    "dimensions": DIMENSIONS,
    "transforms": TRANSFORMS,
    "nulls": NULLS,
    "floats": FLOATS,
    "evolved": EVOLVED,
    "renamed": RENAMED,
    "version_1": VERSION_1,
    "positions": merge_on_read(2),
    "vectors": merge_on_read(3),
    "upgraded": UPGRADED,
    "equality": EQUALITY,
    "lacking": LACKING,
    "branches": BRANCHES,
    "empty": EMPTY,
    "uuids": UUIDS,
}
