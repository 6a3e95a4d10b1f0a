"""Requests of `shapes`, sent to the application over a catalog in memory and to a server over sockets; after each one
the world must be in order (`World.check`).

    make fuzz REQUESTS=100000 SEED=7

Runs batches of examples, each with a seed of its own, and each example on a new world. A failure ends the run; it
prints the shortest example that hypothesis finds, and the seed of its batch, with which it comes again.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus, unquote_to_bytes

import orjson
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.manifests.manifest_list import encode_list
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.format.views import view_file
from iceberg_hms.metastore.tables.parameters import VIRTUAL_VIEW
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from simulation.actors.requests import for_update_table
from tests.polling import eventually
from tests.rest.fakes import SCHEMA
from tests.security.shapes import Attack, attacks, encode, mutated, view_version

#: What no response may hold: it is in files that are no table's metadata.
SECRET = "s3cr3t-of-another-file"
#: What shows that an exception's text or a path of this machine went out.
TRACES = re.compile(rf"Traceback|File \"|site-packages|\.py\b|{re.escape(str(Path.cwd()))}|{SECRET}")
#: Statuses of a commit whose outcome is unknown, which only a fault of the metastore permits.
UNKNOWN = frozenset((500, 502, 504))
EXAMPLE_REQUESTS = 12
BATCH_EXAMPLES = 250
#: One example in so many goes over sockets.
SOCKETS_ONE_IN = 20
#: How long the server may take to answer what is a whole request, in seconds.
ANSWER_SECONDS = 20.0
#: How often a table is asked to take a commit: a machine with much to do may need longer than the server gives it.
COMMIT_TRIES = 3

_COMMIT = re.compile(r"/v1/namespaces/([^/]+)/tables/([^/]+)")
_TABLE = re.compile(r"/tables/(old|new|events)", re.IGNORECASE)
_VIEW = TableName("logging", "view")


class Broken(AssertionError):
    """A request left the world as it must not be."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


@dataclass(frozen=True)
class State:
    """All that a refused request must leave alone."""

    rows: Mapping[TableName, Any]
    files: Mapping[str, bytes]
    namespaces: Mapping[str, Mapping[str, str]]


Send = Callable[["World", Attack, bytes], Response | None]
IMPATIENT = RestSettings(rest_commit_wait_ms=3_000)


