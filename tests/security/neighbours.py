"""Two namespaces with a caller each, `a` and `b`, one without, `c`, and `default`, whose folder holds all of them: over
a catalog in memory or a real metastore, and real files.

Each but `a` has standing objects that nobody may change: Iceberg tables and views, with and without the record that a
table owns its folder, and Hive tables. `a` has tables too, and links that lead to the others' folders.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import OWNED_FOLDER, TableName
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, SerDeInfo, StorageDescriptor, Table
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from iceberg_hms.rest.access.tokens import TokenFile
from iceberg_hms.rest.server import RestServer
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.polling import eventually
from tests.rest.fakes import SCHEMA
from tests.security.callers import write_tokens
from tests.security.shapes import view_version

#: What nobody may change. `default` holds all others.
STANDING = ("b", "c", "default")
#: What B changes is in folders whose name begins so, and has such names.
BUSY = "busy"
#: A table of A whose folder lies in that of `b`: an operator renamed it.
MOVED = "moved"
#: How long a purge may take: two searches for others who have its folder.
PURGE_SECONDS = 120.0
SCOPES = {"A": "write[a]", "A-who-reads": "write[a] read[*]", "B": "write[b default]"}

#: Path of a file -> what shows that it was changed.
Listing = Mapping[str, tuple[int, int, int]]


class Metastore(Protocol):
    """What the callers' tables stand on."""

    def connect(self, **settings: Any) -> Catalog:
        """A catalog for the server, or for an operator."""
        ...

    def rows(self, namespace: str, wanted: Callable[[str], bool]) -> dict[str, Any]:
        """The rows of a database by those of their names that are wanted, each as a whole."""
        ...

    def parameters(self, name: TableName) -> Mapping[str, str]:
        """Those of a row."""
        ...

    def add_hive_table(self, name: TableName, location: str, kind: str) -> None:
        """Make a row of a table that is not Iceberg's."""
        ...

    def forget_owner(self, name: TableName) -> None:
        """Make a table's row one as Java, Trino and PyIceberg write it: without the record of its folder."""
        ...


class InMemory:
    """Metastore. warehouse: a folder."""

    def __init__(self, warehouse: Path) -> None:
        self._pointer = MemoryTablePointer(namespaces=())
        self._warehouse = f"file:{warehouse}"
        self._catalog: Catalog | None = None

    def connect(self, **settings: Any) -> Catalog:
        if self._catalog is None:
            files: Any = RoutedFiles(fsync=False)
            self._catalog = memory_catalog(files=files, pointer=self._pointer, warehouse=self._warehouse, **settings)
        return self._catalog

    def rows(self, namespace: str, wanted: Callable[[str], bool]) -> dict[str, Any]:
        rows = dict(self._pointer.rows).items()
        return {name.name: row for name, row in rows if name.namespace == namespace and wanted(name.name)}

    def parameters(self, name: TableName) -> Mapping[str, str]:
        return self._pointer.rows[name].parameters

    def add_hive_table(self, name: TableName, location: str, kind: str) -> None:
        self._pointer.add_hive_table(name, location)

    def forget_owner(self, name: TableName) -> None:
        row = self._pointer.rows[name]
        kept = {key: value for key, value in row.parameters.items() if key != OWNED_FOLDER}
        self._pointer.rows[name] = replace(row, parameters=kept)


