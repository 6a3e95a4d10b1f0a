"""Attackers of a real server: each sends one kind of attack again and again, from an address of its own.

    attacked = asyncio.create_task(besiege(Target(...), attacks))

Each attack waits between its requests: attackers and server share one machine, and the figures must show what the
server does with a request, not how many processors the attackers took from it.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from iceberg_hms.clock import SYSTEM_CLOCK
from tests.rest.fakes import SCHEMA
from tests.security.avro_blocks import LIST, MIB, container, deflate, list_record

#: Where attackers with and without a token come from; honest clients come from 127.0.0.1.
STRANGER, INSIDER = "127.0.0.2", "127.0.0.3"
ANSWER_SECONDS = 60.0
IDLE_CONNECTIONS = 1_500
HALF_CONNECTIONS = 50


@dataclass(frozen=True)
class Target:
    """port: of the server on 127.0.0.1. token: of the insider, who may commit to all tables. namespace: of all tables:
    of `honest`, which is another client's, and of `evil`, the insider's own. ancestor: a snapshot of `evil` that is not
    its current one."""

    port: int
    token: str
    namespace: str
    honest: str
    ancestor: int

    @property
    def tables(self) -> str:
        return f"/v1/namespaces/{self.namespace}/tables"

    @property
    def evil(self) -> str:
        return f"{self.tables}/evil"


class Client:
    """One HTTP/1.1 connection, opened when it is needed. source: the address that it comes from. token: "" for none."""

    def __init__(self, port: int, source: str, token: str = "") -> None:
        self._port, self._source = port, source
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(self._source, 0))
        return self._streams

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body. Raises OSError or EOFError if the connection ends before them, TimeoutError."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._ask(method, path, body)
        except BaseException:
            self.close()
            raise

    async def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        reader, writer = await self.open()
        writer.write(self.head(method, path, len(body)) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        content = await reader.readexactly(length) if method != "HEAD" else b""
        if b"connection: close" in lines:
            self.close()
        return int(head.split(b" ", 2)[1]), content

    def head(self, method: str, path: str, length: int) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
        lines += [f"Content-Length: {length}", *([f"Authorization: Bearer {self._token}"] if self._token else [])]
        return "\r\n".join([*lines, "", ""]).encode()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


Attack = Callable[[Target, Callable[[object], None]], Awaitable[None]]


async def header_floods(target: Target, count: Callable[[object], None]) -> None:
    """Header lines without an end."""
    reader, writer = await Client(target.port, STRANGER).open()
    try:
        writer.write(b"GET /v1/config HTTP/1.1\r\n")
        for _ in range(400):
            writer.write(b"x: " + b"y" * 10_000 + b"\r\n")
            await writer.drain()
        count((await reader.readuntil(b"\r\n")).split()[1].decode())
    finally:
        writer.close()


async def _held(target: Target, count: Callable[[object], None], connections: int, sent: bytes) -> None:
    async def hold() -> None:
        reader, writer = await Client(target.port, STRANGER).open()
        writer.write(sent)
        while await reader.read(65_536):
            pass
        writer.close()
        count("closed")

    await asyncio.gather(*(hold() for _ in range(connections)), return_exceptions=True)


async def idle_connections(target: Target, count: Callable[[object], None]) -> None:
    """Connections that send nothing."""
    await _held(target, count, IDLE_CONNECTIONS, b"")


async def half_sent(target: Target, count: Callable[[object], None]) -> None:
    """Half a header, and no more."""
    await _held(target, count, HALF_CONNECTIONS, b"GET /v1/config HTTP/1.1\r\nHost: x\r\nA: ")


async def slow_bodies(target: Target, count: Callable[[object], None]) -> None:
    """A byte of the body every second."""

    async def drip() -> None:
        client = Client(target.port, INSIDER, target.token)
        reader, writer = await client.open()
        writer.write(client.head("POST", target.evil, MIB))
        answer = asyncio.ensure_future(reader.readuntil(b"\r\n"))
        # An attacker that is cancelled while it drips does not read its answer.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        while not answer.done():
            writer.write(b"[")
            await asyncio.wait([answer], timeout=1)
        writer.close()
        count(answer.result().split()[1].decode())

    await asyncio.gather(*(drip() for _ in range(20)))


def _repeated(*requests: tuple[str, str, bytes], source: str = INSIDER, at_once: int = 1, known: bool = True) -> Any:
    """An attack of these requests, of which each of `at_once` clients sends one after the other."""

    async def attack(target: Target, count: Callable[[object], None]) -> None:
        async def send() -> None:
            client = Client(target.port, source, target.token if known else "")
            words = {"{tables}": target.tables, "{evil}": target.evil, "{honest}": f"{target.tables}/{target.honest}"}
            try:
                for method, path, body in requests:
                    for word, meant in words.items():
                        path = path.replace(word, meant)
                    count((await client.ask(method, path, body))[0])
            finally:
                client.close()

        await asyncio.gather(*(send() for _ in range(at_once)))

    return attack


def _commit(*updates: Any, requirements: Any = ()) -> bytes:
    return orjson.dumps({"requirements": list(requirements), "updates": updates})


def _create(name: str, **others: Any) -> bytes:
    return orjson.dumps({"name": name, "schema": SCHEMA, **others})


def _register(name: str, location: str) -> bytes:
    return orjson.dumps({"name": name, "metadata-location": location})


def _typed(text: str) -> bytes:
    field = {"id": 1, "name": "a", "required": False, "type": text}
    return _create("typed", schema={"type": "struct", "schema-id": 0, "fields": [field]})


def _appends(*manifest_lists: str) -> Attack:
    """Appends on an older snapshot of the branch: to rebase one, the server reads its manifest list."""

    async def attack(target: Target, count: Callable[[object], None]) -> None:
        sent = [("POST", "{evil}", _append(each, target.ancestor)) for each in manifest_lists]
        await _repeated(*sent)(target, count)

    return attack


def _append(manifest_list: str, parent: int) -> bytes:
    snapshot = {
        "snapshot-id": 7,
        "parent-snapshot-id": parent,
        "sequence-number": 2,
        "timestamp-ms": SYSTEM_CLOCK.now_ms(),
        "manifest-list": manifest_list,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}
    stale = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}
    return _commit({"action": "add-snapshot", "snapshot": snapshot}, moved, requirements=[stale])


_COLUMNS = [{"id": number, "name": f"c{number}", "required": False, "type": "int"} for number in range(1, 20)]
_SCHEMAS = [
    {"action": "add-schema", "schema": {"type": "struct", "schema-id": 0, "fields": _COLUMNS[: 1 + number % 19]}}
    for number in range(3_000)
]
_KEY_300 = {"action": "set-properties", "updates": {"k" * 300: "v", "l": "v" * 40_000}}
_NONE = {"type": "assert-current-schema-id", "current-schema-id": 77}
#: Name -> the attack, and how long one attacker rests after it, in seconds.
ATTACKS: Mapping[str, tuple[Attack, float]] = {
    "header floods": (header_floods, 0.2),
    "idle connections": (idle_connections, 1.0),
    "half-sent headers": (half_sent, 1.0),
    "slow bodies": (slow_bodies, 1.0),
    "bodies of [[],[],": (_repeated(("POST", "{evil}", b"[" + b"[]," * (5 * MIB) + b"[]]"), at_once=2), 0.5),
    "the same, no token": (
        _repeated(("POST", "{evil}", b"[" + b"[]," * MIB), source=STRANGER, known=False, at_once=2),
        0.5,
    ),
    "type strings": (
        _repeated(*(("POST", "{tables}", _typed(text * 2_000)) for text in ("decimal(", "1,", " ", "list<", "fixed["))),
        0.2,
    ),
    "3,000 add-schema": (_repeated(("POST", "{evil}", _commit(*_SCHEMAS, requirements=[_NONE]))), 1.0),
    "20,000 removals": (
        _repeated(
            (
                "POST",
                "{evil}",
                _commit(*[{"action": "remove-snapshots", "snapshot-ids": [1, 2]} for _ in range(20_000)]),
            )
        ),
        1.0,
    ),
    "long names": (
        _repeated(
            ("POST", "/v1/namespaces", orjson.dumps({"namespace": ["n" * 300]})),
            ("POST", "/v1/namespaces", orjson.dumps({"namespace": ["n"], "properties": {"k" * 5_000: "v" * 50_000}})),
            ("POST", "{tables}", _create("t" * 300)),
            ("POST", "{tables}", _create("c", properties={"comment": "v" * 100_000, "owner": "o" * 5_000})),
            ("DELETE", "{tables}/c", b""),
        ),
        0.5,
    ),
    "refused commits": (
        _repeated(("POST", "{honest}", _commit(_KEY_300, requirements=[_NONE])), at_once=4),
        0.2,
    ),
    "keys HMS refuses": (_repeated(("POST", "{evil}", _commit(_KEY_300))), 0.5),
    "purge storm": (
        _repeated(("POST", "{tables}", _create("purged")), ("DELETE", "{tables}/purged?purgeRequested=true", b"")),
        0.2,
    ),
    "floods, no token": (
        _repeated(*[("GET", "{tables}", b"")] * 50, source=STRANGER, known=False, at_once=8),
        0.2,
    ),
}


def place_bombs(location: Path) -> Mapping[str, tuple[Attack, float]]:
    """Write files into the folder of `evil`, where the location policy lets it name them, unless they are there.
    Returns the attacks."""
    folder = location / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "zero.metadata.json").is_symlink():
        (folder / "bomb.gz.metadata.json").write_bytes(gzip.compress(b'{"a":"') + 40 * gzip.compress(b" " * 50 * MIB))
        records = 300_000
        (folder / "records.avro").write_bytes(container(LIST, [(records, deflate(list_record() * records))], "deflate"))
        (folder / "block.avro").write_bytes(container(LIST, [(1, deflate(b"\0" * 100 * MIB))], "deflate"))
        os.mkfifo(folder / "fifo.metadata.json")
        (folder / "zero.metadata.json").symlink_to("/dev/zero")
    path = f"file:{folder}"
    return {
        "gzip bombs": (_registers(f"{path}/bomb.gz.metadata.json"), 1.0),
        "Avro bombs": (_appends(*(f"{path}/{name}.avro" for name in ("records", "block"))), 0.5),
        "FIFO, /dev/zero": (
            _registers(*(f"{path}/{name}.metadata.json" for name in ("fifo", "zero")), "file:/dev/zero", at_once=8),
            0.5,
        ),
    }


def _registers(*locations: str, at_once: int = 1) -> Attack:
    async def attack(target: Target, count: Callable[[object], None]) -> None:
        path = f"/v1/namespaces/{target.namespace}/register"
        sent = [("POST", path, _register("registered", each)) for each in locations]
        await _repeated(*sent, at_once=at_once)(target, count)

    return attack


async def besiege(target: Target, attacks: Mapping[str, tuple[Attack, float]]) -> Mapping[str, Counter[str]]:
    """All attacks at once, each again and again, until this task is cancelled; what came of each, by its name."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in attacks}

    async def repeat(name: str, attack: Attack, rest: float) -> None:
        for _ in itertools.count():
            try:
                await attack(target, lambda result: counts[name].update([str(result)]))
            except (OSError, EOFError, TimeoutError) as error:
                counts[name][type(error).__name__] += 1
            await asyncio.sleep(rest)

    tasks = [asyncio.ensure_future(repeat(name, *each)) for name, each in attacks.items()]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return counts
