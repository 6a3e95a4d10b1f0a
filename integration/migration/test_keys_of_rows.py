"""Keys of rows on a real metastore: which ones Spark's and Hive's classes have, what Spark reads with them, and what a
migration makes of the tables."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CannotMigrate, InvalidInput
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.migration import add_files, migrate, migrate_database, snapshot
from iceberg_hms.migration.known_keys import KEYS, KeyPlace, Verdict, find
from integration.migration.readers import add_java, pyiceberg_rows, rows_of, run

pytestmark = pytest.mark.slow

_SPARK: Final = "org.apache.spark.sql."
_HIVE: Final = "org.apache.hadoop.hive."
#: Classes whose constants are keys of rows, and what their constants are beside them.
CONSTANTS: Final = {
    f"{_HIVE}serde.serdeConstants": ("_TYPE_NAME",),
    f"{_HIVE}metastore.api.hive_metastoreConstants": ("EXPECTED_PARAMETER_KEY", "EXPECTED_PARAMETER_VALUE"),
    f"{_HIVE}common.StatsSetupConst": (
        *("TASK", "USER", "TRUE", "FALSE", "CASCADE", "BASIC_STATS", "COLUMN_STATS", "STATS_FILE_PREFIX"),
        "CLASS_IDENTIFIER",
    ),
    "org.apache.parquet.hadoop.ParquetInputFormat": (),
    "org.apache.parquet.hadoop.ParquetOutputFormat": (),
    "org.apache.parquet.crypto.keytools.KeyToolkit": (),
    "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory": ("ENCRYPTION_ALGORITHM_DEFAULT",),
}
#: Spark's objects, whose methods without arguments give keys.
OBJECTS: Final = {
    f"{_SPARK}execution.datasources.parquet.ParquetOptions": (),
    f"{_SPARK}execution.datasources.orc.OrcOptions": (),
    f"{_SPARK}execution.datasources.FileIndexOptions": (),
    f"{_SPARK}catalyst.FileSourceOptions": (),
    f"{_SPARK}avro.AvroOptions": (),
    f"{_SPARK}hive.execution.HiveOptions": (),
    f"{_SPARK}hive.HiveExternalCatalog": ("SPARK_SQL_PREFIX", "_PREFIX", "PROVIDER_CATALOG", "PROVIDER_FILESYSTEM"),
    f"{_SPARK}catalyst.util.GeneratedColumn": (),
    f"{_SPARK}catalyst.util.IdentityColumn": (),
    f"{_SPARK}catalyst.util.ResolveDefaultColumnsUtils": (),
}


def constants(spark: Any, name: str) -> dict[str, str]:
    """The static texts of a Java class."""
    fields = spark._jvm.java.lang.Class.forName(name).getDeclaredFields()
    found = {}
    for field in fields:
        if str(field.getType().getName()) == "java.lang.String" and field.getModifiers() & 8:
            field.setAccessible(True)
            found[str(field.getName())] = str(field.get(None))
    return found


def texts(spark: Any, name: str) -> dict[str, str]:
    """The texts of a Scala object, in upper case by their names."""
    kind = spark._jvm.java.lang.Class.forName(f"{name}$")
    module = kind.getField("MODULE$").get(None)
    return {
        str(method.getName()): str(getattr(module, str(method.getName()))())
        for method in kind.getDeclaredMethods()
        if str(method.getReturnType().getName()) == "java.lang.String"
        and method.getParameterCount() == 0
        and str(method.getName()).replace("_", "").replace("96", "").isupper()
    }


def unknown(keys: Mapping[str, str], others: Iterable[str]) -> list[str]:
    return sorted(
        key
        for name, key in keys.items()
        if not any(name == other or name.endswith(other) for other in others)
        and all(find(place, key) is None for place in KeyPlace)
    )


def test_each_key_of_sparks_and_hives_classes_is_known(spark: Any) -> None:
    """A release that has a new key fails here, until somebody says what it means."""
    for name, others in CONSTANTS.items():
        keys = constants(spark, name)
        assert keys, name
        assert unknown(keys, others) == [], name
    for name, others in OBJECTS.items():
        keys = texts(spark, name)
        assert keys, name
        assert unknown(keys, others) == [], name
    jvm = spark._jvm
    keys = {str(each.getAttribute()): str(each.getAttribute()) for each in jvm.org.apache.orc.OrcConf.values()}
    keys |= {
        str(each.name()): str(each.getPropName())
        for each in jvm.java.lang.Class.forName(
            f"{_HIVE}serde2.avro.AvroSerdeUtils$AvroTableProperties"
        ).getEnumConstants()
    }
    assert len(keys) > 50
    assert unknown(keys, ()) == []


# Keys without effect.

SHAPES: Final = ("STORED AS PARQUET", "STORED AS ORC", "STORED AS AVRO", "USING parquet", "USING orc")
#: Keys whose values readers parse.
VALUES: Final = {
    "compression": "snappy",
    "parquet.compression": "SNAPPY",
    "orc.compress": "ZLIB",
    "mode": "FAILFAST",
    "avro.output.codec": "snappy",
    "serialization.format": "1",
    "serialization.encoding": "UTF-8",
    "timestamp.formats": "yyyy-MM-dd",
    "avro.schema.namespace": "some.where",
    "avro.schema.name": "somebody",
    "orc.bloom.filter.columns": "id",
    "orc.column.encoding.direct": "id",
}
#: What the metastore or Spark takes for another kind of table, or has itself.
KINDS: Final = {
    key.name
    for key in KEYS
    if key.why.startswith(("says what kind", "the columns", "the partition columns", "the format", "the version"))
    or key.name in ("transient_lastDdlTime", "path", "spark.sql.partitionProvider")
}


def value_of(name: str) -> str:
    is_switch = name.endswith((".enabled", "Schema", "Files", "Paths", "UnionType", ".enforce", "selected", "zerocopy"))
    return VALUES.get(name, "true" if is_switch or name.startswith(("parquet.filter", "ignore")) else "1")


def keys_without_effect(place: KeyPlace) -> dict[str, str]:
    return {
        key.name.replace("*", "x"): value_of(key.name)
        for key in KEYS
        if place in key.places and key.verdict is not Verdict.REFUSED and key.name not in KINDS
    }


def alter(catalog: Any, metastore: Any, table: str, parameters: Mapping[str, str], options: Mapping[str, str]) -> None:
    """Put keys into a row: Spark lets nobody set some of them."""
    row = copy.deepcopy(catalog.services.hive_tables.load_row(TableName(*table.split("."))).table)
    row.parameters |= parameters
    row.sd.serdeInfo.parameters |= options
    pool = ClientPool([metastore.uri])
    try:
        pool.call_once("alter_table", dbname=row.dbName, tbl_name=row.tableName, new_tbl=row)
    finally:
        pool.close()


def fill(spark: Any, table: str, shape: str) -> list[tuple[str | None, ...]]:
    """A table with rows in two files; its rows."""
    run(
        spark,
        f"CREATE TABLE {table} (id INT, s STRING, x DOUBLE, a ARRAY<INT>) {shape}",
        f"INSERT INTO {table} VALUES (1, 'a', 0.5, array(1, 2)), (2, NULL, NULL, NULL)",
        f"INSERT INTO {table} VALUES (3, 'c', -2.5, array())",
    )
    return rows_of(spark, table)


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_without_effect_change_no_row_before_a_migration_and_after_it(
    spark: Any, catalog: Any, metastore: Any, namespace: str, shape: str
) -> None:
    table = f"{namespace}.t"
    before = fill(spark, table, shape)
    parameters, options = keys_without_effect(KeyPlace.PARAMETER), keys_without_effect(KeyPlace.OPTION)
    assert len(parameters) > 150
    assert len(options) > 100
    alter(catalog, metastore, table, parameters, options)
    spark.catalog.refreshTable(table)
    assert rows_of(spark, table) == before
    assert migrate(spark, table, progress=False).records == len(before)
    assert rows_of(spark, table) == rows_of(spark, f"{add_java(spark, metastore)}.{table}") == before
    found = pyiceberg_rows(metastore, table) if "AVRO" not in shape else before
    assert [row[:3] for row in found] == [row[:3] for row in before]


# Refused keys.

#: What makes a table -> the key that is named. `{t}` is the table.
REFUSED: Final = {
    "CREATE TABLE {t} (id INT) USING parquet OPTIONS (pathGlobFilter 'x*')": "pathGlobFilter",
    "CREATE TABLE {t} (id INT) USING orc OPTIONS (modifiedBefore '2020-01-01T00:00:00')": "modifiedBefore",
    "CREATE TABLE {t} (id INT) USING parquet OPTIONS (MODIFIEDAFTER '2040-01-01T00:00:00')": "MODIFIEDAFTER",
    "CREATE TABLE {t} (id INT) USING parquet OPTIONS (recursiveFileLookup 'true')": "recursiveFileLookup",
    "CREATE TABLE {t} (id INT) USING parquet OPTIONS (ignoreCorruptFiles 'true')": "ignoreCorruptFiles",
    "CREATE TABLE {t} (id DATE) USING parquet OPTIONS (datetimeRebaseMode 'LEGACY')": "datetimeRebaseMode",
    "CREATE TABLE {t} (id DATE) USING parquet OPTIONS (int96RebaseMode 'LEGACY')": "int96RebaseMode",
    "CREATE TABLE {t} (id INT) USING parquet OPTIONS (recordedBy 'ann')": "recordedBy",
    "CREATE TABLE {t} (id INT) STORED AS PARQUET TBLPROPERTIES ('parquet.new'='1')": "parquet.new",
    "CREATE TABLE {t} (id INT) STORED AS PARQUET TBLPROPERTIES ('skip.header.line.count'='1')": (
        "skip.header.line.count"
    ),
    "CREATE TABLE {t} (id INT) STORED AS ORC TBLPROPERTIES ('orc.force.positional.evolution'='true')": (
        "orc.force.positional.evolution"
    ),
    "CREATE TABLE {t} (id INT) STORED AS PARQUET TBLPROPERTIES ('parquet.column.index.access'='true')": (
        "parquet.column.index.access"
    ),
    "CREATE TABLE {t} (id INT) STORED AS PARQUET TBLPROPERTIES ('parquet.encryption.footer.key'='k')": (
        "parquet.encryption.footer.key"
    ),
    "CREATE TABLE {t} (id INT) USING parquet TBLPROPERTIES ('projection.enabled'='true')": "projection.enabled",
    "CREATE TABLE {t} (id STRING COLLATE UTF8_LCASE) USING parquet": "__COLLATIONS",
    "CREATE TABLE {t} (id STRING COLLATE UNICODE) STORED AS PARQUET": "__COLLATIONS",
    "CREATE TABLE {t} (id STRING COLLATE UNICODE_CI) USING orc": "__COLLATIONS",
    "CREATE TABLE {t} (id STRING COLLATE UTF8_BINARY_RTRIM) USING parquet": "__COLLATIONS",
    "CREATE TABLE {t} (id ARRAY<STRING COLLATE UNICODE_CI_AI>) USING parquet": "__COLLATIONS",
    "CREATE TABLE {t} (id INT) USING parquet DEFAULT COLLATION UTF8_LCASE; ALTER TABLE {t} ADD COLUMN s STRING": (
        "__COLLATIONS"
    ),
    "CREATE TABLE {t} (id CHAR(3)) USING parquet": "char(n)",
    "CREATE TABLE {t} (id MAP<INT, CHAR(3)>) STORED AS ORC": "char(n)",
    "CREATE TABLE {t} (id VARCHAR(3)) STORED AS AVRO": "varchar(n)",
    "CREATE TABLE {t} (id INT); ALTER TABLE {t} ADD COLUMN late INT DEFAULT 42": "EXISTS_DEFAULT",
    "CREATE TABLE {t} (id INT) USING parquet; ALTER TABLE {t} ALTER COLUMN id SET DEFAULT 7": "CURRENT_DEFAULT",
}


@pytest.mark.parametrize(("statements", "key"), REFUSED.items(), ids=list(REFUSED))
def test_a_table_whose_rows_would_change_is_refused_by_every_verb(
    spark: Any, catalog: Any, namespace: str, statements: str, key: str
) -> None:
    table = f"{namespace}.t"
    given = statements.replace("(id INT);", "(id INT) USING parquet;")
    run(spark, *[each.replace("{t}", table) for each in given.split("; ")])
    before = catalog.services.hive_tables.load_row(TableName(namespace, "t"))
    for refuse in (
        lambda: migrate(spark, table, progress=False, dry_run=True),
        lambda: migrate(spark, table, progress=False),
        lambda: snapshot(spark, table, f"{namespace}.s", progress=False),
    ):
        with pytest.raises(InvalidInput) as caught:
            refuse()
        assert key in caught.value.message
        assert caught.value.next_step
    reports = migrate_database(spark, namespace, progress=False)
    assert [(each.outcome, key in each.error) for each in reports] == [("failed", True)]
    catalog.create_table(f"{namespace}.e", catalog_schema())
    with pytest.raises(InvalidInput, match="Cannot migrate") as caught:
        add_files(spark, f"{namespace}.e", table, progress=False)
    assert key in caught.value.message
    assert catalog.services.hive_tables.load_row(TableName(namespace, "t")) == before


def catalog_schema() -> Any:
    from iceberg_hms.format.schema.schema import Schema
    from iceberg_hms.format.schema.types import INT, NestedField

    return Schema.of([NestedField(1, "id", INT)])


def test_a_partition_with_a_key_of_its_own_is_a_problem(
    spark: Any, catalog: Any, metastore: Any, namespace: str
) -> None:
    table = f"{namespace}.t"
    run(
        spark,
        f"CREATE TABLE {table} (id INT) PARTITIONED BY (p INT) STORED AS PARQUET",
        f"INSERT INTO {table} PARTITION (p = 1) VALUES (1)",
        f"INSERT INTO {table} PARTITION (p = 2) VALUES (2)",
        f"ALTER TABLE {table} PARTITION (p = 2) SET SERDEPROPERTIES ('timeZone'='Asia/Tokyo')",
    )
    with pytest.raises(CannotMigrate, match=r"partition p=2.*'timeZone'") as caught:
        migrate(spark, table, progress=False)
    assert caught.value.report.problem_count == 1
    assert migrate(spark, table, progress=False, ignore_keys=["timeZone"]).records == 2


# Defaults.

DEFAULTS: Final = {
    "i": ("INT", "42"),
    "l": ("BIGINT", "7"),
    "b": ("TINYINT", "-7"),
    "f": ("FLOAT", "1.5"),
    "d": ("DOUBLE", "2.5"),
    "n": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'2020-01-02 03:04:05'"),
    "t": ("BOOLEAN", "true"),
    "o": ("DATE", "DATE'2020-01-02'"),
    "s": ("STRING", "'it''s'"),
    "z": ("STRING", "NULL"),
    "y": ("BINARY", "X'00ff'"),
}


@pytest.mark.parametrize("source", ["parquet", "orc"])
def test_writers_go_on_to_write_what_a_column_has_by_default(
    spark: Any, metastore: Any, namespace: str, source: str
) -> None:
    table = f"{namespace}.t"
    # Iceberg reads no timestamp_ntz of Spark's ORC files.
    given = {name: each for name, each in DEFAULTS.items() if source == "parquet" or name != "n"}
    columns = ", ".join(f"{name} {kind} DEFAULT {text}" for name, (kind, text) in given.items())
    run(
        spark,
        f"CREATE TABLE {table} (id INT, {columns}) USING {source}",
        f"INSERT INTO {table} (id) VALUES (1)",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')",
    )
    ((_, *before),) = rows_of(spark, table)
    assert before[:3] == ["42", "7", "-7"]
    with pytest.raises(InvalidInput, match="'EXISTS_DEFAULT'"):
        migrate(spark, table, progress=False)
    assert migrate(spark, table, progress=False, ignore_keys=["EXISTS_DEFAULT"]).records == 1
    run(spark, f"INSERT INTO {table} (id) VALUES (2)")
    expected = [("1", *before), ("2", *before)]
    assert rows_of(spark, table) == rows_of(spark, f"{add_java(spark, metastore)}.{table}") == expected
    assert spark.sql(f"SELECT id FROM {table} WHERE i = 42 AND s = 'it''s'").count() == 2