class World:
    """A catalog with some tables, and files that are none. Use it once."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.pointer = MemoryTablePointer(namespaces=())
        # What a fault leaves in doubt is looked at for ten minutes by default, by a thread each.
        self.catalog = memory_catalog(files=self.files, pointer=self.pointer, unanswered_swap_timeout_ms=3_000)
        self._app: Any = create_app(self.catalog, settings=IMPATIENT)
        self._loop = asyncio.Runner()
        self._in_doubt = False
        self._fill()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run(self._end_app())
        self._loop.close()
        self.catalog.close()

    async def _end_app(self) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "lifespan"}

        async def send(_message: Any) -> None: ...

        await self._app({"type": "lifespan"}, receive, send)

    def ask(self, attack: Attack, body: bytes) -> Response:
        """Send to the application."""
        return self._loop.run(_ask(self._app, attack, body))

    def _fill(self) -> None:
        for namespace in ("logging", "empty"):
            self.catalog.create_namespace(namespace)
        for name, version in (("events", 2), ("old", 1), ("new", 3)):
            table = self.catalog.create_table(("logging", name), SCHEMA, properties={"format-version": str(version)})
            table.append([DataFile(f"file:/data/{name}.parquet", "PARQUET", 10, 100)])
        of_view = {**view_version(1), "timestamp-ms": 1_000}
        self.catalog.views.create(("logging", "view"), SCHEMA, of_view, properties={"a": "1"})
        self.pointer.add_hive_table(TableName("logging", "hive"))
        metadata = self.catalog.load(("logging", "events")).metadata
        copy = {
            **metadata.raw,
            "table-uuid": "00000000-0000-4000-8000-000000000001",
            "location": "file:/warehouse/copy",
        }
        for location, content in (
            ("file:/warehouse/copy/metadata/00000-copy.metadata.json", orjson.dumps(copy)),
            ("file:/warehouse/canary.txt", SECRET.encode()),
            ("file:/warehouse/canary.json", orjson.dumps({"format-version": SECRET, SECRET: SECRET})),
            (
                "file:/warehouse/canary-fields.json",
                orjson.dumps({**copy, "last-column-id": SECRET, "snapshots": SECRET}),
            ),
            (f"{metadata.location}/metadata/empty-list.avro", encode_list(2, 7, None, 2, None, [])[0]),
            (f"{metadata.location}/metadata/garbage-list.avro", b"Obj\x01" + SECRET.encode()),
        ):
            self.files.write(location, content)

    def words(self, table: str) -> dict[str, Any]:
        """What the words of a body stand for when it is about a table."""
        if TableName("logging", table) not in self.pointer.rows:
            table = "events"
        if TableName("logging", table) not in self.pointer.rows:
            return {}
        loaded = self.catalog.load(("logging", table))
        metadata = loaded.metadata
        current = metadata.current_snapshot
        return {
            "@uuid": metadata.uuid,
            "@location": metadata.location,
            "@metadata": loaded.metadata_location,
            "@copy": "file:/warehouse/copy/metadata/00000-copy.metadata.json",
            "@snapshot-id": None if current is None else current.snapshot_id,
            "@next-sequence-number": metadata.next_sequence_number,
            "@now": SYSTEM_CLOCK.now_ms(),
            "@list": f"{metadata.location}/metadata/empty-list.avro",
            "@garbage-list": f"{metadata.location}/metadata/garbage-list.avro",
        }

    def view_words(self) -> dict[str, Any]:
        """The same for a body that is about the view."""
        if not _is_view(self.pointer.rows.get(_VIEW)):
            return {}
        loaded = self.catalog.views.load(_VIEW)
        return {
            "@uuid": loaded.metadata.uuid,
            "@location": loaded.metadata.location,
            "@metadata": loaded.metadata_location,
            "@now": SYSTEM_CLOCK.now_ms(),
        }

    def body(self, attack: Attack) -> bytes:
        """The bytes that a client sends."""
        if attack.garbage is not None:
            return attack.garbage
        if attack.body is None:
            return b""
        found = _TABLE.search(attack.path)
        table = found[1].lower() if found else "events"
        words = self.words(table) | (self.view_words() if "view" in attack.path else {})
        written = encode(mutated(replaced(self._whole(attack.body, table), words), attack.mutations))
        return written[: len(written) * attack.cut // 1_000]

    def _whole(self, body: Any, table: str) -> Any:
        """A body of a client that has read the table: an append as a stock client makes it, or a creation."""
        if body == "@creation":
            # By a name that no request creates: a taken one cannot be staged.
            staged = self.catalog.stage_table(("logging", "staged"), SCHEMA).metadata
            return {"requirements": [{"type": "assert-create"}], "updates": create_updates(staged)}
        if not isinstance(body, str) or TableName("logging", table) not in self.pointer.rows:
            return body
        metadata = self.catalog.load(("logging", table)).metadata
        manifests = self.catalog.services.ports.manifests()
        snapshot_id = SYSTEM_CLOCK.snapshot_id()
        change = Append(
            NewSnapshot(snapshot_id=snapshot_id, table_uuid=metadata.uuid, now_ms=SYSTEM_CLOCK.now_ms),
            NewDataFiles(
                [DataFile(f"file:/data/{SYSTEM_CLOCK.uuid()}.parquet", "PARQUET", 10, 100)],
                snapshot_id=snapshot_id,
                schema_id=metadata.current_schema_id,
                specs={metadata.default_spec_id: None},
            ),
            check_duplicates=False,
        )
        updates = [dict(update) for update in change.stage(metadata, manifests).updates]
        manifests.flush()
        return {"requirements": list(for_update_table(metadata, updates)), "updates": updates}

    def state(self) -> State:
        """A copy, once nothing works any more on what was answered."""
        require(eventually(lambda: not _workers()), "a worker of a table does not end")
        locations = self.files.locations()
        names = self.catalog.list_namespaces()
        return State(
            dict(self.pointer.rows),
            {location: self.files.read(location) for location in locations},
            {name: self.catalog.load_namespace_properties(name) for name in names},
        )

    def try_attack(self, attack: Attack, send: Send) -> int:
        """Send it and check the world; the status, 0 without a response. Raises Broken."""
        body = self.body(attack)
        before = self.state()
        if attack.fault is not None:
            self.pointer.answers.append(attack.fault)
        response = send(self, attack, body)
        self.pointer.answers.clear()
        if response is None:
            self.state()
            return 0
        self._in_doubt |= response.status in UNKNOWN
        self.check(attack, body, response, before)
        return response.status

    def check(self, attack: Attack, body: bytes, response: Response, before: State) -> None:
        """Raises Broken for what must not be."""
        status, after = response.status, self.state()
        allowed = status < 500 or status == 503 or (attack.fault is not None and status in UNKNOWN)
        require(allowed or _unprovable(attack, body, response, before), f"status {status}: {response.body[:400]!r}")
        if status >= 400:
            _check_error(attack, response)
        if 400 <= status < 500:
            require(after.rows == before.rows, "a refused request changed a row")
            require(after.namespaces == before.namespaces, "a refused request changed a namespace")
            changed = {key for key in {*after.files, *before.files} if after.files.get(key) != before.files.get(key)}
            if attack.fault is not None:
                # Nobody deletes a new file that a sent swap named, also if the metastore refused the swap.
                changed &= before.files.keys()
            require(not changed, f"a refused request changed files: {sorted(changed)}")
        for name, row in after.rows.items():
            location = row.parameters.get("metadata_location")
            if location is not None and row != before.rows.get(name):
                require(location in after.files, f"{name} points to a missing file: {location}")
                if _is_view(row):
                    view_file.decode(after.files[location], location, DEFAULT_BOUNDS)
                else:
                    metadata_file.decode(after.files[location], location)
                require(self.get(_path(name, row)) == 200, f"{name} is bricked")
        require(self.get("/health/live") == 200, "the server is not alive")

    def get(self, path: str) -> int:
        """The status of a GET."""
        return self.ask(Attack("GET", path), b"").status

    def usable(self) -> None:
        """Every table and view still takes a commit. Raises Broken. After a change without an outcome nobody may ask:
        the server keeps the table's lock until the metastore cannot make that change any more."""
        if self._in_doubt:
            return
        body = encode({"requirements": [], "updates": [{"action": "set-properties", "updates": {"last": "1"}}]})
        for name, row in self.state().rows.items():
            if "metadata_location" in row.parameters:
                for _ in range(COMMIT_TRIES):
                    response = self.ask(Attack("POST", _path(name, row)), body)
                    if response.status == 200:
                        break
                require(response.status == 200, f"{name} takes no commit: {response.body[:400]!r}")


