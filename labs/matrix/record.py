"""Records what Trino and DuckDB send when they commit, verb by verb, into `recorded/<engine>.json`.

It serves the catalog itself, with a layer that notes each commit request (`capture`), runs all `statements` in the
stock engine, and writes down the commits that add a snapshot, with placeholders for all that differs from run to
run. Then it runs the statement again while another writer appends to its table, so that its commit meets a 409, and
writes down under `overtaken` what the engine sends from there on, and whether the statement lands.

A metastore first, then the engine, then a recording:

    iceberg-hms local --dir /tmp/lake --no-zookeeper
    python -m labs.matrix.record trino --metastore-uri URI --warehouse LOCATION --port 8181 \\
        --trino http://127.0.0.1:8080
    python -m labs.matrix.record duckdb --metastore-uri URI --warehouse LOCATION --python VENV/bin/python

Trino needs a catalog named `rest` (connector.name=iceberg, iceberg.catalog.type=rest, iceberg.rest-catalog.uri with the
port given here, iceberg.rest-catalog.security=OAUTH2, iceberg.rest-catalog.oauth2.token=matrix,
iceberg.add-files-procedure.enabled=true, fs.hadoop.enabled=true). The interpreter for DuckDB needs the packages duckdb,
duckdb-extensions and duckdb-extension-{avro,httpfs,icu,json,parquet,iceberg} of one version.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

import iceberg_hms
from iceberg_hms.rest.app import create_app
from labs.matrix.capture import Capture
from labs.matrix.placeholders import Placeholders
from labs.matrix.sessions import CATALOG, DuckDB, Session, StatementFailed, Trino
from labs.matrix.statements import TABLES, VERBS, Verb

_log = logging.getLogger(__name__)

RECORDED: Final = Path(__file__).parent / "recorded"
TOKEN: Final = "matrix"
NAMESPACE: Final = "matrix"


def main() -> None:
    given = _arguments()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    _log.setLevel(logging.INFO)
    with (
        iceberg_hms.connect(metastore_uri=given.metastore_uri, warehouse=given.warehouse) as catalog,
        serving(catalog, given.port) as (capture, uri),
    ):
        for table in catalog.list_tables(NAMESPACE) if catalog.namespace_exists(NAMESPACE) else ():
            catalog.purge_table(table)
        if not catalog.namespace_exists(NAMESPACE):
            catalog.create_namespace(NAMESPACE)
        session: Session = Trino(given.trino) if given.engine == "trino" else DuckDB(given.python, uri, TOKEN)
        with closing(session):
            recorder = _Recorder(given, catalog, capture, session)
            recordings = [recording for verb in VERBS[given.engine] for recording in recorder.recordings(verb)]
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{given.engine}.json"
    path.write_bytes(orjson.dumps(recordings, option=orjson.OPT_INDENT_2) + b"\n")
    _log.info("%d commits in %s", len(recordings), path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Record what an engine's statements send when they commit.")
    parser.add_argument("engine", choices=sorted(VERBS))
    parser.add_argument("--metastore-uri", required=True)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--port", type=int, default=0, help="where the catalog listens; 0 = any free port")
    parser.add_argument("--trino", help="the coordinator's address")
    parser.add_argument("--python", help="an interpreter that has DuckDB")
    given = parser.parse_args()
    if (given.trino if given.engine == "trino" else given.python) is None:
        parser.error("trino needs --trino, duckdb needs --python")
    return given


@contextmanager
def serving(catalog: Any, port: int) -> Iterator[tuple[Capture, str]]:
    """The catalog over REST with a capture in front. port: where, on loopback; 0 takes any free one."""
    capture = Capture(create_app(catalog, token=TOKEN))
    server = uvicorn.Server(uvicorn.Config(capture, host="127.0.0.1", port=port, log_level="warning", ws="none"))
    listener = server.config.bind_socket()
    # From here on clients may connect; the server answers them once it runs.
    listener.listen()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield capture, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class _Recorder:
    """What a recording needs. catalog: makes commits of our own that an engine's commit conflicts with."""

    def __init__(self, given: argparse.Namespace, catalog: Any, capture: Capture, session: Session) -> None:
        self._given = given
        self._catalog = catalog
        self._capture = capture
        self._session = session
        self._tables = 0

    def recordings(self, verb: Verb) -> list[dict[str, Any]]:
        """What a verb sends, one entry for each commit with a snapshot, and what becomes of it after a conflict."""
        lands, commits = self._run(verb, overtaken=False)
        what = {"verb": verb.name, "statement": "; ".join(verb.statements)}
        engine = {"engine": self._given.engine, "version": self._session.version}
        found = [
            {**engine, **what, **{key: commit[key] for key in ("headers", "request", "own_manifests")}}
            for commit in commits
            if "add-snapshot" in _actions(commit)
        ]
        for commit in commits:
            if "add-snapshot" not in _actions(commit):
                _log.info("%s: also sends %s", verb.name, ", ".join(_actions(commit)))
        if not found:
            _log.info("%s: %s", verb.name, "adds no snapshot" if lands else "fails")
            return []
        lands, commits = self._run(verb, overtaken=True)
        sent = [f"{operation} {commit['status']}" for commit in commits if (operation := _operations(commit))]
        return [{**Placeholders().replaced(each), "overtaken": {"sends": sent, "lands": lands}} for each in found]

    def _run(self, verb: Verb, *, overtaken: bool) -> tuple[bool, list[dict[str, Any]]]:
        """Run a verb on tables of its own; whether it succeeded, and what it sent. overtaken: another writer appends to
        its table after the verb sent its first commit and before the server reads it; the server rebases nothing."""
        engine, warehouse = self._given.engine, self._given.warehouse
        self._tables += 1
        names = {kind: f"{NAMESPACE}.{kind}_{engine}_{self._tables}" for kind in ("t", "s", "new")}
        folder = f"{warehouse}/matrix-files-{engine}-{self._tables}"
        _file(folder, 70, "d1")
        if engine == "duckdb":
            # For a CREATE TABLE AS it writes into a folder that a local file system does not have yet.
            for part in ("data", "metadata"):
                location = _local(warehouse) / f"{NAMESPACE}.db" / names["new"].partition(".")[2] / part
                location.mkdir(parents=True, exist_ok=True)
        words = {kind: f"{CATALOG}.{name}" for kind, name in names.items()} | {"folder": folder}
        for statement in (*TABLES[engine], *verb.before):
            self._session.run(statement.format(**words))
        del self._capture.commits[:]
        if overtaken:
            self._overtake(names[verb.target], folder)
        try:
            for statement in verb.statements:
                self._session.run(statement.format(**words))
        except StatementFailed as failure:
            _log.info("%s fails: %s", verb.name, failure)
            return False, list(self._capture.commits)
        finally:
            self._capture.overtake = None
        return True, list(self._capture.commits)

    def _overtake(self, table: str, folder: str) -> None:
        properties = {"iceberg-hms.rebase-appends": "none"}
        update = {"action": "set-properties", "updates": properties}
        self._catalog.commit(table, requirements=[], updates=[update])
        others = [_file(f"{folder}-of-others", *row) for row in ((2, "d1"), (9, "d2"))]
        self._capture.overtake = lambda: self._catalog.load_table(table).append(others)


def _actions(commit: dict[str, Any]) -> list[str]:
    return [update["action"] for update in commit["request"]["updates"]]


def _operations(commit: dict[str, Any]) -> str:
    updates = commit["request"]["updates"]
    snapshots = [update["snapshot"] for update in updates if update["action"] == "add-snapshot"]
    return "+".join(snapshot["summary"]["operation"] for snapshot in snapshots)


def _file(location: str, id_: int, day: str) -> str:
    """Write a Parquet file with one row, and give its location."""
    _local(location).mkdir(parents=True, exist_ok=True)
    row = {"id": pa.array([id_], pa.int64()), "day": [day], "v": pa.array([10 * id_], pa.int64())}
    pq.write_table(pa.table(row), _local(location) / f"{day}.parquet")
    return f"{location}/{day}.parquet"


def _local(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))


if __name__ == "__main__":
    main()
