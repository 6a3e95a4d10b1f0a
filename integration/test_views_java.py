"""Views of Java's HiveCatalog and ours on one metastore: each reads, replaces, renames and drops the other's, and the
rows are the same parameter by parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AlreadyExists, NoSuchView, NotAnIcebergView
from iceberg_hms.format.locations import file_key
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.view_pointer import HmsViewPointer
from integration import interop
from integration.spark_statements import outcome

COLUMNS = [
    {"id": 1, "name": "id", "required": True, "type": "long", "doc": "the key"},
    {"id": 2, "name": "At", "required": False, "type": "timestamptz"},
    {"id": 3, "name": "amount", "required": False, "type": "decimal(10, 2)"},
]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": COLUMNS}
#: Parameters that name files and times, or that the metastore sets itself.
VARYING = {"metadata_location", "previous_metadata_location", "uuid", "transient_lastDdlTime"}
SPARK_NAMESPACE = "view.catalogAndNamespace."


@pytest.fixture(scope="module")
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def java(spark: Any, metastore: Any) -> Any:
    return interop.java_catalog(
        spark, interop.HIVE_CATALOG, "hive_views", uri=metastore.uri, warehouse=metastore.warehouse
    )


def java_schema(spark: Any) -> Any:
    types, nested = spark._jvm.org.apache.iceberg.types.Types, spark._jvm.org.apache.iceberg.types.Types.NestedField
    fields = spark._jvm.java.util.ArrayList()
    fields.add(nested.required(1, "id", types.LongType.get(), "the key"))
    fields.add(nested.optional(2, "At", types.TimestampType.withZone()))
    fields.add(nested.optional(3, "amount", types.DecimalType.of(10, 2)))
    return spark._jvm.org.apache.iceberg.Schema(fields)


def builder(spark: Any, java: Any, view: str, texts: dict[str, str]) -> Any:
    """Java's builder of a view. texts: SQL by dialect."""
    name = interop.java_identifier(spark, view)
    found = java.buildView(name).withSchema(java_schema(spark)).withDefaultNamespace(name.namespace())
    for dialect, sql in texts.items():
        found = found.withQuery(dialect, sql)
    return found


def version(namespace: str, texts: dict[str, str]) -> dict[str, Any]:
    return {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"engine-name": "ours"},
        "default-namespace": [namespace],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in texts.items()],
    }


