"""Bad input, damaged files, a wrong token, no metastore: the error names the fault and the next step, nothing is
changed, and the command line shows no stack trace."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import iceberg_hms
from iceberg_hms.cli.main import app
from iceberg_hms.coordinator.staging.staging import UPDATES_FIT
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from integration import interop
from tests.outcomes.stage import join_commits

PROGRAM = Path(sys.executable).with_name("iceberg-hms")
TOKEN = "the-right-token"
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: Any, namespace: str, tmp_path: Path) -> Any:
    """A table with one file of three rows."""
    table = catalog.create_table(f"{namespace}.flights", SCHEMA)
    table.append([f"file:{interop.small_parquet(tmp_path / 'good.parquet', range(3))}"])
    return table.refresh() or table


@pytest.fixture
def nowhere() -> str:
    """The uri of a port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"thrift://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def more(tmp_path: Path) -> str:
    """One more good file."""
    return f"file:{interop.small_parquet(tmp_path / 'more.parquet', [7])}"


def local_path(location: str) -> Path:
    return Path(re.sub(r"^file:(//)?", "", location))


def check_command_fails(*arguments: str, code: int, names: str = "") -> None:
    """`iceberg-hms` with the arguments, in this process, ends with two lines on stderr for a person, what happened and
    what to do next, and with the exit code for scripts."""
    result = CliRunner().invoke(app, list(arguments))
    check_failure(result.exit_code, result.stdout, result.stderr, code=code, names=names)


def check_failure(exit_code: int, stdout: str, stderr: str, *, code: int, names: str = "") -> None:
    assert exit_code == code, stderr
    assert "Traceback" not in stdout + stderr
    error, next_step = stderr.strip().splitlines()[-2:]
    assert error.startswith("error:")
    assert next_step.startswith("next:")
    assert names in error


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


# Names


def test_an_unknown_table_is_named(catalog: Any, metastore: Any, namespace: str) -> None:
    with pytest.raises(iceberg_hms.NoSuchTable, match=rf"{namespace}\.missing") as raised:
        catalog.load_table(f"{namespace}.missing")
    assert raised.value.next_step
    name = f"{namespace}.missing"
    check_command_fails("inspect", name, "--metastore-uri", metastore.uri, code=1, names=name)


@pytest.mark.parametrize("name", ["flights", "a.b.c", "", ".", "a.", ".b", "a b.c\x00"])
def test_a_malformed_name_is_refused(catalog: Any, name: str) -> None:
    with pytest.raises(iceberg_hms.IcebergHmsError) as raised:
        catalog.load_table(name)
    assert isinstance(raised.value, iceberg_hms.InvalidInput | iceberg_hms.NotFound)


def test_a_table_in_a_database_that_is_not_there(catalog: Any, metastore: Any) -> None:
    with pytest.raises(iceberg_hms.NotFound):
        catalog.create_table("no_such_database.t", SCHEMA)
    assert not catalog.namespace_exists("no_such_database")
    name = "no_such_database"
    check_command_fails("tables", name, "--metastore-uri", metastore.uri, code=1, names=name)


def test_a_second_table_of_the_same_name_changes_nothing(catalog: Any, table: Any) -> None:
    before = catalog.pointer(table.name())
    folder = local_path(table.metadata.location)
    files = files_below(folder)
    with pytest.raises(iceberg_hms.AlreadyExists):
        catalog.create_table(table.name(), SCHEMA)
    assert catalog.pointer(table.name()).parameters == before.parameters
    assert files_below(folder) == files


# Damaged files


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"not json",
        b"[]",
        b'{"format-version": 2}',
        b"\x00\xff\xfe",
        b'{"format-version": "two"}',
        gzip.compress(b"{}", mtime=0),
    ],
)
def test_the_error_names_the_malformed_metadata_file(
    catalog: Any, metastore: Any, table: Any, more: str, damage: bytes
) -> None:
    location = catalog.pointer(table.name()).metadata_location
    path = local_path(location)
    path.write_bytes(damage)
    files = files_below(path.parent)
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as fresh:
        with pytest.raises(iceberg_hms.IcebergHmsError) as raised:
            fresh.load_table(table.name())
        assert path.name in str(raised.value)
        assert not isinstance(raised.value, iceberg_hms.NotFound)
    check_command_fails("inspect", str(table.name()), "--metastore-uri", metastore.uri, code=1, names=path.name)
    assert catalog.pointer(table.name()).metadata_location == location
    assert files_below(path.parent) == files


