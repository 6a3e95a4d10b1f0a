"""A caller who may write in `a`, and tries by every field of every request to reach what is in the other namespaces.

It knows where everything lies, and has files of its own in its folder: metadata files, manifest lists and manifests
that name the others'.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import HIVE_TABLE, OWNED_FOLDER
from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.rest.configuration import CONFIG, ENDPOINTS
from simulation.actors.requests import for_update_table
from tests.rest.fakes import SCHEMA, creation_of
from tests.security import shapes
from tests.security.fuzz import UNKNOWN, over_socket, replaced, require
from tests.security.honest_caller import HonestCaller, append_updates
from tests.security.neighbours import MOVED, Neighbours, local_path
from tests.security.shapes import Attack, Mutation, encode, mutated, view_version

#: Its tables and views. It makes those that are not there.
TABLES = ("t0", "t1", "t2", "t3", "t4", MOVED)
VIEWS = ("v0", "v1")
STANDING_TABLES = ("b.still", "b.foreign", "c.still", "c.foreign", "default.still", "default.foreign")
#: Spellings of the other namespaces in a path.
NAMESPACES = (
    "b",
    "b",
    "B",
    "%62",
    "b%20",
    "%20b",
    "b%00",
    "b.",
    "a%1Fb",
    "b%1Fa",
    "@hive%23b",
    "a/../b",
    "a%2F..%2Fb",
    "c",
    "default",
)
#: How long the server may take to answer on a busy machine.
ANSWER_SECONDS = 300.0
#: How many requests are remembered, to show what came before a defect.
REMEMBERED = 30


class HostileCaller:
    """One thread of A. Its requests are the same for the same seed, but for what it reads of the world. victims: whose
    tables it knows."""

    def __init__(self, world: Neighbours, number: int, seed: int, victims: Sequence[HonestCaller]) -> None:
        self._world = world
        self._victims = victims
        self._standing = [world.operator.load_table(each) for each in STANDING_TABLES]
        self._number = number
        self._count = 0
        self._random = random.Random(f"{seed} hostile {number}")
        self.statuses: Counter[str] = Counter()
        #: Kind of request -> how often it succeeded.
        self.did: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=REMEMBERED)

    def step(self) -> None:
        """Send one request. Raises Broken for a status that no request may get."""
        attack = self._attack()
        body = b"" if attack.body is None else encode(mutated(attack.body, attack.mutations))
        reads = self._random.random() < (0.9 if "/register" in attack.path else 0.3)
        who = "A-who-reads" if reads else "A"
        headers = (*attack.headers, (b"authorization", f"Bearer {self._world.tokens[who]}".encode()))
        sent = Attack(attack.method, attack.path, attack.query, headers)
        self.last.append(f"{attack.method} {attack.path}?{attack.query} {body[:600]!r}")
        response = over_socket(self._world.server.port, sent, body, ANSWER_SECONDS)
        status = 0 if response is None else response.status
        self.last[-1] += f" -> {status}"
        unknown = status in UNKNOWN and response is not None and b"CommitStateUnknownException" in response.body
        allowed = status < 500 or status == 503 or (unknown and attack.method == "POST")
        require(allowed, f"status {status}: {self.last[-1]} {b'' if response is None else response.body[:600]!r}")
        self.statuses["unknown" if unknown else str(status)] += 1
        if 200 <= status < 300:
            self.did[self.last_kind] += 1

    def _attack(self) -> Attack:
        kinds: list[tuple[int, Callable[[], Attack]]] = [
            (4, self._create),
            (3, self._create_staged),
            (10, self._commit),
            (5, self._append),
            (3, self._registration),
            (2, self._rename),
            (3, self._drop),
            (3, self._view),
            (2, self._namespace),
            (1, self._transaction),
            (5, self._at_another),
        ]
        kind = self._random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
        self.last_kind = kind.__name__.strip("_")
        made = kind()
        if made.body is not None and self._random.random() < 0.1:
            values = (*shapes.ODD_VALUES, *shapes.ODD_TEXTS, self._location(), self._file())
            mutation = Mutation(
                self._random.randrange(10_000),
                self._pick("replace", "replace", "remove", "wrap", "twice"),
                self._pick(*values),
            )
            return Attack(made.method, made.path, made.query, made.headers, made.body, (mutation,))
        return made

    def _pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    # What it names

    def _victim(self) -> tuple[str, str, TableMetadata]:
        """A table of another: its location, its metadata file, and its metadata."""
        tables = [table for each in self._victims for table in tuple(each.tables)]
        if tables and self._random.random() < 0.6:
            table = self._pick(*tables)
            return table.location, table.metadata_location, table.metadata
        standing = self._pick(*self._standing)
        return standing.metadata.location, standing.metadata_location, standing.metadata

    def _location(self) -> str:
        """A folder, nearly always one in which it may put nothing, in some spelling."""
        world, (theirs, _, _) = self._world, self._victim()
        ours, others = str(world.folder("a")), str(world.folder("b"))
        self._count += 1
        new = f"n{self._number}_{self._count}"
        places = [
            str(local_path(theirs)),
            f"{local_path(theirs)}/{self._pick('metadata', 'data', new)}",
            *(
                others,
                f"{others}/{new}",
                f"{others}/hive",
                f"{others}/hive/{new}",
                f"{others}/deep",
                f"{others}/deep/hive/x",
            ),
            *(f"{others}/{MOVED}", f"{others}/{MOVED}/{new}"),
            *(str(world.folder("c")), f"{world.folder('c')}/{new}", f"{world.folder('c')}/still"),
            *(
                str(world.warehouse),
                f"{world.warehouse}/{new}",
                f"{world.warehouse}/still",
                str(world.warehouse.parent),
            ),
            *(str(world.elsewhere), f"{world.elsewhere}/b", "/", ""),
            *(ours, f"{ours}/link", f"{ours}/link/{new}", f"{ours}/link/still", f"{ours}/up/{new}", f"{ours}/t0/link"),
            *(
                f"{ours}/../b.db/{new}",
                f"{ours}/%2e%2e/b.db/{new}",
                f"{ours}/..%2fb.db",
                f"{ours}/./{new}",
                f"{ours}.x/{new}",
            ),
            *(f"{ours}/{new}", f"{ours}/{new}", f"{ours}/{new}", f"{ours}/t0/{new}"),
        ]
        return self._spelled(self._pick(*places))

    def _spelled(self, path: str) -> str:
        """A path as a location."""
        match self._random.randrange(24):
            case 0:
                path = path.replace("/", "//")
            case 1:
                path = f"{path}/"
            case 2:
                path = path.replace("/a.db", "/A.DB").replace("/b.db", "/B.DB")
            case 3:
                path = f"{path}{self._pick(';x', '?x', '#x', ' ', '%20', '%2F', chr(92), '/..', '/.', chr(0x202E))}"
            case 4:
                path = path.replace("b.db", "%62.db")
            case _:
                pass
        scheme = self._pick(
            *["file:"] * 8,
            "file://",
            "file://",
            "FILE:",
            "File://",
            "file://localhost",
            "",
            "file:///",
            "s3:/",
            "hdfs://",
            "file://b",
        )
        return f"{scheme}{path}"

    def _file(self) -> str:
        """A file of another, or one of its own that names such files."""
        location, metadata_location, metadata = self._victim()
        snapshot = metadata.current_snapshot
        found = [metadata_location, f"{location}/data/0.parquet", f"{location}/metadata/1.stats"]
        found += [f"file:{self._world.folder('b')}/hive/000000_0", f"file:{self._world.folder('a')}/link/hive/000000_0"]
        found += [f"file:{self._world.elsewhere}/b/000000_0", f"{location}/metadata/no.avro"]
        found += [each["metadata-file"] for each in metadata.metadata_log]
        if snapshot is not None and snapshot.manifest_list:
            found += [snapshot.manifest_list] * 2
            with suppress(IcebergHmsError):
                found += [each.manifest_path for each in self._world.catalog.manifests().list(snapshot)]
        chosen = str(self._pick(*found))
        return chosen if self._random.random() < 0.7 else self._spelled(str(local_path(chosen)))

    def _properties(self) -> dict[str, str]:
        choices: list[dict[str, str]] = [
            *({key: self._location()} for key in LOCATION_PROPERTIES),
            {OWNED_FOLDER: self._victim()[0], HIVE_TABLE: self._file()},
            {"iceberg-hms.stage-proof": "0" * 64},
            {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"},
            {
                "location": self._location(),
                "metadata_location": self._file(),
                "previous_metadata_location": self._file(),
            },
            {"EXTERNAL": "FALSE", "external.table.purge": "true", "table_type": "HIVE", "uuid": self._uuid()},
            {"iceberg-hms.lock": "zookeeper", "engine.hive.lock-enabled": "false"},
            {"gc.enabled": "true", "commit.manifest.min-count-to-merge": "1", "commit.manifest-merge.enabled": "true"},
        ]
        found: dict[str, str] = {}
        for _ in range(self._random.choice((0, 1, 1, 2))):
            found |= self._pick(*choices)
        return found

    def _uuid(self) -> str:
        metadata = self._victim()[2]
        staged = [uuid for each in self._victims for uuid in tuple(each.staged)]
        return str(self._pick(metadata.uuid, metadata.uuid, SYSTEM_CLOCK.uuid(), *staged))

    def _words(self, table: str) -> tuple[dict[str, Any], TableMetadata | None]:
        """What the words of `shapes` stand for, for a table of its own; and its metadata, if it is there."""
        try:
            loaded = self._world.catalog.load(("a", table))
        except IcebergHmsError:
            return {}, None
        current = loaded.metadata.current_snapshot
        words = {
            "@uuid": loaded.metadata.uuid,
            "@location": loaded.metadata.location,
            "@metadata": loaded.metadata_location,
            "@snapshot-id": None if current is None else current.snapshot_id,
            "@next-sequence-number": loaded.metadata.next_sequence_number,
            "@now": SYSTEM_CLOCK.now_ms(),
            "@list": self._list(loaded.metadata),
        }
        return words, loaded.metadata

    # Files of its own that name another's

    def _write(self, name: str, data: bytes) -> str:
        path = self._world.folder("a") / "crafted" / "metadata" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"file:{path}"

    def _list(self, metadata: TableMetadata) -> str:
        """A manifest list: one in its own folder that names another's manifests, or another's."""
        snapshot = self._victim()[2].current_snapshot
        if snapshot is None or self._random.random() < 0.3:
            return self._file()
        try:
            named = self._world.catalog.manifests().list(snapshot)
            data, _ = encode_list(2, 7, None, max(metadata.next_sequence_number, 9), None, named)
        except IcebergHmsError:
            return self._file()
        self._count += 1
        return self._write(f"list-{self._number}-{self._count}.avro", data)

    def _metadata_file(self) -> str:
        """A metadata file of its own, which names what is another's."""
        _, metadata = self._words("t0")
        victim = self._victim()[2]
        if metadata is None:
            return self._file()
        self._count += 1
        own = f"file:{self._world.folder('a')}/reg{self._number}_{self._count}"
        location = self._pick(own, own, own, self._location(), victim.location)
        raw = {**metadata.raw, "table-uuid": self._uuid(), "location": location}
        log = [{"metadata-file": self._file(), "timestamp-ms": number} for number in range(3)]
        statistics = {"snapshot-id": 1, "statistics-path": self._file(), "file-size-in-bytes": 1}
        parts: list[dict[str, Any]] = [
            {"metadata-log": log},
            {"statistics": [{**statistics, "file-footer-size-in-bytes": 1, "blob-metadata": []}]},
            {"partition-statistics": [statistics]},
            {
                key: victim.raw.get(key)
                for key in ("snapshots", "refs", "current-snapshot-id", "last-sequence-number", "snapshot-log")
            },
        ]
        for each in self._random.sample(parts, self._random.randrange(1, 4)):
            raw |= each
        tidy = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        raw["properties"] = {**tidy, **self._pick({}, {}, self._properties())}
        name = f"{self._count:05}-{SYSTEM_CLOCK.uuid()}.metadata.json"
        return self._write(name, orjson.dumps({key: value for key, value in raw.items() if value is not None}))

    # Requests

    def _namespace_name(self) -> str:
        return "a" if self._random.random() < 0.9 else str(self._pick(*NAMESPACES))

    def _create(self) -> Attack:
        body: dict[str, Any] = {"name": self._pick(*TABLES), "schema": SCHEMA}
        if self._random.random() < 0.4:
            body["properties"] = self._properties()
        if self._random.random() < 0.5:
            body["location"] = self._location()
        body["stage-create"] = self._random.random() < 0.3
        return Attack("POST", f"/v1/namespaces/{self._namespace_name()}/tables", body=body)

    def _made(self, table: str) -> Attack:
        """A table that it may make, to do harm with later."""
        tidy = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        body = {"name": table, "schema": SCHEMA, "properties": self._pick({}, tidy)}
        return Attack("POST", "/v1/namespaces/a/tables", body=body)

    def _create_staged(self) -> Attack:
        """The commit that creates a table which it staged, or says so."""
        name = self._pick(*TABLES)
        self._count += 1
        location = self._pick(self._location(), f"file:{self._world.folder('a')}/s{self._number}_{self._count}")
        more = [{"action": "set-properties", "updates": self._properties()}]
        words, metadata = self._words("t0")
        if metadata is not None and self._random.random() < 0.5:
            more.append(replaced(self._pick(*shapes.UPDATES), words))
        body = creation_of(location, self._uuid(), *more)
        return Attack("POST", f"/v1/namespaces/{self._namespace_name()}/tables/{name}", body=body)

    def _commit(self) -> Attack:
        table = self._pick(*TABLES)
        words, metadata = self._words(table)
        if metadata is None and self._random.random() < 0.8:
            return self._made(table)
        snapshot_id = self._random.randrange(1, 2**62)
        id_ = self._pick(words.get("@snapshot-id"), self._random.randrange(9), snapshot_id)
        statistics = {"snapshot-id": id_, "statistics-path": self._file(), "file-size-in-bytes": 10}
        snapshot = shapes.snapshot(snapshot_id)
        if words.get("@snapshot-id") is not None:
            snapshot["parent-snapshot-id"] = "@snapshot-id"
        own: list[list[dict[str, Any]]] = [
            [{"action": "set-location", "location": self._location()}],
            [{"action": "set-properties", "updates": self._properties()}],
            [{"action": "set-properties", "updates": self._properties()}],
            [{"action": "assign-uuid", "uuid": self._uuid()}],
            [{"action": "set-partition-statistics", "partition-statistics": statistics}],
            [
                {
                    "action": "set-statistics",
                    "snapshot-id": id_,
                    "statistics": {**statistics, "file-footer-size-in-bytes": 5, "blob-metadata": []},
                }
            ],
            [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
            ],
            [{"action": "remove-properties", "removals": list(LOCATION_PROPERTIES)}],
            [self._pick(*shapes.UPDATES)],
        ]
        updates = [update for _ in range(self._pick(1, 1, 1, 2, 3)) for update in self._pick(*own)]
        requirements = (
            [{"type": "assert-table-uuid", "uuid": "@uuid"}]
            if metadata is not None and self._random.random() < 0.7
            else []
        )
        body = replaced({"requirements": requirements, "updates": updates}, words)
        return Attack("POST", f"/v1/namespaces/a/tables/{table}", body=body)

    def _append(self) -> Attack:
        """An append as a stock client makes it, of another's files."""
        table = self._pick(*TABLES)
        _, metadata = self._words(table)
        if metadata is None:
            return self._made(table)
        path = f"{self._world.folder('a')}/{table}"
        if not metadata.location.startswith(f"file:{path}"):
            # Its rights in the store end at its folder.
            return self._commit()
        files = [DataFile(self._file(), "PARQUET", 1, 5) for _ in range(2)]
        try:
            updates = append_updates(self._world, metadata, files)
        except IcebergHmsError:
            return self._commit()
        body = {"requirements": list(for_update_table(metadata, updates)), "updates": updates}
        return Attack("POST", f"/v1/namespaces/a/tables/{table}", body=body)

    def _registration(self) -> Attack:
        kind = self._pick("register", "register", "register-view")
        file = self._pick(self._metadata_file(), self._metadata_file(), self._file())
        names = VIEWS if kind == "register-view" else TABLES
        body = {"name": self._pick(*names), "metadata-location": file, "overwrite": self._random.random() < 0.5}
        return Attack("POST", f"/v1/namespaces/{self._namespace_name()}/{kind}", body=body)

    def _rename(self) -> Attack:
        names = [{"namespace": [namespace], "name": name} for namespace, name in (self._named(), self._named())]
        path = self._pick("/v1/tables/rename", "/v1/tables/rename", "/v1/views/rename")
        return Attack("POST", path, body={"source": names[0], "destination": names[1]})

    def _named(self) -> tuple[str, str]:
        """A table or view, half of them its own."""
        victims = [table.name for each in self._victims for table in tuple(each.tables)]
        if self._random.random() < 0.6:
            return "a", self._pick(*TABLES, *VIEWS)
        found = [(each.namespace, each.name) for each in victims]
        others = (("b", "still"), ("b", "new"), ("c", "view"), ("B", "still"), ("b", "hive"), ("default", "x"))
        named: tuple[str, str] = self._pick(*found, *others)
        return named

    def _drop(self) -> Attack:
        query = self._pick("purgeRequested=true", "purgeRequested=true", "")
        return Attack("DELETE", f"/v1/namespaces/a/tables/{self._pick(*TABLES)}", query)

    def _view(self) -> Attack:
        name = self._pick(*VIEWS)
        if self._random.random() < 0.5:
            version = {**view_version(1), "timestamp-ms": SYSTEM_CLOCK.now_ms()}
            body: dict[str, Any] = {
                "name": name,
                "schema": SCHEMA,
                "view-version": version,
                "properties": self._properties(),
            }
            if self._random.random() < 0.6:
                body["location"] = self._location()
            return Attack("POST", f"/v1/namespaces/{self._namespace_name()}/views", body=body)
        updates = [
            self._pick(
                {"action": "set-location", "location": self._location()},
                {"action": "set-properties", "updates": self._properties()},
                {"action": "assign-uuid", "uuid": self._uuid()},
                self._pick(*shapes.VIEW_UPDATES),
            )
        ]
        body = replaced({"requirements": [], "updates": updates}, {"@now": SYSTEM_CLOCK.now_ms()})
        return self._pick(  # type: ignore[no-any-return]
            *[Attack("POST", f"/v1/namespaces/a/views/{name}", body=body)] * 3,
            Attack("DELETE", f"/v1/namespaces/a/views/{name}"),
        )

    def _namespace(self) -> Attack:
        properties = {"location": self._location(), "k": "v"}
        body: Mapping[str, Any] = {"namespace": [self._pick("b", "a", "b1", "B")], "properties": properties}
        return self._pick(  # type: ignore[no-any-return]
            Attack("POST", "/v1/namespaces", body=body),
            Attack("POST", "/v1/namespaces/a/properties", body={"updates": properties}),
            Attack("POST", "/v1/namespaces/a/properties", body={"updates": {"k": "v"}, "removals": ["location"]}),
            Attack("POST", f"/v1/namespaces/{self._pick(*NAMESPACES)}/properties", body={"updates": properties}),
            Attack("DELETE", f"/v1/namespaces/{self._pick('a', *NAMESPACES)}"),
            Attack("GET", "/v1/namespaces", self._pick("", "parent=b", "pageSize=1")),
        )

    def _transaction(self) -> Attack:
        changes = [
            {
                "identifier": {"namespace": [namespace], "name": name},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": self._properties()}],
            }
            for namespace, name in (self._named(), self._named())
        ]
        return Attack("POST", "/v1/transactions/commit", body={"table-changes": changes})

    def _at_another(self) -> Attack:
        """Any request at another's namespace."""
        endpoint = self._pick(CONFIG, *ENDPOINTS)
        table = self._pick(self._named()[1], "still", "foreign", "view", "hive", *shapes.SEGMENTS)
        path = endpoint.template.replace("{namespace}", self._pick(*NAMESPACES))
        path = path.replace("{table}", table).replace("{view}", self._pick(table, "view"))
        body = None
        if endpoint.method == "POST":
            made = self._pick(self._create, self._commit, self._view, self._registration, self._rename)()
            body = made.body
        query = self._pick("", "", "purgeRequested=true", *shapes.QUERIES)
        return Attack(endpoint.method, path, query, body=body)
