"""Reading Iceberg tables: time travel, metadata tables, caches and temporary views."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

#: Each of Iceberg's metadata tables.
METADATA_TABLES: Final = (
    *("history", "snapshots", "refs", "metadata_log_entries", "files", "data_files", "delete_files", "entries"),
    *("manifests", "partitions", "position_deletes", "all_files", "all_data_files", "all_delete_files", "all_entries"),
    *("all_manifests",),
)

TRAVEL: Final = """
CREATE TABLE DB.t (id INT) USING iceberg
SELECT * FROM DB.t VERSION AS OF 1
INSERT INTO DB.t VALUES (1)
INSERT INTO DB.t VALUES (2)
ALTER TABLE DB.t ADD COLUMN more INT
INSERT INTO DB.t VALUES (3, 30)
SELECT * FROM DB.t VERSION AS OF @snapshot(DB.t, 1)
SELECT * FROM DB.t FOR VERSION AS OF @snapshot(DB.t, 2)
SELECT * FROM DB.t FOR SYSTEM_VERSION AS OF @snapshot(DB.t, 3)
SELECT * FROM DB.t TIMESTAMP AS OF '@time(DB.t, 2)'
SELECT * FROM DB.t FOR SYSTEM_TIME AS OF '@time(DB.t, 1)'
SELECT * FROM DB.t TIMESTAMP AS OF '2001-01-01 00:00:00'
SELECT * FROM DB.t TIMESTAMP AS OF 'no time'
SELECT * FROM DB.t VERSION AS OF 12345
SELECT * FROM DB.t.snapshot_id_@snapshot(DB.t, 1)
SELECT * FROM DB.t.at_timestamp_1
SELECT * FROM DB.t.files VERSION AS OF @snapshot(DB.t, 1)
>>> spark.read.option("snapshot-id", @snapshot(DB.t, 1)).table("DB.t")
>>> spark.read.option("versionAsOf", @snapshot(DB.t, 2)).table("DB.t")
>>> spark.read.option("timestampAsOf", "@time(DB.t, 2)").table("DB.t")
>>> spark.read.format("iceberg").option("snapshot-id", @snapshot(DB.t, 1)).load("DB.t")
>>> spark.read.format("iceberg").option("as-of-timestamp", 1).load("DB.t")
>>> spark.read.format("iceberg").option("as-of-timestamp", 32503680000000).load("DB.t")
>>> spark.read.format("iceberg").option("start-snapshot-id", @snapshot(DB.t, 1)).load("DB.t")
>>> spark.read.format("iceberg").option("branch", "main").load("DB.t")
>>> spark.read.format("iceberg").option("tag", "missing").load("DB.t")
INSERT INTO DB.t VERSION AS OF 1 VALUES (1, 1)
SELECT * FROM DB.missing VERSION AS OF 1
"""

METADATA: Final = "\n".join(
    [
        "CREATE TABLE DB.t (id INT) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        "INSERT INTO DB.t VALUES (1), (2)",
        "INSERT INTO DB.t VALUES (3)",
        "DELETE FROM DB.t WHERE id = 1",
        *(f"SELECT count(*) FROM DB.t.{name}" for name in METADATA_TABLES),
        "SELECT * FROM DB.t.no_such_table",
        "SELECT * FROM DB.t.files.more",
        "SELECT * FROM DB.missing.files",
        "SELECT * FROM missing_database.t.files",
        "SELECT content, record_count FROM spark_catalog.DB.t.files",
        "SELECT operation FROM DB.T.SNAPSHOTS",
        "SELECT count(*) FROM DB.`t`.`files`",
        "SELECT count(*) FROM DB.`t.files`",
        "SELECT * FROM DB.t.changes",
        "DESCRIBE TABLE DB.t.snapshots",
        "SHOW COLUMNS IN DB.t.files",
        "SHOW TBLPROPERTIES DB.t.files",
        "INSERT INTO DB.t.files SELECT * FROM DB.t.files",
        "DROP TABLE DB.t.files",
        "DROP TABLE IF EXISTS DB.t.snapshots",
        "ALTER TABLE DB.t.files ADD COLUMN a INT",
        "CREATE TABLE DB.t.files (a INT) USING iceberg",
        "CREATE TABLE DB.a.b (a INT) USING iceberg",
        "SELECT count(*) FROM DB.t",
        "USE DB",
        "SELECT count(*) FROM t.snapshots",
        "SELECT count(*) FROM t.files",
        "SELECT count(*) FROM t.branch_main",
        "SELECT s.operation FROM t.snapshots s JOIN t.history h ON s.snapshot_id = h.snapshot_id",
        "SELECT * FROM missing.snapshots",
        "SELECT * FROM t.no_such_table",
        "SELECT * FROM snapshots",
        "USE default",
        "SELECT count(*) FROM t.snapshots",
        '>>> spark.table("DB.t.snapshots").select("operation")',
        '>>> spark.read.format("iceberg").load("DB.t.history").count()',
        '>>> spark.catalog.tableExists("DB.t.files")',
    ]
)

CACHES: Final = """
CREATE TABLE DB.ice USING iceberg AS SELECT 1 AS id
CREATE TABLE DB.hive USING parquet AS SELECT 1 AS id
CACHE TABLE DB.ice
CACHE LAZY TABLE DB.hive
INSERT INTO DB.ice VALUES (2)
INSERT INTO DB.hive VALUES (2)
SELECT * FROM DB.ice
SELECT * FROM DB.hive
>>> spark.catalog.isCached("DB.ice")
>>> spark.catalog.isCached("DB.hive")
REFRESH TABLE DB.ice
>>> spark.catalog.refreshTable("DB.hive")
SELECT * FROM DB.ice
UNCACHE TABLE DB.ice
UNCACHE TABLE IF EXISTS DB.missing
CACHE TABLE DB.missing
CACHE TABLE cached AS SELECT * FROM DB.ice
INSERT INTO DB.ice VALUES (3)
SELECT * FROM cached
UNCACHE TABLE cached
DROP VIEW cached
CLEAR CACHE
CREATE TEMPORARY VIEW over_ice AS SELECT * FROM DB.ice WHERE id > 1
CREATE TEMPORARY VIEW over_hive AS SELECT * FROM DB.hive
INSERT INTO DB.ice VALUES (4)
SELECT * FROM over_ice
SELECT count(*) FROM over_ice JOIN over_hive USING (id)
INSERT INTO over_ice VALUES (5)
DROP TABLE over_ice
CREATE OR REPLACE TEMPORARY VIEW over_ice AS SELECT count(*) AS n FROM DB.ice.snapshots
SELECT * FROM over_ice
CREATE TEMPORARY VIEW over_ice AS SELECT 1
CREATE TEMPORARY VIEW loaded USING iceberg OPTIONS (path 'DB.ice')
SELECT count(*) FROM loaded
CREATE GLOBAL TEMPORARY VIEW global_ice AS SELECT * FROM DB.ice
SELECT count(*) FROM global_temp.global_ice
DROP VIEW global_temp.global_ice
ALTER TABLE DB.ice ADD COLUMN more INT
SELECT * FROM over_ice
DROP VIEW over_ice
DROP VIEW over_hive
DROP VIEW loaded
DROP VIEW missing
CREATE TEMPORARY VIEW ice AS SELECT 'a view' AS what
USE DB
SELECT * FROM ice
SELECT count(*) FROM DB.ice
DROP VIEW ice
SELECT count(*) FROM ice
ALTER TABLE DB.ice RENAME TO DB.ice2
SELECT count(*) FROM DB.ice
DROP TABLE DB.ice2
SELECT count(*) FROM DB.ice2
"""

CHAPTERS: Final = (
    Chapter("travel", "Time travel", TRAVEL),
    Chapter("metadata", "Metadata tables", METADATA),
    Chapter("caches", "CACHE, REFRESH and temporary views", CACHES, {"DB.hive": ["(1,)", "(2,)"]}),
)
