"""Names: cases, quotes, parts, and what is not there."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

NAMES: Final = """
CREATE TABLE DB.Mixed (Id INT, Name STRING) USING iceberg
INSERT INTO DB.MIXED VALUES (1, 'x')
SELECT ID, NAME FROM DB.mixed
DESCRIBE TABLE DB.MiXeD
CREATE TABLE DB.mixed (id INT) USING iceberg
CREATE TABLE DB.MIXED (id INT) USING parquet
ALTER TABLE DB.MIXED RENAME COLUMN NAME TO Label
ALTER TABLE DB.Mixed RENAME TO DB.Changed
SELECT * FROM DB.CHANGED
SELECT count(*) FROM DB.Changed.Snapshots
CREATE TABLE DB.Hive_Mixed (Id INT) USING parquet
INSERT INTO DB.hive_mixed VALUES (1)
SELECT id FROM DB.HIVE_MIXED
SHOW TABLES IN DB
DROP TABLE DB.CHANGED
CREATE TABLE DB.`with space` (id INT) USING iceberg
CREATE TABLE DB.`with-dash` (id INT) USING iceberg
CREATE TABLE DB.`with.dot` (id INT) USING iceberg
CREATE TABLE DB.`with/slash` (id INT) USING iceberg
CREATE TABLE DB.`with%percent` (id INT) USING iceberg
CREATE TABLE DB.`täble` (id INT) USING iceberg
CREATE TABLE DB.`1` (id INT) USING iceberg
CREATE TABLE DB.`_` (id INT) USING iceberg
CREATE TABLE DB.`` (id INT) USING iceberg
CREATE TABLE DB.`select` (id INT) USING iceberg
CREATE TABLE DB.2t (id INT) USING iceberg
CREATE TABLE DB.`hive with space` (id INT) USING parquet
CREATE TABLE DB.`hive-dash` (id INT) USING parquet
INSERT INTO DB.`1` VALUES (1)
SELECT * FROM DB.`1`
SELECT * FROM DB.`with space`
SELECT * FROM DB.`with-dash`
SELECT * FROM DB.`with.dot`
SELECT * FROM DB.`with/slash`
SELECT * FROM DB.`with%percent`
SELECT * FROM DB.`täble`
SELECT * FROM DB.``
SELECT * FROM `DB.1`
DROP TABLE DB.`with space`
DROP TABLE DB.`with.dot`
DROP TABLE DB.`a?b=c&d`
DROP TABLE IF EXISTS DB.`täble`
CREATE TABLE DB.columns (`with space` INT, `with.dot` INT, `tick``s` INT, `ünïcode` STRING, `select` INT) USING iceberg
INSERT INTO DB.columns VALUES (1, 2, 3, 'ü', 4)
SELECT `with.dot`, `tick``s`, `ünïcode` FROM DB.columns
ALTER TABLE DB.columns DROP COLUMN `with.dot`
ALTER TABLE DB.columns RENAME COLUMN `with space` TO `other space`
SELECT * FROM DB.columns
CREATE TABLE DB.`part` (id INT, `odd name` STRING) USING iceberg PARTITIONED BY (`odd name`)
INSERT INTO DB.part VALUES (1, 'a/b=c d%'), (2, ''), (3, null)
SELECT * FROM DB.part WHERE `odd name` = 'a/b=c d%'
SELECT partition FROM DB.part.partitions
CREATE TABLE DB.hive_part (id INT, `odd` STRING) USING parquet PARTITIONED BY (`odd`)
INSERT INTO DB.hive_part VALUES (1, 'a/b=c d%')
SELECT * FROM DB.hive_part
SELECT * FROM spark_catalog.DB.part
SELECT * FROM SPARK_CATALOG.DB.part
SELECT * FROM no_catalog.DB.part
SELECT * FROM spark_catalog.DB.part.files.more
SELECT * FROM spark_catalog.a.b.c.d
SELECT * FROM a.b.c
SELECT * FROM DB.missing
SELECT * FROM missing_database.t
SELECT * FROM missing_database.t.files
SELECT * FROM `missing database`.t
INSERT INTO spark_catalog.a.b.c VALUES (1)
CREATE TABLE missing_database.t (id INT) USING iceberg
CREATE TABLE missing_database.t (id INT) USING parquet
CREATE TABLE missing_database.t USING iceberg AS SELECT 1 AS a
CREATE TABLE IF NOT EXISTS missing_database.t (id INT) USING iceberg
CREATE OR REPLACE TABLE missing_database.t USING iceberg AS SELECT 1 AS a
CREATE TABLE spark_catalog.a.b.t (id INT) USING iceberg
DROP TABLE missing_database.t
DROP TABLE IF EXISTS missing_database.t
DROP TABLE IF EXISTS spark_catalog.a.b.t
DROP TABLE a.b.c
DESCRIBE TABLE missing_database.t
ALTER TABLE missing_database.t ADD COLUMN a INT
SHOW TABLES IN a.b
SHOW TABLES IN spark_catalog.missing_database
USE missing_database
USE a.b
USE spark_catalog.DB
SELECT count(*) FROM part
CREATE TABLE plain_name (id INT) USING iceberg
INSERT INTO plain_name VALUES (1)
SELECT * FROM plain_name
SELECT * FROM DB.plain_name
DROP TABLE plain_name
DROP TABLE plain_name
CREATE TABLE default_there (id INT) USING iceberg LOCATION 'DIR/default there'
INSERT INTO default_there VALUES (1)
SELECT regexp_replace(file_path, 'data/.*', '') FROM default_there.files
SELECT * FROM iceberg.`DB.part`
SELECT count(*) FROM iceberg.`DIR/default there`
SELECT count(*) FROM parquet.`DIR/default there/data`
DROP TABLE IF EXISTS DB.`with/slash`
SHOW TABLES IN DB
"""

CHAPTERS: Final = (
    Chapter(
        "names",
        "Cases, quotes, parts of names, and names of nothing",
        NAMES,
        {"DB.hive_mixed": ["(1,)"], "DB.hive_part": ["(1, 'a/b=c d%')"]},
    ),
)
