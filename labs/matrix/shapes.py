"""What a commit looks like on the wire, without ids and values: two verbs of one shape are one cell of the matrix."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from labs.matrix.commit_gate import Sent

#: Summary keys whose values say which engine wrote; of all other keys the name alone counts.
_NAMED = ("operation", "engine-name")
_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")


def shape(sent: Sent) -> dict[str, Any]:
    """The shape of one commit, as JSON."""
    return {
        "client": client(sent.headers),
        "requirements": [requirement["type"] for requirement in sent.requirements],
        "updates": [update["action"] for update in sent.updates],
        "snapshots": [_snapshot(update["snapshot"]) for update in sent.updates if update["action"] == "add-snapshot"],
        "own-manifests": manifests(sent.own_manifests),
    }


def client(headers: Mapping[str, str]) -> str:
    """Product and minor version: `pyiceberg/0.12`, `Apache Iceberg/1.11`, `Trino/476`."""
    said = headers.get("X-Client-Version") or headers.get("User-Agent", "")
    found = re.search(r"([A-Za-z][A-Za-z ]*?)[ /]v?(\d+(?:\.\d+)?)", said)
    return f"{found[1]}/{found[2]}" if found else said.split("/")[0]


def manifests(own: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which kinds there are: content and what they hold, such as `data: added`."""
    kinds = set()
    for each in own:
        holds = [count.partition("_")[0] for count in _COUNTS if each[count]]
        kinds.add(f"{each['content']}: {'+'.join(holds) or 'nothing'}")
    return sorted(kinds)


def cell(shapes: Sequence[Mapping[str, Any]]) -> str:
    """The name of what a verb sent: a short hash of its shapes."""
    text = json.dumps(shapes, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _snapshot(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    summary = snapshot["summary"]
    return {
        "parent": "parent-snapshot-id" in snapshot,
        **{key: summary[key] for key in _NAMED if key in summary},
        "summary": sorted(key for key in summary if key not in _NAMED),
    }
