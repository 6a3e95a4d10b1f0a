"""Tables that the Python API evolves, on a metastore that allows it and on a stock one.

Spark through our server, Java's HiveCatalog and PyIceberg read old and new files right after each step, and the
metastore's columns follow. A stock Hive Metastore 2.3.10 refuses columns whose types changed by position; the swap then
keeps the old columns.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import InvalidInput
from iceberg_hms.rest.server import RestServer
from integration import interop

TOKEN = "a-token-for-tests-alone"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32()),
        ("name", pa.string()),
        ("at", pa.timestamp("us")),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
    ]
)
FIRST = {
    "id": 1,
    "name": "a",
    "at": datetime.datetime(2021, 4, 1, 10),  # noqa: DTZ001 - the column is without zone
    "place": {"city": "x", "zip": 1},
}


@pytest.fixture(params=["metastore", pytest.param("stock_metastore", marks=pytest.mark.slow)])
def server_metastore(request: pytest.FixtureRequest) -> Any:
    """The embedded metastore, then one with Hive's stock settings."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def catalog(server_metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=server_metastore.uri, warehouse=server_metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture
def readers(
    request: pytest.FixtureRequest, spark: Any, server_metastore: Any, catalog: Any, tmp_path: Path
) -> Iterator[Readers]:
    """An empty table, and who reads it."""
    namespace = f"in_place_{request.node.originalname.removeprefix('test_')[:40]}"
    catalog.create_namespace(namespace)
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    with RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        port = server.uri.rpartition(":")[2]
        ours = interop.add_spark_catalog(spark, f"in_place_{port}", type="rest", uri=server.uri, token=TOKEN)
        java = interop.add_spark_catalog(
            spark,
            f"in_place_hive_{port}",
            type="hive",
            uri=server_metastore.uri,
            warehouse=server_metastore.warehouse,
        )
        made = Readers(spark, server_metastore, table, (f"{ours}.{table.name()}", f"{java}.{table.name()}"), tmp_path)
        made.is_stock = "stock_metastore" in request.node.name
        yield made
    catalog.drop_table(f"{namespace}.t")
    catalog.drop_namespace(namespace)