def _is_view(row: Any) -> bool:
    return row is not None and row.table_type == VIRTUAL_VIEW and "metadata_location" in row.parameters


def _path(name: TableName, row: Any) -> str:
    return f"/v1/namespaces/{name.namespace}/{'views' if _is_view(row) else 'tables'}/{name.name}"


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Broken(message)


def _workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("commit ")]


def _unprovable(attack: Attack, body: bytes, response: Response, before: State) -> bool:
    """Whether this is a commit whose outcome is unknown without a fault: its table is not there, and unless the
    commit says by a UUID which table it means, nobody can prove that no earlier send of it landed before a rename or a
    drop; or the UUID is another table's, and this process is too young to know all that it sent to that one; or the
    server has no such warehouse, and nobody can prove that it never had; or the table has a snapshot that it adds
    already, whose files its client would delete after a refusal."""
    if attack.method == "POST" and b"Warehouse does not exist" in response.body:
        return b'"CommitStateUnknownException"' in response.body
    found = _COMMIT.fullmatch(attack.path)
    if attack.method != "POST" or found is None or b'"CommitStateUnknownException"' not in response.body:
        return False
    row = before.rows.get(TableName(*(unquote_plus(part).lower() for part in found.groups())))
    if row is None or "metadata_location" not in row.parameters or _is_view(row):
        return True
    location = row.parameters["metadata_location"]
    table, commit = metadata_file.decode(before.files[location], location), orjson.loads(body)
    present = {each.snapshot_id for each in table.snapshots}
    added = [each["snapshot"]["snapshot-id"] for each in commit["updates"] if each.get("action") == "add-snapshot"]
    named = {each["uuid"] for each in commit["requirements"] if each.get("type") == "assert-table-uuid"}
    return bool(added) and (not named <= {table.uuid} or not present.isdisjoint(added))


def _check_error(attack: Attack, response: Response) -> None:
    text = response.body.decode()
    require(TRACES.search(text) is None, f"a response shows what it must not: {text[:2_000]}")
    if attack.method == "HEAD":
        return
    error = orjson.loads(text)
    require(error.keys() == {"error"}, f"no ErrorModel: {text[:400]}")
    require(error["error"].keys() == {"message", "type", "code"}, f"no ErrorModel: {text[:400]}")
    require(error["error"]["code"] == response.status, f"another code than the status: {text[:400]}")


def replaced(value: Any, words: Mapping[str, Any]) -> Any:
    """A body with what its words stand for."""
    if isinstance(value, dict):
        return {key: replaced(child, words) for key, child in value.items()}
    if isinstance(value, list):
        return [replaced(child, words) for child in value]
    if isinstance(value, str) and value.startswith("@"):
        name, slash, rest = value.partition("/")
        return words.get(name, value) if not slash else f"{words.get(name, name)}/{rest}"
    return value


