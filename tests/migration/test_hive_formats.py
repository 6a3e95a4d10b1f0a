"""The formats of files by the names of classes and providers."""

from __future__ import annotations

import pytest

from iceberg_hms.migration.hive_formats import format_of_classes, format_of_provider, table_format_of

IO = "org.apache.hadoop.hive.ql.io."
PARQUET = (f"{IO}parquet.MapredParquetInputFormat", f"{IO}parquet.serde.ParquetHiveSerDe")
ORC = (f"{IO}orc.OrcInputFormat", f"{IO}orc.OrcSerde")
AVRO = (f"{IO}avro.AvroContainerInputFormat", "org.apache.hadoop.hive.serde2.avro.AvroSerDe")
TEXT = ("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (PARQUET, "parquet"),
        (("parquet.hive.DeprecatedParquetInputFormat", "parquet.hive.serde.ParquetHiveSerDe"), "parquet"),
        (("parquet.hive.MapredParquetInputFormat", "parquet.hive.serde.ParquetHiveSerDe"), "parquet"),
        (ORC, "orc"),
        (AVRO, "avro"),
        (TEXT, None),
        ((PARQUET[0], ORC[1]), None),
        # The files in the folder are lists of files.
        ((f"{IO}SymlinkTextInputFormat", PARQUET[1]), None),
        ((f"{IO}RCFileInputFormat", "org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe"), None),
        (("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.serde2.OpenCSVSerde"), None),
        (("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hive.hcatalog.data.JsonSerDe"), None),
        (("org.apache.hudi.hadoop.HoodieParquetInputFormat", PARQUET[1]), None),
        ((PARQUET[0], None), None),
        ((None, PARQUET[1]), None),
        ((None, None), None),
        (("", ""), None),
    ],
)
def test_both_classes_must_be_those_of_one_format(classes: tuple[str | None, str | None], expected: str | None) -> None:
    assert format_of_classes(*classes) == expected


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("parquet", "parquet"),
        ("Parquet", "parquet"),
        ("org.apache.spark.sql.parquet.DefaultSource", "parquet"),
        ("org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat", "parquet"),
        ("ORC", "orc"),
        ("org.apache.spark.sql.hive.orc", "orc"),
        ("avro", "avro"),
        ("com.databricks.spark.avro", "avro"),
        ("csv", None),
        ("json", None),
        ("text", None),
        ("jdbc", None),
        ("delta", None),
        ("iceberg", None),
    ],
)
def test_sparks_providers_by_all_their_names(provider: str, expected: str | None) -> None:
    assert format_of_provider(provider) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((None, "ICEBERG"), "Iceberg"),
        (("org.apache.iceberg.mr.hive.HiveIcebergStorageHandler",), "Iceberg"),
        (("delta",), "Delta Lake"),
        (("io.delta.hive.DeltaInputFormat",), "Delta Lake"),
        (("hudi",), "Hudi"),
        (("com.uber.hoodie.hadoop.HoodieInputFormat",), "Hudi"),
        (("org.apache.paimon.hive.PaimonStorageHandler",), "Paimon"),
        ((None, *PARQUET, *ORC, *AVRO, *TEXT, "parquet", ""), None),
    ],
)
def test_tables_of_other_formats_are_known_by_their_classes(
    names: tuple[str | None, ...], expected: str | None
) -> None:
    assert table_format_of(*names) == expected
