"""Stock Spark changes a table whose scans the server plans as it changes a twin that it plans itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from integration.planning.both_ways import BothWays

pytestmark = pytest.mark.timeout(600)

COPIES = (
    "'write.delete.mode' = 'copy-on-write', 'write.update.mode' = 'copy-on-write', 'write.merge.mode' = 'copy-on-write'"
)
MARKS = (
    "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read'"
)
#: A file has many row groups, which a filter may leave out.
SMALL_GROUPS = "'write.parquet.row-group-size-bytes' = '2048', 'write.parquet.page-size-bytes' = '1024'"
#: One file of 4,000 rows in many row groups, and small ones.
FILL = (
    "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, 'a', concat('row ', id) FROM range(4000) ORDER BY id",
    "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, 'b', concat('row ', id) FROM range(4000, 4100)",
    "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, 'b', concat('row ', id) FROM range(4100, 4200)",
)


@dataclass(frozen=True)
class Job:
    """Statements on a table, and how many rows it has in the end. plans: at least so many are made by the server."""

    statements: tuple[str, ...]
    rows: int
    plans: int = 1
    quick: bool = False


JOBS = {
    "delete rows": Job(("DELETE FROM {t} WHERE id = 17",), 4199, quick=True),
    "delete some of many": Job(("DELETE FROM {t} WHERE id % 100 = 3 AND id < 4150",), 4158),
    "delete by another table": Job(("DELETE FROM {t} WHERE id IN (SELECT id + 3990 FROM {t} WHERE id < 20)",), 4180),
    "delete a partition": Job(("DELETE FROM {t} WHERE kind = 'b'",), 4000, plans=0),
    "delete whole files by their bounds": Job(("DELETE FROM {t} WHERE id >= 4100",), 4100),
    "delete nothing": Job(("DELETE FROM {t} WHERE id = 1000000",), 4200),
    "update": Job(("UPDATE {t} SET name = 'changed' WHERE id BETWEEN 100 AND 110 OR id = 4150",), 4200, quick=True),
    "update by a value that is nowhere": Job(("UPDATE {t} SET name = 'changed' WHERE name = 'row 3999'",), 4200),
    "merge": Job(
        (
            "MERGE INTO {t} t USING (SELECT id + 3995 AS id, 'c' AS kind, 'merged' AS name FROM range(10)) s "
            "ON t.id = s.id "
            "WHEN MATCHED AND t.id < 4000 THEN UPDATE SET name = s.name WHEN MATCHED THEN DELETE",
            "MERGE INTO {t} t USING (SELECT id + 4195 AS id, 'c' AS kind, 'merged' AS name FROM range(10)) s "
            "ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ),
        4200,
        quick=True,
    ),
    "one after the other": Job(
        (
            "DELETE FROM {t} WHERE id IN (5, 4005)",
            "DELETE FROM {t} WHERE id IN (6, 4006)",
            "UPDATE {t} SET id = id + 10000 WHERE id IN (7, 4007)",
        ),
        4196,
        plans=3,
    ),
    "overwrite partitions": Job(
        ("INSERT OVERWRITE {t} PARTITION (kind = 'b') SELECT id, name FROM {t} WHERE kind = 'b' AND id < 4150",), 4150
    ),
    "overwrite all": Job(("INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id >= 3990",), 210),
    "compact": Job(
        ("CALL {c}.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))",), 4200
    ),
    "compact where": Job(
        (
            "CALL {c}.system.rewrite_data_files(table => '{n}', where => 'id = 1500 or id = 4150', "
            "options => map('rewrite-all', 'true'))",
        ),
        4200,
        quick=True,
    ),
    "compact sorted": Job(
        (
            "CALL {c}.system.rewrite_data_files(table => '{n}', strategy => 'sort', sort_order => 'name', "
            "where => 'id > 3000', options => map('rewrite-all', 'true'))",
        ),
        4200,
    ),
    "delete and compact": Job(
        (
            "DELETE FROM {t} WHERE id % 7 = 0",
            "CALL {c}.system.rewrite_position_delete_files(table => '{n}', options => map('rewrite-all', 'true'))",
            "CALL {c}.system.rewrite_data_files(table => '{n}', where => 'id < 100', "
            "options => map('rewrite-all', 'true', 'delete-file-threshold', '1'))",
            "CALL {c}.system.rewrite_manifests('{n}')",
            "CALL {c}.system.expire_snapshots(table => '{n}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
        ),
        3600,
        plans=2,
    ),
}
SHAPES = {"copies": (2, COPIES), "positions": (2, MARKS), "tracked copies": (3, COPIES), "vectors": (3, MARKS)}
QUICK = "copies"


def run(there: BothWays, catalog: str, table: str, statements: Sequence[str]) -> None:
    for each in statements:
        there.spark.sql(each.format(t=f"{catalog}.{table}", c=catalog, n=table)).collect()


@pytest.mark.parametrize(
    ("shape", "job"),
    [
        pytest.param(shape, job, marks=() if JOBS[job].quick and shape == QUICK else pytest.mark.slow)
        for shape in SHAPES
        for job in JOBS
    ],
)
def test_a_table_that_the_server_plans_is_changed_as_its_twin(offered: BothWays, shape: str, job: str) -> None:
    version, modes = SHAPES[shape]
    made = JOBS[job]
    twins = {}
    for catalog in (offered.own, offered.server):
        create = (
            "CREATE TABLE {t} (id BIGINT, kind STRING, name STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES "
            f"('format-version' = '{version}', {modes}, {SMALL_GROUPS})"
        )
        name = f"{job}_{shape}_{catalog}".replace(" ", "_")
        twins[catalog] = offered.table(name, (create, *FILL))
    run(offered, offered.own, twins[offered.own], made.statements)
    offered.clear()
    run(offered, offered.server, twins[offered.server], made.statements)
    plans = offered.proxy.plans()
    # Java plans tables of version 3 itself: a plan of the server has no sequence numbers, which their rows keep.
    assert len(plans) >= made.plans if version < 3 else plans == []
    assert {each.status for each in plans} <= {200}
    tracked = ", _last_updated_sequence_number" if version == 3 else ""
    by_client, by_server = (offered.rows(offered.own, f"SELECT *{tracked} FROM {{t}}", each) for each in twins.values())
    assert by_server == by_client
    assert len(by_server) == made.rows
