from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
    LockNotAcquired,
    MetastoreUnavailable,
    RequirementFailed,
)
from iceberg_hms.rest.access.audit import AuditEntry
from iceberg_hms.rest.access.authorization import AccessTarget, Action
from iceberg_hms.rest.access.scopes import Caller
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.failure_log import LINES_MAX, LOGGER, WINDOW_SECONDS, FailureLog
from iceberg_hms.rest.log_lines import KEYS_MAX
from tests.rest.fakes import ScriptedCatalog, Web
from tests.security.callers import ByHand

STALE = {"requirements": [{"type": "assert-table-uuid", "uuid": "another"}], "updates": []}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, LOGGER):
        yield caplog


def written(lines: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in lines.records if record.name == LOGGER]


def failed(error: Exception, caller: str | None = None) -> AuditEntry:
    known = None if caller is None else Caller(caller, ())
    return AuditEntry("an id", "10.0.0.7", known, Action.COMMIT, AccessTarget("sales", "orders"), error=error)


def test_a_conflict_has_a_line_with_its_table_cause_and_request(
    web: Web, table: str, lines: pytest.LogCaptureFixture
) -> None:
    response = web("POST", table, STALE, headers={"X-Request-ID": "job-7"})
    assert response.status_code == 409
    [line] = written(lines)
    assert (line["request"], line["action"], line["object"]) == ("job-7", "commit", ["logging", "events"])
    assert (line["status"], line["cause"]) == (409, "assert-table-uuid")
    assert "Requirement failed" in line["error"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AlreadyExists("x"), 409),
        (MetastoreUnavailable("nobody answers at thrift://m:9083"), 503),
        (CommitStateUnknown("x"), 500),
        (IcebergHmsError("x"), 500),
    ],
)
def test_a_conflict_and_a_failure_of_any_request_have_one(
    web: Web, catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture, error: IcebergHmsError, status: int
) -> None:
    catalog.errors["load_namespace_properties"] = error
    assert web("GET", "/v1/namespaces/default").status_code == status
    [line] = written(lines)
    assert (line["status"], line["cause"]) == (status, type(error).__name__)
    assert error.message in line["error"]


def test_a_defect_has_its_trace_in_one_line(
    web: Web, catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture
) -> None:
    catalog.errors["load_namespace_properties"] = ZeroDivisionError('a\n{"forged": 1}')
    assert web("GET", "/v1/namespaces/default").status_code == 500
    [line] = written(lines)
    assert "in load_namespace" in line["trace"] or "fakes.py" in line["trace"]
    assert all("\n" not in record.getMessage() for record in lines.records)


