"""Sessions of stock Trino and DuckDB, as far as a recording needs them: they run a statement and give its rows."""

from __future__ import annotations

import subprocess
from typing import Any, Final, Protocol

import httpx
import orjson

CATALOG: Final = "rest"

_DUCKDB: Final = """
import json, sys
import duckdb, duckdb_extensions
config = {"allow_unsigned_extensions": "true"}
connection = duckdb.connect(config=config)
for name in ("avro", "httpfs", "icu", "json", "parquet", "iceberg"):
    duckdb_extensions.import_extension(name, con=connection)
    connection.execute(f"LOAD {name}")
for line in sys.stdin:
    try:
        rows = connection.execute(json.loads(line)).fetchall()
        answer = {"rows": [[str(value) for value in row] for row in rows]}
    except Exception as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
"""


class StatementFailed(Exception):
    """The engine's own words."""


class Session(Protocol):
    """An engine that is connected to the catalog, which it calls `rest`."""

    version: str

    def run(self, statement: str) -> list[list[Any]]:
        """The statement's rows. Raises StatementFailed."""
        ...

    def close(self) -> None: ...


class Trino:
    """A session of a running Trino, whose catalog `rest` is the server under test.

    coordinator: its address, as `http://127.0.0.1:8080`."""

    def __init__(self, coordinator: str) -> None:
        self._http = httpx.Client(base_url=coordinator, timeout=120, headers={"X-Trino-User": "matrix"})
        self._settings: dict[str, str] = {}
        self._transaction = "NONE"
        self.version = str(self.run("SELECT node_version FROM system.runtime.nodes")[0][0])

    def run(self, statement: str) -> list[list[Any]]:
        settings = ",".join(f"{name}={value}" for name, value in self._settings.items())
        headers = {"X-Trino-Session": settings, "X-Trino-Transaction-Id": self._transaction}
        answer = self._http.post("/v1/statement", content=statement.encode(), headers=headers)
        rows: list[list[Any]] = []
        while True:
            answer.raise_for_status()
            if setting := answer.headers.get("X-Trino-Set-Session"):
                name, _, value = setting.partition("=")
                self._settings[name] = value
            self._transaction = answer.headers.get("X-Trino-Started-Transaction-Id", self._transaction)
            if "X-Trino-Clear-Transaction-Id" in answer.headers:
                self._transaction = "NONE"
            answer = answer.json()
            if "error" in answer:
                raise StatementFailed(answer["error"]["message"])
            rows.extend(answer.get("data", []))
            if "nextUri" not in answer:
                return rows
            answer = self._http.get(answer["nextUri"])

    def close(self) -> None:
        self._http.close()


class DuckDB:
    """A DuckDB in a process of its own, attached to the server under test.

    python: an interpreter that has the packages which `record` names."""

    def __init__(self, python: str, uri: str, token: str) -> None:
        self._process = subprocess.Popen([python, "-c", _DUCKDB], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.version = str(self.run("SELECT version()")[0][0]).removeprefix("v")
        self.run(f"ATTACH '' AS {CATALOG} (TYPE iceberg, ENDPOINT '{uri}', TOKEN '{token}')")

    def run(self, statement: str) -> list[list[Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(orjson.dumps(statement) + b"\n")
        self._process.stdin.flush()
        answer = orjson.loads(self._process.stdout.readline())
        if "error" in answer:
            raise StatementFailed(answer["error"])
        return list(answer["rows"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
