"""A caller who does only what is right, in names of its own, and knows what must come of each request.

Between two of its requests none of its rows and files changes; a request changes nothing but what it is about; and no
request is refused, but by a 429 or 503 that asks to send it again.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.locations.folder_overlaps import SEARCH_SECONDS
from iceberg_hms.coordinator.ports import OWNED_FOLDER, TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates
from simulation.actors.requests import for_update_table
from tests.rest.fakes import SCHEMA
from tests.security.callers import web_of
from tests.security.fuzz import require
from tests.security.neighbours import BUSY, Neighbours, local_path
from tests.security.shapes import SCAN_REPORT, view_version

#: How many tables and views one has at a time.
TABLES_MAX, VIEWS_MAX = 4, 2
#: How often a request is sent that the server defers, and how long it waits between two, at most; seconds.
TRIES = 60
PAUSE_SECONDS = 1.0
DEFERRED = frozenset((429, 503))
NAMESPACES = ("b", "b", "b", "default")
#: Steps that may delete more than old metadata files.
DELETING = ("purge", "expire", "remove_orphans", "drop_and_create", "replace", "set_statistics")
#: A commit deletes the metadata file before the last two.
TIDY = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}


@dataclass
class Owned:
    """A table as its caller knows it. is_recorded: its row says that it owns its folder. left: folders from which it
    was moved. files: what its snapshots name in its folders."""

    name: TableName
    metadata_location: str
    metadata: TableMetadata
    is_recorded: bool
    left: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/v1/namespaces/{self.name.namespace}/tables/{self.name.name}"

    @property
    def location(self) -> str:
        return self.metadata.location


class HonestCaller:
    """One thread of B. number: no other has it. Its requests are the same for the same seed."""

    def __init__(self, world: Neighbours, number: int, seed: int) -> None:
        self.world = world
        self._prefix = f"{BUSY}{number}_"
        self._random = random.Random(f"{seed} honest {number}")
        self._http = httpx.Client(base_url=world.server.uri, headers=web_of(world.tokens["B"]), timeout=120)
        self._count = 0
        self.deferred = 0
        #: Seconds of the longest request since the last table was made.
        self._longest = 0.0
        self.requests = 0
        self.did: dict[str, int] = {}
        self.last = ""
        #: Others read it.
        self.tables: list[Owned] = []
        #: UUIDs of tables that were staged last.
        self.staged: deque[str] = deque(maxlen=3)
        self._views: list[TableName] = []
        self._rows: dict[TableName, Any] = {}
        self._pointers: dict[TableName, str] = {}
        self._files: dict[str, tuple[int, int, int]] = {}

    def close(self) -> None:
        self._http.close()

    def step(self) -> None:
        """One right thing to do, and a look at all that is its own. Raises Broken."""
        self.check_unchanged()
        steps = [self._namespace]
        if len(self.tables) < TABLES_MAX:
            steps += [self._create, self._create, self._stage, self._stage, self._make_foreign]
        if len(self._views) < VIEWS_MAX:
            steps.append(self._make_view)
        if self.tables:
            steps += [self._append, self._append, self._append, self._set_location, self._set_statistics]
            steps += [self._set_properties, self._rename, self._purge, self._purge, self._drop_and_create]
            steps += [self._load, self._report, self._expire, self._remove_orphans, self._refused, self._replace]
        if self._views:
            steps += [self._commit_view, self._rename_view, self._drop_view]
        step = self._random.choice(steps)
        self.last = step.__name__.strip("_")
        self.did[self.last] = self.did.get(self.last, 0) + 1
        before = {table.name for table in self.tables}
        step()
        for name in before | {table.name for table in self.tables}:
            require(self.world.quiet(name), f"a commit to {name} does not end")
        self._learn()

    # What is its own

    def _folders(self) -> Iterator[Path]:
        for namespace in ("b", "default"):
            yield from self.world.folder(namespace).glob(f"{self._prefix}*")

    def _now_files(self) -> dict[str, tuple[int, int, int]]:
        found = (path for folder in self._folders() for path in folder.rglob("*") if not path.is_dir())
        return {
            str(path): (seen.st_size, seen.st_mtime_ns, seen.st_ino)
            for path, seen in ((each, each.lstat()) for each in found)
        }

    def _now_rows(self) -> dict[TableName, Any]:
        return {
            TableName(namespace, name): row
            for namespace in ("b", "default")
            for name, row in self.world.metastore.rows(namespace, lambda name: name.startswith(self._prefix)).items()
        }

    def check_unchanged(self) -> None:
        """Raises Broken if a file of its own is not as its last request left it."""
        files = self._now_files()
        require(files == self._files, f"files changed after {self.last}: {_changed(self._files, files)}")

    def _learn(self) -> None:
        """Look at what a step left, after what must hold of it."""
        rows, files = self._now_rows(), self._now_files()
        names = {*(table.name for table in self.tables), *self._views}
        require(rows.keys() == names, f"other rows than it made: {sorted(map(str, rows.keys() ^ names))}")
        pointers = {table.name: table.metadata_location for table in self.tables}
        kept = {name for name, pointer in pointers.items() if self._pointers.get(name) == pointer}
        kept |= set() if "view" in self.last else {*self._views}
        changed_rows = {name for name in kept & self._rows.keys() if rows[name] != self._rows[name]}
        require(not changed_rows, f"{self.last} changed rows: {_changed(self._rows, rows)}")
        for table in self.tables:
            said = rows[table.name].parameters["metadata_location"]
            require(file_key(said) == file_key(table.metadata_location), f"{table.name} points to {said}")
            for path in (table.metadata_location, *table.files):
                require(local_path(path).exists(), f"a file of {table.name} is gone: {path}")
        gone = [path for path in self._files if path not in files]
        more = [path for path in gone if not path.endswith(".metadata.json")]
        require(not more or self.last in DELETING, f"{self.last} deleted files: {more}")
        changed = [path for path in self._files if path in files and files[path] != self._files[path]]
        require(not changed, f"{self.last} changed files: {changed}")
        self._rows, self._files, self._pointers = rows, files, pointers

    # Requests

    def ask(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        """Send until the server has not put it off, and check the answer's status. Raises Broken."""
        for _ in range(TRIES):
            self.requests += 1
            started = SYSTEM_CLOCK.monotonic()
            answer = self._http.request(method, path, content=None if body is None else orjson.dumps(body))
            self._longest = max(self._longest, SYSTEM_CLOCK.monotonic() - started)
            if answer.status_code not in DEFERRED:
                break
            require("retry-after" in answer.headers, f"{answer.status_code} without Retry-After: {answer.text}")
            self.deferred += 1
            threading.Event().wait(PAUSE_SECONDS)
        told = (
            f"{self.last}: {method} {path} {orjson.dumps(body)[:2_000]!r} got {answer.status_code} {answer.text[:800]}"
        )
        require(answer.status_code == expect, told)
        return answer.json() if answer.content else None

    def _name(self, kind: str = "t") -> TableName:
        self._count += 1
        return TableName(self._random.choice(NAMESPACES), f"{self._prefix}{kind}{self._count}")

    def _any(self) -> Owned:
        return self._random.choice(self.tables)

    def _commit(self, table: Owned, *updates: Mapping[str, Any]) -> None:
        body = {"requirements": list(for_update_table(table.metadata, updates)), "updates": list(updates)}
        self._took(table, self.ask("POST", table.path, body))

    def _took(self, table: Owned, answer: Mapping[str, Any]) -> None:
        table.metadata_location = answer["metadata-location"]
        table.metadata = TableMetadata.parse(orjson.dumps(answer["metadata"]))

    def _made(self, name: TableName, answer: Mapping[str, Any], *, owned: bool = True) -> Owned:
        metadata = TableMetadata.parse(orjson.dumps(answer["metadata"]))
        table = Owned(name, answer["metadata-location"], metadata, owned)
        self._check_record(table, owned=owned)
        self.tables.append(table)
        return table

    def _check_record(self, table: Owned, *, owned: bool) -> None:
        recorded = self.world.metastore.parameters(table.name).get(OWNED_FOLDER)
        table.is_recorded = recorded is not None and file_key(recorded) == file_key(table.location)
        # Without time the server cannot see who else has the folder: the machine is busy, and the other did no harm.
        had_time, self._longest = self._longest < SEARCH_SECONDS, 0.0
        told = f"{table.name} has the folder {table.location}, its row says {recorded}"
        require(table.is_recorded == owned or not (table.is_recorded or had_time), told)

    # Steps

    def _create(self) -> None:
        name = self._name()
        body: dict[str, Any] = {"name": name.name, "schema": SCHEMA, "properties": {}}
        folder = f"file:{self.world.folder(name.namespace)}/{name.name}"
        if place := self._random.choice(("", "", "n", "n/deep/er")):
            body["location"] = f"{folder}{place}"
        body["properties"] = self._random.choice(
            ({}, TIDY, {"write.data.path": f"{body.get('location', folder)}/rows"})
        )
        self._made(name, self.ask("POST", f"/v1/namespaces/{name.namespace}/tables", body))

    def _stage(self) -> None:
        """Stage a table, write its first snapshot, and create it with that: CREATE TABLE AS SELECT."""
        name = self._name("s")
        body = {"name": name.name, "schema": SCHEMA, "stage-create": True}
        answer = self.ask("POST", f"/v1/namespaces/{name.namespace}/tables", body)
        staged = TableMetadata.parse(orjson.dumps(answer["metadata"]))
        self.staged.append(str(staged.uuid))
        path, updates = self._snapshot(staged)
        creation = {"requirements": [{"type": "assert-create"}], "updates": [*create_updates(staged), *updates]}
        tables = f"/v1/namespaces/{name.namespace}/tables/{name.name}"
        self._made(name, self.ask("POST", tables, creation)).files.append(path)

    def _snapshot(self, metadata: TableMetadata) -> tuple[str, list[dict[str, Any]]]:
        """A new data file, and the updates of the append that a stock client makes of it."""
        self._count += 1
        file = self.world.data_file(metadata.location, f"{self._count}")
        return file.file_path, append_updates(self.world, metadata, [file])

    def _append(self) -> None:
        table = self._any()
        path, updates = self._snapshot(table.metadata)
        self._commit(table, *updates)
        table.files.append(path)

    def _set_properties(self) -> None:
        table, key = self._any(), f"k{self._random.randrange(3)}"
        if key in table.metadata.properties and self._random.random() < 0.5:
            self._commit(table, {"action": "remove-properties", "removals": [key]})
        else:
            self._commit(table, {"action": "set-properties", "updates": {key: f"{self._count}"}})

    def _set_location(self) -> None:
        """To an empty folder."""
        table = self._any()
        self._count += 1
        folder = f"file:{self.world.folder(table.name.namespace)}/{self._prefix}m{self._count}"
        before = table.location
        if "write.data.path" in table.metadata.properties:
            self._commit(table, {"action": "remove-properties", "removals": ["write.data.path"]})
        self._longest = 0.0
        self._commit(table, {"action": "set-location", "location": folder})
        table.left.append(before)
        self._check_record(table, owned=True)

    def _set_statistics(self) -> None:
        table = self._any()
        snapshot = table.metadata.current_snapshot
        if snapshot is None:
            return self._append()
        self._count += 1
        path = f"{table.location}/metadata/{self._count}.stats"
        local_path(path).parent.mkdir(parents=True, exist_ok=True)
        local_path(path).write_bytes(b"statistics")
        file = {"snapshot-id": snapshot.snapshot_id, "statistics-path": path, "file-size-in-bytes": 10}
        if self._random.random() < 0.5:
            kind = "partition-statistics"
            update: dict[str, Any] = {"action": f"set-{kind}", kind: file}
        else:
            kind = "statistics"
            file = {**file, "file-footer-size-in-bytes": 5, "blob-metadata": []}
            update = {"action": f"set-{kind}", "snapshot-id": snapshot.snapshot_id, kind: file}
        named = table.metadata.raw.get(kind, [])
        self._commit(table, update)
        table.files.append(path)
        for each in (each for each in named if each["snapshot-id"] == snapshot.snapshot_id):
            # Nothing names what these replace.
            replaced = each["statistics-path"]
            local_path(replaced).unlink()
            table.files = [other for other in table.files if file_key(other) != file_key(replaced)]
        return None

    def _rename(self) -> None:
        table, to = self._any(), self._name("r")
        self._rename_to("tables", table.name, to)
        self.ask("GET", table.path, expect=404)
        table.name = to
        self._load(table)

    def _rename_to(self, kind: str, name: TableName, to: TableName) -> None:
        source, destination = ({"namespace": [each.namespace], "name": each.name} for each in (name, to))
        self.ask("POST", f"/v1/{kind}/rename", {"source": source, "destination": destination}, expect=204)

    def _purge(self) -> None:
        """Its folder has no file afterwards; one from which it was moved keeps what it had."""
        table = self._any()
        self.ask("DELETE", f"{table.path}?purgeRequested=true", expect=204)
        self._purged(table)
        self.ask("HEAD", table.path, expect=404)
        # Though another table may have its UUID by now.
        same = {"type": "assert-table-uuid", "uuid": table.metadata.uuid}
        update = {"action": "set-properties", "updates": {"a": "b"}}
        self.ask("POST", table.path, {"requirements": [same], "updates": [update]}, expect=404)

    def _purged(self, table: Owned) -> None:
        self.tables.remove(table)
        require(self.world.quiet(table.name), f"a commit to {table.name} does not end")
        ended = self.world.purged(table.metadata_location)
        require(ended is not None, f"the purge of {table.name} does not end")
        folder = local_path(table.location)
        left = [str(path) for path in folder.rglob("*") if not path.is_dir()]
        require(not self._owns_folder(table) or not left, f"the purge of {table.name} kept {left}: {ended}")
        gone = [path for path in self._files if _is_below(path, table.left) and not Path(path).exists()]
        require(not gone, f"the purge of {table.name} deleted what lies in other folders: {gone}")
        self._clear(table)

    def _owns_folder(self, table: Owned) -> bool:
        """By its record or by its place."""
        return table.is_recorded or local_path(table.location).parent == self.world.folder(table.name.namespace)

    def _clear(self, table: Owned) -> None:
        """Delete what the server keeps of a table that is gone."""
        for folder in (table.location, *table.left):
            shutil.rmtree(local_path(folder), ignore_errors=True)

    def _drop_and_create(self) -> None:
        """A name that was dropped without its files gets another folder, which is the new table's own."""
        table = self._any()
        self.ask("DELETE", table.path, expect=204)
        self.tables.remove(table)
        new = self._create_again(table.name)
        require(file_key(new.location) != file_key(table.location), f"{new.name} got a folder with files")
        self._clear(table)

    def _create_again(self, name: TableName) -> Owned:
        body = {"name": name.name, "schema": SCHEMA}
        return self._made(name, self.ask("POST", f"/v1/namespaces/{name.namespace}/tables", body))

    def _replace(self) -> None:
        """Purge a table and make another of its name, which gets the folder of the name."""
        table = self._any()
        self.ask("DELETE", f"{table.path}?purgeRequested=true", expect=204)
        self._purged(table)
        folder = f"file:{self.world.folder(table.name.namespace)}/{table.name.name}"
        new = self._create_again(table.name)
        require(file_key(new.location) == file_key(folder), f"{new.name} lies in {new.location}")

    def _make_foreign(self) -> None:
        """A table as another writer makes it; the rest is asked of the server."""
        name = self._name("f")
        self.world.fill_table(name)
        self.world.metastore.forget_owner(name)
        answer = self.ask("GET", f"/v1/namespaces/{name.namespace}/tables/{name.name}")
        table = self._made(name, answer, owned=False)
        table.files += [f"{table.location}/data/{number}.parquet" for number in range(2)]

    def _load(self, table: Owned | None = None) -> None:
        table = table or self._any()
        answer = self.ask("GET", table.path)
        require(answer["metadata-location"] == table.metadata_location, f"{table.name} is not as it was left")
        require(answer["metadata"] == orjson.loads(table.metadata.to_bytes()), f"{table.name} says something else")

    def _report(self) -> None:
        fields = {"schema-id": 0, "projected-field-ids": [1], "projected-field-names": ["level"]}
        self.ask("POST", f"{self._any().path}/metrics", {**SCAN_REPORT, **fields}, expect=204)

    def _refused(self) -> None:
        """What its own state refuses: a name that is taken, a table that is not there."""
        table = self._any()
        body = {"name": table.name.name, "schema": SCHEMA}
        self.ask("POST", table.path.rpartition("/")[0], body, expect=409)
        self.ask("HEAD", f"{table.path}_no", expect=404)
        wrong = {"type": "assert-table-uuid", "uuid": SYSTEM_CLOCK.uuid()}
        self.ask("POST", table.path, {"requirements": [wrong], "updates": []}, expect=409)

    def _namespace(self) -> None:
        key = f"{self._prefix}key"
        self.ask("POST", "/v1/namespaces/a/properties", {"updates": {key: "1"}}, expect=403)
        properties = self.ask("GET", "/v1/namespaces/b")["properties"]
        require(key not in properties, "a property of a refused request")
        for kind, mine in (("tables", [each.name for each in self.tables]), ("views", self._views)):
            found = self.ask("GET", f"/v1/namespaces/b/{kind}")["identifiers"]
            listed = {each["name"] for each in found if each["name"].startswith(self._prefix)}
            require(
                listed == {each.name for each in mine if each.namespace == "b"}, f"other {kind} are listed: {listed}"
            )

    def _expire(self) -> None:
        """An operator expires its snapshots but the last."""
        table = self._any()
        found = self._as_operator(table, "expire_snapshots", older_than=SYSTEM_CLOCK.now_ms() + 1, retain_last=1)
        require(not found.files.stopped, f"the expiration of {table.name} stopped: {found.files.stopped}")
        owned = self._owns_folder(table) and not table.left
        require(not owned or not found.files.kept, f"the expiration of {table.name} kept {found.files.kept}")
        self._took(table, self.ask("GET", table.path))
        statistics = [*table.metadata.raw.get("statistics", []), *table.metadata.raw.get("partition-statistics", [])]
        named = {file_key(each["statistics-path"]) for each in statistics}
        table.files = [each for each in table.files if each.endswith(".parquet") or file_key(each) in named]

    def _remove_orphans(self) -> None:
        """An operator removes the orphans of a table: one that was put there for that, if nothing else lies there."""
        table = self._any()
        orphan = local_path(f"{table.location}/data/orphan.parquet")
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(b"nobody's")
        found = self._as_operator(table, "remove_orphan_files", older_than=SYSTEM_CLOCK.now_ms() + 60_000, force=True)
        require(not orphan.exists(), f"an orphan of {table.name} is still there: {found}")

    def _as_operator(self, table: Owned, method: str, **arguments: Any) -> Any:
        for _ in range(TRIES):
            try:
                return getattr(self.world.operator.load_table(table.name), method)(**arguments)
            except MetastoreUnavailable:
                self.deferred += 1
        raise AssertionError(f"the metastore has no time for {method} of {table.name}")

    # Views

    def _make_view(self) -> None:
        name = self._name("v")
        version = {**view_version(1), "timestamp-ms": SYSTEM_CLOCK.now_ms()}
        body = {"name": name.name, "schema": SCHEMA, "view-version": version, "properties": {}}
        self.ask("POST", f"/v1/namespaces/{name.namespace}/views", body)
        self._views.append(name)

    def _commit_view(self) -> None:
        name = self._random.choice(self._views)
        path = f"/v1/namespaces/{name.namespace}/views/{name.name}"
        uuid = self.ask("GET", path)["metadata"]["view-uuid"]
        update = {"action": "set-properties", "updates": {"k": f"{self._count}"}}
        body = {"requirements": [{"type": "assert-view-uuid", "uuid": uuid}], "updates": [update]}
        self.ask("POST", path, body)

    def _rename_view(self) -> None:
        name, to = self._random.choice(self._views), self._name("v")
        self._rename_to("views", name, to)
        self._views[self._views.index(name)] = to

    def _drop_view(self) -> None:
        name = self._random.choice(self._views)
        self.ask("DELETE", f"/v1/namespaces/{name.namespace}/views/{name.name}", expect=204)
        self._views.remove(name)


def append_updates(world: Neighbours, metadata: TableMetadata, files: Sequence[Any]) -> list[dict[str, Any]]:
    """The updates of an append that a client makes, whose manifests and list are written into the table's folder."""
    manifests = world.catalog.services.ports.manifests()
    snapshot_id = SYSTEM_CLOCK.snapshot_id()
    change = Append(
        NewSnapshot(snapshot_id=snapshot_id, table_uuid=metadata.uuid, now_ms=SYSTEM_CLOCK.now_ms),
        NewDataFiles(
            files,
            snapshot_id=snapshot_id,
            schema_id=metadata.current_schema_id,
            specs={metadata.default_spec_id: None},
        ),
        check_duplicates=False,
    )
    updates = [dict(update) for update in change.stage(metadata, manifests).updates]
    manifests.flush()
    return updates


def _changed(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> str:
    keys = [key for key in {*before, *now} if before.get(key) != now.get(key)]
    return "; ".join(f"{key}: {before.get(key)} became {now.get(key)}" for key in keys)[:3_000]


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{local_path(folder)}/") for folder in folders)
