"""Compactions of tables of format version 3 by iceberg-hms and by Spark, to files of each format: Spark reads the same
`_row_id` and `_last_updated_sequence_number` of each row before and after."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.config import Settings
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.lineage_columns import LAST_UPDATED, LINEAGE_COLUMNS, ROW_ID
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from integration import interop

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
#: The columns that a compacted file has, and their field ids.
FIELDS = {"id": 1, "name": 2, ROW_ID.name: ROW_ID.id, LAST_UPDATED.name: LAST_UPDATED.id}
#: id -> name, row id, number of the last update.
Rows = dict[int, tuple[str, int | None, int | None]]


class Tracked:
    """A table, with what Spark reads of it."""

    def __init__(self, spark: Any, metastore: Any, catalog: Catalog, name: str, folder: Path) -> None:
        self.name = name
        self._spark, self._metastore, self._catalog, self._folder = spark, metastore, catalog, folder
        self._numbers = itertools.count()

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self._catalog.load_table(self.name)

    def sql(self, *statements: str) -> None:
        for each in statements:
            self._spark.sql(each.format(t=self.name))

    def insert(self, *ids: int) -> None:
        """Add a data file, by Spark."""
        values = ", ".join(f"({each}, 'row {each}')" for each in ids)
        self.sql(f"INSERT INTO {{t}} SELECT /*+ REPARTITION(1) */ * FROM VALUES {values}")

    def rows(self) -> Rows:
        """All rows. Fails if two have one id."""
        found = self._spark.sql(f"SELECT {', '.join(FIELDS)} FROM {self.name}").collect()
        assert len({row[ROW_ID.name] for row in found} - {None}) == len([row for row in found if row[2] is not None])
        return {row["id"]: (row["name"], row[ROW_ID.name], row[LAST_UPDATED.name]) for row in found}

    def files(self) -> list[str]:
        """The live data files."""
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        store = ManifestStore(RoutedFiles(fsync=False), Settings.load({}, environ={}), ThreadRuntime()).open()
        files = [each.data_file for each in store.entries(store.list(snapshot)) if each.is_live]
        return [each.file_path for each in files if each.content == FileContent.DATA]

    def write(self, file_format: str, *, without: tuple[str, ...] = ()) -> tuple[str, int]:
        """Write all rows, shuffled, to a new file that a compaction may add. Returns its location and their number."""
        names = [each for each in FIELDS if each not in without]
        found = [row.asDict() for row in self._spark.sql(f"SELECT {', '.join(names)} FROM {self.name}").collect()]
        found.sort(key=lambda row: hash((row["id"], "shuffled")))
        path = self._folder / f"{next(self._numbers)}.{file_format}"
        if file_format == "avro":
            kinds = {name: "string" if name == "name" else "long" for name in names}
            fields = [{"name": name, "type": ["null", kinds[name]], "field-id": FIELDS[name]} for name in names]
            with path.open("wb") as target:
                fastavro.writer(target, {"type": "record", "name": "table", "fields": fields}, found)
        else:
            key = "iceberg.id" if file_format == "orc" else "PARQUET:field_id"
            types = {name: pa.string() if name == "name" else pa.int64() for name in names}
            arrow = pa.schema([pa.field(name, types[name], metadata={key: str(FIELDS[name])}) for name in names])
            write: Callable[..., None] = orc.write_table if file_format == "orc" else pq.write_table
            write(pa.Table.from_pylist(found, schema=arrow), path)
        return f"file:{path}", len(found)

    def compact(self, file_format: str) -> None:
        """Replace all files by one, by its location."""
        self.table.rewrite(self.files(), [self.write(file_format)[0]])

    def compact_by_record(self, file_format: str, *, stated: bool) -> None:
        """The same by a record. stated: whether it says that the file carries the columns."""
        location, count = self.write(file_format)
        size = Path(location.removeprefix("file:")).stat().st_size
        nulls = dict.fromkeys(LINEAGE_COLUMNS, 0) if stated else None
        file = DataFile(location, file_format.upper(), count, size, null_value_counts=nulls)
        self.table.rewrite(self.files(), [file])

    def compact_by_spark(self) -> None:
        options = "map('rewrite-all', 'true')"
        self.sql(f"CALL spark_catalog.system.rewrite_data_files(table => '{{t}}', options => {options})")

    def pyiceberg_reads(self) -> None:
        """PyIceberg reads the same rows."""
        expected = [{"id": id_, "name": name} for id_, (name, _, _) in sorted(self.rows().items())]
        assert interop.pyiceberg_rows(self._metastore, self.name) == expected


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as connected:
        yield connected


@pytest.fixture
def make(spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path) -> Callable[[int], Tracked]:
    def made(version: int) -> Tracked:
        properties = {"format-version": str(version), "write.delete.mode": "merge-on-read"}
        catalog.create_table(f"{namespace}.t", COLUMNS, properties=properties)
        return Tracked(spark, metastore, catalog, f"{namespace}.t", tmp_path)

    return made


def test_row_ids_are_kept_through_compactions(make: Any) -> None:
    t = make(3)
    t.insert(0, 1, 2)
    t.insert(3, 4)
    t.sql("UPDATE {t} SET name = 'new' WHERE id = 1")
    rows = t.rows()
    assert rows[1] == ("new", 1, 3)
    assert rows[4] == ("row 4", 4, 2)
    for column in (ROW_ID.name, LAST_UPDATED.name):
        with pytest.raises(RequirementFailed, match=f"has no {column} for 5 of its rows"):
            t.table.rewrite(t.files(), [t.write("parquet", without=(column,))[0]])
    with pytest.raises(InvalidInput, match=f"carries values of {ROW_ID.name}"):
        t.table.append([t.write("parquet")[0]])
    t.compact("parquet")
    assert t.rows() == rows
    t.compact_by_record("parquet", stated=False)
    assert t.rows() == rows
    t.pyiceberg_reads()


@pytest.mark.slow
def test_row_ids_are_kept_through_ten_compactions_by_us_and_spark_between_writes(make: Any) -> None:
    t = make(3)
    t.insert(0, 1, 2)
    t.insert(3, 4, 5)
    t.sql("UPDATE {t} SET name = 'new' WHERE id = 1")
    expected = t.rows()
    compactions: list[Callable[[], None]] = [
        lambda: t.compact("parquet"),
        t.compact_by_spark,
        lambda: t.compact("orc"),
        lambda: t.compact_by_record("parquet", stated=True),
        lambda: t.compact("avro"),
        t.compact_by_spark,
        lambda: t.compact_by_record("avro", stated=False),
        lambda: t.compact_by_record("orc", stated=False),
        t.compact_by_spark,
        lambda: t.compact("parquet"),
    ]
    for at, compact in enumerate(compactions):
        next_row_id = t.table.metadata.next_row_id
        assert max(row_id for _, row_id, _ in expected.values()) < next_row_id
        compact()
        assert t.rows() == expected, f"compaction {at}"
        assert len(t.files()) == 1
        assert t.table.metadata.next_row_id == next_row_id + len(expected), "both count the rows of the new file"
        if at == len(compactions) - 1:
            break
        write_between(t, at)
        now = t.rows()
        kept = expected.keys() & now.keys()
        assert {id_: now[id_][1] for id_ in kept} == {id_: expected[id_][1] for id_ in kept}
        updated = {id_ for id_ in kept if now[id_] != expected[id_]}
        assert updated == ({at} & kept if at % 3 == 1 else set()), "only what was updated has a new number"
        expected = now
    t.pyiceberg_reads()


def write_between(t: Tracked, at: int) -> None:
    """Insert a row, and every third time delete one (a deletion vector) or update one (copy-on-write)."""
    t.insert(100 + at)
    if at % 3 == 0:
        t.sql(f"DELETE FROM {{t}} WHERE id = {99 + at}" if at else "DELETE FROM {t} WHERE id = 0")
    elif at % 3 == 1:
        t.sql(f"UPDATE {{t}} SET name = 'again' WHERE id = {at}")


@pytest.mark.slow
def test_rows_from_before_an_upgrade_get_their_ids_by_a_compaction_and_keep_them(make: Any) -> None:
    t = make(2)
    t.insert(0, 1)
    t.insert(2, 3)
    t.table.upgrade_table_version(3)
    assert {row[1:] for row in t.rows().values()} == {(None, None)}
    bare = (ROW_ID.name, LAST_UPDATED.name)
    t.table.rewrite(t.files(), [t.write("parquet", without=bare)[0]])
    rows = t.rows()
    assert {row[1] for row in rows.values()} == {0, 1, 2, 3}
    with pytest.raises(RequirementFailed, match="has no _row_id for 4"):
        t.table.rewrite(t.files(), [t.write("parquet", without=bare)[0]])
    t.compact("parquet")
    assert t.rows() == rows
    t.compact_by_spark()
    assert t.rows() == rows
