"""Recorded commits of stock engines, and which of them the server takes for blind appends."""

from __future__ import annotations

from typing import Any

import orjson

from iceberg_hms.changes.clients.blind_append import why_not_blind
from labs.matrix.record import RECORDED
from simulation.world.first_table import empty_table

#: A table that says nothing of appends.
STOCK = empty_table("00000000-0000-4000-8000-000000000000", {}, 0)
#: Verbs of Trino that validate nothing, also after a conflict.
TRINO_INSERTS = {"insert", "insert-select", "insert-select-itself", "insert-fast-append"}


def rebased(engine: str) -> set[str]:
    """The verbs whose snapshot the server would put on another head of a table with stock settings."""
    return {
        recording["verb"]
        for recording in orjson.loads((RECORDED / f"{engine}.json").read_bytes())
        if is_plain(recording["request"])
    }


def is_plain(request: dict[str, Any]) -> bool:
    added = [each["snapshot"]["summary"] for each in request["updates"] if each["action"] == "add-snapshot"]
    asks = any(each["type"] == "assert-ref-snapshot-id" for each in request["requirements"])
    return asks and all(each["operation"] == "append" and why_not_blind(STOCK, each) is None for each in added)


def test_of_trinos_commits_only_its_inserts_are_blind_appends() -> None:
    assert rebased("trino") == TRINO_INSERTS


def test_no_commit_of_duckdb_is_a_blind_append() -> None:
    assert rebased("duckdb") == set()