def test_a_missing_metadata_file_is_named_and_is_no_missing_table(catalog: Any, metastore: Any, table: Any) -> None:
    path = local_path(catalog.pointer(table.name()).metadata_location)
    path.unlink()
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as fresh:
        with pytest.raises(iceberg_hms.MissingFile, match=re.escape(path.name)):
            fresh.load_table(table.name())
        with RestServer(fresh, host="127.0.0.1", port=0, token=TOKEN) as server:
            answer = get(server, f"v1/namespaces/{table.name().namespace}/tables/{table.name().name}")
    # A client that hears NoSuchTable may create the table again over the data that is there.
    assert answer.json()["error"]["type"] != "NoSuchTableException"
    check_command_fails("inspect", str(table.name()), "--metastore-uri", metastore.uri, code=1, names=path.name)


@pytest.mark.parametrize("keep", [0, 3, 200, -16, -1])
def test_a_truncated_manifest_list_stops_an_append_and_changes_nothing(
    catalog: Any, metastore: Any, table: Any, more: str, keep: int
) -> None:
    path = local_path(table.metadata.current_snapshot.manifest_list)
    path.write_bytes(path.read_bytes()[:keep])
    before = catalog.pointer(table.name())
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as fresh,
        pytest.raises(iceberg_hms.CorruptFile, match=re.escape(path.name)),
    ):
        fresh.load_table(table.name()).append([more])
    assert catalog.pointer(table.name()).parameters == before.parameters
    check_command_fails("inspect", str(table.name()), "--metastore-uri", metastore.uri, code=1, names=path.name)


@pytest.mark.parametrize("keep", [0, 3, 200, -16, -1])
def test_a_truncated_manifest_is_named_and_never_read_as_fewer_files(
    catalog: Any, metastore: Any, table: Any, keep: int
) -> None:
    path = next(local_path(table.metadata.location).rglob("*-m*.avro"))
    path.write_bytes(path.read_bytes()[:keep])
    check_command_fails("inspect", str(table.name()), "--metastore-uri", metastore.uri, code=1, names=path.name)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 and then nothing of Parquet", b"id,name\n1,a\n"])
def test_a_file_that_is_not_parquet_is_not_appended(
    catalog: Any, table: Any, more: str, tmp_path: Path, content: bytes
) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(content)
    before = catalog.pointer(table.name())
    with pytest.raises(iceberg_hms.IcebergHmsError, match=re.escape("bad.parquet")):
        table.append([more, f"file:{bad}"])
    assert catalog.pointer(table.name()).parameters == before.parameters


def test_a_missing_data_file_is_not_appended(catalog: Any, table: Any, more: str, tmp_path: Path) -> None:
    before = catalog.pointer(table.name())
    with pytest.raises(iceberg_hms.MissingFile, match=re.escape("missing.parquet")):
        table.append([more, f"file:{tmp_path}/missing.parquet"])
    assert catalog.pointer(table.name()).parameters == before.parameters


# Operations


def record(name: str, **changes: Any) -> DataFile:
    return replace(DataFile(f"file:/data/{name}.parquet", "PARQUET", 3, 100), **changes)


