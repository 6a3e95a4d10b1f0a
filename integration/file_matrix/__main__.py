"""Measures the readers anew and writes the records: `python -m integration.file_matrix`. It takes some ten minutes.

With a format as the first argument, as `orc`, the other records stay; with groups of its shapes as further ones, as
`parquet Timestamps`, so does the rest of its record.
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

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def main(file_format: str = "", *groups: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fetch(Path(folder))
        builder = SparkSession.builder
        for key, value in {**SETTINGS, "spark.jars": str(jar()), "spark.sql.extensions": EXTENSIONS}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        for name, shapes in record.FORMATS.items():
            if file_format not in ("", name.lower()):
                continue
            chosen = [each for each in shapes if not groups or each.group in groups]
            found, _ = measure(spark, chosen, Path(folder))
            if groups:
                before = record.load(name.lower())
                found = record.Record({**before.outcomes, **found.outcomes}, {**before.files, **found.files})
            record.save(name.lower(), found)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