class Readers:
    """A table, and what others read of it. names: in Spark, through our server and through Java's HiveCatalog."""

    def __init__(self, spark: Any, metastore: Any, table: Table, names: tuple[str, str], folder: Path) -> None:
        self.table = table
        self.names = names
        self.is_stock = False
        self._spark = spark
        self._metastore = metastore
        self._folder = folder

    def append(self, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        """Add a file of rows."""
        path = self._folder / f"{len(list(self._folder.iterdir()))}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        self.table.append([f"file:{path}"])

    def spark_insert(self, values: str) -> None:
        """Write rows with Spark through our server."""
        self._spark.sql(f"INSERT INTO {self.names[0]} VALUES {values}")
        self.table.refresh()

    def check(self, *rows: dict[str, Any]) -> None:
        """Everyone reads these rows, with the columns in this order."""
        expected = interop.by_id(rows)
        for name in self.names:
            read = interop.spark_rows(self._spark, f"SELECT * FROM {name}")
            assert read == expected
            assert [list(row) for row in read] == [list(row) for row in expected]
        assert interop.pyiceberg_rows(self._metastore, str(self.table.name())) == expected

    def check_hive_columns(self, *columns: str) -> None:
        """The metastore's row has these columns; on a stock one, those from before the first incompatible change."""
        row = interop.metastore_row(self._metastore, str(self.table.name()))
        found = [f"{column.name} {column.type}" for column in row.sd.cols]
        old = ["id int", "name string", "at timestamp", "place struct<city:string,zip:int>"]
        assert found == (old if self.is_stock else list(columns))


def test_a_schema_evolves_step_by_step(readers: Readers) -> None:
    table = readers.table
    readers.append([FIRST], SCHEMA)
    first = dict(FIRST)
    readers.check(first)
    table.update_schema().add_column("score", "double", doc="of ten").add_column("place.country", pa.string()).commit()
    first |= {"place": {"city": "x", "zip": 1, "country": None}, "score": None}
    readers.check(first)
    place = "place struct<city:string,zip:int,country:string>"
    readers.check_hive_columns("id int", "name string", "at timestamp", place, "score double")
    table.update_schema().update_column("id", "long").update_column("place.zip", pa.int64()).commit()
    place = f"named_struct('city', 'y', 'zip', {2**41}, 'country', 'z')"
    readers.spark_insert(f"({2**40}, 'b', timestamp '2021-04-02 10:00:00', {place}, 0.5)")
    second = {
        "id": 2**40,
        "name": "b",
        "at": datetime.datetime(2021, 4, 2, 10),  # noqa: DTZ001 - as above
        "place": {"city": "y", "zip": 2**41, "country": "z"},
        "score": 0.5,
    }
    readers.check(first, second)
    table.update_schema().rename_column("name", "label").rename_column(("place", "city"), "town").commit()
    for row in (first, second):
        row["label"] = row.pop("name")
        row["place"] = {"town": row["place"]["city"], "zip": row["place"]["zip"], "country": row["place"]["country"]}
    order = ["id", "label", "at", "place", "score"]
    readers.check(*({key: row[key] for key in order} for row in (first, second)))
    with table.update_schema() as schema:
        schema.move_first("score").move_after("label", "place").delete_column("at")
    order = ["score", "id", "place", "label"]
    readers.check(*({key: row[key] for key in order} for row in (first, second)))
    place = "place struct<town:string,zip:bigint,country:string>"
    readers.check_hive_columns("score double", "id bigint", place, "label string")


@pytest.mark.slow
def test_a_dropped_name_that_comes_back_is_another_column(readers: Readers) -> None:
    readers.spark_insert("(1, 'a', null, null)")
    with readers.table.update_schema() as schema:
        schema.delete_column("name").add_column("name", "string").delete_column("at").delete_column("place")
    readers.check({"id": 1, "name": None})
    readers.append([{"id": 2, "name": "new"}], pa.schema([("id", pa.int32()), ("name", pa.string())]))
    readers.check({"id": 1, "name": None}, {"id": 2, "name": "new"})


@pytest.mark.slow
def test_a_name_in_files_without_field_ids_stays_with_its_column(readers: Readers) -> None:
    table = readers.table
    readers.append([FIRST], SCHEMA)
    with pytest.raises(InvalidInput, match="Cannot give another column the name name"):
        table.update_schema().delete_column("name").add_column("name", "string").commit()
    table.update_schema().delete_column("at").delete_column("place").rename_column("name", "label").commit()
    with pytest.raises(InvalidInput, match="Cannot give another column the name name"):
        table.update_schema().add_column("name", "string").commit()
    readers.check({"id": 1, "label": "a"})


def test_partitions_and_order_evolve_with_the_columns(readers: Readers) -> None:
    table = readers.table
    readers.append([FIRST], SCHEMA)
    table.update_spec().add_field("at", "day").add_field("id", "bucket[4]").commit()
    table.update_sort_order().asc("name").desc("id").commit()
    readers.spark_insert("(2, 'b', timestamp '2021-04-02 10:00:00', null)")
    second = {
        "id": 2,
        "name": "b",
        "at": datetime.datetime(2021, 4, 2, 10),  # noqa: DTZ001 - as above
        "place": None,
    }
    readers.check(FIRST, second)
    with table.transaction() as tx:
        tx.update_spec().remove_field("at_day").rename_field("id_bucket_4", "shard").commit()
        tx.update_schema().delete_column("at").commit()
        tx.update_spec().add_identity("name").commit()
    readers.spark_insert("(3, 'c', null)")
    rows = [{key: row[key] for key in ("id", "name", "place")} for row in (FIRST, second)]
    readers.check(*rows, {"id": 3, "name": "c", "place": None})
    assert [str(field) for field in table.spec().fields] == ["1001: shard: bucket[4](1)", "1002: name: identity(2)"]


@pytest.mark.slow
def test_a_table_of_version_one_is_upgraded_twice(readers: Readers, catalog: Catalog) -> None:
    name = str(readers.table.name())
    catalog.drop_table(name)
    table = catalog.create_table(name, SCHEMA, partition_spec=["name"], properties={"format-version": "1"})
    readers.table = table
    readers.spark_insert("(1, 'a', null, null)")
    with table.transaction() as tx:
        tx.update_spec().remove_field("name").add_field("id", "bucket[4]").commit()
        tx.update_schema().delete_column("at").delete_column("place").commit()
    assert [str(field) for field in table.spec().fields] == ["1000: name: void(2)", "1001: id_bucket_4: bucket[4](1)"]
    readers.spark_insert("(2, 'b')")
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    readers.check(*rows)
    for version in (2, 3):
        table.upgrade_table_version(version)
        readers.check(*rows)
        readers.spark_insert(f"({version + 1}, 'c')")
        rows.append({"id": version + 1, "name": "c"})
        readers.check(*rows)
    table.update_spec().add_identity("name").commit()
    readers.spark_insert("(5, 'd')")
    readers.check(*rows, {"id": 5, "name": "d"})


def test_version_three_has_defaults_for_old_rows_and_ids_for_new_ones(readers: Readers) -> None:
    table = readers.table
    readers.append([FIRST], SCHEMA)
    table.upgrade_table_version(3)
    table.set_properties({"owner-team": "logs"})
    with table.update_schema() as schema:
        schema.delete_column("at").delete_column("place")
        schema.add_column("level", "string", default_value="INFO", required=True).add_column(
            "on", "date", default_value="2021-04-01"
        )
    first = {"id": 1, "name": "a", "level": "INFO", "on": datetime.date(2021, 4, 1)}
    readers.check(first)
    table.update_schema().set_default_value("level", "WARN").commit()
    readers.spark_insert("(2, 'b', 'ERROR', null)")
    readers.check(first, {"id": 2, "name": "b", "level": "ERROR", "on": None})
    assert table.metadata.next_row_id == 2
