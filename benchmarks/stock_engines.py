"""Stock Trino and DuckDB that insert into a table beside PyIceberg appenders, by what the operator says about rebases.

    python -m benchmarks.stock_engines --trino DIR --java JAVA_HOME --duckdb VENV/bin/python [--case NAME[=CODE]]...
        [--quick]

--trino: an unpacked trino-server of version 476. --java: a Java 24 or 25 for it. --duckdb: an interpreter with the
packages that integration/matrix/record.py names. --case: what the operator says, and the folder of another version of
the package, to serve with.

Each block has a new table, so many sessions of an engine that share a number of inserts of one row each, and four
PyIceberg processes that append until those are done; all at their defaults.

    acknowledged, refused   inserts; refused: the engine told its user that it failed
    per second              acknowledged inserts, from the first to the last
    wrong                   rows that are not in the table as often as their writers were told: acknowledged rows that
                            are not there or there twice, refused ones that are there
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from pyiceberg.catalog import load_catalog

from benchmarks import report
from benchmarks.appender import SCHEMA, TOKEN
from iceberg_hms.local.metastore import LocalMetastore
from integration.matrix.sessions import CATALOG, DuckDB, Session, StatementFailed, Trino

ROOT: Final = Path(__file__).parent.parent
APPENDERS: Final = 4
END_SECONDS: Final = 60
PROPERTY: Final = "iceberg-hms.rebase-appends"
LEVELS: Final = {f"write.{operation}.isolation-level": "snapshot" for operation in ("merge", "update", "delete")}


@dataclass(frozen=True)
class Case:
    """What the operator says: properties of the table and of its namespace, settings of the server."""

    table: dict[str, str] = field(default_factory=dict)
    namespace: dict[str, str] = field(default_factory=dict)
    server: dict[str, str] = field(default_factory=dict)


CASES: Final = {
    "defaults": Case(),
    "table": Case(table={PROPERTY: "all"}),
    "namespace": Case(namespace={PROPERTY: "all"}),
    "server": Case(server={"ICEBERG_HMS_REBASE_APPENDS": "all"}),
    "levels": Case(table=LEVELS),
}


@dataclass
class Told:
    """What writers were told: the names of rows that were acknowledged and of those that were refused."""

    acknowledged: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __add__(self, other: Told) -> Told:
        return Told(self.acknowledged + other.acknowledged, self.refused + other.refused, self.seconds + other.seconds)


def main() -> None:
    given = _arguments()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        metastore = stack.enter_context(LocalMetastore(folder / "metastore"))
        port = _free_port()
        coordinator = stack.enter_context(_trino(given, folder, port)) if given.trino else ""
        rows = []
        for number, asked in enumerate(given.case or CASES):
            name, _, code = asked.partition("=")
            with _server(Path(code or ROOT), metastore, port, CASES[name], folder) as uri:
                catalog = load_catalog("hms", type="rest", uri=uri, token=TOKEN)
                namespace = f"engines_{number}"
                catalog.create_namespace(namespace, CASES[name].namespace)
                for engine, sessions, inserts in _blocks(given):
                    table = f"{namespace}.{engine}_{sessions}"
                    catalog.create_table(table, schema=SCHEMA, properties=CASES[name].table)

                    def connect(engine: str = engine, uri: str = uri) -> Session:
                        return Trino(coordinator) if engine == "trino" else DuckDB(given.duckdb, uri, TOKEN)

                    rows.append(
                        [f"{name}: {engine}, {sessions} sessions", *_block(connect, uri, table, sessions, inserts)]
                    )
                    print(*rows[-1], sep="  ", flush=True)
    header = ("", "inserts", "acknowledged", "refused", "per second", "p50 s", "max s")
    report.print_table((*header, "PyIceberg's", "refused", "per second", "wrong"), rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trino", type=Path, help="folder of an unpacked trino-server")
    parser.add_argument("--java", help="a JAVA_HOME for Trino; default: this one")
    parser.add_argument("--duckdb", help="an interpreter that has DuckDB")
    parser.add_argument("--case", action="append", metavar="NAME[=CODE]", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the inserts")
    return parser.parse_args()


def _blocks(given: argparse.Namespace) -> list[tuple[str, int, int]]:
    blocks = [("trino", 4, 40), ("trino", 8, 80)] if given.trino else []
    blocks += [("duckdb", 1, 40)] if given.duckdb else []
    return [(engine, sessions, inserts // 10 if given.quick else inserts) for engine, sessions, inserts in blocks]


def _block(connect: Any, uri: str, table: str, sessions: int, inserts: int) -> list[object]:
    with ExitStack() as stack:
        engines = [connect() for _ in range(sessions)]
        for engine in engines:
            stack.callback(engine.close)
        appenders = [_appender(uri, table, f"appender-{number}") for number in range(APPENDERS)]
        for appender in appenders:
            assert appender.stdout is not None
            appender.stdout.readline()
        begin = monotonic()
        with ThreadPoolExecutor(sessions) as pool:
            shares = [range(number, inserts, sessions) for number in range(sessions)]
            told = sum(pool.map(_insert, engines, [table] * sessions, shares), Told())
        seconds = monotonic() - begin
        others = sum((_ended(appender) for appender in appenders), Told())
    scanned = load_catalog("hms", type="rest", uri=uri, token=TOKEN).load_table(table).scan().to_arrow()
    found = Counter(scanned["who"].to_pylist())
    all_told = told + others
    wrong = sum(found[row] != 1 for row in all_told.acknowledged) + sum(found[row] != 0 for row in all_told.refused)
    wrong += len(found.keys() - {*all_told.acknowledged, *all_told.refused})
    return [
        inserts,
        len(told.acknowledged),
        len(told.refused),
        f"{len(told.acknowledged) / seconds:.1f}",
        f"{report.quantile(told.seconds or [0], 0.5):.2f}",
        f"{max(told.seconds, default=0):.2f}",
        len(others.acknowledged),
        len(others.refused),
        f"{len(others.acknowledged) / seconds:.1f}",
        wrong,
    ]


def _insert(session: Session, table: str, numbers: range) -> Told:
    told = Told()
    for number in numbers:
        begin = monotonic()
        try:
            session.run(f"INSERT INTO {CATALOG}.{table} VALUES ('engine-{number}')")  # noqa: S608 - ours
        except StatementFailed as failure:
            told.refused.append(f"engine-{number}")
            print(f"refused: {str(failure)[:300]}", file=sys.stderr)
        else:
            told.acknowledged.append(f"engine-{number}")
            told.seconds.append(monotonic() - begin)
    return told


def _appender(uri: str, table: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "benchmarks.appender", uri, table, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _ended(appender: subprocess.Popen[str]) -> Told:
    out, _ = appender.communicate(timeout=END_SECONDS)
    return Told(**json.loads(out))


@contextmanager
def _server(code: Path, metastore: LocalMetastore, port: int, case: Case, folder: Path) -> Iterator[str]:
    (folder / "token").write_text(TOKEN)
    command = [sys.executable, "-c", "from iceberg_hms.cli.main import run; run()", "serve", "--port", str(port)]
    command += ["--token-file", str(folder / "token"), "--exit-with-stdin"]
    command += ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse]
    environment = {**os.environ, "PYTHONPATH": str(code), **case.server}
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=code, env=environment
        )
    try:
        assert server.stdout is not None
        yield str(json.loads(server.stdout.readline())["uri"])
    finally:
        server.communicate(timeout=END_SECONDS)


@contextmanager
def _trino(given: argparse.Namespace, folder: Path, catalog_port: int) -> Iterator[str]:
    """A coordinator of its own with two catalogs' plugins: `rest` is the server under test."""
    port, home = _free_port(), given.trino.absolute()
    files = {
        "etc/config.properties": f"""coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
query.max-memory=400MB
query.max-memory-per-node=400MB
memory.heap-headroom-per-node=300MB
""",
        "etc/jvm.config": """-server
-Xmx1500m
-XX:+UseG1GC
-XX:+ExitOnOutOfMemoryError
-Djdk.attach.allowAttachSelf=true
-Dfile.encoding=UTF-8
--enable-native-access=ALL-UNNAMED
""",
        "etc/node.properties": f"""node.environment=benchmark
node.id=benchmark-1
node.data-dir={folder / "trino"}
node.internal-address=127.0.0.1
node.bind-ip=127.0.0.1
plugin.dir={folder / "plugins"}
""",
        "etc/catalog/rest.properties": f"""connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=http://127.0.0.1:{catalog_port}/
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.token={TOKEN}
fs.hadoop.enabled=true
""",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "plugins").mkdir()
    for plugin in ("iceberg", "memory"):
        (folder / "plugins" / plugin).symlink_to(home / "plugin" / plugin)
    command = [str(home / "bin" / "launcher"), "run", f"--etc-dir={folder / 'etc'}"]
    environment = dict(os.environ)
    if given.java:
        environment |= {"JAVA_HOME": given.java, "PATH": f"{given.java}/bin:{environment['PATH']}"}
    process = subprocess.Popen(  # noqa: S603 - the operator's own program
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            if "SERVER STARTED" in line:
                break
            last = line
        else:
            raise RuntimeError(f"Trino did not start: {last}")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(END_SECONDS)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