BAD_OPERATIONS: dict[str, tuple[Callable[[Any, str], object], str]] = {
    "delete an unknown column": (lambda table, good: table.update_schema().delete_column("size").commit(), "size"),
    "rename an unknown column": (lambda table, good: table.update_schema().rename_column("size", "s").commit(), "size"),
    "widen a text": (lambda table, good: table.update_schema().update_column("name", "int").commit(), "name: string"),
    "narrow a long": (lambda table, good: table.update_schema().update_column("id", "int").commit(), "id: long"),
    "partition by a column that is not there": (
        lambda table, good: table.update_spec().add_field("day", "identity").commit(),
        "day",
    ),
    "a transform that does not fit": (
        lambda table, good: table.update_spec().add_field("name", "day").commit(),
        "name",
    ),
    "append a file of a partition": (
        lambda table, good: table.append([record("a", partition={"day": 1})]),
        "a.parquet",
    ),
    "append a file of another spec": (lambda table, good: table.append([record("a", spec_id=7)]), "a.parquet"),
    "append a file twice": (lambda table, good: table.append([record("a"), record("a")]), "a.parquet"),
    "append a live file": (lambda table, good: table.append([good]), "good.parquet"),
    "delete by a missing column": (lambda table, good: table.delete("size = 1"), "size"),
    "overwrite by a missing column": (lambda table, good: table.overwrite([record("a")], "size = 1"), "size"),
    "delete a part of a file": (lambda table, good: table.delete("id = 1"), "good.parquet"),
    "delete a file that is not there": (lambda table, good: table.delete_files(["file:/data/a.parquet"]), "a.parquet"),
    "rewrite a file that is not there": (
        lambda table, good: table.rewrite(["file:/data/a.parquet"], [record("b")]),
        "a.parquet",
    ),
    "expire the current snapshot": (
        lambda table, good: table.expire_snapshots(snapshot_ids=[table.current_snapshot().snapshot_id]),
        "main",
    ),
    "a branch at a snapshot that is not there": (lambda table, good: table.create_branch("b", 5), "5"),
}


#: Of these, what is no step of a transaction.
NO_STEPS = {"expire the current snapshot"}


@pytest.mark.parametrize(
    ("name", "is_step"),
    [*((name, False) for name in BAD_OPERATIONS), *((name, True) for name in BAD_OPERATIONS if name not in NO_STEPS)],
)
def test_a_bad_operation_says_what_is_wrong_and_leaves_nothing(
    catalog: Any, table: Any, tmp_path: Path, name: str, is_step: bool
) -> None:
    before, folder = catalog.pointer(table.name()), local_path(table.metadata.location)
    files = files_below(folder)
    submit, names = BAD_OPERATIONS[name]

    def run() -> None:
        if not is_step:
            submit(table, f"file:{tmp_path}/good.parquet")
            return
        with table.transaction() as transaction:
            transaction.delete("id > 100")
            transaction.update_schema().add_column("more", "int").commit()
            submit(transaction, f"file:{tmp_path}/good.parquet")

    with pytest.raises((iceberg_hms.InvalidInput, iceberg_hms.RequirementFailed), match=re.escape(names)):
        run()
    assert catalog.pointer(table.name()).parameters == before.parameters
    join_commits()
    assert files_below(folder) == files


# Commits


@pytest.mark.parametrize(
    ("requirements", "updates"),
    [
        ([], [{"action": "no-such-action"}]),
        ([], [{}]),
        ([], [{"action": "set-properties"}]),
        ([{"type": "assert-no-such-thing"}], []),
        ([{"type": "assert-ref-snapshot-id", "snapshot-id": 1}], []),
        ([], [{"action": "add-schema", "schema": {"type": "struct", "fields": [{"id": 1}]}}]),
        ([], [{"action": "upgrade-format-version", "format-version": 9}]),
        ([], [{"action": "set-properties", "updates": {"a": 1}}]),
    ],
)
def test_a_malformed_commit_is_refused_and_changes_nothing(
    catalog: Any, table: Any, requirements: list[Any], updates: list[Any]
) -> None:
    before = catalog.pointer(table.name())
    folder = local_path(table.metadata.location)
    files = files_below(folder)
    with pytest.raises(iceberg_hms.InvalidInput):
        catalog.commit(table.name(), requirements=requirements, updates=updates)
    assert catalog.pointer(table.name()).parameters == before.parameters
    join_commits()
    assert files_below(folder) == files


