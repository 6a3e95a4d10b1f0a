"""Spark's session catalog, served by iceberg-hms.

    import iceberg_hms.spark
    from pyspark.sql import SparkSession

    spark = iceberg_hms.spark.configure(
        SparkSession.builder, metastore_uri="thrift://127.0.0.1:9083", warehouse="file:/data/warehouse"
    ).getOrCreate()

`configure` needs the extra `spark`; `configuration` needs neither pyspark nor a JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iceberg_hms.spark.session import SessionBuilder as SessionBuilder
    from iceberg_hms.spark.session import configure as configure

_HOMES = {"SessionBuilder", "configure"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from iceberg_hms.spark import session
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark":
            raise
        from iceberg_hms.errors import EngineError

        raise EngineError(
            "The pyspark package is not installed", next_step="pip install 'iceberg-hms[spark,server]'"
        ) from error
    return getattr(session, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
