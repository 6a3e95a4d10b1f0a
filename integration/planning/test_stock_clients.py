"""Stock Spark and PyIceberg read the same rows whether the server plans their scans or they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.expressions import And, EqualTo, GreaterThan, In, IsNull, Not, StartsWith

from integration.planning import tables
from integration.planning.both_ways import BothWays

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Query:
    """text: with `{t}` for the table, `{c}` for its catalog, `{n}` for its namespace, and what `BothWays.marks` has.
    rows: how many it has. quick: it runs in each build. planned: whether the server plans it."""

    table: str
    text: str
    rows: int
    quick: bool = False
    planned: bool = True


def where(table: str, rows: int, condition: str, *, quick: bool = False) -> Query:
    return Query(table, f"SELECT * FROM {{t}} WHERE {condition}", rows, quick)


FILTERS = [
    where("kinds", 50, "true"),
    where("kinds", 1, "i = 3", quick=True),
    where("kinds", 49, "i <> 3"),
    where("kinds", 10, "i < -10"),
    where("kinds", 25, "i <= -10 OR i > 15"),
    where("kinds", 2, "i IN (1, 5, 300)", quick=True),
    where("kinds", 47, "i NOT IN (-20, -2, 2)"),
    where("kinds", 5, "id BETWEEN 5 AND 9"),
    where("kinds", 0, "id > 100000"),
    where("kinds", 36, "f > 2.25"),
    where("kinds", 5, "isnan(f)"),
    where("kinds", 44, "NOT isnan(f) AND id <> 2"),
    where("kinds", 5, "f IS NULL"),
    where("kinds", 1, "d = DOUBLE('Infinity')", quick=True),
    where("kinds", 1, "d = DOUBLE('NaN')"),
    where("kinds", 10, "d >= 30 AND d < 45"),
    where("kinds", 25, "b"),
    where("kinds", 19, "NOT b AND id > 12"),
    where("kinds", 1, "s = 's012'"),
    where("kinds", 8, "s LIKE 's01%'"),
    where("kinds", 32, "s NOT LIKE 's01%'"),
    where("kinds", 10, "s IS NULL"),
    where("kinds", 10, "s <=> NULL"),
    where("kinds", 40, "s IS NOT NULL"),
    where("kinds", 1, "s IN ('s001', NULL)"),
    where("kinds", 1, "bin = X'62313233' OR bin = X'6239'"),
    where("kinds", 8, "dec > 10.00 AND dec <= 20.5"),
    where("kinds", 1, "wide = 3.5"),
    where("kinds", 1, "day = DATE'2024-01-05'", quick=True),
    where("kinds", 10, "day IN (DATE'2024-01-05', DATE'1999-01-05') OR day > DATE'2024-02-10'"),
    where("kinds", 5, "ts < TIMESTAMP'2024-01-01 05:00:00'", quick=True),
    where("kinds", 6, "ntz >= TIMESTAMP_NTZ'2024-01-01 00:44:00'"),
    where("kinds", 1, "st.x = 4", quick=True),
    where("kinds", 11, "st.y LIKE 'y1%'"),
    where("kinds", 2, "array_contains(arr, 3) AND id < 6 AND id > 3"),
    where("kinds", 1, "m['k'] = 3"),
    where("kinds", 45, "NOT (i > 3 AND s IS NULL)"),
    Query("kinds", "SELECT * FROM {t} WHERE i = 3 AND i = 4", 0, planned=False),
]

SHAPES = [
    Query("kinds", "SELECT count(*) FROM {t}", 1, quick=True),
    Query(
        "kinds", "SELECT count(*), count(s), min(i), max(i), min(day), max(ts), min(f), max(d) FROM {t}", 1, quick=True
    ),
    Query("kinds", "SELECT min(s), max(s), sum(dec) FROM {t} WHERE i > 0", 1),
    Query("kinds", "SELECT b, count(*), max(id) FROM {t} GROUP BY b", 2),
    Query("kinds", "SELECT i, s FROM {t} ORDER BY id DESC LIMIT 7", 7),
    Query("kinds", "SELECT count(*) FROM (SELECT i FROM {t} LIMIT 12)", 1, quick=True),
    Query("kinds", "SELECT id, _pos, _spec_id, _deleted FROM {t} WHERE i > 20", 9),
    Query("kinds", "SELECT DISTINCT _file FROM {t} WHERE id < 20", 2),
    Query("kinds", "SELECT x.id, y.id FROM {t} x JOIN {t} y ON x.i = y.id WHERE y.id > 20", 9),
    Query("kinds", "SELECT x.id, d.label FROM {t} x JOIN {n}.dimensions d ON x.id = d.k", 4),
    Query("dimensions", "SELECT d.* FROM {t} d JOIN {n}.kinds x ON d.k = x.id WHERE x.s = 's002'", 1),
    Query("kinds", "SELECT id FROM {t} WHERE id NOT IN (SELECT k FROM {n}.dimensions) AND id < 9", 5),
    Query("kinds", "SELECT id FROM {t} WHERE i > (SELECT max(i) - 2 FROM {t})", 2),
    Query("kinds", "WITH a AS (SELECT * FROM {t} WHERE b) SELECT count(*) FROM a WHERE dec > 30", 1),
    Query("kinds", "SELECT id FROM {t} VERSION AS OF {v1} WHERE id > 5", 14, quick=True),
    Query("kinds", "SELECT id FROM {t} TIMESTAMP AS OF '{at2}' WHERE id > 5", 24),
    Query("kinds", "SELECT snapshot_id, operation FROM {t}.snapshots", 5, planned=False),
    Query("kinds", "SELECT file_path, record_count FROM {t}.files", 5, planned=False),
    Query("kinds", "SELECT path, added_data_files_count FROM {t}.manifests", 5, planned=False),
    Query("kinds", "SELECT status, snapshot_id FROM {t}.entries", 5, planned=False),
    Query("empty", "SELECT * FROM {t}", 0, planned=False),
    Query("empty", "SELECT count(*), max(id) FROM {t}", 1, planned=False),
]

PARTITIONS = [
    where("transforms", 4, "kind IS NULL"),
    where("transforms", 7, "kind = 'k1'", quick=True),
    where("transforms", 13, "kind <> 'k1'"),
    where("transforms", 11, "kind = 'k1' OR kind IS NULL"),
    where("transforms", 1, "id = 3"),
    where("transforms", 3, "id IN (1, 2, 3)"),
    where("transforms", 5, "name LIKE 'an%'"),
    where("transforms", 1, "name = 'aname4'"),
    where("transforms", 7, "y < DATE'2022-01-01'"),
    where("transforms", 12, "y >= DATE'2022-01-01' AND y < DATE'2023-01-01'"),
    where("transforms", 1, "mo = DATE'2024-01-31'"),
    where("transforms", 5, "mo > DATE'2023-09-15'"),
    where("transforms", 5, "ts >= TIMESTAMP'2024-02-29 00:00:00' AND ts < TIMESTAMP'2024-03-01 00:00:00'"),
    where("transforms", 4, "ntz < TIMESTAMP_NTZ'1970-01-01 00:00:00'"),
    where("transforms", 4, "dec < 10.00"),
    where("transforms", 6, "{c}.system.bucket(4, id) = 1", quick=True),
    where("transforms", 18, "{c}.system.bucket(4, id) <> 1"),
    where("transforms", 9, "{c}.system.bucket(4, id) IN (1, 2)"),
    where("transforms", 5, "{c}.system.truncate(2, name) = 'an'"),
    where("transforms", 12, "{c}.system.years(y) = 52"),
    where("transforms", 1, "{c}.system.months(mo) = 648"),
    where("transforms", 5, "{c}.system.days(ts) = DATE'2024-02-29'", quick=True),
    where("transforms", 1, "{c}.system.hours(ntz) = -1"),
    where("transforms", 14, "{c}.system.bucket(8, id) IN (1, 2, 3, 4)"),
    Query("transforms", "SELECT id, _partition FROM {t} WHERE id < 4", 4),
    Query("transforms", "SELECT kind, count(*) FROM {t} GROUP BY kind", 4),
    where("nulls", 5, "true"),
    where("nulls", 1, "s IS NULL"),
    where("nulls", 1, "s = ''"),
    where("nulls", 2, "s = 'a' AND dec = 1.5"),
    where("nulls", 2, "day = DATE'2024-01-01'"),
    where("nulls", 1, "day = DATE'1969-12-31'"),
    where("nulls", 2, "bin = X'00ff'"),
    where("nulls", 1, "b = false"),
    where("nulls", 2, "ts = TIMESTAMP'2024-01-01 01:02:03.000004'"),
    where("nulls", 3, "n IS NOT NULL"),
    where("floats", 5, "true"),
    where("floats", 1, "f = 1.0"),
    where("floats", 1, "d = DOUBLE('-Infinity')"),
    where("floats", 3, "f > 1.2"),
    where("lacking", 4, "true"),
    where("lacking", 2, "day = DATE'2024-01-02'"),
    where("lacking", 1, "n = 1 AND id > 5"),
    where("uuids", 3, "true"),
    where("uuids", 1, "u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
    where("uuids", 1, "u IS NULL"),
]

CHANGED = [
    where("evolved", 9, "true", quick=True),
    where("evolved", 5, "bb = 'x'", quick=True),
    where("evolved", 1, "a > 9"),
    where("evolved", 1, "a = 3 AND bb = 'x'"),
    where("evolved", 2, "c = 4.5 OR c > 9.5e99"),
    where("evolved", 8, "gone IS NULL"),
    where("evolved", 1, "gone = 1"),
    where("evolved", 1, "extra = 80"),
    where("evolved", 1, "{c}.system.bucket(4, id) = 2"),
    Query("evolved", "SELECT id, _spec_id, _partition FROM {t} WHERE bb = 'x'", 5),
    Query("evolved", "SELECT * FROM {t} VERSION AS OF {v0} WHERE b = 'x'", 2, quick=True),
    Query("evolved", "SELECT * FROM {t} VERSION AS OF {v1} WHERE a = 3 AND b = 'x'", 1),
    Query("evolved", "SELECT * FROM {t} VERSION AS OF {v2} WHERE c > 3 AND b IN ('x', 'y')", 4),
    where("renamed", 2, "bb = 'x'", quick=True),
    where("renamed", 1, "aa = 3 AND bb = 'x'", quick=True),
    Query("renamed", "SELECT * FROM {t} VERSION AS OF {v0} WHERE b = 'x'", 1),
    Query("renamed", "SELECT id FROM {t} VERSION AS OF {v0} WHERE a = 2", 1),
    Query("renamed", "SELECT * FROM {t} VERSION AS OF {v0} WHERE a = 1 AND b = 'x'", 1),
    where("version_1", 3, "b = 'x'"),
    where("version_1", 1, "a = 3"),
    Query("branches", "SELECT * FROM {t}", 2),
    Query("branches", "SELECT * FROM {t}.branch_audit WHERE k = 'a'", 2, quick=True),
    Query("branches", "SELECT * FROM {t} VERSION AS OF 'audit' WHERE id > 2", 2),
    Query("branches", "SELECT * FROM {t}.tag_first", 2),
    Query("branches", "SELECT * FROM {t} VERSION AS OF 'first' WHERE k = 'b'", 1),
    Query("branches", "SELECT count(*) FROM {t}.branch_audit", 1),
]

DELETES = [
    *(
        each
        for table in ("positions", "vectors")
        for each in (
            where(table, 78, "true", quick=table == "vectors"),
            where(table, 26, "k = 'k1'"),
            where(table, 2, "id < 10 AND k = 'k2'", quick=table == "positions"),
            where(table, 1, "id > 900"),
            Query(table, "SELECT count(*), min(id), max(id) FROM {t}", 1),
            Query(table, "SELECT id, _pos FROM {t} WHERE k = 'k0' ORDER BY id LIMIT 4", 4),
            Query(table, "SELECT count(*) FROM {t} VERSION AS OF {v1}", 1),
            Query(table, "SELECT file_path, pos FROM {t}.position_deletes WHERE pos < 3", 4, planned=False),
        )
    ),
    Query("vectors", "SELECT id, _row_id FROM {t} WHERE id < 20", 15),
    where("upgraded", 33, "true"),
    where("upgraded", 16, "k = 'k0'"),
    where("upgraded", 8, "k = 'k1' AND id < 20"),
    Query("upgraded", "SELECT count(*), min(id), max(id) FROM {t}", 1),
    Query("upgraded", "SELECT id, _row_id FROM {t} WHERE id < 10", 5),
    Query("upgraded", "SELECT count(*) FROM {t} VERSION AS OF {v2}", 1),
    where("equality", 6, "true", quick=True),
    where("equality", 2, "id = 2", quick=True),
    where("equality", 2, "k = 'b'"),
    Query("equality", "SELECT count(*) FROM {t}", 1),
]

QUERIES = [*FILTERS, *SHAPES, *PARTITIONS, *CHANGED, *DELETES]


@pytest.mark.parametrize(
    "query",
    [pytest.param(each, marks=() if each.quick else pytest.mark.slow) for each in QUERIES],
    ids=lambda query: f"{query.table}: {query.text.removeprefix('SELECT * FROM {t} ')}",
)
def test_spark_reads_the_same_rows(both_ways: BothWays, query: Query) -> None:
    for name in ("kinds", "dimensions"):
        both_ways.table(name, tables.ALL[name])
    table = both_ways.table(query.table, tables.ALL[query.table])
    rows, plans = both_ways.compare(query.text, table)
    assert len(rows) == query.rows
    assert bool(plans) is query.planned


@pytest.mark.slow
def test_appends_between_snapshots_are_planned_by_the_client(both_ways: BothWays) -> None:
    table = both_ways.table("kinds", tables.ALL["kinds"])
    marks = both_ways.marks(table)
    both_ways.clear()
    found = []
    for catalog in (both_ways.own, both_ways.server):
        options = {"start-snapshot-id": marks["v1"], "end-snapshot-id": marks["v3"]}
        rows = both_ways.spark.read.options(**options).table(f"{catalog}.{table}").where("i > 5").collect()
        found.append(sorted(str(tuple(row)) for row in rows))
    assert found[0] == found[1]
    assert len(found[0]) == 14
    assert both_ways.proxy.plans() == []


@pytest.mark.slow
def test_stock_spark_streams_only_what_it_plans_itself(both_ways: BothWays, tmp_path: Path) -> None:
    """docs/planning.md has what it says otherwise, and what to do."""
    table, spark = both_ways.table("kinds", tables.ALL["kinds"]), both_ways.spark

    def streamed(catalog: str) -> int:
        sink = spark.readStream.table(f"{catalog}.{table}").select("id").writeStream.format("memory")
        sink = sink.queryName(f"of_{catalog}").option("checkpointLocation", str(tmp_path / catalog))
        assert sink.trigger(availableNow=True).start().awaitTermination(120)
        return int(spark.table(f"of_{catalog}").count())

    assert streamed(both_ways.own) == 50
    with pytest.raises(Exception, match="FileIO is not available"):
        streamed(both_ways.server)


@pytest.mark.slow
def test_a_name_that_means_another_column_today_is_refused(both_ways: BothWays) -> None:
    """Rather than planned by the wrong one."""
    table = both_ways.table("evolved", tables.ALL["evolved"])
    query, marks = "SELECT id FROM {t} VERSION AS OF {v1} WHERE gone = 'g3'", both_ways.marks(table)
    assert both_ways.rows(both_ways.own, query, table, marks) == ["(3,)"]
    with pytest.raises(Exception, match="gone is another column in the schema of snapshot"):
        both_ways.rows(both_ways.server, query, table, marks)


#: What PyIceberg reads: a table, and what to do with it.
READS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "all": ("kinds", lambda t: t.scan().to_arrow()),
    "text": ("kinds", lambda t: t.scan("i = 3 or s = 's012'").to_arrow()),
    "in": ("kinds", lambda t: t.scan(In("i", [1, 5, 300])).to_arrow()),
    "not in": ("kinds", lambda t: t.scan("i not in (1, 5)").to_arrow()),
    "starts with": ("kinds", lambda t: t.scan(StartsWith("s", "s01")).to_arrow()),
    "not": ("kinds", lambda t: t.scan(Not(And(GreaterThan("i", 3), IsNull("s")))).to_arrow()),
    "double": ("kinds", lambda t: t.scan("d >= 30.5 and d < 45").to_arrow()),
    "float": ("kinds", lambda t: t.scan("f = 2.5").to_arrow()),
    "nan": ("kinds", lambda t: t.scan("f is nan").to_arrow()),
    "date": ("kinds", lambda t: t.scan("day = '2024-01-05'").to_arrow()),
    "zoned": ("kinds", lambda t: t.scan("ts < '2024-01-01T05:00:00+00:00'").to_arrow()),
    "not zoned": ("kinds", lambda t: t.scan("ntz >= '2024-01-01T00:44:00'").to_arrow()),
    "decimal": ("kinds", lambda t: t.scan("dec > 10.00 and dec <= 20.50").to_arrow()),
    "binary": ("kinds", lambda t: t.scan(EqualTo("bin", b"b9")).to_arrow()),
    "nested": ("kinds", lambda t: t.scan("st.x = 4").to_arrow()),
    "boolean": ("kinds", lambda t: t.scan("b = true and id > 40").to_arrow()),
    "columns": ("kinds", lambda t: t.scan("i > 0", selected_fields=("id", "i", "s")).to_arrow()),
    "columns without the filter's": ("kinds", lambda t: t.scan("i > 0", selected_fields=("id", "s")).to_arrow()),
    "no case": ("kinds", lambda t: t.scan("I > 20", case_sensitive=False).to_arrow()),
    "count": ("kinds", lambda t: t.scan().count()),
    "count of some": ("kinds", lambda t: t.scan("i > 3 and d < 50").count()),
    "limit": ("kinds", lambda t: len(t.scan(limit=7).to_arrow())),
    "batches": ("kinds", lambda t: t.scan("i > 20").to_arrow_batch_reader().read_all()),
    "snapshot": ("kinds", lambda t: t.scan("id > 5", snapshot_id=t.metadata.snapshots[1].snapshot_id).to_arrow()),
    "partition": ("dimensions", lambda t: t.scan("k = 2").to_arrow()),
    "partition without its column": ("dimensions", lambda t: t.scan("k > 2", selected_fields=("label",)).to_arrow()),
    "count of a partition": ("dimensions", lambda t: t.scan("k >= 2").count()),
    "evolved": ("evolved", lambda t: t.scan("bb = 'x'").count()),
    "older schema": (
        "evolved",
        lambda t: t.scan(snapshot_id=t.metadata.snapshots[0].snapshot_id, selected_fields=("id", "b")).to_arrow(),
    ),
    "partition that files lack": ("lacking", lambda t: t.scan("n = 1", selected_fields=("id", "n")).to_arrow()),
    "branch": ("branches", lambda t: t.scan("k = 'a'").use_ref("audit").to_arrow()),
    "position deletes": ("positions", lambda t: t.scan("k = 'k1'").to_arrow()),
    "count with deletes": ("positions", lambda t: t.scan().count()),
    "deletion vectors": ("vectors", lambda t: t.scan("id < 20").to_arrow()),
    "vectors beside position deletes": ("upgraded", lambda t: t.scan("id < 30").to_arrow()),
    "empty": ("empty", lambda t: t.scan().to_arrow()),
}
QUICK_READS = frozenset(
    {"text", "double", "zoned", "count of some", "partition without its column", "position deletes"}
)


@pytest.mark.parametrize(
    "read", [pytest.param(each, marks=() if each in QUICK_READS else pytest.mark.slow) for each in READS]
)
def test_pyiceberg_reads_the_same_rows(both_ways: BothWays, read: str) -> None:
    name, reads = READS[read]
    found, plans = both_ways.compare_pyiceberg(both_ways.table(name, tables.ALL[name]), reads)
    assert (found == []) is (read == "empty")
    assert found != 0
    assert {each.status for each in plans} == {200}


def test_pyiceberg_refuses_what_the_documentation_says(both_ways: BothWays) -> None:
    """docs/planning.md: a null in a partition, columns that files lack, and equality deletes."""
    with_nulls = both_ways.table("nulls", tables.NULLS)
    with pytest.raises(ValueError, match="partition"):
        both_ways.pyiceberg[both_ways.server].load_table(with_nulls).scan().to_arrow()
    assert len(both_ways.pyiceberg[both_ways.own].load_table(with_nulls).scan().to_arrow()) == 5
    lacking = both_ways.pyiceberg[both_ways.server].load_table(both_ways.table("lacking", tables.LACKING))
    with pytest.raises(BadRequestError, match="PyIceberg misreads day"):
        lacking.scan("day = '2024-01-02'").to_arrow()
    with pytest.raises(pa.ArrowTypeError):
        lacking.scan().to_arrow()
    with_deletes = both_ways.table("equality", tables.EQUALITY)
    with pytest.raises(NotImplementedError, match="equality deletes"):
        both_ways.pyiceberg[both_ways.server].load_table(with_deletes).scan().to_arrow()
