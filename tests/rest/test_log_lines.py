from __future__ import annotations

import asyncio
import json
import logging

import pytest

from iceberg_hms.rest.log_lines import KEYS_MAX, TEXT_MAX, JsonLog, LineLimit
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE
from tests.security.callers import ByHand

LOGGER = "iceberg_hms.tests.lines"
ALL = "".join(map(chr, (*range(0x180), 0x2028, 0xFFFE, 0x1F600)))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOGGER)
    return caplog


def test_a_line_has_only_printable_ascii_and_reads_back(lines: pytest.LogCaptureFixture) -> None:
    JsonLog(LOGGER, ByHand()).write({"a": ALL[:TEXT_MAX], "b": [ALL[TEXT_MAX:]]}, c={"d": ALL})
    [line] = lines.messages
    assert line.isascii()
    assert line.isprintable()
    found = json.loads(line)
    assert len(found.pop("time")) == len("2026-11-22T16:12:48.031Z")
    assert found == {"a": ALL[:TEXT_MAX], "b": [ALL[TEXT_MAX:]], "c": {"d": ALL}}


def test_a_long_text_says_how_long_it_is(lines: pytest.LogCaptureFixture) -> None:
    text = "x" * (TEXT_MAX + 1)
    JsonLog(LOGGER, ByHand()).write({"a": text, "b": (text, 7)}, c=text)
    found = json.loads(lines.messages[0])
    cut = "x" * TEXT_MAX + f"... {TEXT_MAX + 1} characters"
    assert (found["a"], found["b"], found["c"]) == (cut, [cut, 7], text)


@pytest.mark.parametrize("fields", [{"": "x" * (TEXT_MAX + 1)}, {"": ["y" * (TEXT_MAX + 1)]}])
def test_the_shortest_line_with_a_long_text_is_cut_too(lines: pytest.LogCaptureFixture, fields: dict[str, str]) -> None:
    JsonLog(LOGGER, ByHand()).write(fields)
    assert f"... {TEXT_MAX + 1} characters" in lines.messages[0]


def test_a_line_that_is_too_long_is_not_written(lines: pytest.LogCaptureFixture) -> None:
    log = JsonLog(LOGGER, ByHand())
    assert not log.write({}, most=100, a="x" * 100)
    assert lines.messages == []
    assert log.write({}, most=200, a="x" * 100)
    assert len(lines.messages) == 1


def test_the_default_warehouse_is_not_named(lines: pytest.LogCaptureFixture) -> None:
    log = JsonLog(LOGGER, ByHand())
    for warehouse in (DEFAULT_WAREHOUSE, "lab"):
        log.write({"warehouse": warehouse}, level=logging.ERROR)
    assert [json.loads(line).get("warehouse") for line in lines.messages] == [None, "lab"]
    assert {record.levelno for record in lines.records} == {logging.ERROR}


def test_a_logger_that_wants_no_lines_gets_none(caplog: pytest.LogCaptureFixture) -> None:
    log = JsonLog(LOGGER, ByHand())
    with caplog.at_level(logging.WARNING, LOGGER):
        log.write({})
        assert (log.wants(), log.wants(logging.WARNING)) == (False, True)
    assert caplog.records == []


Told = list[tuple[str, str | None, int]]


def limit(lines: int, seconds: float = 10.0) -> tuple[LineLimit, Told]:
    told: Told = []
    return LineLimit(lines, seconds, lambda *more: told.append(more)), told


def test_each_cause_and_caller_has_room_for_so_many_lines() -> None:
    async def scene() -> None:
        lines, told = limit(2)
        assert [lines.has_room("a", "x", now) for now in (5.0, 5.1, 5.2, 5.3)] == [True, True, False, False]
        assert lines.has_room("b", "x", 5.4)
        assert lines.has_room("a", None, 5.5)
        assert told == []
        assert lines.has_room("a", "x", 10.0), "the seconds are over"
        assert told == [("a", "x", 2)]

    asyncio.run(scene())


def test_the_limit_tells_what_had_no_room_though_nothing_follows() -> None:
    async def scene() -> None:
        lines, told = limit(1, 0.01)
        for _ in range(5):
            lines.has_room("a", None, 0.0)
        async with asyncio.timeout(30):
            while not told:
                await asyncio.sleep(0)
        assert told == [("a", None, 4)]
        lines.flush()
        assert told == [("a", None, 4)], "once"

    asyncio.run(scene())


def test_very_many_callers_share_the_room_of_a_cause() -> None:
    async def scene() -> None:
        lines, told = limit(3)
        assert sum(lines.has_room("a", f"caller {number}", 0.0) for number in range(2 * KEYS_MAX)) == KEYS_MAX + 3
        assert lines.has_room("a", "caller 1", 0.0)
        lines.flush()
        assert told == [("a", None, KEYS_MAX - 3)]

    asyncio.run(scene())
