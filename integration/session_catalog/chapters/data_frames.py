"""DataFrame calls: writers, readers, streams and `spark.catalog`."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

#: FORMAT is iceberg or parquet.
_SAVE: Final = """
>>> two().write.format("FORMAT").saveAsTable("DB.saved_FORMAT")
>>> two().write.format("FORMAT").saveAsTable("DB.saved_FORMAT")
>>> two().write.format("FORMAT").mode("ignore").saveAsTable("DB.saved_FORMAT")
>>> one(3).write.format("FORMAT").mode("append").saveAsTable("DB.saved_FORMAT")
>>> one(4).write.mode("append").saveAsTable("DB.saved_FORMAT")
>>> one(4).select("name", "id").write.format("FORMAT").mode("append").saveAsTable("DB.saved_FORMAT")
>>> one(4).select("id").write.format("FORMAT").mode("append").saveAsTable("DB.saved_FORMAT")
>>> one(4).withColumn("more", F.lit(1)).write.format("FORMAT").mode("append").saveAsTable("DB.saved_FORMAT")
>>> spark.table("DB.saved_FORMAT")
>>> one(5).write.insertInto("DB.saved_FORMAT")
>>> one(6).write.insertInto("DB.missing")
>>> spark.table("DB.saved_FORMAT").count()
>>> one(6).write.insertInto("DB.saved_FORMAT", overwrite=True)
>>> spark.table("DB.saved_FORMAT")
>>> one(7).write.format("FORMAT").mode("overwrite").saveAsTable("DB.saved_FORMAT")
>>> spark.read.table("DB.saved_FORMAT")
>>> two().write.format("FORMAT").partitionBy("name").option("path", "DIR/FORMAT").saveAsTable("DB.parts_FORMAT")
>>> one(8, "x").write.mode("append").partitionBy("name").format("FORMAT").saveAsTable("DB.parts_FORMAT")
>>> one(8, "x").write.mode("append").partitionBy("id").format("FORMAT").saveAsTable("DB.parts_FORMAT")
>>> spark.table("DB.parts_FORMAT").where("name = 'x'")
>>> two().write.format("FORMAT").saveAsTable("missing_database.t")
>>> two().write.format("FORMAT").mode("append").saveAsTable("missing_database.t")
>>> two().write.format("FORMAT").mode("overwrite").saveAsTable("DB.new_FORMAT")
>>> two().write.format("FORMAT").mode("append").saveAsTable("spark_catalog.DB.new_FORMAT")
>>> spark.table("spark_catalog.DB.new_FORMAT").count()
"""

SAVE: Final = (
    _SAVE.replace("FORMAT", "iceberg")
    + _SAVE.replace("FORMAT", "parquet")
    + """
