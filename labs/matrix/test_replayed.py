"""Recordings of engines become verbs, and what is sent again has their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labs.matrix import replayed, rows


def recording(verb: str, *operations: str) -> dict[str, Any]:
    updates: list[dict[str, Any]] = [
        {"action": "add-snapshot", "snapshot": {"snapshot-id": number, "summary": {"operation": each, "engine": "x"}}}
        for number, each in enumerate(operations)
    ]
    requirements = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}]
    return {
        "engine": "duckdb",
        "version": "1.5",
        "verb": verb,
        "statement": "...",
        "headers": {"User-Agent": "duckdb/v1.5.5", "X-Client-Version": ""},
        "request": {"requirements": requirements, "updates": [*updates, {"action": "set-snapshot-ref"}]},
        "own_manifests": [
            {"content": "data", "added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0}
        ],
    }


def folder_of(path: Path, *recordings: dict[str, Any]) -> Path:
    (path / "duckdb.json").write_text(json.dumps(recordings), encoding="utf-8")
    return path


def test_what_appends_becomes_a_verb_and_what_deletes_does_not(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        recording("insert", "append"),
        recording("merge-insert-no-match", "append"),
        recording("insert-twice", "append", "append"),
        recording("delete", "delete"),
        recording("delete-insert", "delete", "append"),
    )
    found = {verb.name: verb.meaning for verb in replayed.verbs(folder)}
    assert {name: meaning.promise for name, meaning in found.items()} == {
        "Duckdb insert": rows.BLIND,
        "Duckdb merge-insert-no-match": rows.SERIALIZABLE,
        "Duckdb insert-twice": rows.BLIND,
    }
    assert len(found["Duckdb insert-twice"].effect(rows.Rows(), "a").adds) == 2


def test_a_folder_without_recordings_has_no_verbs(tmp_path: Path) -> None:
    assert replayed.verbs(tmp_path) == []


def test_what_is_sent_again_has_the_recorded_keys_and_order() -> None:
    made = [
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 7, "summary": {"operation": "append", "added": "1"}}},
        {"action": "set-snapshot-ref", "snapshot-id": 7},
    ]
    like = recording("insert", "append")
    like["request"]["updates"].reverse()
    ref, snapshot = replayed.like_recording(like, made)
    assert ref == made[1]
    assert snapshot["snapshot"] == {"snapshot-id": 7, "summary": {"operation": "append", "engine": "x"}}
