"""When a commit replays, and when its snapshot may be put on another parent."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.clients.client_commit import ClientCommit, RebasableCommit
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.actors import requests
from simulation.actors.requests import for_update_table
from tests.changes.tables import SNAPSHOT_ISOLATION, snapshot, table, with_main
from tests.changes.writers import Writer, assert_ref, committed, request

ADD = updates.add_snapshot(snapshot(10, parent_snapshot_id=1, sequence_number=2))
MOVE = updates.set_snapshot_ref("main", 10)
AT_1 = assert_ref("main", 1)


@pytest.mark.parametrize(
    ("requirements", "sent", "kind"),
    [
        ([AT_1], [ADD, MOVE], RebasableCommit),
        ([AT_1], [updates.set_properties({"a": "1"}), ADD, MOVE], RebasableCommit),
        ([assert_ref("main", None)], [ADD, MOVE], RebasableCommit),
        ([], [ADD, MOVE], ClientCommit),
        ([assert_ref("audit", 1)], [ADD, MOVE], ClientCommit),
        ([assert_ref("main", 3)], [ADD, MOVE], ClientCommit),
        ([AT_1], [ADD], ClientCommit),
        ([AT_1], [ADD, MOVE, requests.remove_properties(["a"])], ClientCommit),
        ([AT_1], [ADD, MOVE, updates.set_snapshot_ref("audit", 10)], ClientCommit),
        ([assert_ref("v1", 1)], [ADD, updates.set_snapshot_ref("v1", 10, kind="tag")], ClientCommit),
    ],
)
def test_only_one_snapshot_for_one_branch_can_be_rebased(requirements: Any, sent: Any, kind: type) -> None:
    assert type(from_request(requirements, sent)) is kind


@pytest.fixture
def writer() -> Writer:
    return Writer(MemoryManifestStore())


def test_no_other_requirement_is_skipped(writer: Writer) -> None:
    base = table()
    sent = writer.fast_append(base, 10, "mine")
    change = from_request([assert_ref("main", None), {"type": "assert-default-spec-id", "default-spec-id": 3}], sent)
    now = committed(base, request(base, writer.fast_append(base, 11, "other")), writer.store)
    for seen in (base, now):
        with pytest.raises(RequirementFailed, match="default partition spec changed"):
            change.check(seen)


@pytest.mark.parametrize("version", [2, 3])
def test_a_branch_whose_asserted_snapshot_was_recommitted_has_moved(writer: Writer, version: int) -> None:
    """first: a is committed as snapshot 1, and a client reads it. Then a writer without compare-and-swap overwrites it,
    and a is committed again as snapshot 1, on what that writer left."""
    empty = table(version, properties=SNAPSHOT_ISOLATION)
    append_a = request(empty, writer.fast_append(empty, 1, "a"))
    first = committed(empty, append_a, writer.store)
    append, other = (request(first, writer.fast_append(first, id_, "mine")) for id_ in (10, 11))
    theirs = committed(empty, request(empty, writer.fast_append(empty, 5, "theirs")), writer.store)
    now = committed(theirs, append_a, writer.store)
    new = committed(now, append, writer.store)
    found = new.snapshot_by_id(10)
    assert found is not None
    assert writer.live(found) == ["a", "mine", "theirs"], "rebased, since its own list lacks theirs"
    [add, move] = other.commit.updates  # type: ignore[attr-defined]
    summary = {**add["snapshot"]["summary"], "operation": "delete"}
    delete = from_request([assert_ref("main", 1)], [{**add, "snapshot": {**add["snapshot"], "summary": summary}}, move])
    with pytest.raises(RequirementFailed, match="snapshot 1 was recommitted since the client read it; not rebased"):
        delete.check(now)


def test_a_branch_that_is_gone_or_became_a_tag_takes_no_snapshot(writer: Writer) -> None:
    base = table()
    base = committed(base, request(base, writer.fast_append(base, 1, "a")), writer.store)
    base = apply(base, [updates.set_snapshot_ref("audit", 1)], now_ms=6_000)
    sent = request(base, writer.fast_append(base, 10, "mine", branch="audit"))
    gone = apply(base, [requests.remove_snapshot_ref("audit")], now_ms=6_000)
    with pytest.raises(RequirementFailed, match="audit is missing"):
        sent.check(gone)
    later = committed(gone, request(gone, writer.fast_append(gone, 2, "b")), writer.store)
    tagged = apply(later, [updates.set_snapshot_ref("audit", 2, kind="tag")], now_ms=6_000)
    with pytest.raises(RequirementFailed, match=r"tag audit has changed: expected id 1 != 2 \("):
        sent.check(tagged)


def test_the_same_change_may_be_staged_on_many_bases(writer: Writer) -> None:
    base = table(properties=SNAPSHOT_ISOLATION)
    base = committed(base, request(base, writer.fast_append(base, 1, "a")), writer.store)
    sent = request(base, writer.fast_append(base, 10, "mine"))
    now = base
    for number in range(20, 23):
        assert writer.live(committed(now, sent, writer.store).current_snapshot)[-1] == "mine"
        now = committed(now, request(now, writer.fast_append(now, number, str(number))), writer.store)
    new = committed(now, sent, writer.store)
    assert writer.live(new.current_snapshot) == ["20", "21", "22", "a", "mine"]


def test_a_rebase_leaves_no_table_to_the_garbage_collector(writer: Writer) -> None:
    """The collector took 7 percent of a server whose failed requirements kept the frames of their callers."""
    base = table(properties=SNAPSHOT_ISOLATION)
    sent = request(base, writer.fast_append(base, 10, "mine"))
    now = committed(base, request(base, writer.fast_append(base, 20, "theirs")), writer.store)
    alive = weakref.ref(now)
    gc.disable()
    try:
        committed(now, sent, writer.store)
        del now
        assert alive() is None
    finally:
        gc.enable()


def three_snapshots(main: int = 3, **changes: Any) -> TableMetadata:
    """main went from 1 over 2 to 3, and is at `main`."""
    rows = [snapshot(id_, sequence_number=id_, parent_snapshot_id=id_ - 1 or None) for id_ in (1, 2, 3)]
    return with_main(main, snapshots=rows, last_sequence_number=3, **changes)


def refs_at(**targets: int) -> dict[str, Any]:
    """Branches at snapshots; names that begin with v are tags."""
    return {name: {"snapshot-id": id_, "type": "tag" if name[0] == "v" else "branch"} for name, id_ in targets.items()}


REMOVE = requests.remove_snapshots([1, 2])


@pytest.mark.parametrize(
    ("refs", "sent", "lost"),
    [
        ({"main": 3, "v1": 2}, [REMOVE], "tag v1 names snapshot 2"),
        ({"main": 3, "audit": 1}, [REMOVE], "branch audit names snapshot 1"),
        ({"main": 2}, [REMOVE], "branch main names snapshot 2"),
        ({"main": 2}, [requests.remove_snapshots([1]), requests.remove_snapshots([2])], "branch main names snapshot 2"),
        ({"main": 3, "v1": 2, "v2": 2}, [REMOVE, requests.remove_snapshot_ref("v1")], "tag v2 names snapshot 2"),
        ({"main": 2}, [updates.set_snapshot_ref("main", 1), REMOVE], "branch main names snapshot 1"),
        ({"main": 3}, [updates.set_snapshot_ref("main", 2), REMOVE], "branch main names snapshot 2"),
    ],
)
def test_a_ref_that_was_created_or_moved_since_keeps_its_snapshot(refs: dict[str, int], sent: Any, lost: str) -> None:
    expiry = from_request(list(for_update_table(three_snapshots(), [REMOVE])), sent)
    with pytest.raises(RequirementFailed) as caught:
        expiry.check(three_snapshots(refs["main"], refs=refs_at(**refs)))
    assert caught.value.name == "assert-ref-snapshot-id"
    assert caught.value.message == f"Requirement failed: {lost}, which is to be removed"
    assert f"snapshot {caught.value.found}" in lost


def test_the_current_snapshot_of_a_table_without_refs_is_kept() -> None:
    base = three_snapshots(refs=None)
    for ids in ([1, 2], [1, 2, 9]):
        from_request([], [requests.remove_snapshots(ids)]).check(base)
    with pytest.raises(RequirementFailed, match="branch main names snapshot 3"):
        from_request([], [requests.remove_snapshots([3])]).check(base)


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ([REMOVE], {"main": 3}),
        ([requests.remove_snapshot_ref("v1"), REMOVE], {"main": 3}),
        ([REMOVE, requests.remove_snapshot_ref("v1")], {"main": 3}),
        ([updates.set_snapshot_ref("v1", 3, kind="tag"), REMOVE], {"main": 3, "v1": 3}),
        ([requests.remove_snapshots([3]), updates.set_snapshot_ref("main", 2)], {"main": 2, "v1": 2}),
        ([requests.remove_snapshots([3]), requests.remove_snapshot_ref("main")], {"v1": 2}),
    ],
)
def test_snapshots_without_a_ref_are_removed(sent: Any, left: dict[str, int]) -> None:
    names = {"main": 3} if sent == [REMOVE] else {"main": 3, "v1": 2}
    base = three_snapshots(refs=refs_at(**names))
    change = from_request([], sent)
    change.check(base)
    new = apply(base, change.stage(base, MemoryManifestStore().open()).updates, now_ms=6_000)
    assert {name: ref.snapshot_id for name, ref in new.refs.items()} == left


def test_a_ref_is_removed_wherever_it_points_unless_its_snapshot_is_asserted() -> None:
    """PyIceberg asserts the place. Java's UpdateRequirements asserts nothing for `remove-snapshot-ref`, so nothing
    tells a removal that comes again from one of the ref as it is now. The snapshots stay in the table."""
    removal = requests.remove_snapshot_ref("audit")
    moved = three_snapshots(refs=refs_at(main=3, audit=2))
    java = from_request(list(for_update_table(three_snapshots(refs=refs_at(main=3, audit=1)), [removal])), [removal])
    java.check(moved)
    new = apply(moved, java.stage(moved, MemoryManifestStore().open()).updates, now_ms=6_000)
    assert (set(new.refs), len(new.snapshots)) == ({"main"}, 3)
    with pytest.raises(RequirementFailed, match="branch audit has changed: expected id 1 != 2"):
        from_request([assert_ref("audit", 1)], [removal]).check(moved)


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ({"flink.job-id": "7"}, "its summary has flink.job-id, which may mean that it read the table. "),
        ({}, "nothing shows that its client validates no append. "),
    ],
)
def test_a_refusal_says_what_changed_why_it_was_not_rebased_and_what_to_set(
    writer: Writer, summary: dict[str, str], reason: str
) -> None:
    base = table()
    sent = request(base, writer.fast_append(base, 10, "mine", **summary))
    now = committed(base, request(base, writer.fast_append(base, 11, "other")), writer.store)
    with pytest.raises(RequirementFailed) as caught:
        sent.check(now)
    assert caught.value.name == "assert-ref-snapshot-id"
    assert caught.value.message.startswith(
        f"Requirement failed: branch main was created concurrently; not rebased, because {reason}"
    )
    assert "iceberg-hms.rebase-appends=all" in caught.value.message
    assert ("isolation-level" in caught.value.message) is not bool(summary), "the levels help only without such keys"
