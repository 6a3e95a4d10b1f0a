"""NaN in files that are appended: what Spark answers from metadata, and what readers find."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from integration.migration.readers import pyiceberg_files

pytestmark = pytest.mark.slow

NAN = math.nan
COLUMNS = "f float, d double, s struct<x: double>"
SCHEMA = pa.schema([("f", pa.float32()), ("d", pa.float64()), ("s", pa.struct([("x", pa.float64())]))])


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as connected:
        yield connected


def written(spark: Any, folder: Path, writer: str, values: list[float]) -> str:
    """A file of one row for each value, in each column."""
    rows = [{"f": each, "d": each, "s": {"x": each}} for each in values]
    path = folder / f"a.{writer.rpartition(' ')[2]}"
    if writer.startswith("Spark"):
        frame = spark.createDataFrame([(row["f"], row["d"], (row["s"]["x"],)) for row in rows], COLUMNS)
        frame.coalesce(1).write.format(path.suffix[1:]).save(f"file:{folder}/spark")
        (found,) = (folder / "spark").glob(f"*.{path.suffix[1:]}")
        found.rename(path)
    elif writer == "pyarrow parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    else:
        orc.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return f"file:{path}"


@pytest.mark.parametrize("values", [[1.0, NAN, 3.0], [NAN, 1.0], [NAN], [1.0, 3.0]], ids=str)
@pytest.mark.parametrize("writer", ["pyarrow parquet", "Spark parquet", "pyarrow orc", "Spark orc"])
def test_the_largest_value_of_a_column_is_nan_if_one_is(
    spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path, writer: str, values: list[float]
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA).append([written(spark, tmp_path, writer, values)])
    spark.sql(f"REFRESH TABLE {table}")
    has_nan = any(map(math.isnan, values))
    numbers = [each for each in values if not math.isnan(each)]
    for column in ("f", "d", "s.x"):
        (row,) = spark.sql(f"SELECT max({column}), min({column}) FROM {table}").collect()
        assert str(row[0]) == str(NAN if has_nan else max(numbers)), column
        assert str(row[1]) == str(min(numbers, default=NAN)), column
        nans = spark.sql(f"SELECT count(*) FROM {table} WHERE isnan({column})").collect()
        assert nans[0][0] == len(values) - len(numbers)
        if has_nan and "orc" in writer:
            # Of Parquet files Spark itself skips the row group, by the footer, also in tables that it wrote.
            assert spark.sql(f"SELECT count(*) FROM {table} WHERE {column} > 10").collect()[0][0] > 0
        assert pyiceberg_files(metastore, table, f"{column} is nan") or not has_nan