async def _ask(app: Any, attack: Attack, body: bytes) -> Response:
    """Call the application as the server calls it."""
    sent: list[Any] = []
    messages = iter(({"type": "http.request", "body": body, "more_body": False},))

    async def receive() -> dict[str, Any]:
        for message in messages:
            return message
        await asyncio.Event().wait()
        raise Broken("never")

    async def send(message: Any) -> None:
        sent.append(message)

    path = attack.path.encode("latin-1")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": attack.method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode(errors="replace"),
        "raw_path": path,
        "query_string": attack.query.encode(),
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), *attack.headers],
        "client": ("127.0.0.2", 50_000),
        "server": ("127.0.0.1", 80),
    }
    await asyncio.wait_for(app(scope, receive, send), ANSWER_SECONDS)
    require(bool(sent), "no response")
    return Response(sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]))


def through_app(world: World, attack: Attack, body: bytes) -> Response:
    return world.ask(attack, body)


@contextmanager
def sockets() -> Iterator[Send]:
    """Sends over sockets to a server over the world's catalog, which starts with the first request."""
    servers: list[RestServer] = []

    def send(world: World, attack: Attack, body: bytes) -> Response | None:
        if not servers:
            servers.append(RestServer(world.catalog, "127.0.0.1", 0, settings=IMPATIENT))
            servers[0].start()
        return over_socket(servers[0].port, attack, body)

    try:
        yield send
    finally:
        for server in servers:
            server.stop()


def over_socket(port: int, attack: Attack, body: bytes, seconds: float = ANSWER_SECONDS) -> Response | None:
    """None if the server closed the connection without a response. seconds: how long it may take to answer."""
    target = attack.path + (f"?{attack.query}" if attack.query else "")
    lines = [f"{attack.method} {target} HTTP/1.1".encode("latin-1"), b"host: 127.0.0.1", b"connection: close"]
    lines += [b"content-type: application/json", b"content-length: %d" % len(body)]
    lines += [name + b": " + value for name, value in attack.headers]
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        received = b""
        try:
            connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionError:
            pass
    if not received:
        return None
    head, _, content = received.partition(b"\r\n\r\n")
    if b"content-encoding" in head.lower():
        # Compressed for a client that asked for it: the same through the application is read.
        content = b'{"error":{"message":"","type":"","code":%d}}' % int(head.split()[1])
    return Response(int(head.split()[1]), content)


def run_batch(batch_seed: int, examples: int, *, one_in: int = SOCKETS_ONE_IN) -> Counter[int]:
    """Run examples of this seed; how often each status came. Raises Broken, after hypothesis printed the example."""
    statuses: Counter[int] = Counter()

    @seed(batch_seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.lists(attacks(), min_size=1, max_size=EXAMPLE_REQUESTS), st.integers(1, one_in))
    def example(sent: list[Attack], number: int) -> None:
        statuses.update(run_example(sent, by_socket=number == one_in))

    example()
    return statuses


def run_example(sent: list[Attack], *, by_socket: bool) -> list[int]:
    """Send these to a new world; each status. Raises Broken."""
    with World() as world:
        if by_socket:
            with sockets() as send:
                found = [world.try_attack(attack, send) for attack in sent]
        else:
            found = [world.try_attack(attack, through_app) for attack in sent]
        world.usable()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1, help="of the first batch")
    given_ = options.parse_args()
    # Each refusal of an attack is logged, as it should be.
    logging.disable(logging.CRITICAL)
    statuses: Counter[int] = Counter()
    started, next_seed = SYSTEM_CLOCK.monotonic(), given_.seed
    threads = threading.active_count()
    while statuses.total() < given_.requests:
        try:
            statuses += run_batch(next_seed, BATCH_EXAMPLES)
        except BaseException:
            print(f"failed; to see it again: make fuzz REQUESTS=1 SEED={next_seed}", file=sys.stderr)
            raise
        left = f"threads are left: {[thread.name for thread in threading.enumerate()]}"
        # A catalog in memory leaves its idle threads to the garbage collector, once its last commit has ended.
        require(eventually(lambda: gc.collect() >= 0 and threading.active_count() <= threads), left)
        print(f"seed {next_seed}: {statuses.total()} requests", flush=True)
        next_seed += 1
    seconds = SYSTEM_CLOCK.monotonic() - started
    print(f"{statuses.total()} requests in {seconds:.0f} s, seeds {given_.seed} to {next_seed - 1}; by status:")
    print(", ".join(f"{status or 'none'}: {count}" for status, count in sorted(statuses.items())))


if __name__ == "__main__":
    main()