@pytest.mark.parametrize(
    ("requirements", "update", "name"),
    [
        (
            [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}],
            {"action": "set-properties", "updates": {"a": "b"}},
            "assert-ref-snapshot-id",
        ),
        ([], {"action": "set-current-schema", "schema-id": 99}, UPDATES_FIT),
        ([], {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5}, UPDATES_FIT),
    ],
)
def test_a_broken_assumption_is_named_and_changes_nothing(
    catalog: Any, table: Any, requirements: list[Any], update: dict[str, Any], name: str
) -> None:
    before = catalog.pointer(table.name())
    with pytest.raises(iceberg_hms.RequirementFailed) as raised:
        catalog.commit(table.name(), requirements=requirements, updates=[update])
    assert raised.value.name == name
    assert catalog.pointer(table.name()).parameters == before.parameters


# The REST protocol


def get(server: Any, path: str, token: str | None = TOKEN) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{server.uri}/{path}", headers=headers, timeout=30)


@pytest.fixture
def server(catalog: Any) -> Iterator[Any]:
    with RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server:
        yield server


@pytest.mark.parametrize("token", [None, "the-wrong-token", TOKEN + "x", TOKEN[:-1]])
def test_a_wrong_token_is_refused_and_reveals_nothing(server: Any, table: Any, token: str | None) -> None:
    path = f"v1/namespaces/{table.name().namespace}/tables/{table.name().name}"
    answer = get(server, path, token)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "NotAuthorizedException"
    assert "flights" not in answer.text
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    assert httpx.delete(f"{server.uri}/{path}", headers=headers, timeout=30).status_code == 401
    assert get(server, path).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"updates": 1}', b'{"requirements": [], "updates": [{"action": 1}]}']
)
def test_a_malformed_request_is_a_400_and_changes_nothing(catalog: Any, server: Any, table: Any, body: bytes) -> None:
    before = catalog.pointer(table.name())
    answer = httpx.post(
        f"{server.uri}/v1/namespaces/{table.name().namespace}/tables/{table.name().name}",
        content=body,
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        timeout=30,
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == 400
    assert "Traceback" not in answer.text
    assert catalog.pointer(table.name()).parameters == before.parameters


# A metastore that is not there


def test_the_error_names_the_address_of_a_metastore_that_is_not_there(nowhere: str, tmp_path: Path) -> None:
    with (
        iceberg_hms.connect(metastore_uri=nowhere, warehouse=f"file:{tmp_path}") as catalog,
        pytest.raises(iceberg_hms.MetastoreUnavailable, match=nowhere.removeprefix("thrift://")) as raised,
    ):
        catalog.list_namespaces()
    assert "metastore" in raised.value.next_step
    # As users start it, once for all.
    arguments = [str(PROGRAM), "tables", "--metastore-uri", nowhere]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    check_failure(done.returncode, done.stdout, done.stderr, code=3, names=nowhere.removeprefix("thrift://"))


def test_no_metastore_named_at_all(tmp_path: Path) -> None:
    check_command_fails("tables", code=2, names="metastore")


def test_a_server_without_its_metastore_answers_503_and_never_404(nowhere: str, tmp_path: Path) -> None:
    with (
        iceberg_hms.connect(metastore_uri=nowhere, warehouse=f"file:{tmp_path}") as catalog,
        RestServer(catalog, "127.0.0.1", 0, TOKEN, settings=RestSettings(rest_commit_wait_ms=1_000)) as server,
    ):
        answer = get(server, "v1/namespaces/a/tables/b")
    assert answer.status_code == 503
    assert "404" not in json.dumps(answer.json())


def test_the_error_names_the_address_of_a_server_that_speaks_no_thrift(table: Any, server: Any) -> None:
    # An HTTP port given for the metastore's, the usual slip.
    address = server.uri.removeprefix("http://")
    timeout = "metastore.socket-timeout-ms=3000"
    check_command_fails("tables", "--metastore-uri", f"thrift://{address}", "--set", timeout, code=3, names=address)


@pytest.mark.parametrize(
    "uri", ["127.0.0.1:9083", "http://127.0.0.1:9083", "thrift://", "thrift://h:port", "thrift://h:99999999"]
)
def test_a_malformed_uri_is_a_setting_to_correct(uri: str) -> None:
    check_command_fails("tables", "--metastore-uri", uri, code=2)