@pytest.mark.parametrize(("error", "status"), [(InvalidInput("x"), 400), (AlreadyExists("x"), 404)])
def test_an_error_that_the_client_sees_whole_needs_no_line(
    lines: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    FailureLog(ByHand()).write(failed(error), "POST", "/", status)
    assert written(lines) == []


def test_an_error_that_the_client_does_not_see_has_a_line_whatever_its_status(lines: pytest.LogCaptureFixture) -> None:
    FailureLog(ByHand()).write(failed(LockNotAcquired("held by 7 on host h")), "POST", "/", 400)
    assert "held by 7 on host h" in written(lines)[0]["error"]


def test_a_storm_has_few_lines_and_the_number_of_the_others(lines: pytest.LogCaptureFixture) -> None:
    clock = ByHand()
    log = FailureLog(clock)
    conflict, outage = RequirementFailed("assert-ref-snapshot-id", "x"), MetastoreUnavailable("x")

    async def storm() -> None:
        for _ in range(10_000):
            log.write(failed(conflict), "POST", "/", 409)
        log.write(failed(outage), "POST", "/", 429)
        log.flush()

    asyncio.run(storm())
    found = written(lines)
    assert len(found) == LINES_MAX + 2
    assert found[-2]["cause"] == "MetastoreUnavailable", "another cause has lines of its own"
    assert (found[-1]["cause"], found[-1]["left_out"]) == ("assert-ref-snapshot-id", 10_000 - LINES_MAX)
    log.write(failed(conflict), "POST", "/", 409)
    assert len(written(lines)) == LINES_MAX + 3


def test_a_storm_of_conflicts_writes_nothing_where_conflicts_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As in a program that configures no logging: Python writes its warnings to standard error."""
    log = FailureLog(ByHand())

    async def storm() -> None:
        for _ in range(LINES_MAX + 5):
            log.write(failed(RequirementFailed("assert-ref-snapshot-id", "x")), "POST", "/", 409)
        log.flush()

    with caplog.at_level(logging.WARNING, LOGGER):
        asyncio.run(storm())
    assert written(caplog) == []


def test_no_caller_keeps_the_failures_of_another_one_out_of_the_log(lines: pytest.LogCaptureFixture) -> None:
    log = FailureLog(ByHand())
    conflict = RequirementFailed("assert-ref-snapshot-id", "x")

    async def storm() -> None:
        for _ in range(1_000):
            log.write(failed(conflict, "attacker"), "POST", "/", 409)
        log.write(failed(conflict, "etl"), "POST", "/", 409)
        log.flush()

    asyncio.run(storm())
    found = written(lines)
    assert found[LINES_MAX]["caller"] == "etl"
    assert (found[-1]["caller"], found[-1]["left_out"]) == ("attacker", 1_000 - LINES_MAX)


def test_very_many_callers_share_lines(lines: pytest.LogCaptureFixture) -> None:
    clock = ByHand()
    log = FailureLog(clock)
    conflict = RequirementFailed("x", "y")

    async def storm() -> None:
        for number in range(3 * KEYS_MAX):
            log.write(failed(conflict, f"caller-{number}"), "POST", "/", 409)

    asyncio.run(storm())
    assert len(written(lines)) == KEYS_MAX + LINES_MAX
    clock.seconds += WINDOW_SECONDS
    log.flush()
    lines.clear()
    for number in range(KEYS_MAX // 4):
        log.write(failed(conflict, f"caller-{number}"), "POST", "/", 409)
        log.write(failed(conflict, f"new-{number}"), "POST", "/", 409)
    assert len(written(lines)) == KEYS_MAX // 2


def test_a_slow_trickle_is_written_whole(lines: pytest.LogCaptureFixture) -> None:
    clock = ByHand()
    log = FailureLog(clock)
    for _ in range(3 * LINES_MAX):
        log.write(failed(RequirementFailed("x", "y")), "POST", "/", 409)
        clock.seconds += WINDOW_SECONDS / LINES_MAX
    assert len(written(lines)) == 3 * LINES_MAX


def test_the_number_of_the_others_comes_by_itself(
    lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iceberg_hms.rest.failure_log.WINDOW_SECONDS", 0.01)
    log = FailureLog(ByHand())

    async def storm() -> None:
        for _ in range(LINES_MAX + 5):
            log.write(failed(RequirementFailed("x", "y")), "POST", "/", 409)
        async with asyncio.timeout(30):
            while "left_out" not in written(lines)[-1]:
                await asyncio.sleep(0)

    asyncio.run(storm())
    assert written(lines)[-1]["left_out"] == 5


def test_the_end_of_the_server_tells_the_number_too(catalog: ScriptedCatalog, lines: pytest.LogCaptureFixture) -> None:
    app = create_app(catalog, settings=catalog.rest_settings)
    catalog.errors["load_namespace_properties"] = AlreadyExists("x")
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(_message: Any) -> None:
        pass

    async def scene() -> None:
        async with Web(app).client() as client:
            for _ in range(LINES_MAX + 3):
                await client.get("/v1/namespaces/default")
        await app({"type": "lifespan"}, receive, send)

    asyncio.run(scene())
    assert written(lines)[-1]["left_out"] == 3


def test_a_failure_keeps_nothing_of_its_request(web: Web, catalog: ScriptedCatalog) -> None:
    class Watched(IcebergHmsError):
        """Can be watched for its end."""

    catalog.errors["load_namespace_properties"] = error = Watched("x")
    found = weakref.ref(error)
    gc.disable()
    try:
        assert web("GET", "/v1/namespaces/default").status_code == 500
        catalog.errors.clear()
        del error
        assert found() is None
    finally:
        gc.enable()
