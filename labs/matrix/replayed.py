"""Verbs of engines that a test does not start: their requests as they were recorded (`recorded/<engine>.json`), sent
again with files that are really there. Such a client never retries after a 409.

What is sent again is what may be taken for an append; recorded overwrites and deletes have their cells, and are not
delivered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from integration.rest_clients import TOKEN
from labs.matrix import rows
from labs.matrix.commit_gate import Sent
from labs.matrix.rows import BLIND, NEW_DAY, NEW_ID, SERIALIZABLE, Meaning, Row, new_row
from labs.matrix.verb import Run, Verb
from labs.matrix.writers import Writer, as_table

FOLDER = Path(__file__).parent / "recorded"
SECONDS = 120


class Refused(Exception):
    """The server refused a recorded request."""


class _Built(Exception):
    """What PyIceberg was about to send. It deletes files only after other errors than this."""

    def __init__(self, requirements: Sequence[Any], updates: Sequence[Any]) -> None:
        super().__init__()
        self.requirements = [json.loads(each.model_dump_json(by_alias=True)) for each in requirements]
        self.updates = [json.loads(each.model_dump_json(by_alias=True)) for each in updates]


class _NeverCommits:
    """In the place of a PyIceberg table's catalog: raises what the table would send."""

    def commit_table(self, table: Any, requirements: Sequence[Any], updates: Sequence[Any]) -> Any:
        raise _Built(requirements, updates)


def recordings(folder: Path = FOLDER) -> list[dict[str, Any]]:
    return [each for path in sorted(folder.glob("*.json")) for each in json.loads(path.read_text(encoding="utf-8"))]


def sent(recording: Mapping[str, Any]) -> Sent:
    """What the shapes are made of."""
    request = recording["request"]
    return Sent(request["requirements"], request["updates"], recording["headers"], recording["own_manifests"])


def name(recording: Mapping[str, Any]) -> str:
    return f"{recording['engine'].capitalize()} {recording['verb']}"


def is_append(recording: Mapping[str, Any]) -> bool:
    """Whether it moves a branch by snapshots that append, under a requirement of the branch's place."""
    request = recording["request"]
    summaries = [update["snapshot"]["summary"] for update in request["updates"] if update["action"] == "add-snapshot"]
    types = {requirement["type"] for requirement in request["requirements"]}
    return (
        "assert-ref-snapshot-id" in types
        and bool(summaries)
        and all(summary["operation"] == "append" for summary in summaries)
    )


def verbs(folder: Path = FOLDER) -> list[Verb]:
    return [_verb(each) for each in recordings(folder) if is_append(each)]


def _verb(recording: Mapping[str, Any]) -> Verb:
    reads = not recording["verb"].startswith(("insert", "add-files"))
    effect = rows.add_if_absent if reads else rows.add
    if _snapshots(recording) > 1:
        effect = _add_two
    promise = SERIALIZABLE if reads else BLIND
    return Verb(name(recording), _run(recording), Meaning(effect, promise, recording["statement"]))


def _add_two(_rows: rows.Rows, who: str) -> rows.Write:
    return rows.Write(adds=_new_rows(who, 2))


def _new_rows(who: str, count: int) -> tuple[Row, ...]:
    return tuple(new_row(who)._replace(id=NEW_ID + number, day=NEW_DAY) for number in range(count))


def _snapshots(recording: Mapping[str, Any]) -> int:
    return sum(update["action"] == "add-snapshot" for update in recording["request"]["updates"])


def _run(recording: Mapping[str, Any]) -> Run:
    def run(writer: Writer, table: str) -> None:
        loaded = writer.pyiceberg.load_table(table)
        change = loaded.transaction()
        for row in _new_rows(writer.who, _snapshots(recording)):
            change.append(as_table(row))
        loaded.catalog = _NeverCommits()
        try:
            change.commit_transaction()
        except _Built as built:
            order = [requirement["type"] for requirement in recording["request"]["requirements"]]
            requirements = sorted(built.requirements, key=lambda requirement: order.index(requirement["type"]))
            updates = like_recording(recording, built.updates)
        namespace, short = table.split(".")
        answer = httpx.post(
            f"{writer.uri}/v1/namespaces/{namespace}/tables/{short}",
            json={"requirements": requirements, "updates": updates},
            headers={"Authorization": f"Bearer {TOKEN}", **recording["headers"]},
            timeout=SECONDS,
        )
        if answer.status_code != httpx.codes.OK:
            raise Refused(f"{answer.status_code}: {answer.json()['error']['message']}")

    return run


def like_recording(recording: Mapping[str, Any], made: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The updates that were made, with the summaries of those that were recorded, and in their order."""
    snapshots = [update["snapshot"] for update in made if update["action"] == "add-snapshot"]
    refs = [update for update in made if update["action"] == "set-snapshot-ref"]
    said = iter(snapshots)
    updates: list[dict[str, Any]] = []
    for update in recording["request"]["updates"]:
        if update["action"] == "add-snapshot":
            snapshot, like = next(said), update["snapshot"]["summary"]
            summary = {key: snapshot["summary"].get(key, value) for key, value in like.items()}
            updates.append({"action": "add-snapshot", "snapshot": {**snapshot, "summary": summary}})
        elif update["action"] == "set-snapshot-ref":
            updates.append(refs[-1])
        elif update["action"] == "set-properties":
            updates.append(update)
    return updates
