"""Records what Trino and DuckDB send when they commit, verb by verb, into `recorded/<engine>.json`.

It serves the catalog itself, with a layer that notes each commit request (`capture`), runs every statement of `verbs`
in the stock engine, and writes down the commits that add a snapshot, with placeholders for all that differs from run to
run.

A metastore first, then the engine, then a recording:

    iceberg-hms local --dir /tmp/lake --no-zookeeper
    python -m integration.matrix.record trino --metastore-uri URI --warehouse LOCATION --port 8181 \\
        --trino http://127.0.0.1:8080
    python -m integration.matrix.record duckdb --metastore-uri URI --warehouse LOCATION --python VENV/bin/python

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
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

import iceberg_hms
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.ports import CatalogPort
from integration.matrix.capture import Capture
from integration.matrix.placeholders import Placeholders
from integration.matrix.sessions import CATALOG, DuckDB, Session, StatementFailed, Trino
from integration.matrix.verbs import TABLES, VERBS, Verb

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
            catalog.drop_table(table, purge=True)
        if not catalog.namespace_exists(NAMESPACE):
            catalog.create_namespace(NAMESPACE)
        session: Session = Trino(given.trino) if given.engine == "trino" else DuckDB(given.python, uri, TOKEN)
        with closing(session):
            recordings = [
                recording
                for number, verb in enumerate(VERBS[given.engine])
                for recording in _recordings(given, session, capture, verb, number)
            ]
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
    capture = Capture(create_app(cast(CatalogPort, catalog), token=TOKEN, settings=catalog.settings))
    server = uvicorn.Server(uvicorn.Config(capture, host="127.0.0.1", port=port, log_level="warning", ws="none"))
    listener = server.config.bind_socket()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield capture, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def _recordings(
    given: argparse.Namespace, session: Session, capture: Capture, verb: Verb, number: int
) -> list[dict[str, Any]]:
    """Run a verb on tables of its own, and give what it sent, one entry for each commit with a snapshot."""
    folder = _folder_with_a_file(f"{given.warehouse}/matrix-files-{given.engine}-{number}")
    names = {kind: f"{CATALOG}.{NAMESPACE}.{kind}_{given.engine}_{number}" for kind in ("t", "s", "new")} | {
        "folder": folder
    }
    if given.engine == "duckdb":
        # For a CREATE TABLE AS it writes into a folder that a local file system does not have yet.
        location = _local(given.warehouse) / f"{NAMESPACE}.db" / f"new_{given.engine}_{number}"
        for part in ("data", "metadata"):
            (location / part).mkdir(parents=True, exist_ok=True)
    for statement in (*TABLES[given.engine], *verb.before):
        session.run(statement.format(**names))
    del capture.commits[:]
    try:
        for statement in verb.statements:
            session.run(statement.format(**names))
    except StatementFailed as failure:
        _log.info("%s fails: %s", verb.name, failure)
    found = []
    for commit in capture.commits:
        actions = [update["action"] for update in commit["request"]["updates"]]
        if "add-snapshot" not in actions:
            _log.info("%s: also sends %s", verb.name, ", ".join(actions))
            continue
        replaced = Placeholders().replaced(commit)
        what = {"verb": verb.name, "statement": "; ".join(verb.statements)}
        found.append({"engine": given.engine, "version": session.version, **what, **replaced})
    if not found:
        _log.info("%s: adds no snapshot", verb.name)
    return found


def _folder_with_a_file(location: str) -> str:
    folder = _local(location)
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": pa.array([70], pa.int64()), "day": ["d1"], "v": pa.array([700], pa.int64())})
    pq.write_table(rows, folder / "rows.parquet")
    return location


def _local(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))


if __name__ == "__main__":
    main()
