"""What is asked of every engine: the names of the checks, in the order of the table, and what each one asks."""

from __future__ import annotations

from typing import Final

#: Heading of the table -> name of a check -> what it asks.
GROUPS: Final[dict[str, dict[str, str]]] = {
    "Namespaces and tables": {
        "namespaces": "create, list, set properties, drop; a namespace that is not empty is kept",
        "create": "a table with every type that the engine has; others load the same schema",
        "create if taken": "the loser of a creation learns that the table exists",
        "create race": "of clients that create one table at the same time one wins, and the rest learn that it exists",
        "create as select": "the table is there with its rows, or not at all",
        "replace": "CREATE OR REPLACE; the history stays",
        "add, rename, drop column": "old rows read as the specification says",
        "change type": "int to bigint and the like",
        "partition evolution": "a new spec; old and new files are read",
        "sort order": "written and read back",
        "properties": "set, changed, removed; format version and comment",
        "rename": "the table moves with its rows",
        "drop": "the table is gone",
        "drop and purge": "the table's files are gone too",
    },
    "Rows": {
        "insert": "rows into plain and partitioned tables, by every transform; all read them",
        "overwrite": "INSERT OVERWRITE and the like",
        "delete rows": "position deletes, deletion vectors or rewritten files; all read the same",
        "delete partition": "whole files by metadata alone",
        "update": "",
        "upsert": "rows by key: the last one of each key stays",
        "merge": "insert, update and delete in one commit",
        "truncate": "",
        "transaction": "several statements, all or nothing",
        "reads others": "what PyIceberg and the Python API wrote",
    },
    "History": {
        "time travel": "by snapshot id and by time",
        "branches and tags": "made, read and written",
        "metadata tables": "snapshots, refs, history, files, manifests, entries, partitions",
        "rollback": "to an earlier snapshot",
    },
    "Maintenance": {
        "rewrite data files": "small files become large ones",
        "rewrite manifests": "",
        "expire snapshots": "and their files",
        "remove orphan files": "and no other file",
        "add files": "existing Parquet files become part of the table",
        "register": "a table from its metadata file; and unregister",
        "statistics": "of columns, in a Puffin file",
    },
    "Views": {
        "view": "create, read, replace, rename, list, drop",
        "foreign view": "a view of another dialect is read, or refused clearly",
    },
    "Access": {
        "credential of an issuer": "client id and secret for a token of an OpenID Connect issuer; the scope holds",
        "TLS": "a certificate of an own authority; a client that does not know it refuses to connect",
    },
    "Many writers": {
        "inserts beside others": "PyIceberg and the Python API append to the same table: none lost, none twice",
        "inserts, rebased": "the same on a table with `iceberg-hms.rebase-appends=all`",
        "two sessions": "two sessions of the engine insert into one table",
        "row changes beside others": "UPDATE, DELETE or MERGE while others append",
        "two routes": "the engine by REST, and by its own Hive catalog, on one table at once",
        "lost answer": "the answer to a commit that was made is lost: no acknowledged or committed row loses its file",
        "exactly once": "a stream while the server is killed: each row is there once",
        "insert, validated": "an operation that validates is refused when another one came first",
    },
}

#: Name of a check -> what it asks.
CHECKS: Final[dict[str, str]] = {name: asks for group in GROUPS.values() for name, asks in group.items()}