>>> two().write.saveAsTable("DB.default_format")
>>> two().write.format("parquet").mode("append").saveAsTable("DB.saved_iceberg")
>>> two().write.format("iceberg").mode("append").saveAsTable("DB.saved_parquet")
>>> two().write.format("iceberg").mode("overwrite").saveAsTable("DB.saved_parquet")
>>> two().write.format("parquet").mode("overwrite").saveAsTable("DB.parts_iceberg")
>>> spark.table("DB.saved_parquet")
>>> spark.table("DB.parts_iceberg")
SHOW TABLES IN DB
"""
)

WRITE_TO: Final = """
>>> two().writeTo("DB.t").using("iceberg").tableProperty("k", "v").partitionedBy("name").create()
>>> two().writeTo("DB.t").using("iceberg").create()
>>> one(3).writeTo("DB.t").append()
>>> one(3).select("id").writeTo("DB.t").append()
>>> one(3).writeTo("DB.missing").append()
>>> spark.table("DB.t")
>>> one(4, "x").writeTo("DB.t").overwritePartitions()
>>> spark.table("DB.t")
>>> one(5, "y").writeTo("DB.t").overwrite(F.col("name") == "y")
>>> one(5, "y").writeTo("DB.t").overwrite(F.col("id") == 4)
>>> one(5, "y").writeTo("DB.t").overwrite(F.col("id") > F.rand())
>>> spark.table("DB.t")
>>> one(6).writeTo("DB.t").using("iceberg").replace()
>>> one(7).writeTo("DB.t").using("iceberg").createOrReplace()
>>> one(7).writeTo("DB.new").using("iceberg").createOrReplace()
>>> one(7).writeTo("DB.missing").using("iceberg").replace()
>>> spark.table("DB.t")
>>> two().writeTo("DB.parts").using("iceberg").partitionedBy(F.bucket(4, "id")).create()
>>> two().writeTo("DB.parquet").using("parquet").create()
>>> one(8).writeTo("DB.parquet").append()
>>> one(8).writeTo("DB.parquet").overwritePartitions()
>>> one(8).writeTo("DB.parquet").using("iceberg").createOrReplace()
>>> one(8).writeTo("DB.parquet").using("parquet").createOrReplace()
>>> one(8).writeTo("missing_database.t").using("iceberg").create()
>>> one(8).writeTo("DB.t").option("snapshot-property.who", "me").append()
SELECT count(*) FROM DB.t.snapshots WHERE summary['who'] = 'me'
ALTER TABLE DB.t CREATE BRANCH side
>>> one(9).writeTo("DB.t.branch_side").append()
>>> one(9).writeTo("DB.t").option("branch", "side").append()
>>> one(9).write.format("iceberg").option("branch", "side").mode("append").save("DB.t")
>>> spark.read.option("branch", "side").table("DB.t")
>>> one(10).write.format("iceberg").mode("append").save("DB.t")
>>> one(11).write.format("iceberg").mode("overwrite").save("DB.t")
>>> one(12).write.format("iceberg").mode("error").save("DB.t")
>>> spark.table("DB.t")
>>> spark.read.format("iceberg").load("DB.t")
>>> spark.read.format("iceberg").load("spark_catalog.DB.t").count()
>>> spark.read.format("iceberg").load("DB.missing")
>>> spark.read.format("iceberg").load("DB.parquet")
>>> one(1).writeTo("DB.placed").using("iceberg").tableProperty("location", "DIR/placed").create()
>>> spark.read.format("iceberg").load("DIR/placed")
>>> spark.read.format("iceberg").load("DIR/missing")
>>> one(2).write.format("iceberg").mode("append").save("DIR/placed")
>>> merge("DB.t", two())
>>> merge("DB.missing", two())
>>> merge("DB.parquet", two())
"""

STREAMS: Final = """
>>> two().writeTo("DB.source").using("iceberg").create()
CREATE TABLE DB.target (id INT, name STRING) USING iceberg
>>> stream("DB.source", "DB.target")
>>> one(3).writeTo("DB.source").append()
>>> stream("DB.source", "DB.target")
>>> stream("DB.source", "DB.target")
>>> stream("DB.source", "DB.made")
>>> stream("DB.source", "missing_database.made")
>>> stream("DB.missing", "DB.target")
DELETE FROM DB.source WHERE id = 1
>>> stream("DB.source", "DB.target")
>>> stream("DB.source", "DB.made", **{"streaming-skip-overwrite-snapshots": "true"})
>>> spark.readStream.table("DB.source").isStreaming
SELECT count(*) FROM DB.target.snapshots
"""

CATALOG: Final = """
CREATE TABLE DB.ice (id INT NOT NULL, name STRING) USING iceberg PARTITIONED BY (name) COMMENT 'a table'
CREATE TABLE DB.hive (id INT, name STRING) USING parquet PARTITIONED BY (name)
INSERT INTO DB.hive VALUES (1, 'x')
>>> listed("DB")
>>> listed("missing_database")
>>> listed("DB", "h*")
>>> sorted(str((each.name, each.tableType, each.isTemporary)) for each in spark.catalog.listTables("DB"))
>>> spark.catalog.tableExists("DB.ice")
>>> spark.catalog.tableExists("DB.hive")
>>> spark.catalog.tableExists("DB.missing")
>>> spark.catalog.tableExists("missing_database.t")
>>> spark.catalog.tableExists("spark_catalog.DB.ice")
>>> spark.catalog.getTable("DB.ice")
>>> spark.catalog.getTable("DB.hive")
>>> spark.catalog.getTable("DB.missing")
>>> [str(each) for each in spark.catalog.listColumns("DB.ice")]
>>> [str(each) for each in spark.catalog.listColumns("DB.hive")]
>>> spark.catalog.listColumns("DB.missing")
>>> spark.catalog.createTable("DB.made", source="iceberg", schema=two().schema)
>>> spark.catalog.createTable("DB.made", source="iceberg", schema=two().schema)
>>> spark.catalog.createTable("DB.made_hive", source="parquet", schema=two().schema, description="made")
>>> spark.catalog.createTable("DB.made_there", path="DIR/there", source="parquet", schema=two().schema)
>>> spark.catalog.refreshTable("DB.ice")
>>> spark.catalog.refreshTable("DB.missing")
>>> spark.catalog.refreshByPath("DIR/there")
>>> spark.catalog.recoverPartitions("DB.hive")
>>> spark.catalog.recoverPartitions("DB.ice")
>>> spark.catalog.cacheTable("DB.ice")
>>> spark.catalog.uncacheTable("DB.ice")
>>> spark.catalog.cacheTable("DB.missing")
>>> spark.table("DB.ice").createOrReplaceTempView("a_view")
>>> spark.table("a_view").count()
>>> spark.catalog.dropTempView("a_view")
>>> spark.catalog.dropTempView("a_view")
>>> spark.table("a_view")
>>> spark.catalog.functionExists("DB.f")
>>> [each.name for each in spark.catalog.listCatalogs()]
>>> spark.table("DB.ice").schema.simpleString()
>>> spark.table("DB.missing")
>>> spark.sql("SELECT * FROM {t}", t=spark.table("DB.hive"))
>>> spark.sql("SELECT * FROM IDENTIFIER('DB.hive')")
>>> spark.table("DB.hive").write.mode("append").saveAsTable("DB.made_hive")
>>> spark.table("DB.made_hive").join(spark.table("DB.ice"), "id", "left").count()
SHOW TABLES IN DB
"""

_TWO: Final = ["(1, 'x')", "(2, 'y')"]

CHAPTERS: Final = (
    Chapter(
        "save",
        "saveAsTable and insertInto",
        SAVE,
        {
            "DB.default_format": _TWO,
            "DB.new_parquet": [*_TWO, *_TWO],
            "DB.parts_parquet": [*_TWO, "(8, 'x')"],
            "DB.parts_iceberg": _TWO,
            "DB.saved_parquet": ["(7, 'z')"],
        },
    ),
    Chapter("write_to", "writeTo, load, save and mergeInto", WRITE_TO, {"DB.parquet": _TWO}),
    Chapter("streams", "Streams between tables", STREAMS),
    Chapter(
        "catalog",
        "spark.catalog",
        CATALOG,
        {"DB.hive": ["(1, 'x')"], "DB.made_hive": ["(1, 'x')"], "DB.made_there": []},
    ),
)
