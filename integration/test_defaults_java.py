"""Defaults that callers give as values of NumPy, pandas and pyarrow, as Java and Spark read them."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.java_tables import JavaTables

pytestmark = pytest.mark.slow

AT = datetime.datetime(2021, 4, 1, 10, 0, 0, 250)  # noqa: DTZ001 - of a column without zone
NANOS = 1_617_271_200 * 10**9
#: Column -> its type, the default, what Spark reads; Ellipsis: Spark 4.1 does not know the type.
DEFAULTS: dict[str, tuple[str, Any, Any]] = {
    "flag": ("boolean", np.bool_(True), True),
    "count": ("int", np.int16(7), 7),
    "wide": ("long", pa.scalar(2**63 - 1), 2**63 - 1),
    "ratio": ("float", np.float32(0.1), 0.10000000149011612),
    "exact": ("double", np.float32(0.1), 0.10000000149011612),
    "price": ("decimal(9, 2)", pa.scalar(Decimal("1.50")), Decimal("1.50")),
    "name": ("string", np.str_("a"), "a"),
    "raw": ("binary", memoryview(b"ab"), bytearray(b"ab")),
    "key": ("uuid", pa.scalar(uuid.UUID(int=7).bytes, pa.uuid()), str(uuid.UUID(int=7))),
    "day": ("date", np.datetime64("2021-04-01"), AT.date()),
    "at": ("timestamp", pd.Timestamp(AT), AT),
    "moment": ("timestamptz", pd.Timestamp("2021-04-01T12:00:00.000250+02:00"), AT),
    "nanos": ("timestamp_ns", pd.Timestamp("2021-04-01T10:00:00.000000500"), ...),
    "zoned": ("timestamptz_ns", pa.scalar(NANOS + 500, pa.timestamp("ns", "UTC")), ...),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Without a metastore: what matters is in the files."""
    with memory_catalog(files=RoutedFiles(), warehouse=f"file:{tmp_path}/warehouse") as made:
        made.create_namespace("db")
        yield made


def test_spark_reads_in_old_rows_what_the_caller_gave(spark: Any, catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("db.old", pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    pq.write_table(pa.table({"id": [1]}), tmp_path / "old.parquet")
    table.append([f"file:{tmp_path}/old.parquet"])
    known = {name: each for name, each in DEFAULTS.items() if each[2] is not ...}
    with table.update_schema() as schema:
        for name, (of, value, _) in known.items():
            schema.add_column(name, of, default_value=value)
    (row,) = spark.read.format("iceberg").load(table.metadata_location).collect()
    assert row.asDict() == {"id": 1, **{name: expected for name, (_, _, expected) in known.items()}}


def test_java_loads_each_of_them(spark: Any, catalog: Catalog) -> None:
    table = catalog.create_table("db.all", pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    with table.update_schema() as schema:
        for name, (of, value, _) in DEFAULTS.items():
            schema.add_column(name, of, required=True, default_value=value)
    read = JavaTables(spark._jvm).reader(table.metadata_location).table.schema()
    missing = [name for name in DEFAULTS if read.findField(name).initialDefault() is None]
    assert not missing
    for name in ("nanos", "zoned"):
        assert read.findField(name).initialDefault() == read.findField(name).writeDefault() == NANOS + 500
