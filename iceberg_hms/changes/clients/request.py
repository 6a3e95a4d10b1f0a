"""Makes a change of a commit that came by REST or `Catalog.commit`.

    change = from_request(requirements, updates, Client(user_agent="PyIceberg/0.12.0"))

`client_commit.py` says how it replays on a table that moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from iceberg_hms.changes import requirements as requirements_
from iceberg_hms.changes import updates as updates_
from iceberg_hms.changes.change import Change, ChangeIdentity, ClientBase, Requirement, Update
from iceberg_hms.changes.clients.blind_append import PolicyLookup, default_policy
from iceberg_hms.changes.clients.client_commit import ClientCommit, RebasableCommit
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY, check_key
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot

#: Clients add one of each. Parsing and comparing one takes a tenth of a millisecond and more.
MAX_LAYOUTS: Final = 1_000
_LAYOUT_ACTIONS: Final = frozenset({"add-schema", "add-spec", "add-sort-order"})
#: What ClickHouse names as the parent of a table's first snapshot (`RestCatalog::updateMetadata`).
_NO_PARENT: Final = -1


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a request, from its headers.

    user_agent: `User-Agent`; client_version: `X-Client-Version`; caller: the authenticated caller, for logs and locks.
    may_write: whether the caller may write in a namespace (`placement.EVERYWHERE`: in all).
    is_here: whether it runs in this process and commits what it makes through this catalog alone.
    """

    user_agent: str = ""
    client_version: str = ""
    caller: str = ""
    may_write: Callable[[str], bool] = field(default=lambda _namespace: False, compare=False, repr=False)
    is_here: bool = False


def from_request(
    requirements: object,
    updates: object,
    client: Client | None = None,
    *,
    idempotency_key: str | None = None,
    rebase_policy: PolicyLookup = default_policy,
    max_updates: int | None = None,
) -> Change:
    """Make a change of a commit request.

    requirements, updates: lists of JSON objects of the REST protocol.
    client: None if nothing is known of it.
    idempotency_key: the key of the caller's whole job. It is kept in the summary of the snapshots that the commit adds
    (`iceberg-hms.idempotency-key`), where a client may also have put it itself.
    rebase_policy: gives the rebase policy of tables that set none. Called only if the branch moved under the client's
    snapshot.
    max_updates: how many requirements and updates a request may have together (`commit.max-updates`); None: any
    number, for requests of our own. The change's `check` refuses a larger one: it may have landed before the limit was
    lowered, so the server looks at the table first.

    Raises InvalidInput (shape, unknown type or action, a key without a snapshot to keep it, two different keys, an
    empty key) and UnsupportedFormat (encryption), before any other work.
    """
    client = client or Client()
    parsed_requirements, parsed_updates = _without_absent_parents(
        requirements_.parse(requirements), updates_.parse(updates)
    )
    snapshots = [update["snapshot"] for update in parsed_updates if update["action"] == "add-snapshot"]
    key = _job_key(snapshots, idempotency_key)
    if idempotency_key is not None:
        parsed_updates = tuple(_with_key(update, idempotency_key) for update in parsed_updates)
    snapshot_ids = tuple([snapshot["snapshot-id"] for snapshot in snapshots])
    if len(set(snapshot_ids)) < len(snapshot_ids):
        raise InvalidInput(f"Cannot add a snapshot twice in one commit: {list(snapshot_ids)}")
    by_action: dict[str, list[Update]] = {}
    for update in parsed_updates:
        by_action.setdefault(update["action"], []).append(update)
    identity = ChangeIdentity(
        snapshot_ids=snapshot_ids,
        ref=_moved_ref(snapshot_ids, by_action),
        idempotency_key=key,
        caller=client.caller,
        client_base=_client_base(parsed_requirements, snapshots, made_here=client.is_here),
        sender=_sender(client, snapshots),
        location=_location(by_action),
        paths=_paths(by_action),
        lists=tuple([each["manifest-list"] for each in snapshots if each.get("manifest-list")]),
    )
    too_large = _too_large(len(parsed_requirements) + len(parsed_updates), max_updates, by_action)
    commit = ClientCommit(identity, parsed_requirements, parsed_updates, too_large=too_large)
    ref_requirement = _rebasable_requirement(commit, by_action)
    if ref_requirement is None:
        return commit
    snapshot = by_action["add-snapshot"][0]["snapshot"]
    return RebasableCommit(commit, Snapshot(snapshot), ref_requirement, rebase_policy)


def _without_absent_parents(
    requirements: Sequence[Requirement], updates: Sequence[Update]
) -> tuple[tuple[Requirement, ...], tuple[Update, ...]]:
    """The same request, in which snapshots whose parent is -1 have none.

    Such a request comes without a requirement on its branch. If another writer has begun the branch meanwhile, the
    snapshot would take the place of all that is there, so it is required that nobody has."""
    if not any(map(_names_no_parent, updates)):
        return tuple(requirements), tuple(updates)
    asserted = {each["ref"] for each in requirements if each["type"] == requirements_.ASSERT_REF_SNAPSHOT_ID}
    branches = {
        update["ref-name"]: None
        for update in updates
        if update["action"] == "set-snapshot-ref" and update["type"] == updates_.BRANCH
    }
    added = () if requirements_.is_create(requirements) else [name for name in branches if name not in asserted]
    return (*requirements, *map(requirements_.assert_no_ref, added)), tuple(map(_without_absent_parent, updates))