class OnHms:
    """Metastore. uri: of a real one, whose warehouse is this folder."""

    def __init__(self, uri: str, warehouse: str) -> None:
        self._uri, self._warehouse = uri, warehouse
        self._pool = ClientPool([uri])
        self._pointer = HmsTablePointer(self._pool, Settings.load({"metastore_uri": uri}, environ={}))

    def close(self) -> None:
        self._pool.close()

    def connect(self, **settings: Any) -> Catalog:
        return iceberg_hms.connect(self._uri, self._warehouse, storage_fsync=False, **settings)

    def _call(self, method: str, **arguments: Any) -> Any:
        return self._pool.call_once(method, **arguments)

    def rows(self, namespace: str, wanted: Callable[[str], bool]) -> dict[str, Any]:
        names = [name for name in self._call("get_all_tables", db_name=namespace) if wanted(name)]
        return {
            row.tableName: row for row in self._call("get_table_objects_by_name", dbname=namespace, tbl_names=names)
        }

    def parameters(self, name: TableName) -> Mapping[str, str]:
        found: Mapping[str, str] = self._call("get_table", dbname=name.namespace, tbl_name=name.name).parameters
        return found

    def add_hive_table(self, name: TableName, location: str, kind: str) -> None:
        row = Table(
            dbName=name.namespace,
            tableName=name.name,
            owner="hive",
            tableType=kind,
            partitionKeys=[],
            parameters={"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {},
            sd=StorageDescriptor(
                cols=[FieldSchema(name="id", type="int")],
                location=location,
                serdeInfo=SerDeInfo(parameters={}),
                parameters={},
            ),
        )
        self._call("create_table", tbl=row)

    def forget_owner(self, name: TableName) -> None:
        row = self._pointer.load(name).table
        del row.parameters[OWNED_FOLDER]
        arguments = {"dbname": name.namespace, "tbl_name": name.name, "new_tbl": row, "environment_context": None}
        self._call("alter_table_with_environment_context", **arguments)


class Neighbours:
    """The namespaces, their objects, and a server for their callers. Use it once.

    folder: for what is no warehouse's. warehouse: the folder of `default`.
    """

    def __init__(self, metastore: Metastore, folder: Path, warehouse: Path) -> None:
        self.metastore, self.warehouse = metastore, warehouse
        self.elsewhere = folder / "elsewhere"
        #: The server's catalog without a guard, for what a caller does with files of its own; and an operator's.
        self.catalog = metastore.connect()
        self.operator = metastore.connect()
        self.tokens = write_tokens(folder / "tokens", SCOPES)
        self._purges: dict[str, Mapping[str, Any]] = {}
        self._purge_ended = threading.Condition()
        self.catalog.subscribe(self._hear)
        self.server = RestServer(self.catalog, "127.0.0.1", 0, access=TokenFile(folder / "tokens", SYSTEM_CLOCK))
        self._fill()
        self._standing = self._look()

    def __enter__(self) -> Neighbours:
        self.server.start()
        return self

    def __exit__(self, *error: object) -> None:
        with ExitStack() as ends:
            ends.callback(self.catalog.close)
            ends.callback(self.operator.close)
            ends.callback(self.server.stop)

    def folder(self, namespace: str) -> Path:
        return self.warehouse if namespace == "default" else self.warehouse / f"{namespace}.db"

    def _fill(self) -> None:
        for name in ("default", "a", "b", "c"):
            if not self.operator.namespace_exists(name):
                self.operator.create_namespace(name, {"location": f"file:{self.folder(name)}"})
        for namespace in STANDING:
            self._fill_standing(namespace)
        for name in ("t0", "t1", "t2"):
            self.fill_table(TableName("a", name))
        self.make_view(TableName("a", "v0"))
        self._add_hive_table(TableName("a", "hive"), self.folder("a") / "hive", "MANAGED_TABLE")
        self.fill_table(TableName("b", MOVED))
        self.operator.rename_table(f"b.{MOVED}", f"a.{MOVED}")
        ours = self.folder("a")
        for path, target in (
            (ours / "link", self.folder("b")),
            (ours / "up", self.warehouse),
            (ours / "t0" / "link", self.folder("b") / "still"),
            (ours / "t1" / "data-link", self.folder("b") / "hive"),
        ):
            path.symlink_to(target)

    def _fill_standing(self, namespace: str) -> None:
        self.fill_table(TableName(namespace, "still"))
        self.fill_table(TableName(namespace, "foreign"))
        self.metastore.forget_owner(TableName(namespace, "foreign"))
        self.make_view(TableName(namespace, "view"))
        folder = self.folder(namespace)
        self._add_hive_table(TableName(namespace, "hive"), folder / "hive", "MANAGED_TABLE")
        self._add_hive_table(TableName(namespace, "hive_ext"), folder / "deep" / "hive", "EXTERNAL_TABLE")
        self._add_hive_table(TableName(namespace, "hive_far"), self.elsewhere / namespace, "EXTERNAL_TABLE")

    def _add_hive_table(self, name: TableName, folder: Path, kind: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "000000_0").write_bytes(b"a row")
        self.metastore.add_hive_table(name, f"file:{folder}", kind)

    def fill_table(self, name: TableName, **properties: str) -> None:
        """A table of two snapshots with statistics, made in the folder that the catalog chooses."""
        table = self.operator.create_table(name, SCHEMA, properties=properties)
        for number in range(2):
            table.append([self.data_file(table.metadata.location, f"{number}")])
        snapshot = table.metadata.current_snapshot
        assert snapshot is not None
        path = f"{table.metadata.location}/metadata/1.stats"
        local_path(path).write_bytes(b"statistics")
        file = {"snapshot-id": snapshot.snapshot_id, "statistics-path": path, "file-size-in-bytes": 10}
        table.set_statistics({**file, "file-footer-size-in-bytes": 5, "blob-metadata": []})

    def data_file(self, location: str, name: str) -> DataFile:
        """A new file in a table's folder."""
        path = local_path(f"{location}/data/{name}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a row")
        return DataFile(f"{location}/data/{name}.parquet", "PARQUET", 1, 5)

    def make_view(self, name: TableName) -> None:
        self.operator.views.create(name, SCHEMA, {**view_version(1), "timestamp-ms": 1_000})

    def _look(self) -> dict[str, Any]:
        """All that stands: rows, properties of namespaces and files."""
        found: dict[str, Any] = {}
        for namespace in STANDING:
            found[namespace] = self.operator.load_namespace_properties(namespace)
            rows = self.metastore.rows(namespace, lambda name: not name.startswith(BUSY))
            found.update({f"{namespace}.{name}": row for name, row in rows.items()})
        pruned = {str(self.folder("a")), str(self.folder("b") / MOVED)}
        found.update(listing(self.warehouse, pruned))
        found.update(listing(self.elsewhere, set()))
        return found

    def changes(self) -> list[str]:
        """What stands no more as it did: a line each."""
        now, before = self._look(), self._standing
        return [
            f"{key}: {before.get(key)} became {now.get(key)}"
            for key in sorted({*before, *now})
            if before.get(key) != now.get(key)
        ]

    def _hear(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "purged" and event["table"].name.startswith(BUSY):
            with self._purge_ended:
                self._purges[file_key(event["metadata_location"])] = event
                self._purge_ended.notify_all()

    def purged(self, metadata_location: str) -> Mapping[str, Any] | None:
        """Wait for the event of a purge of B's, which may end behind the answer. None if it does not come."""
        key = file_key(metadata_location)
        with self._purge_ended:
            self._purge_ended.wait_for(lambda: key in self._purges, PURGE_SECONDS)
            return self._purges.pop(key, None)

    def quiet(self, name: TableName) -> bool:
        """Wait until no commit to a table is under way, nor what follows its answer. False after a while."""
        return eventually(lambda: all(each.name != f"commit {name}" for each in threading.enumerate()))


def local_path(location: str) -> Path:
    """The path of a `file:` location that this process made."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def listing(folder: Path, pruned: set[str]) -> dict[str, tuple[int, int, int]]:
    """The files in a folder, but for what is B's own. pruned: folders that do not count."""
    return dict(_files(str(folder), pruned))


def _files(folder: str, pruned: set[str]) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for above, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(BUSY) and f"{above}/{each}" not in pruned]
        for name in files:
            path = f"{above}/{name}"
            with_links_as_they_are = os.lstat(path)
            yield (
                path,
                (
                    with_links_as_they_are.st_size,
                    with_links_as_they_are.st_mtime_ns,
                    with_links_as_they_are.st_ino,
                ),
            )
