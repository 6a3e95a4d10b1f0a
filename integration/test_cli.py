"""The program itself, as its users start it, on real servers."""

from __future__ import annotations

import datetime
import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from integration.command_line import END, START, program, running

TOKEN = "the-token"

SCHEMA = pa.schema(
    [
        pa.field("level", pa.string()),
        pa.field("event_time", pa.timestamp("us")),
        pa.field("message", pa.string()),
        pa.field("call_stack", pa.list_(pa.string())),
    ]
)
EVENTS = [("ERROR", 1), ("WARN", 2)]


def answer(*arguments: str, **environ: str) -> Any:
    result = program(*arguments, "--json", **environ)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def await_end(pids: list[int]) -> None:
    """Wait until processes that are not our children are gone."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ended, _, _ = select.select([descriptor], [], [], END)
            assert ended, f"process {pid} is still there"
        finally:
            os.close(descriptor)


@pytest.fixture
def events(metastore: Any, namespace: str, tmp_path: Path) -> str:
    """logging.events, in the test's own namespace: two appends of one file each."""
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        table = catalog.create_table(f"{namespace}.events", SCHEMA, partition_spec=["day(event_time)"])
        for level, day in EVENTS:
            path = tmp_path / f"{level} {day}.parquet"
            when = datetime.datetime(2021, 4, day, 10)  # noqa: DTZ001 - a timestamp without zone
            rows = {"level": [level], "event_time": [when], "message": ["m"], "call_stack": [["a"]]}
            pq.write_table(pa.table(rows, schema=SCHEMA), path)
            table.append([f"file:{path}"])
    return f"{namespace}.events"


def test_tables_inspect_and_history_tell_what_is_there(metastore: Any, events: str) -> None:
    where = {"ICEBERG_HMS_URI": metastore.uri}
    namespace = events.partition(".")[0]
    (row,) = answer("tables", namespace, "--long", **where)
    assert (row["name"], row["snapshots"], row["records"], row["files"]) == ("events", 2, 2, 2)
    history = answer("history", events, **where)
    assert [(entry["operation"], entry["is_current_ancestor"]) for entry in history] == [("append", True)] * 2
    whole = answer("inspect", events, **where)
    parameters = {entry["parameter"]: entry["value"] for entry in whole["pointer"]["parameters"]}
    assert parameters["metadata_location"] == whole["metadata"]["facts"]["metadata_location"]
    assert parameters["table_type"] == "ICEBERG"
    assert parameters["snapshot-count"] == "2"
    files = {file["partition"]["event_time_day"]: file for file in whole["files"]["files"]}
    assert set(files) == {"2021-04-01", "2021-04-02"}
    bounds = {column["column"]: column["lower"] for column in files["2021-04-01"]["columns"]}
    assert (bounds["level"], bounds["event_time"]) == ("ERROR", "2021-04-01T10:00:00")
    text = program("inspect", events, **where).stdout
    assert "event_time_day: 2021-04-01" in text


def test_doctor_finds_the_metastore_healthy_and_leaves_nothing_behind(metastore: Any) -> None:
    report = answer("doctor", "--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse)
    findings = {finding["check"]: (finding["state"], finding["found"]) for finding in report["findings"]}
    assert report["healthy"] is True
    assert findings["compare-and-swap"] == ("ok", "atomic")
    assert findings["lock API"] == ("ok", "works")
    assert findings["writable"] == ("ok", "yes")
    left = Path(metastore.warehouse.removeprefix("file:")).glob("iceberg-hms-doctor-*")
    assert list(left) == []


def test_a_metastore_that_is_not_there_is_exit_code_3() -> None:
    for command in (["tables"], ["history", "a.b"], ["doctor"]):
        result = program(*command, "--metastore-uri", "thrift://127.0.0.1:1")
        assert (result.returncode, result.stdout) == (3, ""), command
        assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error", "next"], command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_serves_until_a_signal_comes(metastore: Any, events: str, tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "token file"
    file.touch(0o600)
    file.write_text(TOKEN)
    arguments = ["--metastore-uri", metastore.uri, "--warehouse", metastore.warehouse, "--token-file", str(file)]
    with running("serve", *arguments, "--port", "0") as (process, event):
        namespace, _, table = events.partition(".")
        uri = f"{event['uri']}/v1/namespaces/{namespace}/tables/{table}"
        loaded = httpx.get(uri, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=START)
        assert loaded.status_code == 200
        assert len(loaded.json()["metadata"]["snapshots"]) == 2
        assert httpx.get(uri, timeout=START).status_code == 401
        process.send_signal(number)
        assert process.wait(END) == 0
        assert process.stderr is not None
        errors = process.stderr.read()
        assert "Traceback" not in errors
        assert TOKEN not in errors


def test_serve_ends_when_its_parent_lets_go_of_its_stdin(metastore: Any) -> None:
    with running("serve", "--metastore-uri", metastore.uri, "--port", "0", "--exit-with-stdin") as (process, event):
        assert len(event["token"]) >= 43
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(END) == 0


def test_local_runs_both_servers_and_ends_them_with_itself(tmp_path: Path) -> None:
    folder = tmp_path / "my servers"
    with running("local", "--dir", str(folder), "--exit-with-stdin") as (process, event):
        assert answer("tables", "--metastore-uri", event["metastore_uri"]) == []
        servers = children(process.pid)
        assert len(servers) == 2
        assert event["zookeeper"].startswith("127.0.0.1:")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(END) == 0
        await_end(servers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_local_leaves_no_server_behind_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    with running("local", "--dir", str(tmp_path), "--no-zookeeper") as (process, _):
        servers = children(process.pid)
        assert len(servers) == 1
        process.send_signal(number)
        assert process.wait(END) == (0 if number is signal.SIGTERM else -number)
        await_end(servers)
