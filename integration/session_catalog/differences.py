"""Which statements are answered otherwise than with `type=hive`, and why a user should accept it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Chapter, statement, our answer, and that of `type=hive`.
Differing = tuple[str, str, str, str]

_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
_WORKS: Final = "works"
_REFUSED: Final = ("BadRequestException", "ValidationException")
_FORBIDDEN: Final = "ForbiddenException"
_TAKEN: Final = ("AlreadyExistsException", "NoSuchIcebergTableException")


@dataclass(frozen=True)
class Reason:
    """statements: (chapter, statement) -> our answer and that of `type=hive`, as `compare.shown` shows them. kinds: the
    sessions that answer so."""

    name: str
    why: str
    statements: Mapping[tuple[str, str], tuple[str, str]]
    kinds: tuple[str, ...] = ("embedded", "stand-alone")


REASONS: Final = (
    Reason(
        "Errors that the server finds",
        "The server refuses the statement, and Iceberg's REST client gives its answer a class; with `type=hive` "
        "Java's library refuses it with a class of its own, at times without a reason. Nothing is changed in "
        "either.",
        {
            ("create", "CREATE TABLE DB.variant (a VARIANT) USING iceberg"): (
                "BadRequestException",
                "IllegalStateException",
            ),
            ("create", "CREATE TABLE DB.version9 (a INT) USING iceberg TBLPROPERTIES ('format-version' = '9')"): (
                "BadRequestException",
                "IllegalArgumentException",
            ),
            ("create", "CREATE OR REPLACE TABLE DB.h (a INT) USING iceberg"): _TAKEN,
            ("create", "CREATE OR REPLACE TABLE DB.h USING iceberg AS SELECT 1 AS a"): _TAKEN,
            ("metadata_names", "CREATE OR REPLACE TABLE DB.files (id INT) USING iceberg"): _TAKEN,
            ("write_to", '>>> one(8).writeTo("DB.parquet").using("iceberg").createOrReplace()'): _TAKEN,
            ("snapshot", "CALL spark_catalog.system.snapshot('DB.managed', 'DB.bystander')"): _TAKEN,
            ("metadata", "ALTER TABLE DB.t.files ADD COLUMN a INT"): (
                "REQUIRES_SINGLE_PART_NAMESPACE",
                "UnsupportedOperationException",
            ),
            (
                "procedures",
                "CALL spark_catalog.system.register_table('missing_database.r', '@metadata(DB.registered_from, 1)')",
            ): ("NoSuchNamespaceException", "ValidationException"),
            ("names", "CREATE TABLE DB.`with space` (id INT) USING iceberg"): _REFUSED,
            ("names", "CREATE TABLE DB.`with-dash` (id INT) USING iceberg"): _REFUSED,
            ("names", "CREATE TABLE DB.`with.dot` (id INT) USING iceberg"): _REFUSED,
            ("names", "CREATE TABLE DB.`with%percent` (id INT) USING iceberg"): (
                "BadRequestException",
                "UnknownFormatConversionException",
            ),
            ("names", "CREATE TABLE DB.`täble` (id INT) USING iceberg"): _REFUSED,
        },
    ),
    Reason(
        "Names with a slash",
        "Hive Metastore 2.3 takes a `/` in a table's name, and other releases and most engines do not. The server"
        " takes letters, digits and underscores.",
        {
            ("names", "CREATE TABLE DB.`with/slash` (id INT) USING iceberg"): ("BadRequestException", _WORKS),
            ("names", "SELECT * FROM DB.`with/slash`"): (_NOT_FOUND, _WORKS),
        },
    ),
    Reason(
        "Variants",
        "`HiveCatalog` cannot put a column of the type VARIANT into the metastore's row.",
        {
            ("create", "CREATE TABLE DB.variant3 (a VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')"): (
                _WORKS,
                "ValidationException",
            ),
            ("create", "INSERT INTO DB.variant3 SELECT parse_json('{\"a\": 1}')"): (_WORKS, _NOT_FOUND),
            ("create", "SELECT to_json(a) FROM DB.variant3"): ("('{\"a\":1}',)", _NOT_FOUND),
        },
    ),
    Reason(
        "Where a table lies",
        "The server writes new local folders as `file:///x`, since some clients take no other spelling. Readers "
        "take both for one folder. It also notes in the metastore's row which folder the table owns, so that a "
        "purge deletes nothing else.",
        {
            **{
                ("show", f"SHOW TABLE EXTENDED IN DB LIKE '{names}'"): (
                    "iceberg-hms.owned-folder=file://WAREHOUSE/DB.db/ice, "
                    "metadata_location=file://WAREHOUSE/DB.db/ice/metadata/00001-<uuid>.metadata.json, "
                    "previous_metadata_location=file://WAREHOUSE/DB.db/ice/metadata/00000-<uuid>.metadata.json",
                    "metadata_location=file:WAREHOUSE/DB.db/ice/metadata/00001-<uuid>.metadata.json, "
                    "previous_metadata_location=file:WAREHOUSE/DB.db/ice/metadata/00000-<uuid>.metadata.json",
                )
                for names in ("ice", "*")
            },
            ("show", "SHOW CREATE TABLE DB.ice"): (
                "LOCATION 'file://WAREHOUSE/DB.db/ice'",
                "LOCATION 'file:WAREHOUSE/DB.db/ice'",
            ),
            **{
                ("show", statement): (
                    "('Location', 'file://WAREHOUSE/DB.db/ice', '')",
                    "('Location', 'file:WAREHOUSE/DB.db/ice', '')",
                )
                for statement in ("DESCRIBE TABLE EXTENDED DB.ice", "DESCRIBE FORMATTED DB.ice")
            },
        },
    ),
    Reason(
        "Two tables of one folder",
        "A second table of the same files is refused: what one of them expires or purges, the other one would "
        "miss. `register_table` takes the metadata file of a table that was dropped.",
        {
            (
                "procedures",
                "CALL spark_catalog.system.register_table('DB.registered', '@metadata(DB.registered_from, 1)')",
            ): ("BadRequestException", "(<id>, 1, 1)"),
            (
                "procedures",
                "CALL spark_catalog.system.register_table(table => 'DB.registered', "
                "metadata_file => '@metadata(DB.registered_from, 1)')",
            ): ("BadRequestException", "AlreadyExistsException"),
            ("procedures", "SELECT * FROM DB.registered"): (_NOT_FOUND, "(1,)"),
            ("procedures", "INSERT INTO DB.registered VALUES (2)"): (_NOT_FOUND, _WORKS),
            (
                "procedures",
                "CALL spark_catalog.system.rewrite_table_path(table => 'DB.registered', source_prefix => 'DIR', "
                "target_prefix => 'DIR/x')",
            ): ("RuntimeException", "IllegalArgumentException"),
            ("procedures", "DROP TABLE DB.registered"): (_NOT_FOUND, _WORKS),
        },
    ),
    Reason(
        "`DROP TABLE` of a Hive table",
        "It deletes the files of a managed table, as in plain Spark. With `type=hive` `HiveCatalog` drops the row"
        " and leaves the files behind, where they are in the way of a new table of the name.",
        {
            ("hive", "CREATE TABLE DB.dropped USING parquet AS SELECT 2 AS a"): (_WORKS, "LOCATION_ALREADY_EXISTS"),
            ("hive", "SELECT * FROM DB.dropped"): ("(2,)", _NOT_FOUND),
            ("hive", "DROP TABLE DB.dropped PURGE"): (_WORKS, _NOT_FOUND),
            ("metadata_names", "CREATE TABLE position_deletes (id INT) STORED AS PARQUET"): (
                _WORKS,
                "LOCATION_ALREADY_EXISTS",
            ),
            ("metadata_names", "INSERT INTO position_deletes VALUES (1)"): (_WORKS, _NOT_FOUND),
            ("metadata_names", "DROP TABLE position_deletes"): (_WORKS, _NOT_FOUND),
        },
    ),
    Reason(
        "Iceberg's cache of tables",
        "A session with `type=hive` keeps tables that it loaded, and here reads what was dropped or replaced. "
        "Without the cache, which is off here, each reference asks for the current table.",
        {
            ("databases", "SELECT * FROM OTHER_placed.t"): (_NOT_FOUND, "NotFoundException"),
            ("save", '>>> spark.table("DB.parts_iceberg")'): ("without that row", "(8, 'x')"),
        },
    ),
    Reason(
        "Locations that a server elsewhere does not allow",
        "A server that runs elsewhere reads and writes files with its own rights. So its clients name "
        "locations below the warehouse, the folder of the table's database and `rest.allowed-locations` "
        "alone ([security.md](security.md#locations)); list there where external tables lie that you "
        "migrate. The embedded server has the rights of its session, and allows every location.",
        {
            ("locations", "CREATE TABLE DB.placed (a INT) USING iceberg LOCATION 'OUT/placed'"): (_FORBIDDEN, _WORKS),
            ("locations", "ALTER TABLE DB.ice SET LOCATION 'OUT/ice'"): (_FORBIDDEN, _WORKS),
            ("locations", "ALTER TABLE DB.ice SET TBLPROPERTIES ('write.data.path' = 'OUT/data')"): (
                _FORBIDDEN,
                _WORKS,
            ),
            (
                "locations",
                "CALL spark_catalog.system.snapshot(source_table => 'DB.hive', table => 'DB.shadow2', "
                "location => 'OUT/shadow')",
            ): (_FORBIDDEN, "(1,)"),
            ("locations", "CALL spark_catalog.system.migrate('DB.migrated')"): (_FORBIDDEN, "(1,)"),
        },
        kinds=("stand-alone",),
    ),
)


def listed(kind: str) -> set[Differing]:
    """What a session of this kind may answer otherwise."""
    return {
        (*key, *answers) for reason in REASONS if kind in reason.kinds for key, answers in reason.statements.items()
    }