def _names_no_parent(update: Update) -> bool:
    return update["action"] == "add-snapshot" and bool(update["snapshot"].get("parent-snapshot-id") == _NO_PARENT)


def _without_absent_parent(update: Update) -> Update:
    if not _names_no_parent(update):
        return update
    kept = {key: value for key, value in update["snapshot"].items() if key != "parent-snapshot-id"}
    return {**update, "snapshot": kept}


def check_count(requirements: object, updates: object, most: int | None) -> None:
    """Raises InvalidInput for more than `most` requirements and updates together; None: any number."""
    count = sum(len(each) for each in (requirements, updates) if isinstance(each, list | tuple))
    error = _too_many(count, most)
    if error is not None:
        raise error


def _too_many(count: int, most: int | None) -> InvalidInput | None:
    if most is None or count <= most:
        return None
    return InvalidInput(
        f"a commit of {count} requirements and updates is too large",
        next_step=f"send at most {most} at once, or raise `commit.max-updates`",
    )


def _too_large(count: int, most: int | None, updates: Mapping[str, Sequence[Update]]) -> InvalidInput | None:
    too_many = _too_many(count, most)
    layouts = sum([len(found) for action, found in updates.items() if action in _LAYOUT_ACTIONS])
    if too_many is not None or layouts <= MAX_LAYOUTS:
        return too_many
    return InvalidInput(
        f"a commit that adds {layouts} schemas, partition specs and sort orders is too large",
        next_step=f"add at most {MAX_LAYOUTS} at once",
    )


def _client_base(
    requirements: Sequence[Requirement], snapshots: Sequence[Mapping[str, Any]], *, made_here: bool
) -> ClientBase | None:
    """The table as the client read it; None if the request adds no snapshot."""
    if not snapshots:
        return None
    first = snapshots[0]
    uuids = [each["uuid"] for each in requirements if each["type"] == requirements_.ASSERT_TABLE_UUID]
    # A snapshot for format version 1 has no number, or 0.
    return ClientBase(
        uuid=uuids[0] if uuids else None,
        parent_id=first.get("parent-snapshot-id"),
        sequence_number=first.get("sequence-number") or None,
        timestamp_ms=first["timestamp-ms"],
        made_here=made_here,
    )


def _location(updates: Mapping[str, Sequence[Update]]) -> str | None:
    """The table's location after the updates, by their action; None if they leave it."""
    return str(updates["set-location"][-1]["location"]) if "set-location" in updates else None


def _paths(updates: Mapping[str, Sequence[Update]]) -> tuple[str, ...]:
    """The folders that properties name after the updates."""
    if "set-properties" not in updates:
        return ()
    return tuple(path for update in updates["set-properties"] for _, path in new_paths({}, update["updates"]))


def _sender(client: Client, snapshots: Sequence[Update]) -> str:
    """The program and its operation, from the headers and the last snapshot's summary."""
    summary = snapshots[-1].get("summary") or {} if snapshots else {}
    names = [str(summary.get(key, "")) for key in ("engine-name", "engine-version", "operation")]
    return " ".join(filter(None, [client.user_agent, client.client_version, *names]))


def _rebasable_requirement(commit: ClientCommit, updates: Mapping[str, Sequence[Update]]) -> Requirement | None:
    """The requirement on the branch's snapshot, if the commit only adds one snapshot to that branch. It may set
    properties too: they replay on any base."""
    if commit.identity.ref is None or updates.keys() - {"set-properties"} != {"add-snapshot", "set-snapshot-ref"}:
        return None
    adds, moves = updates["add-snapshot"], updates["set-snapshot-ref"]
    if len(adds) > 1 or len(moves) > 1 or moves[0]["type"] != updates_.BRANCH:
        return None
    wanted = (requirements_.ASSERT_REF_SNAPSHOT_ID, commit.identity.ref)
    found = [each for each in commit.requirements if (each["type"], each.get("ref")) == wanted]
    if len(found) != 1:
        return None
    # The parent of a new branch's first snapshot is on another branch.
    parent = found[0]["snapshot-id"]
    is_of_branch = parent is None or parent == adds[0]["snapshot"].get("parent-snapshot-id")
    return found[0] if is_of_branch else None


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


def _moved_ref(snapshot_ids: Sequence[int], updates: Mapping[str, Sequence[Update]]) -> str | None:
    """The ref that the commit moves to the last snapshot that it adds; main if several refs move there."""
    if not snapshot_ids or "set-snapshot-ref" not in updates:
        return None
    moves = updates["set-snapshot-ref"]
    refs = [str(update["ref-name"]) for update in moves if update["snapshot-id"] == snapshot_ids[-1]]
    return MAIN_BRANCH if MAIN_BRANCH in refs else next(iter(refs), None)
