"""Creating Iceberg tables, and showing what is there."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

CREATE: Final = """
CREATE TABLE DB.t (id INT NOT NULL COMMENT 'key', name STRING) USING iceberg COMMENT 'a table' TBLPROPERTIES ('k' = 'v')
CREATE TABLE DB.t (id INT) USING iceberg
CREATE TABLE DB.t (id INT) USING parquet
CREATE TABLE IF NOT EXISTS DB.t (id INT) USING iceberg
CREATE TABLE IF NOT EXISTS DB.t (id INT) USING parquet
INSERT INTO DB.t VALUES (1, 'x')
INSERT INTO DB.t VALUES (null, 'y')
SELECT * FROM DB.t
CREATE TABLE DB.types (a BOOLEAN, c INT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(20, 3), h STRING,
  i BINARY, j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, m ARRAY<INT>, n MAP<STRING, INT>, o STRUCT<x: INT, y: ARRAY<STRING>>)
  USING iceberg
INSERT INTO DB.types VALUES (true, 3, 4, 1.5, 2.5, 1.125, 's', X'0a', DATE '2020-02-29',
  TIMESTAMP '2020-02-29 01:02:03', TIMESTAMP_NTZ '2020-02-29 01:02:03', array(1, 2), map('k', 1),
  named_struct('x', 1, 'y', array('z')))
