"""Hive tables, beside Iceberg tables."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

HIVE: Final = """
CREATE TABLE DB.parquet (id INT, name STRING) STORED AS PARQUET
CREATE TABLE DB.orc (id INT, name STRING) STORED AS ORC
CREATE TABLE DB.avro (id INT, name STRING) STORED AS AVRO
CREATE TABLE DB.text (id INT, name STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE
CREATE TABLE DB.unsaid (id INT, name STRING)
CREATE TABLE DB.u_parquet (id INT, name STRING) USING parquet
CREATE TABLE DB.u_orc (id INT, name STRING) USING orc
CREATE TABLE DB.u_csv (id INT, name STRING) USING csv OPTIONS ('header' 'true')
CREATE TABLE DB.u_json (id INT, name STRING) USING json
CREATE TABLE DB.buckets (id INT, name STRING) USING parquet CLUSTERED BY (id) SORTED BY (name) INTO 2 BUCKETS
CREATE TABLE DB.external (id INT, name STRING) USING parquet LOCATION 'DIR/external'
CREATE EXTERNAL TABLE DB.external2 (id INT, name STRING) STORED AS PARQUET LOCATION 'DIR/external2'
CREATE TABLE DB.parts (id INT) PARTITIONED BY (name STRING) STORED AS PARQUET
CREATE TABLE DB.u_parts (id INT, name STRING) USING parquet PARTITIONED BY (name)
CREATE TABLE DB.no_such (id INT) USING no_such_format
CREATE TABLE DB.transform (id INT) USING parquet PARTITIONED BY (bucket(4, id))
CREATE TABLE DB.parquet (id INT) USING iceberg
INSERT INTO DB.parquet VALUES (1, 'x'), (2, 'y')
INSERT INTO DB.orc SELECT * FROM DB.parquet
INSERT INTO DB.avro SELECT * FROM DB.parquet
INSERT INTO DB.text TABLE DB.parquet
INSERT INTO DB.unsaid SELECT * FROM DB.parquet
INSERT INTO DB.u_parquet SELECT * FROM DB.parquet
INSERT INTO DB.u_orc (name, id) SELECT name, id FROM DB.parquet
INSERT INTO DB.u_csv BY NAME SELECT name, id FROM DB.parquet
INSERT INTO DB.u_json SELECT * FROM DB.parquet
INSERT INTO DB.buckets SELECT * FROM DB.parquet
INSERT INTO DB.external SELECT * FROM DB.parquet
INSERT INTO DB.external2 SELECT * FROM DB.parquet
INSERT INTO DB.parts SELECT * FROM DB.parquet
INSERT INTO DB.parts PARTITION (name = 'z') VALUES (3)
INSERT INTO DB.u_parts SELECT * FROM DB.parquet
INSERT OVERWRITE DB.u_parts PARTITION (name = 'x') SELECT 10
INSERT OVERWRITE DB.parts PARTITION (name) SELECT 20, 'y'
SELECT * FROM DB.text UNION ALL SELECT * FROM DB.u_csv
SELECT * FROM DB.parts
SELECT * FROM DB.u_parts WHERE name = 'x'
INSERT OVERWRITE DB.u_orc VALUES (5, 'five')
SELECT * FROM DB.u_orc
INSERT INTO DB.u_parquet VALUES (1)
INSERT INTO DB.u_parquet VALUES ('no number', 'x')
UPDATE DB.parquet SET name = 'z'
DELETE FROM DB.parquet
MERGE INTO DB.parquet t USING DB.orc s ON t.id = s.id WHEN MATCHED THEN DELETE
TRUNCATE TABLE DB.u_json
SELECT * FROM DB.u_json
TRUNCATE TABLE DB.parts PARTITION (name = 'z')
ALTER TABLE DB.parts ADD PARTITION (name = 'w')
ALTER TABLE DB.parts ADD IF NOT EXISTS PARTITION (name = 'w') LOCATION 'DIR/w'
ALTER TABLE DB.parts PARTITION (name = 'w') RENAME TO PARTITION (name = 'v')
ALTER TABLE DB.parts DROP PARTITION (name = 'v')
ALTER TABLE DB.parts DROP PARTITION (name = 'missing')
SHOW PARTITIONS DB.parts
ALTER TABLE DB.parquet ADD COLUMNS (more INT)
ALTER TABLE DB.parquet RENAME COLUMN name TO label
ALTER TABLE DB.parquet DROP COLUMN name
ALTER TABLE DB.parquet ALTER COLUMN id TYPE BIGINT
ALTER TABLE DB.parquet ALTER COLUMN id COMMENT 'a key'
ALTER TABLE DB.parquet ADD PARTITION FIELD bucket(4, id)
ALTER TABLE DB.parquet WRITE ORDERED BY id
ALTER TABLE DB.parquet CREATE BRANCH b
ALTER TABLE DB.parquet SET IDENTIFIER FIELDS id
ALTER TABLE DB.parquet SET TBLPROPERTIES ('k' = 'v')
ALTER TABLE DB.parquet UNSET TBLPROPERTIES ('k')
ALTER TABLE DB.parquet SET SERDEPROPERTIES ('k' = 'v')
ALTER TABLE DB.external SET LOCATION 'DIR/external2'
SELECT * FROM DB.external
SELECT * FROM DB.parquet
SELECT * FROM DB.parquet VERSION AS OF 1
SELECT * FROM DB.parquet.files
SELECT * FROM DB.parquet.branch_main
CALL spark_catalog.system.rewrite_data_files('DB.parquet')
CALL spark_catalog.system.expire_snapshots('DB.parquet')
CALL spark_catalog.system.rollback_to_snapshot('DB.parquet', 1)
ALTER TABLE DB.u_parquet RENAME TO DB.moved
SELECT * FROM DB.moved
ALTER TABLE DB.moved RENAME TO OTHER.moved
ALTER TABLE DB.moved RENAME TO DB.orc
CREATE TABLE DB.ice USING iceberg AS SELECT * FROM DB.parquet
ALTER TABLE DB.ice RENAME TO DB.orc
ALTER TABLE DB.moved RENAME TO DB.ice
SELECT i.id, o.name FROM DB.ice i JOIN DB.avro o ON i.id = o.id
INSERT INTO DB.avro SELECT id + 10, name FROM DB.ice
INSERT INTO DB.ice (id, name) SELECT id, name FROM DB.avro
SELECT count(*) FROM DB.ice
LOAD DATA LOCAL INPATH 'DIR/missing' INTO TABLE DB.text
CREATE TABLE DB.alike LIKE DB.parquet
CREATE TABLE DB.alike LIKE DB.parquet
CREATE TABLE IF NOT EXISTS DB.alike LIKE DB.parquet
CREATE TABLE DB.alike2 LIKE DB.u_csv USING parquet LOCATION 'DIR/alike2'
INSERT INTO DB.alike2 VALUES (1, 'x')
CREATE TABLE DB.chosen STORED AS ORC AS SELECT * FROM DB.ice WHERE id < 3
CREATE TABLE DB.dropped USING parquet AS SELECT 1 AS a
DROP TABLE DB.dropped
SELECT * FROM DB.dropped
CREATE TABLE DB.dropped USING parquet AS SELECT 2 AS a
SELECT * FROM DB.dropped
DROP TABLE DB.dropped PURGE
DROP TABLE DB.external2
DROP TABLE DB.ice
DROP TABLE DB.alike
DROP TABLE DB.missing PURGE
SELECT * FROM parquet.`DIR/external2`
SHOW TABLES IN DB
"""

CHAPTERS: Final = (
    Chapter(
        "hive",
        "Hive tables: CREATE, INSERT, ALTER, DROP",
        HIVE,
        {
            "DB.alike2": ["(1, 'x')"],
            "DB.avro": ["(1, 'x')", "(11, 'x')", "(12, 'y')", "(2, 'y')"],
            "DB.buckets": ["(1, 'x')", "(2, 'y')"],
            "DB.chosen": ["(1, 'x', None)", "(1, 'x', None)", "(2, 'y', None)", "(2, 'y', None)"],
            "DB.external": ["(1, 'x')", "(2, 'y')"],
            "DB.moved": ["(1, 'x')", "(2, 'y')"],
            "DB.orc": ["(1, 'x')", "(2, 'y')"],
            "DB.parquet": ["(1, 'x', None)", "(2, 'y', None)"],
            "DB.parts": ["(1, 'x')", "(20, 'y')"],
            "DB.text": ["(1, 'x')", "(2, 'y')"],
            "DB.transform": [],
            "DB.u_csv": ["(1, 'x')", "(2, 'y')"],
            "DB.u_json": [],
            "DB.u_orc": ["(5, 'five')"],
            "DB.u_parts": ["(10, 'x')", "(2, 'y')"],
            "DB.unsaid": ["(1, 'x')", "(2, 'y')"],
        },
    ),
)
