"""When a commit replays, and when its snapshot may be put on another parent."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.request import from_request
from iceberg_hms.changes.sent import AddedSnapshot, PlainRequest
from iceberg_hms.errors import AssumptionBroken
from iceberg_hms.format.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.clients import PYICEBERG, Writer, assert_ref, committed, request
from tests.changes.tables import snapshot, table

ADD = updates.add_snapshot(snapshot(10, parent_snapshot_id=1, sequence_number=2))
MOVE = updates.set_snapshot_ref("main", 10)
AT_1 = assert_ref("main", 1)


@pytest.mark.parametrize(
    ("requirements", "sent", "kind"),
    [
        ([AT_1], [ADD, MOVE], AddedSnapshot),
        ([AT_1], [updates.set_properties({"a": "1"}), ADD, MOVE], AddedSnapshot),
        ([assert_ref("main", None)], [ADD, MOVE], AddedSnapshot),
        ([], [ADD, MOVE], PlainRequest),
        ([assert_ref("audit", 1)], [ADD, MOVE], PlainRequest),
        ([assert_ref("main", 3)], [ADD, MOVE], PlainRequest),
        ([AT_1], [ADD], PlainRequest),
        ([AT_1], [ADD, MOVE, updates.remove_properties(["a"])], PlainRequest),
        ([AT_1], [ADD, MOVE, updates.set_snapshot_ref("audit", 10)], PlainRequest),
        ([assert_ref("v1", 1)], [ADD, updates.set_snapshot_ref("v1", 10, kind="tag")], PlainRequest),
    ],
)
def test_only_one_snapshot_for_one_branch_can_be_rebased(requirements: Any, sent: Any, kind: type) -> None:
    assert type(from_request(requirements, sent, PYICEBERG)) is kind


@pytest.fixture
def writer() -> Writer:
    return Writer(MemoryManifestStore())


def test_no_other_requirement_is_skipped(writer: Writer) -> None:
    base = table()
    sent = writer.fast_append(base, 10, "mine")
    change = from_request(
        [assert_ref("main", None), {"type": "assert-default-spec-id", "default-spec-id": 3}], sent, PYICEBERG
    )
    now = committed(base, request(base, writer.fast_append(base, 11, "other")), writer.store)
    for seen in (base, now):
        with pytest.raises(AssumptionBroken, match="default partition spec changed"):
            change.check(seen)


@pytest.mark.parametrize("version", [2, 3])
def test_a_branch_that_is_at_the_asserted_id_and_at_another_snapshot_has_moved(writer: Writer, version: int) -> None:
    """first: a lands as snapshot 1, and is seen; a writer without compare-and-swap takes it away; a lands again, as
    snapshot 1, on what that writer left."""
    empty = table(version)
    append_a = request(empty, writer.fast_append(empty, 1, "a"))
    first = committed(empty, append_a, writer.store)
    append, other = (request(first, writer.fast_append(first, id_, "mine")) for id_ in (10, 11))
    theirs = committed(empty, request(empty, writer.fast_append(empty, 5, "theirs")), writer.store)
    now = committed(theirs, append_a, writer.store)
    new = committed(now, append, writer.store)
    found = new.snapshot_by_id(10)
    assert found is not None
    assert writer.live(found) == ["a", "mine", "theirs"], "rebased, since its own list lacks theirs"
    [add, move] = other.request.updates  # type: ignore[attr-defined]
    summary = {**add["snapshot"]["summary"], "operation": "delete"}
    delete = from_request(
        [assert_ref("main", 1)], [{**add, "snapshot": {**add["snapshot"], "summary": summary}}, move], PYICEBERG
    )
    with pytest.raises(AssumptionBroken, match="snapshot 1 was committed anew since it was read; not rebased"):
        delete.check(now)


def test_a_branch_that_is_gone_or_became_a_tag_takes_no_snapshot(writer: Writer) -> None:
    base = table()
    base = committed(base, request(base, writer.fast_append(base, 1, "a")), writer.store)
    base = apply(base, [updates.set_snapshot_ref("audit", 1)], now_ms=6_000)
    sent = request(base, writer.fast_append(base, 10, "mine", branch="audit"))
    gone = apply(base, [updates.remove_snapshot_ref("audit")], now_ms=6_000)
    with pytest.raises(AssumptionBroken, match="audit is missing"):
        sent.check(gone)
    later = committed(gone, request(gone, writer.fast_append(gone, 2, "b")), writer.store)
    tagged = apply(later, [updates.set_snapshot_ref("audit", 2, kind="tag")], now_ms=6_000)
    with pytest.raises(AssumptionBroken, match=r"tag audit has changed: expected id 1 != 2 \("):
        sent.check(tagged)


def test_the_same_change_may_be_staged_on_many_bases(writer: Writer) -> None:
    base = table()
    base = committed(base, request(base, writer.fast_append(base, 1, "a")), writer.store)
    sent = request(base, writer.fast_append(base, 10, "mine"))
    now = base
    for number in range(20, 23):
        assert writer.live(committed(now, sent, writer.store).current_snapshot)[-1] == "mine"
        now = committed(now, request(now, writer.fast_append(now, number, str(number))), writer.store)
    new = committed(now, sent, writer.store)
    assert writer.live(new.current_snapshot) == ["20", "21", "22", "a", "mine"]


def test_a_refusal_says_what_changed_and_why_it_was_not_rebased(writer: Writer) -> None:
    base = table()
    sent = request(base, writer.fast_append(base, 10, "mine", **{"flink.job-id": "7"}))
    now = committed(base, request(base, writer.fast_append(base, 11, "other")), writer.store)
    with pytest.raises(AssumptionBroken) as caught:
        sent.check(now)
    assert caught.value.name == "assert-ref-snapshot-id"
    assert caught.value.message == (
        "Requirement failed: branch main was created concurrently; not rebased, because its summary has flink.job-id, "
        "which may mean that it read the table"
    )
