"""A REST commit, as it came over the wire or through `Catalog.commit`, made into a change.

    change = from_request(requirements, updates, Client(user_agent="PyIceberg/0.12.0"))

What it does on a table that moved is in `sent.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_hms.changes import requirements as requirements_
from iceberg_hms.changes import updates as updates_
from iceberg_hms.changes.blind_append import Default, unsaid
from iceberg_hms.changes.change import Change, ChangeIdentity, Requirement, Seen, Update
from iceberg_hms.changes.client_commit import AddedSnapshot, ClientCommit
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY, check_key
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot


@dataclass(frozen=True, slots=True)
class Client:
    """What a request's headers say of its sender.

    user_agent: `User-Agent`; client_version: `X-Client-Version`; caller: who is authenticated, for logs and locks.
    """

    user_agent: str = ""
    client_version: str = ""
    caller: str = ""


def from_request(
    requirements: object,
    updates: object,
    client: Client | None = None,
    *,
    idempotency_key: str | None = None,
    rebase_default: Default = unsaid,
) -> Change:
    """Make a commit request into a change.

    requirements, updates: lists of JSON objects of the REST protocol.
    client: what is known of the sender.
    idempotency_key: the key of the caller's whole job. It is kept in the summary of the snapshots that the commit adds
    (`iceberg-hms.idempotency-key`); a snapshot that carries that property already brings its own.
    rebase_default: which appends may be rebased where the table does not say. Called only when a snapshot has lost
    its branch's place.

    Raises InvalidInput (shape, unknown type or action, a key without a snapshot to keep it, two different keys, an
    empty key) and UnsupportedFormat (encryption). Nothing was done then.
    """
    parsed_requirements = requirements_.parse(requirements)
    parsed_updates = updates_.parse(updates)
    snapshots = [update["snapshot"] for update in parsed_updates if update["action"] == "add-snapshot"]
    key = _job_key(snapshots, idempotency_key)
    if idempotency_key is not None:
        parsed_updates = tuple(_with_key(update, idempotency_key) for update in parsed_updates)
    snapshot_ids = tuple(snapshot["snapshot-id"] for snapshot in snapshots)
    if len(set(snapshot_ids)) < len(snapshot_ids):
        raise InvalidInput(f"Cannot add a snapshot twice in one commit: {list(snapshot_ids)}")
    identity = ChangeIdentity(
        snapshot_ids=snapshot_ids,
        ref=_moved_ref(snapshot_ids, parsed_updates),
        idempotency_key=key,
        caller="" if client is None else client.caller,
        lists=tuple(list_ for list_ in (each.get("manifest-list") for each in snapshots) if isinstance(list_, str)),
        seen=_seen(parsed_requirements, snapshots),
        sender=_sender(client or Client(), snapshots),
    )
    request = ClientCommit(identity, parsed_requirements, parsed_updates)
    moved = _rebasable(request)
    if moved is None:
        return request
    [snapshot] = [Snapshot.parse(update["snapshot"]) for update in parsed_updates if update["action"] == "add-snapshot"]
    return AddedSnapshot(request, snapshot, moved, rebase_default)


def _seen(requirements: Sequence[Requirement], snapshots: Sequence[Mapping[str, Any]]) -> Seen | None:
    """What the client had read of the table, if the request adds snapshots."""
    if not snapshots:
        return None
    first = snapshots[0]
    uuids = [each["uuid"] for each in requirements if each["type"] == requirements_.ASSERT_TABLE_UUID]
    # A snapshot for format version 1 has no number, or 0.
    return Seen(
        uuid=next(iter(uuids), None),
        parent_id=first.get("parent-snapshot-id"),
        number=first.get("sequence-number") or None,
        made_ms=first["timestamp-ms"],
    )


def _sender(client: Client, snapshots: Sequence[Update]) -> str:
    """The headers and the last summary, as far as they say which program sends and what it does."""
    summary = snapshots[-1].get("summary") or {} if snapshots else {}
    said = [str(summary.get(key, "")) for key in ("engine-name", "engine-version", "operation")]
    return " ".join(filter(None, [client.user_agent, client.client_version, *said]))


def _rebasable(request: ClientCommit) -> Requirement | None:
    """The requirement of the branch's place, if all that a request does is to add one snapshot to that branch. It may
    set properties too: those replay on any base."""
    actions = sorted(update["action"] for update in request.updates if update["action"] != "set-properties")
    if actions != ["add-snapshot", "set-snapshot-ref"] or request.identity.ref is None:
        return None
    wanted = (requirements_.ASSERT_REF_SNAPSHOT_ID, request.identity.ref)
    found = [each for each in request.requirements if (each["type"], each.get("ref")) == wanted]
    for update in request.updates:
        if update["action"] == "set-snapshot-ref" and update["type"] != updates_.BRANCH:
            return None
        if update["action"] == "add-snapshot" and len(found) == 1:
            # A branch that is made with its first snapshot begins where another one is.
            parent = found[0]["snapshot-id"]
            if parent is not None and parent != update["snapshot"].get("parent-snapshot-id"):
                return None
    return found[0] if len(found) == 1 else None


def _job_key(snapshots: Sequence[Update], given: str | None) -> str | None:
    summaries = [snapshot.get("summary") or {} for snapshot in snapshots]
    keys: set[str] = {summary[IDEMPOTENCY_KEY] for summary in summaries if IDEMPOTENCY_KEY in summary}
    if given is not None:
        if not snapshots:
            raise InvalidInput("An idempotency key is kept in a snapshot's summary, and this commit adds no snapshot")
        keys.add(given)
    for key in keys:
        check_key(key)
    if len(keys) > 1:
        raise InvalidInput(f"A commit has one idempotency key, found {sorted(keys)}")
    return keys.pop() if keys else None


def _with_key(update: Update, key: str) -> Update:
    if update["action"] != "add-snapshot":
        return update
    snapshot = update["snapshot"]
    return {**update, "snapshot": {**snapshot, "summary": {**(snapshot.get("summary") or {}), IDEMPOTENCY_KEY: key}}}


def _moved_ref(snapshot_ids: Sequence[int], updates: Sequence[Update]) -> str | None:
    """The ref that the commit moves to the last snapshot that it adds; main, if that is one of several."""
    if not snapshot_ids:
        return None
    moves = [update for update in updates if update["action"] == "set-snapshot-ref"]
    refs = [str(update["ref-name"]) for update in moves if update["snapshot-id"] == snapshot_ids[-1]]
    return MAIN_BRANCH if MAIN_BRANCH in refs else next(iter(refs), None)
