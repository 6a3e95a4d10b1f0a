"""The audit trail has a line for each change and each refusal, and no client can forge one or make it long."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.catalog.purge import Purge
from iceberg_hms.changes.operations.files.rewrite_manifests import RewriteManifests
from iceberg_hms.coordinator.files.own_files import PUBLISHED_MAX, OwnFiles, delete_own_files
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitStateUnknown, LockNotAcquired, MetastoreUnavailable
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.access.audit import LOGGER, SNAPSHOTS_MAX, STRANGERS_PER_SECOND
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.log_lines import TEXT_MAX
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web
from tests.security.callers import ByHand, callers

MIN_COUNT = "commit.manifest.min-count-to-merge"
MERGE_ENABLED = "commit.manifest-merge.enabled"

ORDERS = "/v1/namespaces/sales/tables/orders"
SCOPES = {"etl": "admin[*]", "reader": "read[*]"}
LINE_MAX = 8_000


class Lines(logging.Handler):
    """The raw lines of the trail."""

    def __init__(self) -> None:
        super().__init__()
        self.raw: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.raw.append(record.getMessage())

    def parsed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.raw]

    def last(self) -> dict[str, Any]:
        return self.parsed()[-1]


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger, handler = logging.getLogger(LOGGER), Lines()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def catalog() -> ScriptedCatalog:
    found = ScriptedCatalog()
    found.create_namespace("sales")
    found.create_table(("sales", "orders"), SCHEMA)
    return found


@pytest.fixture
def as_caller(catalog: ScriptedCatalog, tmp_path: Path) -> Callable[[str], Web]:
    return callers(catalog, tmp_path, SCOPES)


PROPERTIES = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
MOVED = {
    "source": {"namespace": ["sales"], "name": "orders"},
    "destination": {"namespace": ["sales"], "name": "moved"},
}
CHANGES: list[tuple[str, str, Any, str, list[str], dict[str, Any]]] = [
    ("POST", "/v1/namespaces", {"namespace": ["hr"]}, "create-namespace", ["hr"], {}),
    ("POST", "/v1/namespaces/sales/properties", {"updates": {"a": "b"}}, "update-namespace", ["sales"], {}),
    ("DELETE", "/v1/namespaces/default", None, "drop-namespace", ["default"], {}),
    (
        "POST",
        "/v1/namespaces/sales/tables",
        {"name": "made", "schema": SCHEMA},
        "create-table",
        ["sales", "made"],
        {},
    ),
    ("POST", ORDERS, PROPERTIES, "commit", ["sales", "orders"], {}),
    ("DELETE", ORDERS, None, "drop-table", ["sales", "orders"], {}),
    ("DELETE", f"{ORDERS}?purgeRequested=true", None, "drop-table", ["sales", "orders"], {"purge": "delete"}),
    ("POST", "/v1/tables/rename", MOVED, "rename-table", ["sales", "orders"], {"to": ["sales", "moved"]}),
]


@pytest.mark.parametrize(("method", "path", "body", "action", "target", "more"), CHANGES)
def test_each_change_has_one_line(
    as_caller: Callable[[str], Web],
    lines: Lines,
    method: str,
    path: str,
    body: Any,
    action: str,
    target: list[str],
    more: dict[str, Any],
) -> None:
    response = as_caller("etl")(method, path, body)
    assert response.status_code < 300
    line = lines.last()
    assert [each["action"] for each in lines.parsed()[:-1]] == ["delete-files", "purge"][: 2 * ("purge" in more)]
    assert line.pop("time").endswith("Z")
    assert line.pop("request") == response.headers["x-request-id"]
    expected = {"caller": "etl", "peer": "127.0.0.1", "action": action, "object": target, "outcome": "done"}
    assert line == {**expected, "status": response.status_code, **more}


@pytest.mark.parametrize(("method", "path", "body", "action"), [change[:4] for change in CHANGES])
def test_each_refused_change_has_one_line(
    as_caller: Callable[[str], Web], lines: Lines, method: str, path: str, body: Any, action: str
) -> None:
    assert as_caller("reader")(method, path, body).status_code == 403
    [line] = lines.parsed()
    assert (line["caller"], line["action"], line["outcome"], line["status"]) == ("reader", action, "refused", 403)


def test_refused_reads_and_strangers_have_lines_and_reads_have_none(
    catalog: ScriptedCatalog, tmp_path: Path, lines: Lines
) -> None:
    web = callers(catalog, tmp_path, {"narrow": "read[sales]"})("narrow")
    assert web("GET", ORDERS).status_code == 200
    assert web("GET", "/health/live").status_code == 200
    assert lines.raw == []
    web("GET", "/v1/namespaces/default")
    assert (lines.last()["action"], lines.last()["object"]) == ("load-namespace", ["default"])
    web("GET", ORDERS, headers={"Authorization": "Bearer stolen"})
    assert (lines.last()["caller"], lines.last()["action"], lines.last()["status"]) == (None, f"GET {ORDERS}", 401)
    assert "stolen" not in lines.raw[-1]


def test_a_commit_s_line_names_its_snapshots_and_not_too_many(as_caller: Callable[[str], Web], lines: Lines) -> None:
    snapshot = {"timestamp-ms": 1, "manifest-list": "file:/x", "summary": {"operation": "append"}}
    updates = [{"action": "add-snapshot", "snapshot": {**snapshot, "snapshot-id": number}} for number in range(1, 100)]
    as_caller("etl")("POST", ORDERS, {"requirements": [], "updates": updates})
    assert lines.last()["snapshots"] == list(range(1, SNAPSHOTS_MAX + 1))


@pytest.mark.parametrize(
    ("error", "outcome"), [(CommitStateUnknown("no answer"), "unknown"), (MetastoreUnavailable("down"), "refused")]
)
def test_an_unknown_outcome_is_said_so(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], lines: Lines, error: Exception, outcome: str
) -> None:
    catalog.errors["submit"] = error
    as_caller("etl")("POST", ORDERS, PROPERTIES)
    assert lines.last()["outcome"] == outcome


def test_a_change_that_the_server_s_end_cuts_short_is_unknown(catalog: ScriptedCatalog, lines: Lines) -> None:
    app: Any = create_app(catalog, settings=catalog.rest_settings)

    async def scene() -> None:
        async with Web(app).client() as client:
            with catalog.locked("sales", "orders"):
                commit = asyncio.create_task(client.post(ORDERS, json=PROPERTIES))
                while not any(method == "submit" for method, _ in catalog.calls):
                    await asyncio.sleep(0)
                commit.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await commit

    asyncio.run(scene())
    assert [(line["action"], line["outcome"]) for line in lines.parsed()] == [("commit", "unknown")]


FORGED = '\n{"time": "now", "caller": "etl", "outcome": "done"}'


@pytest.mark.parametrize(
    "text", [FORGED, "\r\n", "\x85\u2028\u2029", "\x00\x1b[2J\x7f", '","a":"', "%s%d%n", "ä\U0001f600"]
)
def test_no_name_breaks_out_of_its_line(as_caller: Callable[[str], Web], lines: Lines, text: str) -> None:
    web = as_caller("etl")
    web("POST", "/v1/namespaces", {"namespace": [text]})
    web("POST", "/v1/namespaces/sales/register", {"name": text, "metadata-location": text})
    web("POST", "/v1/tables/rename", {**MOVED, "destination": {"namespace": [text], "name": text}})
    assert len(lines.raw) == 3
    for raw in lines.raw:
        assert raw.isascii()
        assert raw.isprintable()
        assert json.loads(raw)["caller"] == "etl"
    assert [line["object"] for line in lines.parsed()] == [[text], ["sales", text], ["sales", "orders"]]
    assert lines.last()["to"] == [text, text]


@pytest.mark.parametrize("path", ["/%0A%7B", "/v1/%0d%0aforged", "/v1/" + "a" * 50_000])
def test_no_path_breaks_out_of_its_line(as_caller: Callable[[str], Web], lines: Lines, path: str) -> None:
    as_caller("etl")("GET", path, headers={"Authorization": b"Bearer x\xff"})
    [raw] = lines.raw
    assert raw.isascii()
    assert raw.isprintable()
    assert len(raw) < LINE_MAX


def test_long_names_do_not_make_long_lines(as_caller: Callable[[str], Web], lines: Lines) -> None:
    long = "\u2028" * 100_000
    web = as_caller("etl")
    web("POST", "/v1/namespaces/sales/register", {"name": long, "metadata-location": long})
    web("POST", "/v1/tables/rename", {**MOVED, "destination": {"namespace": [long], "name": long}})
    assert len(lines.raw) == 2
    assert all(len(raw) < LINE_MAX for raw in lines.raw)
    assert lines.parsed()[0]["object"][1] == long[:TEXT_MAX] + "... 100000 characters"


@pytest.mark.parametrize("sent", ["0f6a-1", "a.b_C", "x" * 64])
def test_a_client_s_own_request_id_is_returned_and_logged(
    as_caller: Callable[[str], Web], lines: Lines, sent: str
) -> None:
    response = as_caller("reader")("DELETE", ORDERS, headers={"X-Request-ID": sent})
    assert response.headers["x-request-id"] == sent == lines.last()["request"]


@pytest.mark.parametrize("sent", ["", " ", "a b", "x" * 65, "-a", 'a"', "a/b", "ä".encode(), "\u2028".encode(), "a\tb"])
def test_another_request_id_is_replaced(as_caller: Callable[[str], Web], lines: Lines, sent: Any) -> None:
    response = as_caller("reader")("DELETE", ORDERS, headers={"X-Request-ID": sent})
    made = response.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{16}-[0-9a-f]+", made)
    assert made == lines.last()["request"]


def test_strangers_do_not_fill_the_log(catalog: ScriptedCatalog, tmp_path: Path, lines: Lines) -> None:
    clock = ByHand()
    web = callers(catalog, tmp_path, SCOPES, clock=clock)("etl")
    knocks = STRANGERS_PER_SECOND * 3

    async def knock() -> None:
        async with web.client() as client:
            for _ in range(knocks):
                await client.get("/v1/config", headers={"Authorization": "Bearer x"})
            clock.seconds += 1
            await client.get("/v1/config", headers={"Authorization": "Bearer x"})

    asyncio.run(knock())
    assert len(lines.raw) == STRANGERS_PER_SECOND + 2
    assert (lines.parsed()[-2]["caller"], lines.parsed()[-2]["left_out"]) == (None, knocks - STRANGERS_PER_SECOND)
    # Lines of known callers are not counted among them.
    assert web("DELETE", ORDERS).status_code == 204
    assert lines.last()["action"] == "drop-table"


def test_what_is_deleted_on_behalf_of_a_table_has_a_line_by_path(
    catalog: ScriptedCatalog, as_caller: Callable[[str], Web], lines: Lines
) -> None:
    location = catalog.load_table(("sales", "orders")).metadata_location
    odd = f'{location.rpartition("/")[0]}/stats\n{{"action": "drop-table"}}'
    catalog.files.write(odd, b"")
    file = {"snapshot-id": 1, "statistics-path": odd, "file-size-in-bytes": 1}
    set_statistics = {"action": "set-partition-statistics", "partition-statistics": file}
    catalog.commit(("sales", "orders"), [], [set_statistics])
    assert as_caller("etl")("DELETE", f"{ORDERS}?purgeRequested=true").status_code == 204
    deletions = [line for line in lines.parsed() if line["action"] == "delete-files"]
    named = [path for line in deletions for path in line["files"]]
    assert {location, odd} <= set(named)
    assert all((line["object"], line["why"]) == (["sales", "orders"], "purge") for line in deletions)
    assert not any("\n" in line for line in lines.raw)
    assert lines.last()["action"] == "drop-table"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, "done"), (CommitStateUnknown("no answer"), "unknown"), (LockNotAcquired("held"), "refused")],
    ids=["merged", "no answer", "refused"],
)
def test_a_merge_that_the_server_makes_by_itself_has_a_line(
    catalog: ScriptedCatalog,
    as_caller: Callable[[str], Web],
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
    outcome: str,
) -> None:
    web, merged = as_caller("etl"), threading.Event()
    catalog.subscribe(lambda event: merged.set() if event["event"] == "manifests-merged" else None)
    catalog.commit(("sales", "orders"), [], [setting(MERGE_ENABLED, "false"), setting(MIN_COUNT, "2")])
    for number in range(3):
        catalog.load_table(("sales", "orders")).append(
            [DataFile(f"file:/in/{number}.parquet", "PARQUET", 1, 10)], check_duplicate_files=False
        )
    if error is not None:
        coordinator = catalog.services.coordinator
        commit = coordinator.commit

        def fail(name: TableName, change: Any, **more: Any) -> Any:
            if isinstance(change, RewriteManifests):
                raise error
            return commit(name, change, **more)

        monkeypatch.setattr(coordinator, "commit", fail)
    assert web("POST", ORDERS, {"requirements": [], "updates": [setting(MERGE_ENABLED, "true")]}).status_code == 200
    assert merged.wait(30)
    [line] = [line for line in lines.parsed() if line["action"] == "merge-manifests"]
    assert (line["object"], line["outcome"]) == (["sales", "orders"], outcome)
    head = catalog.load(("sales", "orders")).metadata.current_snapshot
    assert head is not None
    assert (line["snapshots"] == [head.snapshot_id], head.operation == "replace") == (error is None, error is None)


def setting(name: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}


def test_the_end_of_a_purge_has_a_line(catalog: ScriptedCatalog, as_caller: Callable[[str], Web], lines: Lines) -> None:
    theirs = {"snapshot-id": 1, "statistics-path": "file:/else/where", "file-size-in-bytes": 1}
    set_statistics = {"action": "set-partition-statistics", "partition-statistics": theirs}
    location = catalog.commit(("sales", "orders"), [], [set_statistics]).metadata_location
    folder = catalog.pointer(("sales", "orders")).location
    assert as_caller("etl")("DELETE", f"{ORDERS}?purgeRequested=true").status_code == 204
    [line] = [line for line in lines.parsed() if line["action"] == "purge"]
    assert line.pop("time")
    counted = {"deleted": 2, "kept": 1, "failed": 0, "why": f"they do not lie in its own folder {folder}"}
    assert line == {
        "action": "purge",
        "object": ["sales", "orders"],
        "outcome": "done",
        **counted,
        "metadata": location,
    }


def test_a_purge_that_was_stopped_says_what_leads_to_the_rest(catalog: ScriptedCatalog, lines: Lines) -> None:
    create_app(catalog)
    taken: list[Purge] = []
    catalog.purge_table(("sales", "orders"), run_purge=taken.append)
    taken[0].give_up()
    line = lines.last()
    assert (line["action"], line["outcome"], line["deleted"]) == ("purge", "stopped", 0)
    assert line["metadata"] == taken[0].metadata_location


def test_files_that_stay_are_named(catalog: ScriptedCatalog, lines: Lines) -> None:
    create_app(catalog)
    table = TableName("sales", "orders")
    catalog.services.ports.events.publish(
        {"event": "files-left", "table": table, "why": "purge", "locations": ["s3://b/x"]}
    )
    line = lines.last()
    assert (line["action"], line["object"], line["outcome"]) == ("delete-files", ["sales", "orders"], "failed")
    assert (line["why"], line["files"]) == ("purge", ["s3://b/x"])


def test_a_line_names_so_many_deleted_files_and_no_more(catalog: ScriptedCatalog, lines: Lines) -> None:
    create_app(catalog)
    row = catalog.pointer(("sales", "orders"))
    folder, ports = str(row.location), catalog.services.ports
    paths = [f"{folder}/data/{number}" for number in range(PUBLISHED_MAX + 1)]
    for path in paths:
        ports.files.write(path, b"")
    delete_own_files(ports, row, OwnFiles(folder, ports.files.real_path), paths, "purge")
    assert [len(line["files"]) for line in lines.parsed()] == [PUBLISHED_MAX, 1]
    assert [path for line in lines.parsed() for path in line["files"]] == paths
