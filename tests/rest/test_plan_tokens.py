"""Tokens of plans: what one server signs another one with its key reads, and nothing else is read."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.planning.answers import Run
from iceberg_hms.rest.plan_tokens import ID_CHARACTERS_MAX, PlannedScan, PlanTokens

KEY = b"k" * 32
SCAN = PlannedScan(
    table="d6ea4fd4-1c0a-4b27-bd5a-0b5d0a4a7b7c",
    snapshot_id=2**62,
    schema_id=3,
    start_snapshot_id=7,
    filter={"type": "eq", "term": "day", "value": "2026-11-28"},
    case_sensitive=False,
    use_snapshot_schema=True,
    stats_fields=("a", "b.c"),
    min_rows=10,
    digest="00ff",
)


@pytest.mark.parametrize("run", [None, Run(0, 5), Run(3, 4, (10, 20, 25))])
def test_tokens_say_all_of_a_scan(run: Run | None) -> None:
    tokens, scan = PlanTokens(KEY), replace(SCAN, run=run)
    assert PlanTokens(KEY).read_task(tokens.task(scan)) == scan
    assert PlanTokens(KEY).read_plan(tokens.plan_id(scan)) == (scan.table, scan)


def test_a_plan_without_anything_has_an_id_too() -> None:
    scan = PlannedScan("t", None, 0)
    assert PlanTokens(KEY).read_plan(PlanTokens(KEY).plan_id(scan)) == ("t", scan)


def test_a_token_is_of_its_key_and_kind() -> None:
    tokens = PlanTokens(KEY)
    for other in (PlanTokens(b"x" * 32), PlanTokens.of_process(SYSTEM_CLOCK)):
        assert other.read_task(tokens.task(SCAN)) is None
        assert other.read_plan(tokens.plan_id(SCAN)) is None
    assert tokens.read_plan(tokens.task(SCAN)) is None
    assert tokens.read_task(tokens.plan_id(SCAN)) is None


def test_a_token_of_the_release_before_is_read_as_it_was_meant() -> None:
    """If this has to change, change the number in `_PURPOSE`, too: it makes the old ones unknown."""
    kept = (
        "KC27CS0G5UewRRsz7iIlf3R4nItWskw2NEoxMTFU0jHXMdbJK83JgRAlRaWpOmmJOcWpOtGxSEJKBgZpaUo60YY6JjrRRkAtlrGxsQAE4xVO"
    )
    scan = PlannedScan("9c12d441", 7, 3, digest="00ff", run=Run(1, 4, (2, 3, 9)))
    assert PlanTokens(KEY).read_task(kept) == scan


def test_two_processes_without_a_key_have_two() -> None:
    one, other = PlanTokens.of_process(SYSTEM_CLOCK), PlanTokens.of_process(SYSTEM_CLOCK)
    assert one.read_task(one.task(SCAN)) == SCAN
    assert other.read_task(one.task(SCAN)) is None


def test_no_changed_byte_is_read() -> None:
    tokens = PlanTokens(KEY)
    signed = base64.urlsafe_b64decode(tokens.task(SCAN) + "==")
    for at in range(len(signed)):
        changed = signed[:at] + bytes([signed[at] ^ 1]) + signed[at + 1 :]
        assert tokens.read_task(base64.urlsafe_b64encode(changed).rstrip(b"=").decode()) is None
    for length in range(len(signed)):
        assert tokens.read_task(base64.urlsafe_b64encode(signed[:length]).rstrip(b"=").decode()) is None


@pytest.mark.parametrize("text", ["", "A", "no base64!", "é", "=" * 20, "A" * 100_000])
def test_what_is_no_token_is_not_read(text: str) -> None:
    assert PlanTokens(KEY).read_task(text) is None
    assert PlanTokens(KEY).read_plan(text) is None


def test_a_long_scan_has_an_id_that_names_its_table_alone() -> None:
    filter_: Any = {"type": "in", "term": "x", "values": [os.urandom(32).hex() for _ in range(200)]}
    tokens, scan = PlanTokens(KEY), replace(SCAN, filter=filter_)
    plan_id = tokens.plan_id(scan)
    assert len(plan_id) <= ID_CHARACTERS_MAX
    assert tokens.read_plan(plan_id) == (scan.table, None)
    assert tokens.read_task(tokens.task(scan)) == scan
