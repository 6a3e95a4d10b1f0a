"""A little of every chapter, for the quick run."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

SAMPLE: Final = """
CREATE TABLE DB.ice (id INT, name STRING) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('k' = 'v')
CREATE TABLE DB.ice (id INT) USING parquet
CREATE TABLE DB.hive (id INT, name STRING) STORED AS PARQUET
INSERT INTO DB.hive VALUES (1, 'x'), (2, 'y')
INSERT INTO DB.ice SELECT * FROM DB.hive
SELECT h.id, i.name FROM DB.hive h JOIN DB.ice i ON h.id = i.id
CREATE TABLE DB.types (a BOOLEAN, b DECIMAL(20, 3), c TIMESTAMP_NTZ, d MAP<STRING, ARRAY<INT>>) USING iceberg
INSERT INTO DB.types VALUES (true, 1.125, TIMESTAMP_NTZ '2020-02-29 01:02:03', map('k', array(1)))
SELECT * FROM DB.types
CREATE OR REPLACE TABLE DB.types USING iceberg AS SELECT 1 AS one
SELECT * FROM DB.types
DROP TABLE DB.types
SHOW TABLES IN DB
SHOW TBLPROPERTIES DB.ice ('k')
DESCRIBE TABLE DB.ice
ALTER TABLE DB.ice ADD COLUMN n INT AFTER id
ALTER TABLE DB.ice RENAME COLUMN name TO label
ALTER TABLE DB.ice REPLACE PARTITION FIELD bucket(2, id) WITH truncate(1, label)
ALTER TABLE DB.ice WRITE ORDERED BY id
ALTER TABLE DB.ice CREATE BRANCH side
INSERT INTO DB.ice.branch_side VALUES (3, 30, 'z')
SELECT * FROM DB.ice.branch_side
CALL spark_catalog.system.fast_forward('DB.ice', 'main', 'side')
UPDATE DB.ice SET n = id * 10 WHERE n IS NULL
MERGE INTO DB.ice t USING (SELECT 1 AS id UNION ALL SELECT 4) s ON t.id = s.id
  WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, n, label) VALUES (s.id, 40, 'w')
SELECT * FROM DB.ice
SELECT * FROM DB.ice VERSION AS OF @snapshot(DB.ice, 1)
SELECT operation FROM DB.ice.snapshots
CALL spark_catalog.system.rollback_to_snapshot('DB.ice', @snapshot(DB.ice, 1))
SELECT * FROM DB.ice
SELECT * FROM DB.missing
SELECT * FROM DB.missing.files
SELECT * FROM spark_catalog.DB.ice.no_such_table
DROP TABLE DB.missing
CREATE TABLE DB.files (id INT) USING parquet
INSERT INTO DB.files VALUES (1)
SELECT * FROM DB.files
DESCRIBE TABLE DB.files
CREATE TABLE DB.history (id INT) STORED AS PARQUET
INSERT INTO DB.history VALUES (1)
USE DB
SELECT * FROM files JOIN history USING (id)
SELECT count(*) FROM ice.files
SELECT * FROM snapshots
USE default
CALL spark_catalog.system.migrate(table => 'DB.hive', drop_backup => true)
SELECT * FROM DB.hive
INSERT INTO DB.hive VALUES (3, 'z')
SELECT * FROM DB.hive
CREATE TABLE DB.kept (id INT) USING parquet
INSERT INTO DB.kept VALUES (1)
CALL spark_catalog.system.migrate('DB.kept')
DROP TABLE DB.kept_BACKUP_
SELECT * FROM DB.kept
CALL spark_catalog.system.snapshot('DB.files', 'DB.shadow')
DELETE FROM DB.shadow
DROP TABLE DB.shadow
SELECT * FROM DB.files
>>> two().write.format("iceberg").saveAsTable("DB.saved")
>>> one(3).writeTo("DB.saved").append()
>>> spark.read.format("iceberg").load("DB.saved")
>>> spark.catalog.tableExists("DB.saved")
>>> listed("DB")
"""

CHAPTERS: Final = (Chapter("sample", "A little of everything", SAMPLE, {"DB.files": ["(1,)"], "DB.history": ["(1,)"]}),)