def replace(catalog: Catalog, view: str, texts: dict[str, str]) -> Any:
    namespace = view.partition(".")[0]
    return catalog.views.commit(
        view,
        [{"type": "assert-view-uuid", "uuid": catalog.views.load(view).metadata.uuid}],
        [
            {"action": "add-view-version", "view-version": version(namespace, texts)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    )


def view_row(metastore: Any, view: str) -> Any:
    pool = ClientPool([metastore.uri])
    try:
        return HmsViewPointer(pool, Settings.load({}, environ={})).load(TableName(*view.split("."))).table
    finally:
        pool.close()


def java_sql(spark: Any, java: Any, view: str, dialect: str = "spark") -> str:
    return str(java.loadView(interop.java_identifier(spark, view)).sqlFor(dialect).sql())


def test_each_reads_and_replaces_a_view_of_the_other(spark: Any, java: Any, catalog: Catalog, namespace: str) -> None:
    theirs, ours = f"{namespace}.theirs", f"{namespace}.ours"
    builder(spark, java, theirs, {"spark": "select 1"}).withProperty("comment", "c").create()
    catalog.views.create(ours, SCHEMA, version(namespace, {"spark": "select 1"}), properties={"comment": "c"})
    for view in (theirs, ours):
        found = catalog.views.load(view).metadata
        assert found.current_version.sql_for("spark") == java_sql(spark, java, view) == "select 1"
        assert found.properties == {"comment": "c"}
        read = java.loadView(interop.java_identifier(spark, view))
        assert (str(read.uuid().toString()), str(read.location())) == (found.uuid, found.location)
        # We, then Java, then we again; each on what the other made.
        replace(catalog, view, {"spark": "select 2"})
        assert java_sql(spark, java, view) == "select 2"
        builder(spark, java, view, {"spark": "select 3"}).replace()
        assert catalog.views.load(view).metadata.current_version.sql_for("spark") == "select 3"
        after = replace(catalog, view, {"spark": "select 4"}).metadata
        assert [each.version_id for each in after.versions] == [1, 2, 3, 4]
        read = java.loadView(interop.java_identifier(spark, view))
        assert [each.versionId() for each in read.history()] == [1, 2, 3, 4]
        assert [each.versionId() for each in read.versions()] == [1, 2, 3, 4]


def test_the_rows_are_the_same_parameter_by_parameter(
    spark: Any, java: Any, catalog: Catalog, namespace: str, metastore: Any
) -> None:
    properties = {"comment": "c", "gc.enabled": "true", "hive.metastore.table.owner": "grace"}
    theirs, ours = f"{namespace}.theirs", f"{namespace}.ours"
    texts = {"trino": "select 't'", "spark": "select 's'"}
    made = builder(spark, java, theirs, texts)
    for key, value in properties.items():
        made = made.withProperty(key, value)
    made.create()
    catalog.views.create(ours, SCHEMA, version(namespace, texts), properties=properties)
    expect_the_same(view_row(metastore, ours), view_row(metastore, theirs))
    assert view_row(metastore, theirs).viewExpandedText == "select 't'"

    with_hive = {**texts, "Hive": "select 'h'"}
    builder(spark, java, theirs, with_hive).withProperty("extra", "1").replace()
    replace(catalog, ours, with_hive)
    catalog.views.commit(ours, [], [{"action": "set-properties", "updates": {"extra": "1"}}])
    expect_the_same(view_row(metastore, ours), view_row(metastore, theirs))
    assert view_row(metastore, theirs).viewExpandedText == "select 'h'"

    # A property that is removed leaves the row.
    java.loadView(interop.java_identifier(spark, theirs)).updateProperties().remove("comment").commit()
    catalog.views.commit(ours, [], [{"action": "remove-properties", "removals": ["comment"]}])
    assert "comment" not in view_row(metastore, theirs).parameters
    expect_the_same(view_row(metastore, ours), view_row(metastore, theirs))


def expect_the_same(ours: Any, theirs: Any) -> None:
    # Ours says where Spark finds the tables that the SQL names.
    assert {key for key in ours.parameters if not key.startswith(SPARK_NAMESPACE)} == set(theirs.parameters)
    for key in set(theirs.parameters) - VARYING:
        assert ours.parameters[key] == theirs.parameters[key], key
    assert ours.tableType == theirs.tableType == "VIRTUAL_VIEW"
    assert ours.parameters["table_type"] == "ICEBERG-VIEW"
    for field in ("viewOriginalText", "viewExpandedText", "owner", "retention", "partitionKeys"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert [(each.name, each.type, each.comment) for each in ours.sd.cols] == [
        (each.name, each.type, each.comment) for each in theirs.sd.cols
    ]
    assert file_key(ours.sd.location).startswith(file_key(theirs.sd.location).replace("/theirs", "/ours-"))
    for field in ("inputFormat", "outputFormat", "numBuckets", "parameters"):
        assert getattr(ours.sd, field) == getattr(theirs.sd, field), field
    assert ours.sd.serdeInfo.serializationLib == theirs.sd.serdeInfo.serializationLib
    for row in (ours, theirs):
        assert row.parameters["metadata_location"].endswith(".gz.metadata.json")


def test_a_view_that_one_renames_or_drops_is_gone_for_the_other(
    spark: Any, java: Any, catalog: Catalog, namespace: str
) -> None:
    def name(view: str) -> Any:
        return interop.java_identifier(spark, f"{namespace}.{view}")

    builder(spark, java, f"{namespace}.one", {"spark": "select 1"}).create()
    catalog.views.create(f"{namespace}.two", SCHEMA, version(namespace, {"spark": "select 2"}))
    catalog.views.rename(f"{namespace}.one", f"{namespace}.un")
    java.renameView(name("two"), name("deux"))
    assert [each.name for each in catalog.views.list(namespace)] == ["deux", "un"]
    assert sorted(each.name() for each in java.listViews(name("x").namespace())) == ["deux", "un"]
    assert java_sql(spark, java, f"{namespace}.un") == "select 1"
    # Java deletes the metadata file of a view that it drops; ours keeps it, so Java can register it again.
    kept = catalog.views.load(f"{namespace}.un").metadata_location
    catalog.views.drop(f"{namespace}.un")
    assert not java.viewExists(name("un"))
    assert java.dropView(name("deux"))
    with pytest.raises(NoSuchView):
        catalog.views.load(f"{namespace}.deux")
    again = catalog.views.register(f"{namespace}.again", kept)
    assert java_sql(spark, java, f"{namespace}.again") == again.metadata.current_version.sql_for("spark")


def test_a_hive_view_is_left_alone(spark: Any, java: Any, catalog: Catalog, namespace: str, metastore: Any) -> None:
    pool = ClientPool([metastore.uri])
    try:
        row = view_row_of_hive(namespace)
        pool.call_once("create_table", tbl=row)
    finally:
        pool.close()
    view = f"{namespace}.hive_view"
    assert catalog.views.list(namespace) == [] == catalog.list_tables(namespace)
    assert not catalog.views.exists(view)
    for call in (
        lambda: catalog.views.load(view),
        lambda: catalog.views.drop(view),
        lambda: catalog.views.rename(view, f"{namespace}.x"),
        lambda: catalog.views.commit(view, [], []),
    ):
        with pytest.raises(NotAnIcebergView):
            call()
    with pytest.raises(AlreadyExists):
        catalog.views.create(view, SCHEMA, version(namespace, {"spark": "select 1"}))
    assert interop.java_error(lambda: java.loadView(interop.java_identifier(spark, view))) is not None


def view_row_of_hive(namespace: str) -> Any:
    from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table

    return Table(
        dbName=namespace,
        tableName="hive_view",
        owner="hive",
        tableType="VIRTUAL_VIEW",
        partitionKeys=[],
        parameters={},
        viewOriginalText="select 1",
        viewExpandedText="select 1",
        sd=StorageDescriptor(
            cols=[FieldSchema(name="id", type="int")], serdeInfo=SerDeInfo(parameters={}), parameters={}
        ),
    )


@pytest.mark.slow
def test_what_spark_reads_of_a_row_that_java_alters(spark: Any, java: Any, namespace: str, metastore: Any) -> None:
    """docs/spark-views.md says so."""
    spark.sql(f"CREATE TABLE {namespace}.t (a INT) USING iceberg")
    try:
        spark.sql(f"USE {namespace}")
        spark.sql("CREATE VIEW named (one) AS SELECT a FROM t")
    finally:
        spark.sql("USE default")
    named = f"{namespace}.named"
    assert outcome(spark, f"SELECT one FROM {named}").error is None
    java.loadView(interop.java_identifier(spark, named)).updateProperties().set("k", "1").commit()
    assert outcome(spark, f"SELECT one FROM {named}").error == "INCOMPATIBLE_VIEW_SCHEMA_CHANGE"
    assert view_row(metastore, named).parameters[f"{SPARK_NAMESPACE}part.1"] == namespace
    spark.sql(f"ALTER VIEW {named} SET TBLPROPERTIES ('k' = '2')")
    assert outcome(spark, f"SELECT one FROM {named}").error is None
