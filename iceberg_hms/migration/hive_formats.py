"""Which formats Hive's and Spark's tables say that their files have, by the names of Java classes and of providers."""

from __future__ import annotations

from typing import Final

_IO: Final = "org.apache.hadoop.hive.ql.io."
_SPARK: Final = "org.apache.spark.sql."

_SERDES: Final = {
    f"{_IO}parquet.serde.ParquetHiveSerDe": "parquet",
    # Before Hive 0.13 Parquet was a project of its own.
    "parquet.hive.serde.ParquetHiveSerDe": "parquet",
    f"{_IO}orc.OrcSerde": "orc",
    f"{_IO}orc.VectorizedOrcSerde": "orc",
    "org.apache.hadoop.hive.serde2.avro.AvroSerDe": "avro",
}
_INPUT_FORMATS: Final = {
    f"{_IO}parquet.MapredParquetInputFormat": "parquet",
    "parquet.hive.MapredParquetInputFormat": "parquet",
    "parquet.hive.DeprecatedParquetInputFormat": "parquet",
    f"{_IO}orc.OrcInputFormat": "orc",
    f"{_IO}orc.VectorizedOrcInputFormat": "orc",
    f"{_IO}avro.AvroContainerInputFormat": "avro",
}
#: Spark's providers, in lower case: names that it has had since 1.3.
_PROVIDERS: Final = {
    "parquet": "parquet",
    f"{_SPARK}parquet": "parquet",
    f"{_SPARK}parquet.defaultsource": "parquet",
    f"{_SPARK}execution.datasources.parquet": "parquet",
    f"{_SPARK}execution.datasources.parquet.defaultsource": "parquet",
    f"{_SPARK}execution.datasources.parquet.parquetfileformat": "parquet",
    "orc": "orc",
    f"{_SPARK}hive.orc": "orc",
    f"{_SPARK}hive.orc.defaultsource": "orc",
    f"{_SPARK}hive.orc.orcfileformat": "orc",
    f"{_SPARK}execution.datasources.orc.orcfileformat": "orc",
    "avro": "avro",
    "com.databricks.spark.avro": "avro",
    f"{_SPARK}avro.avrofileformat": "avro",
}
#: Formats of tables: a part of what their providers, input formats and storage handlers are called in lower case.
_TABLE_FORMATS: Final = {
    "iceberg": "Iceberg",
    "delta": "Delta Lake",
    "hudi": "Hudi",
    "hoodie": "Hudi",
    "paimon": "Paimon",
}


def format_of_classes(input_format: str | None, serde: str | None) -> str | None:
    """`parquet`, `orc` or `avro`; None if the two classes are not those of one of them. A known serde alone proves
    nothing: behind some input formats the folder has lists of files."""
    found = None if input_format is None else _INPUT_FORMATS.get(input_format)
    return found if serde is not None and _SERDES.get(serde) == found else None


def format_of_provider(provider: str) -> str | None:
    """As `format_of_classes`, of a provider of Spark's."""
    return _PROVIDERS.get(provider.lower())


def table_format_of(*names: str | None) -> str | None:
    """The table format that one of these classes and providers belongs to, as people call it; None if none does."""
    for name in names:
        for part, table_format in _TABLE_FORMATS.items():
            if name is not None and part in name.lower():
                return table_format
    return None
