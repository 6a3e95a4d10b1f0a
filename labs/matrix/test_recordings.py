"""What the recordings of stock Trino and DuckDB say, which other rules rest on: which verbs send `append`, and which
requests nobody can tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from labs.matrix.record import RECORDED
from labs.matrix.statements import VERBS

#: Keys of a summary that count files and rows: they differ with the data and not with the verb.
COUNTS = ("added-", "deleted-", "total-", "removed-", "changed-")
#: The verbs of Trino that read no row of their table before they append to it, or promise nothing about what they read:
#: their commits are blind appends (Java's FastAppend and MergeAppend, which validate nothing).
TRINO_APPENDS = {"insert", "insert-select", "insert-select-itself", "insert-fast-append", "add-files"}
#: Those whose search would have found a row that the other writer appended.
TRINO_VALIDATES = {"update", "delete-rows"} | {
    f"merge-{kind}" for kind in ("insert-no-match", "insert-some-match", "upsert-no-match", "upsert-some-match")
}
TRINO_CREATES = {"ctas", "ctas-no-data", "rtas"}


def recorded(engine: str) -> list[dict[str, Any]]:
    return list(orjson.loads((RECORDED / f"{engine}.json").read_bytes()))


def snapshots(recording: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for update in recording["request"]["updates"]:
        if update["action"] == "add-snapshot":
            yield update["snapshot"]


def shape(recording: dict[str, Any]) -> Any:
    """What a server sees of a request, but for counts."""
    request = orjson.loads(orjson.dumps(recording["request"]))
    for update in request["updates"]:
        if update["action"] == "add-snapshot":
            summary = update["snapshot"]["summary"]
            update["snapshot"]["summary"] = {k: v for k, v in summary.items() if not k.startswith(COUNTS)}
    return recording["headers"], request


@pytest.mark.parametrize("engine", sorted(VERBS))
def test_every_verb_is_recorded_but_those_that_change_nothing(engine: str) -> None:
    changes_nothing = {"update-no-match", "delete-no-match", "merge-nothing"}
    verbs = {verb.name for verb in VERBS[engine]}
    assert {recording["verb"] for recording in recorded(engine)} == verbs - changes_nothing


def test_trino_sends_append_for_inserts_and_creations_alone() -> None:
    appends = {
        recording["verb"]
        for recording in recorded("trino")
        if {snapshot["summary"]["operation"] for snapshot in snapshots(recording)} == {"append"}
    }
    assert appends == TRINO_APPENDS | TRINO_CREATES
    for recording in recorded("trino"):
        if recording["verb"].startswith(("merge", "update", "delete")):
            assert {each["summary"]["operation"] for each in snapshots(recording)} <= {"overwrite", "delete"}


def test_after_a_conflict_trino_sends_its_appends_again_and_validates_its_merges() -> None:
    """Its appends are blind: it puts them on the new head itself, and reads nothing that others added."""
    for recording in recorded("trino"):
        sends, lands = recording["overtaken"]["sends"], recording["overtaken"]["lands"]
        if recording["verb"] in TRINO_APPENDS:
            assert (sends, lands) == (["append 409", "append 200"], True)
        if recording["verb"] in TRINO_VALIDATES:
            assert (len(sends), lands) == (1, False)


def test_duckdb_never_sends_a_commit_again() -> None:
    for recording in recorded("duckdb"):
        if recording["verb"] != "ctas":
            assert (len(recording["overtaken"]["sends"]), recording["overtaken"]["lands"]) == (1, False)


def test_every_snapshot_of_trino_names_its_engine_and_its_iceberg() -> None:
    for recording in recorded("trino"):
        for snapshot in snapshots(recording):
            summary = snapshot["summary"]
            assert (summary["engine-name"], summary["engine-version"]) == ("trino", recording["version"])
            assert summary["iceberg-version"].startswith("Apache Iceberg 1.9.1 ")


@pytest.mark.parametrize(
    "verb",
    [
        "insert-select",
        "insert-select-itself",
        "merge-insert-no-match",
        "merge-insert-some-match",
        "merge-upsert-no-match",
        "delete-no-match-insert-in-transaction",
        "read-insert-in-transaction",
    ],
)
def test_nothing_tells_an_insert_of_duckdb_from_what_read_the_table(verb: str) -> None:
    by_verb = {recording["verb"]: recording for recording in recorded("duckdb")}
    assert shape(by_verb[verb]) == shape(by_verb["insert"])
    assert shape(by_verb["update"]) != shape(by_verb["insert"])


@pytest.mark.parametrize("engine", sorted(VERBS))
def test_no_recording_tells_of_the_machine_that_made_it(engine: str) -> None:
    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (text for each in value.values() for text in strings(each))
        elif isinstance(value, list):
            yield from (text for each in value for text in strings(each))
        elif isinstance(value, str):
            yield value

    for recording in recorded(engine):
        for text in strings(recording["request"]):
            assert not text.startswith(("file:", "/")) or text.startswith("file:/lake/"), text
        for snapshot in snapshots(recording):
            assert snapshot["timestamp-ms"] == 0
            assert 1_000 < snapshot["snapshot-id"] < 1_010
