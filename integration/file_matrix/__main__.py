"""Measures the readers anew and writes the record: `python -m integration.file_matrix`. It takes some ten minutes.

With groups of shapes as arguments, as `"Timestamps"`, the rest of the record stays.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from integration.file_matrix.measuring import measure
from integration.maven_packages import fetch, jar
from integration.spark_fixtures import SETTINGS
from tests.file_matrix import record
from tests.file_matrix.parquet_shapes import SHAPES

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def main(groups: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fetch(Path(folder))
        builder = SparkSession.builder
        for key, value in {**SETTINGS, "spark.jars": str(jar()), "spark.sql.extensions": EXTENSIONS}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        found, _ = measure(spark, [each for each in SHAPES if not groups or each.group in groups], Path(folder))
        spark.stop()
    if groups:
        before = record.load("parquet")
        found = record.Record({**before.outcomes, **found.outcomes}, {**before.files, **found.files})
    record.save("parquet", found)


if __name__ == "__main__":
    main(sys.argv[1:])
