"""Measures the readers anew and writes the record: `python -m integration.file_matrix`. It takes some ten minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from integration.file_matrix.measuring import measure
from integration.maven_packages import fetch, jar
from integration.spark_fixtures import SETTINGS
from tests.file_matrix import record
from tests.file_matrix.parquet_shapes import SHAPES

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fetch(Path(folder))
        builder = SparkSession.builder
        for key, value in {**SETTINGS, "spark.jars": str(jar()), "spark.sql.extensions": EXTENSIONS}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        found, _ = measure(spark, SHAPES, Path(folder))
        spark.stop()
    record.save("parquet", found)


if __name__ == "__main__":
    main()
