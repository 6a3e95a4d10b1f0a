"""Hive and Iceberg tables whose names are those of Iceberg's metadata tables."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

_NAMES: Final = (
    *("history", "files", "snapshots", "entries", "partitions", "manifests", "refs"),
    *("all_data_files", "position_deletes", "metadata_log_entries"),
)

_ONE: Final = """
CREATE TABLE DB.NAME (id INT, name STRING) HOW
INSERT INTO DB.NAME VALUES (1, 'x')
SELECT * FROM DB.NAME
DESCRIBE TABLE DB.NAME
ALTER TABLE DB.NAME SET TBLPROPERTIES ('k' = 'v')
"""

HIVE: Final = "\n".join(
    [
        *(
            _ONE.replace("NAME", name).replace("HOW", "STORED AS PARQUET" if number % 2 else "USING parquet")
            for number, name in enumerate(_NAMES)
        ),
        """
CREATE TABLE DB.t USING iceberg AS SELECT 1 AS id
SELECT count(*) FROM DB.t.files
ALTER TABLE DB.files ADD COLUMNS (more INT)
SHOW CREATE TABLE DB.snapshots
SHOW COLUMNS IN DB.refs
SHOW TBLPROPERTIES DB.history ('k')
TRUNCATE TABLE DB.manifests
INSERT OVERWRITE DB.manifests VALUES (2, 'y')
DELETE FROM DB.files
UPDATE DB.files SET id = 1
REFRESH TABLE DB.files
ANALYZE TABLE DB.files COMPUTE STATISTICS
CREATE TABLE DB.files (id INT) USING iceberg
CREATE TABLE DB.files (id INT) USING parquet
CREATE TABLE IF NOT EXISTS DB.files (id INT) USING parquet
CREATE OR REPLACE TABLE DB.files (id INT) USING iceberg
ALTER TABLE DB.entries RENAME TO DB.delete_files
SELECT * FROM DB.delete_files
ALTER TABLE DB.delete_files RENAME TO DB.entries
CREATE TABLE DB.copied USING iceberg AS SELECT * FROM DB.files
INSERT INTO DB.files SELECT id + 1, name, 7 FROM DB.files
SELECT * FROM spark_catalog.DB.files
SELECT f.id FROM DB.files f JOIN DB.copied c ON f.id = c.id
DROP TABLE DB.position_deletes
DROP TABLE DB.position_deletes
DROP TABLE IF EXISTS DB.position_deletes
SELECT * FROM DB.position_deletes
USE DB
SELECT * FROM files
INSERT INTO files VALUES (9, 'z', null)
SELECT count(*) FROM files
DESCRIBE files
ALTER TABLE files SET TBLPROPERTIES ('k' = 'v')
SELECT count(*) FROM t.files
CREATE TABLE position_deletes (id INT) STORED AS PARQUET
INSERT INTO position_deletes VALUES (1)
DROP TABLE position_deletes
DROP TABLE snapshots
SELECT * FROM snapshots
SELECT * FROM all_files
>>> spark.table("files").count()
>>> spark.catalog.tableExists("files")
>>> spark.catalog.tableExists("all_files")
>>> spark.catalog.tableExists("DB.refs")
>>> spark.table("DB.refs")
>>> spark.read.table("DB.history")
>>> two().write.mode("append").saveAsTable("DB.refs")
>>> two().write.insertInto("DB.history")
>>> two().write.mode("overwrite").saveAsTable("DB.partitions", format="parquet")
>>> column_names("DB.entries")
SHOW TABLES IN DB
""",
    ]
)

ICEBERG: Final = "\n".join(
    [
        *(_ONE.replace("NAME", name).replace("HOW", "USING iceberg") for name in ("history", "files", "refs")),
        """
SELECT count(*) FROM DB.files.files
SELECT operation FROM DB.history.snapshots
UPDATE DB.files SET name = 'z'
ALTER TABLE DB.files ADD COLUMN more INT
CALL spark_catalog.system.rewrite_manifests('DB.files')
CREATE TABLE DB.snapshots USING iceberg AS SELECT 1 AS id
CREATE OR REPLACE TABLE DB.snapshots USING iceberg AS SELECT 2 AS id
SELECT * FROM DB.snapshots
ALTER TABLE DB.refs RENAME TO DB.manifests
SELECT * FROM DB.manifests
SELECT * FROM DB.refs
DROP TABLE DB.manifests
DROP TABLE DB.missing
USE DB
SELECT * FROM files
INSERT INTO files VALUES (2, 'y', 7)
SELECT count(*) FROM files.snapshots
SELECT * FROM entries
DROP TABLE files
SHOW TABLES
""",
    ]
)

_KEPT: Final = ["(1, 'x')"]

CHAPTERS: Final = (
    Chapter(
        "metadata_names",
        "Hive tables with names of metadata tables",
        HIVE,
        {
            "DB.all_data_files": _KEPT,
            "DB.entries": _KEPT,
            "DB.files": ["(1, 'x', None)", "(2, 'x', 7)", "(9, 'z', None)"],
            "DB.history": ["(1, 'x')", "(1, 'x')", "(2, 'y')"],
            "DB.manifests": ["(2, 'y')"],
            "DB.metadata_log_entries": _KEPT,
            "DB.partitions": ["(1, 'x')", "(2, 'y')"],
            "DB.refs": ["(1, 'x')", "(1, 'x')", "(2, 'y')"],
        },
    ),
    Chapter("iceberg_metadata_names", "Iceberg tables with such names", ICEBERG),
)
