"""Databases."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

DATABASES: Final = """
CREATE DATABASE DB
CREATE DATABASE IF NOT EXISTS DB
CREATE NAMESPACE DB
CREATE DATABASE OTHER_placed COMMENT 'a database' LOCATION 'DIR/placed' WITH DBPROPERTIES ('k' = 'v')
DESCRIBE DATABASE OTHER_placed
DESCRIBE DATABASE EXTENDED OTHER_placed
DESCRIBE NAMESPACE OTHER_placed
CREATE TABLE OTHER_placed.t USING iceberg AS SELECT 1 AS id
CREATE TABLE OTHER_placed.h USING parquet AS SELECT 1 AS id
SELECT regexp_replace(file_path, 't/data/.*', '') FROM OTHER_placed.t.files
ALTER DATABASE OTHER_placed SET DBPROPERTIES ('k' = 'w', 'l' = 'x')
ALTER DATABASE OTHER_placed SET LOCATION 'DIR/later'
COMMENT ON DATABASE OTHER_placed IS 'another'
COMMENT ON NAMESPACE OTHER_placed IS NULL
DESCRIBE DATABASE EXTENDED OTHER_placed
ALTER DATABASE OTHER_placed UNSET DBPROPERTIES ('l')
ALTER DATABASE missing_database SET DBPROPERTIES ('k' = 'w')
DESCRIBE DATABASE missing_database
SHOW DATABASES LIKE 'OTHER_pl*'
SHOW NAMESPACES IN spark_catalog LIKE 'OTHER_pl*'
SHOW NAMESPACES IN spark_catalog.OTHER
SHOW NAMESPACES IN spark_catalog.missing_database
SHOW TABLES IN OTHER_placed
DROP DATABASE OTHER_placed
DROP DATABASE OTHER_placed RESTRICT
SELECT * FROM OTHER_placed.h
DROP DATABASE OTHER_placed CASCADE
DROP DATABASE OTHER_placed
DROP DATABASE IF EXISTS OTHER_placed
SELECT * FROM OTHER_placed.t
SELECT * FROM OTHER_placed.h
SHOW DATABASES LIKE 'OTHER_pl*'
CREATE DATABASE OTHER_placed
SHOW TABLES IN OTHER_placed
DROP DATABASE OTHER_placed
CREATE DATABASE spark_catalog.OTHER_c
CREATE TABLE spark_catalog.OTHER_c.t USING iceberg AS SELECT 1 AS id
CREATE TABLE OTHER_c.outside (id INT) USING iceberg LOCATION 'DIR/outside'
INSERT INTO OTHER_c.outside VALUES (1)
DROP NAMESPACE spark_catalog.OTHER_c
USE OTHER_c
DROP NAMESPACE spark_catalog.OTHER_c CASCADE
SHOW CURRENT NAMESPACE
USE default
CREATE DATABASE a.b
CREATE DATABASE `with-dash_OTHER`
CREATE DATABASE `with space OTHER`
CREATE DATABASE ``
CREATE DATABASE Mixed_OTHER
SHOW DATABASES LIKE 'mixed_*OTHER'
DESCRIBE DATABASE MIXED_OTHER
DROP DATABASE MIXED_OTHER
DROP DATABASE default
CREATE TABLE DB.ice USING iceberg AS SELECT 1 AS id
CREATE TABLE DB.hive USING parquet AS SELECT 1 AS id
CREATE TABLE OTHER.hive USING parquet AS SELECT 2 AS id
CALL spark_catalog.system.snapshot('OTHER.hive', 'DB.shadow')
DROP DATABASE DB CASCADE
SELECT * FROM DB.hive
SELECT * FROM OTHER.hive
CREATE DATABASE DB
CREATE TABLE DB.ice (id INT) USING iceberg
SELECT * FROM DB.ice
CREATE FUNCTION DB.f AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFAbs'
SHOW USER FUNCTIONS IN DB
SHOW FUNCTIONS IN spark_catalog.system
DROP FUNCTION DB.f
>>> spark.catalog.databaseExists("DB")
>>> spark.catalog.databaseExists("missing_database")
>>> spark.catalog.getDatabase("DB").name
>>> spark.catalog.getDatabase("missing_database")
>>> [each.name for each in spark.catalog.listDatabases("OTHER*")]
>>> spark.catalog.setCurrentDatabase("DB")
>>> spark.catalog.currentDatabase()
>>> spark.catalog.setCurrentDatabase("missing_database")
>>> spark.catalog.currentCatalog()
"""

CHAPTERS: Final = (
    Chapter("databases", "Databases, with tables of both kinds inside", DATABASES, {"OTHER.hive": ["(2,)"]}),
)