SELECT * FROM DB.types
CREATE TABLE DB.small (a TINYINT, b SMALLINT, c CHAR(3), d VARCHAR(4)) USING iceberg
INSERT INTO DB.small VALUES (1, 2, 'abc', 'abcd')
SELECT * FROM DB.small
INSERT INTO DB.small VALUES (1, 2, 'abcd', 'abcde')
CREATE TABLE DB.interval (a INTERVAL DAY TO SECOND) USING iceberg
CREATE TABLE DB.variant (a VARIANT) USING iceberg
CREATE TABLE DB.variant3 (a VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')
INSERT INTO DB.variant3 SELECT parse_json('{"a": 1}')
SELECT to_json(a) FROM DB.variant3
CREATE TABLE DB.version9 (a INT) USING iceberg TBLPROPERTIES ('format-version' = '9')
CREATE TABLE DB.version1 (a INT) USING iceberg TBLPROPERTIES ('format-version' = '1')
CREATE TABLE DB.defaults (a INT, b INT DEFAULT 7) USING iceberg TBLPROPERTIES ('format-version' = '3')
CREATE TABLE DB.parts (id INT, name STRING, at TIMESTAMP) USING iceberg
  PARTITIONED BY (bucket(4, id), truncate(2, name), days(at))
INSERT INTO DB.parts VALUES (1, 'abc', TIMESTAMP '2020-02-29 01:02:03'), (2, 'abd', TIMESTAMP '2020-03-01 01:02:03')
SELECT partition FROM DB.parts.partitions
CREATE TABLE DB.parts2 (id INT, at TIMESTAMP, b TIMESTAMP, c TIMESTAMP) USING iceberg
  PARTITIONED BY (years(at), months(b), hours(c), id)
CREATE TABLE DB.parts3 (id INT) USING iceberg PARTITIONED BY (missing)
CREATE TABLE DB.parts4 (id INT) PARTITIONED BY (name STRING) USING iceberg
CREATE TABLE DB.clustered (id INT) USING iceberg CLUSTERED BY (id) INTO 4 BUCKETS
CREATE TABLE DB.upper (a INT) USING ICEBERG
CREATE TABLE DB.stored (a INT) STORED BY 'org.apache.iceberg.mr.hive.HiveIcebergStorageHandler'
CREATE TABLE DB.placed (a INT) USING iceberg LOCATION 'DIR/placed'
INSERT INTO DB.placed VALUES (1)
SELECT regexp_replace(file_path, 'data/.*', '') FROM DB.placed.files
CREATE EXTERNAL TABLE DB.external (a INT) USING iceberg LOCATION 'DIR/external'
CREATE TABLE DB.twice (a INT, A STRING) USING iceberg
CREATE TABLE DB.empty USING iceberg
CREATE TABLE DB.chosen USING iceberg AS SELECT id, name FROM DB.t
SELECT * FROM DB.chosen
CREATE TABLE DB.chosen USING iceberg AS SELECT 1 AS one
CREATE TABLE IF NOT EXISTS DB.chosen USING iceberg AS SELECT 1 AS one
CREATE TABLE DB.failed USING iceberg AS SELECT CAST(raise_error('no') AS INT) AS a
SELECT * FROM DB.failed
CREATE TABLE DB.part_as USING iceberg PARTITIONED BY (name) TBLPROPERTIES ('k' = 'v') AS SELECT * FROM DB.t
SHOW TBLPROPERTIES DB.part_as ('k')
REPLACE TABLE DB.chosen (n INT) USING iceberg
SELECT * FROM DB.chosen
REPLACE TABLE DB.chosen USING iceberg AS SELECT 2 AS n
REPLACE TABLE DB.missing (n INT) USING iceberg
REPLACE TABLE DB.missing USING iceberg AS SELECT 2 AS n
CREATE OR REPLACE TABLE DB.chosen (n BIGINT) USING iceberg PARTITIONED BY (n)
CREATE OR REPLACE TABLE DB.chosen USING iceberg TBLPROPERTIES ('k' = 'w') AS SELECT 3 AS n
SELECT * FROM DB.chosen
CREATE OR REPLACE TABLE DB.chosen USING iceberg AS SELECT n + 1 AS n FROM DB.chosen
SELECT * FROM DB.chosen
SELECT count(*) FROM DB.chosen.snapshots
CREATE OR REPLACE TABLE DB.new USING iceberg AS SELECT 1 AS n
CREATE OR REPLACE TABLE DB.new USING iceberg AS SELECT CAST(raise_error('no') AS INT) AS n
SELECT * FROM DB.new
CREATE TABLE DB.h (a INT) USING parquet
INSERT INTO DB.h VALUES (7)
CREATE OR REPLACE TABLE DB.h (a INT) USING iceberg
CREATE OR REPLACE TABLE DB.h USING iceberg AS SELECT 1 AS a
REPLACE TABLE DB.h USING iceberg AS SELECT 1 AS a
CREATE OR REPLACE TABLE DB.h (a INT) USING parquet
CREATE OR REPLACE TABLE DB.new (a INT) USING parquet
CREATE OR REPLACE TABLE DB.new2 USING parquet AS SELECT 1 AS n
SELECT * FROM DB.h
CREATE TABLE DB.alike LIKE DB.t
CREATE TABLE DB.alike2 LIKE DB.t USING iceberg
CREATE TABLE DB.alike3 LIKE DB.h USING iceberg
CREATE TABLE DB.alike4 LIKE DB.h
SELECT * FROM DB.alike
DROP TABLE DB.alike
DROP TABLE DB.alike2
DROP TABLE DB.alike3
DROP TABLE DB.t
SELECT * FROM DB.t
DROP TABLE DB.t
DROP TABLE IF EXISTS DB.t
CREATE TABLE DB.t (a INT) USING iceberg
SELECT * FROM DB.t
DROP TABLE DB.t PURGE
DROP TABLE IF EXISTS DB.variant3
DROP TABLE DB.placed PURGE
CREATE TABLE DB.placed (a INT) USING iceberg LOCATION 'DIR/placed'
SELECT * FROM DB.placed
SHOW TABLES IN DB
"""

SHOW: Final = """
CREATE TABLE DB.ice (id INT NOT NULL COMMENT 'key', part STRING, at TIMESTAMP) USING iceberg
  PARTITIONED BY (part, days(at)) COMMENT 'a table' TBLPROPERTIES ('k' = 'v')
INSERT INTO DB.ice VALUES (1, 'p', TIMESTAMP '2020-02-29 01:02:03')
CREATE TABLE DB.hive (id INT COMMENT 'key') PARTITIONED BY (part STRING) STORED AS PARQUET TBLPROPERTIES ('k' = 'v')
INSERT INTO DB.hive VALUES (1, 'p'), (2, 'q')
CREATE TABLE DB.source (id INT, part STRING) USING parquet PARTITIONED BY (part) COMMENT 'a source'
INSERT INTO DB.source VALUES (1, 'p')
CREATE TEMPORARY VIEW temporary AS SELECT 1 AS one
SHOW TABLES IN DB
SHOW TABLES FROM spark_catalog.DB
SHOW TABLES IN DB LIKE 'i*'
SHOW TABLES IN DB LIKE 'I*|source'
SHOW TABLE EXTENDED IN DB LIKE 'ice'
SHOW TABLE EXTENDED IN DB LIKE 'hive'
SHOW TABLE EXTENDED IN DB LIKE '*'
SHOW TABLE EXTENDED IN DB LIKE 'hive' PARTITION (part = 'p')
SHOW TABLE EXTENDED IN DB LIKE 'ice' PARTITION (part = 'p')
SHOW CREATE TABLE DB.ice
SHOW CREATE TABLE DB.hive
SHOW CREATE TABLE DB.source
SHOW CREATE TABLE DB.hive AS SERDE
SHOW CREATE TABLE DB.missing
SHOW TBLPROPERTIES DB.ice
SHOW TBLPROPERTIES DB.ice ('k')
SHOW TBLPROPERTIES DB.ice ('missing')
SHOW TBLPROPERTIES DB.hive ('k')
SHOW TBLPROPERTIES DB.missing
SHOW COLUMNS IN DB.ice
SHOW COLUMNS IN DB.hive
SHOW COLUMNS IN ice IN DB
SHOW COLUMNS IN DB.missing
SHOW PARTITIONS DB.ice
SHOW PARTITIONS DB.ice PARTITION (part = 'p')
SHOW PARTITIONS DB.hive
SHOW PARTITIONS DB.hive PARTITION (part = 'p')
SHOW PARTITIONS DB.source
DESCRIBE TABLE DB.ice
DESCRIBE TABLE DB.hive
DESCRIBE TABLE EXTENDED DB.ice
DESCRIBE TABLE EXTENDED DB.source
DESCRIBE FORMATTED DB.ice
DESCRIBE DB.ice id
DESCRIBE EXTENDED DB.ice part
DESCRIBE DB.ice missing
DESCRIBE DB.hive id
DESCRIBE TABLE DB.hive PARTITION (part = 'p')
DESCRIBE TABLE DB.ice PARTITION (part = 'p')
DESCRIBE TABLE EXTENDED DB.ice AS JSON
DESCRIBE TABLE EXTENDED DB.source AS JSON
DESCRIBE QUERY SELECT * FROM DB.ice
DESCRIBE TABLE DB.missing
EXPLAIN SELECT * FROM DB.missing
ANALYZE TABLE DB.ice COMPUTE STATISTICS
ANALYZE TABLE DB.hive COMPUTE STATISTICS FOR ALL COLUMNS
ANALYZE TABLE DB.missing COMPUTE STATISTICS
ANALYZE TABLES IN DB COMPUTE STATISTICS NOSCAN
SHOW CATALOGS
SHOW CURRENT NAMESPACE
USE DB
SHOW CURRENT NAMESPACE
SHOW TABLES
SHOW TABLES LIKE 'hive'
SHOW VIEWS
SHOW COLUMNS IN ice
DESCRIBE ice
DESCRIBE spark_catalog.DB.ice
SELECT * FROM ice
SELECT id FROM spark_catalog.DB.ice
SELECT ice.id FROM ice
SELECT DB.ice.id FROM DB.ice
SELECT spark_catalog.DB.ice.id FROM spark_catalog.DB.ice
COMMENT ON TABLE DB.ice IS 'another'
COMMENT ON TABLE DB.hive IS 'another'
COMMENT ON TABLE DB.missing IS 'another'
DESCRIBE TABLE EXTENDED DB.ice
REFRESH TABLE DB.ice
REFRESH TABLE DB.hive
REFRESH TABLE DB.missing
MSCK REPAIR TABLE DB.ice
MSCK REPAIR TABLE DB.hive
DROP VIEW temporary
SHOW TABLES IN missing_database
"""

LOCATIONS: Final = """
CREATE TABLE DB.placed (a INT) USING iceberg LOCATION 'OUT/placed'
CREATE TABLE DB.hive (id INT) USING parquet LOCATION 'OUT/hive'
INSERT INTO DB.hive VALUES (1)
CREATE TABLE DB.migrated (id INT) STORED AS PARQUET LOCATION 'OUT/migrated'
INSERT INTO DB.migrated VALUES (1)
CREATE TABLE DB.ice (id INT) USING iceberg
INSERT INTO DB.ice VALUES (1)
ALTER TABLE DB.ice SET LOCATION 'OUT/ice'
ALTER TABLE DB.ice SET TBLPROPERTIES ('write.data.path' = 'OUT/data')
CALL spark_catalog.system.add_files(table => 'DB.ice', source_table => 'DB.hive')
CALL spark_catalog.system.snapshot('DB.hive', 'DB.shadow')
CALL spark_catalog.system.snapshot(source_table => 'DB.hive', table => 'DB.shadow2', location => 'OUT/shadow')
CALL spark_catalog.system.migrate('DB.migrated')
SELECT * FROM DB.ice
SELECT * FROM DB.shadow
SELECT * FROM DB.hive
SELECT * FROM DB.migrated
DROP TABLE DB.migrated
DROP TABLE IF EXISTS DB.migrated_BACKUP_
CREATE DATABASE OTHER_placed LOCATION 'OUT/database'
CREATE TABLE OTHER_placed.t (a INT) USING iceberg
INSERT INTO OTHER_placed.t VALUES (1)
SELECT * FROM OTHER_placed.t
"""

CHAPTERS: Final = (
    Chapter(
        "create",
        "Iceberg tables: CREATE, CTAS, REPLACE, LIKE, DROP",
        CREATE,
        {"DB.h": ["(7,)"], "DB.alike4": []},
    ),
    Chapter(
        "locations",
        "Locations outside of the warehouse",
        LOCATIONS,
        {"DB.hive": ["(1,)"]},
    ),
    Chapter(
        "show",
        "SHOW and DESCRIBE of tables of both kinds",
        SHOW,
        {"DB.hive": ["(1, 'p')", "(2, 'q')"], "DB.source": ["(1, 'p')"]},
    ),
)
