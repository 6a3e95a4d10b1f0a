"""Procedures on Iceberg tables."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

PROCEDURES: Final = """
CREATE TABLE DB.t (id INT, day STRING) USING iceberg PARTITIONED BY (day) TBLPROPERTIES (
  'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'file')
INSERT INTO DB.t VALUES (1, 'a')
INSERT INTO DB.t VALUES (2, 'b')
INSERT INTO DB.t VALUES (3, 'a')
CALL spark_catalog.system.rollback_to_snapshot('DB.t', @snapshot(DB.t, 1))
SELECT * FROM DB.t
CALL spark_catalog.system.rollback_to_snapshot('DB.t', @snapshot(DB.t, 3))
CALL spark_catalog.system.rollback_to_snapshot('DB.t', 12345)
CALL spark_catalog.system.rollback_to_snapshot('DB.missing', 12345)
CALL spark_catalog.system.rollback_to_snapshot('missing_database.t', 12345)
CALL spark_catalog.system.set_current_snapshot('DB.t', @snapshot(DB.t, 3))
CALL spark_catalog.system.set_current_snapshot(table => 'DB.t', ref => 'missing')
SELECT * FROM DB.t
CALL spark_catalog.system.rollback_to_timestamp('DB.t',
  TIMESTAMP '@time(DB.t, 2)' + INTERVAL 1 MILLISECOND)
CALL spark_catalog.system.rollback_to_timestamp('DB.t', TIMESTAMP '2001-01-01 00:00:00')
INSERT INTO DB.t VALUES (4, 'c')
CALL spark_catalog.system.cherrypick_snapshot('DB.t', @snapshot(DB.t, 3))
CALL spark_catalog.system.cherrypick_snapshot('DB.t', 12345)
SELECT * FROM DB.t
CALL spark_catalog.system.ancestors_of('DB.t')
CALL spark_catalog.system.ancestors_of('DB.t', @snapshot(DB.t, 1))
CALL spark_catalog.system.fast_forward('DB.t', 'other', 'main')
SELECT name FROM DB.t.refs
CALL spark_catalog.system.create_changelog_view(table => 'DB.t', changelog_view => 'changed')
SELECT id, _change_type, _change_ordinal FROM changed
CALL spark_catalog.system.create_changelog_view('DB.missing')
DROP VIEW changed
ALTER TABLE DB.t DROP BRANCH other
CALL spark_catalog.system.rewrite_data_files(table => 'DB.t', options => map('min-input-files', '2'))
CALL spark_catalog.system.rewrite_data_files(table => 'DB.t', strategy => 'sort', sort_order => 'id DESC',
  options => map('rewrite-all', 'true'))
CALL spark_catalog.system.rewrite_data_files(table => 'DB.t', where => 'day = "a"',
  options => map('rewrite-all', 'true'))
CALL spark_catalog.system.rewrite_data_files(table => 'DB.t', where => 'missing = 1')
CALL spark_catalog.system.rewrite_data_files(table => 'DB.t', options => map('unknown', '1'))
CALL spark_catalog.system.rewrite_data_files('DB.missing')
CALL spark_catalog.system.rewrite_manifests('DB.t')
CALL spark_catalog.system.rewrite_manifests('DB.t', false)
INSERT INTO DB.t VALUES (5, 'a'), (6, 'a'), (7, 'a')
DELETE FROM DB.t WHERE id = 5
DELETE FROM DB.t WHERE id = 6
>>> rewritten("DB.t").select("rewritten_delete_files_count", "added_delete_files_count")
SELECT * FROM DB.t
CALL spark_catalog.system.compute_table_stats('DB.t')
CALL spark_catalog.system.compute_table_stats(table => 'DB.t', columns => array('missing'))
CALL spark_catalog.system.compute_partition_stats('DB.t')
CALL spark_catalog.system.expire_snapshots(table => 'DB.t', older_than => TIMESTAMP '2100-01-01 00:00:00',
  retain_last => 2)
CALL spark_catalog.system.expire_snapshots(table => 'DB.t', snapshot_ids => array(12345))
CALL spark_catalog.system.expire_snapshots(table => 'DB.t', older_than => TIMESTAMP '2100-01-01 00:00:00',
  stream_results => true)
SELECT count(*) FROM DB.t.snapshots
CALL spark_catalog.system.remove_orphan_files(table => 'DB.t', dry_run => true)
CALL spark_catalog.system.remove_orphan_files(table => 'DB.t', older_than => TIMESTAMP '2001-01-01 00:00:00')
CALL spark_catalog.system.remove_orphan_files(table => 'DB.t', older_than => TIMESTAMP '2100-01-01 00:00:00')
CALL spark_catalog.system.remove_orphan_files(table => 'DB.missing')
SELECT * FROM DB.t
CREATE TABLE DB.registered_from USING iceberg AS SELECT 1 AS id
CALL spark_catalog.system.register_table('DB.registered', '@metadata(DB.registered_from, 1)')
SELECT * FROM DB.registered
CALL spark_catalog.system.register_table(table => 'DB.registered', metadata_file => '@metadata(DB.registered_from, 1)')
>>> registered("DB.registered_from", "DB.taken_over")
SELECT * FROM DB.taken_over
INSERT INTO DB.taken_over VALUES (2)
SELECT * FROM DB.taken_over
CREATE TABLE DB.registered_from USING iceberg AS SELECT 1 AS id
CALL spark_catalog.system.register_table('missing_database.r', '@metadata(DB.registered_from, 1)')
CALL spark_catalog.system.register_table('DB.registered2', 'DIR/no-such.metadata.json')
INSERT INTO DB.registered VALUES (2)
SELECT * FROM DB.registered_from
CALL spark_catalog.system.rewrite_table_path(table => 'DB.registered', source_prefix => 'DIR', target_prefix => 'DIR/x')
DROP TABLE DB.registered
SELECT * FROM DB.registered_from
CREATE TABLE DB.hive (id INT, day STRING) USING parquet PARTITIONED BY (day)
INSERT INTO DB.hive VALUES (100, 'a'), (101, 'z')
CALL spark_catalog.system.add_files(table => 'DB.t', source_table => 'DB.hive')
SELECT * FROM DB.t WHERE id >= 100
CALL spark_catalog.system.add_files(table => 'DB.t', source_table => 'DB.hive')
CALL spark_catalog.system.add_files(table => 'DB.t', source_table => 'DB.hive', partition_filter => map('day', 'a'),
  check_duplicate_files => false)
SELECT count(*) FROM DB.t WHERE id >= 100
CALL spark_catalog.system.add_files(table => 'DB.t', source_table => 'DB.missing')
CALL spark_catalog.system.add_files(table => 'DB.hive', source_table => 'DB.t')
CREATE TABLE DB.flat (id INT) USING iceberg
INSERT OVERWRITE DIRECTORY 'DIR/files' USING parquet SELECT 1 AS id
CALL spark_catalog.system.add_files(table => 'DB.flat', source_table => '`parquet`.`DIR/files`')
SELECT * FROM DB.flat
CALL spark_catalog.system.no_such_procedure('DB.t')
CALL spark_catalog.system.rollback_to_snapshot('DB.t')
CALL spark_catalog.system.expire_snapshots()
CALL spark_catalog.system.expire_snapshots(table => '')
CALL system.ancestors_of('DB.flat')
USE DB
CALL system.ancestors_of('flat')
CALL spark_catalog.system.rewrite_manifests('flat')
CALL no_catalog.system.ancestors_of('flat')
SHOW PROCEDURES IN spark_catalog.system
DESCRIBE PROCEDURE spark_catalog.system.migrate
SELECT spark_catalog.system.bucket(4, 17)
SELECT system.truncate(2, 'abc')
SELECT DB.system.days(DATE '2020-02-29')
SELECT system.iceberg_version() IS NOT NULL
"""

CHAPTERS: Final = (
    Chapter("procedures", "Procedures on Iceberg tables", PROCEDURES, {"DB.hive": ["(100, 'a')", "(101, 'z')"]}),
)
