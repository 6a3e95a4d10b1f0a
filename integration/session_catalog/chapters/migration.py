"""Hive tables that become Iceberg tables."""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters.chapter import Chapter

_MAKE: Final = """
CREATE TABLE DB.managed (id INT, name STRING) STORED AS PARQUET
INSERT INTO DB.managed VALUES (1, 'x'), (2, 'y')
CREATE TABLE DB.parts (id INT, day STRING) USING parquet PARTITIONED BY (day)
INSERT INTO DB.parts VALUES (1, 'a'), (2, 'b')
CREATE TABLE DB.external (id INT) STORED AS ORC LOCATION 'DIR/external'
INSERT INTO DB.external VALUES (1)
CREATE TABLE DB.bystander (id INT) USING parquet
INSERT INTO DB.bystander VALUES (1)
"""

KEPT: Final = f"""{_MAKE}
CALL spark_catalog.system.migrate('DB.managed')
CALL spark_catalog.system.migrate('DB.parts', map('k', 'v'))
CALL spark_catalog.system.migrate(table => 'DB.external', parallelism => 2)
CALL spark_catalog.system.migrate('DB.managed')
CALL spark_catalog.system.migrate('DB.missing')
SHOW TABLES IN DB
SELECT * FROM DB.managed
SELECT * FROM DB.parts WHERE day = 'b'
SELECT * FROM DB.external
SELECT * FROM DB.managed_backup_
SELECT * FROM DB.managed_BACKUP_
SHOW TBLPROPERTIES DB.parts ('k')
INSERT INTO DB.managed VALUES (3, 'z')
INSERT INTO DB.parts VALUES (3, 'c')
DELETE FROM DB.external
SELECT count(*) FROM DB.managed.snapshots
DROP TABLE DB.managed_BACKUP_
DROP TABLE DB.parts_BACKUP_
SELECT * FROM DB.managed
SELECT * FROM DB.parts
SELECT * FROM DB.external_BACKUP_
SHOW TABLES IN DB
DROP TABLE DB.parts
SELECT * FROM DB.bystander
"""

DROPPED: Final = f"""{_MAKE}
CALL spark_catalog.system.migrate(table => 'DB.managed', drop_backup => true)
CALL spark_catalog.system.migrate(table => 'DB.parts', drop_backup => true, backup_table_name => 'kept')
CALL spark_catalog.system.migrate(table => 'DB.external', drop_backup => true)
SHOW TABLES IN DB
SELECT * FROM DB.managed
SELECT * FROM DB.parts
SELECT * FROM DB.external
INSERT INTO DB.managed VALUES (3, 'z')
SELECT * FROM DB.managed
CREATE TABLE DB.other (id INT) USING parquet
INSERT INTO DB.other VALUES (1)
CALL spark_catalog.system.migrate(table => 'DB.other', backup_table_name => 'mine')
SELECT * FROM DB.mine
DROP TABLE DB.mine PURGE
SELECT * FROM DB.other
CREATE TABLE DB.csv (id INT) USING csv
CALL spark_catalog.system.migrate('DB.csv')
CREATE TABLE DB.sold (id INT) USING parquet
INSERT INTO DB.sold VALUES (1)
CREATE TABLE DB.sold_BACKUP_ (id INT) USING parquet
CALL spark_catalog.system.migrate('DB.sold')
SELECT * FROM DB.sold
SHOW TABLES IN DB
"""

SNAPSHOT: Final = f"""{_MAKE}
CALL spark_catalog.system.snapshot('DB.managed', 'DB.s_managed')
CALL spark_catalog.system.snapshot(source_table => 'DB.parts', table => 'DB.s_parts', location => 'DIR/s_parts',
  properties => map('k', 'v'))
CALL spark_catalog.system.snapshot('DB.external', 'DB.s_external')
CALL spark_catalog.system.snapshot('DB.managed', 'DB.s_managed')
CALL spark_catalog.system.snapshot('DB.managed', 'DB.bystander')
CALL spark_catalog.system.snapshot('DB.managed', 'DB.managed')
CALL spark_catalog.system.snapshot('DB.missing', 'DB.s_missing')
CALL spark_catalog.system.snapshot('DB.s_managed', 'DB.s_again')
CALL spark_catalog.system.snapshot('DB.managed', 'missing_database.s')
INSERT INTO DB.s_managed VALUES (3, 'z')
INSERT INTO DB.managed VALUES (4, 'w')
SELECT * FROM DB.s_managed
SELECT * FROM DB.managed
DELETE FROM DB.s_parts WHERE day = 'a'
SELECT * FROM DB.parts
CALL spark_catalog.system.expire_snapshots(table => 'DB.s_parts', older_than => TIMESTAMP '2100-01-01 00:00:00')
CALL spark_catalog.system.rewrite_data_files(table => 'DB.s_managed', options => map('rewrite-all', 'true'))
CALL spark_catalog.system.expire_snapshots(table => 'DB.s_managed', older_than => TIMESTAMP '2100-01-01 00:00:00')
SELECT * FROM DB.managed
SHOW TBLPROPERTIES DB.s_managed ('gc.enabled')
CALL spark_catalog.system.remove_orphan_files(table => 'DB.s_managed')
DROP TABLE DB.s_managed PURGE
DROP TABLE DB.s_managed
SELECT * FROM DB.managed
DROP TABLE DB.external
SELECT * FROM DB.s_external
DROP TABLE DB.s_parts
SELECT * FROM DB.parts
SHOW TABLES IN DB
"""

CHAPTERS: Final = (
    Chapter(
        "migrate",
        "migrate: the backup is kept, and dropped later",
        KEPT,
        {"DB.bystander": ["(1,)"], "DB.external_backup_": ["(1,)"]},
    ),
    Chapter(
        "migrate_and_drop",
        "migrate: the backup is dropped at once",
        DROPPED,
        {"DB.bystander": ["(1,)"], "DB.csv": [], "DB.sold": ["(1,)"], "DB.sold_backup_": []},
    ),
    Chapter(
        "snapshot",
        "snapshot: both tables are changed and dropped",
        SNAPSHOT,
        {
            "DB.bystander": ["(1,)"],
            "DB.managed": ["(1, 'x')", "(2, 'y')", "(4, 'w')"],
            "DB.parts": ["(1, 'a')", "(2, 'b')"],
        },
    ),
)
