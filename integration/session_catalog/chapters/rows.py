"""Writing rows of Iceberg tables."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

INSERTS: Final = """
CREATE TABLE DB.t (id INT, name STRING, day STRING) USING iceberg PARTITIONED BY (day)
INSERT INTO DB.t VALUES (1, 'x', 'a'), (2, 'y', 'b')
INSERT INTO TABLE DB.t SELECT 3, 'z', 'c'
INSERT INTO DB.t (day, id) VALUES ('a', 4)
INSERT INTO DB.t BY NAME SELECT 'b' AS day, 5 AS id, 'v' AS name
INSERT INTO DB.t BY NAME SELECT 'b' AS day, 5 AS id, 'v' AS wrong
INSERT INTO DB.t BY NAME SELECT 6 AS id
INSERT INTO DB.t PARTITION (day = 'd') VALUES (7, 'u')
INSERT INTO DB.t PARTITION (day = 'd') BY NAME SELECT 'w' AS name, 8 AS id
INSERT INTO DB.t PARTITION (missing = 'd') VALUES (7, 'u')
INSERT INTO DB.t VALUES (1, 'x')
INSERT INTO DB.t VALUES (1, 'x', 'a', 'more')
INSERT INTO DB.t VALUES ('no number', 'x', 'a')
INSERT INTO DB.t TABLE DB.t
INSERT INTO DB.missing VALUES (1)
INSERT INTO missing_database.t VALUES (1)
SELECT * FROM DB.t
INSERT OVERWRITE DB.t PARTITION (day = 'a') SELECT 10, 'o'
SELECT * FROM DB.t WHERE day = 'a'
INSERT OVERWRITE DB.t PARTITION (day) SELECT 11, 'o', 'b'
SELECT * FROM DB.t
INSERT INTO DB.t VALUES (1, 'x', 'a'), (2, 'y', 'b')
SET spark.sql.sources.partitionOverwriteMode = dynamic
INSERT OVERWRITE DB.t VALUES (12, 'dynamic', 'b')
SELECT * FROM DB.t
RESET spark.sql.sources.partitionOverwriteMode
INSERT INTO DB.t REPLACE WHERE day = 'a' SELECT 13, 'replaced', 'a'
INSERT INTO DB.t REPLACE WHERE id = 13 SELECT 14, 'replaced', 'a'
INSERT INTO DB.t REPLACE WHERE day = 'a' SELECT 15, 'elsewhere', 'b'
SELECT * FROM DB.t
INSERT OVERWRITE DB.t VALUES (16, 'static', 'e')
SELECT * FROM DB.t
FROM DB.t INSERT INTO DB.t SELECT id + 1, name, day
WITH c AS (SELECT 20 AS id, 'c' AS name, 'f' AS day) INSERT INTO DB.t SELECT * FROM c
TRUNCATE TABLE DB.t PARTITION (day = 'e')
TRUNCATE TABLE DB.t
SELECT count(*) FROM DB.t
TRUNCATE TABLE DB.missing
SELECT operation FROM DB.t.snapshots
CREATE TABLE DB.v1 (id INT) USING iceberg TBLPROPERTIES ('format-version' = '1')
INSERT INTO DB.v1 VALUES (1), (2)
INSERT OVERWRITE DB.v1 SELECT id + 1 FROM DB.v1
SELECT * FROM DB.v1
CREATE TABLE DB.orc (id INT, name STRING) USING iceberg TBLPROPERTIES ('write.format.default' = 'orc')
INSERT INTO DB.orc VALUES (1, 'x')
CREATE TABLE DB.avro (id INT, name STRING) USING iceberg TBLPROPERTIES ('write.format.default' = 'avro')
INSERT INTO DB.avro SELECT * FROM DB.orc
SELECT file_format FROM DB.avro.files
SELECT * FROM DB.avro
CREATE TABLE DB.strict (id INT NOT NULL, v VARCHAR(2)) USING iceberg
INSERT INTO DB.strict VALUES (1, 'long')
INSERT INTO DB.strict SELECT id, name FROM DB.orc
SELECT * FROM DB.strict
CREATE TABLE DB.lineage (id INT) USING iceberg TBLPROPERTIES ('format-version' = '3')
INSERT INTO DB.lineage VALUES (1), (2)
SELECT id, _row_id, _last_updated_sequence_number FROM DB.lineage
SELECT id, _spec_id, _partition, _deleted FROM DB.lineage
"""

_CHANGES: Final = """
CREATE TABLE DB.MODE (id INT, name STRING, n INT) USING iceberg PARTITIONED BY (n) TBLPROPERTIES (
  'format-version' = 'VERSION', 'write.update.mode' = 'WAY', 'write.delete.mode' = 'WAY', 'write.merge.mode' = 'WAY')
INSERT INTO DB.MODE SELECT CAST(id AS INT), concat('name', id), CAST(id % 3 AS INT) FROM range(12)
UPDATE DB.MODE SET name = 'updated' WHERE id = 3
UPDATE DB.MODE SET n = n + 10, name = concat(name, '!') WHERE n = 1
UPDATE DB.MODE SET missing = 1
UPDATE DB.MODE SET name = 1 / 0
DELETE FROM DB.MODE WHERE id IN (2, 5)
DELETE FROM DB.MODE WHERE n = 0 AND id > 7
DELETE FROM DB.MODE WHERE id IN (SELECT max(id) FROM DB.MODE)
DELETE FROM DB.MODE WHERE n = 11
DELETE FROM DB.MODE WHERE missing = 1
SELECT * FROM DB.MODE
MERGE INTO DB.MODE t USING (SELECT 0 AS id, 'merged' AS name, 5 AS n UNION ALL SELECT 100, 'new', 6) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET name = s.name, n = s.n WHEN NOT MATCHED THEN INSERT *
MERGE INTO DB.MODE t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED AND t.name = 'updated' THEN DELETE
  WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN UPDATE SET name = 'not in source'
MERGE INTO DB.MODE t USING (SELECT 0 AS id UNION ALL SELECT 0) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'z'
MERGE INTO DB.MODE t USING DB.missing s ON t.id = s.id WHEN MATCHED THEN DELETE
MERGE INTO DB.missing t USING DB.MODE s ON t.id = s.id WHEN MATCHED THEN DELETE
SELECT * FROM DB.MODE
SELECT operation FROM DB.MODE.snapshots
SELECT count(*) > 0 FROM DB.MODE.delete_files
DELETE FROM DB.MODE
SELECT count(*) FROM DB.MODE
"""


def _changes(name: str, version: int, way: str) -> str:
    return _CHANGES.replace("MODE", name).replace("VERSION", str(version)).replace("WAY", way)


CHAPTERS: Final = (
    Chapter("insert", "INSERT INTO, INSERT OVERWRITE and TRUNCATE", INSERTS),
    Chapter("copy_on_write", "UPDATE, DELETE and MERGE, copy-on-write", _changes("cow", 2, "copy-on-write")),
    Chapter("merge_on_read", "the same with position deletes", _changes("mor", 2, "merge-on-read")),
    Chapter("deletion_vectors", "the same with deletion vectors", _changes("dv", 3, "merge-on-read")),
)
