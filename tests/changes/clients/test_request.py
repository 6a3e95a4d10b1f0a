"""REST commits as changes."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes import requirements, updates
from iceberg_hms.changes.clients.request import Client, from_request
from iceberg_hms.changes.summary import IDEMPOTENCY_KEY
from iceberg_hms.errors import InvalidInput, RequirementFailed, UnsupportedFormat
from simulation.actors import requests
from tests.changes.tables import UUID, snapshot, table, with_main

UUID_HOLDS = [requirements.assert_table_uuid(UUID)]
#: For changes that use no manifests: any use fails.
NO_MANIFESTS: Any = object()


def test_a_request_without_snapshots_is_applied_as_sent() -> None:
    sent = [updates.set_properties({"a": "1"}), requests.set_location("file:/x")]
    change = from_request(UUID_HOLDS, sent)
    change.check(table())
    staged = change.stage(table(), NO_MANIFESTS)
    assert list(staged.updates) == sent
    assert list(staged.files) == []


def test_requirements_are_checked_on_every_base() -> None:
    change = from_request([requests.assert_ref_snapshot_id("main", None)], [requests.set_location("file:/x")])
    change.check(table())
    with pytest.raises(RequirementFailed, match="created concurrently"):
        change.check(with_main(7))


def test_a_request_without_requirements_does_not_make_a_table() -> None:
    change = from_request([], [requests.set_location("file:/x")])
    change.check(table())
    with pytest.raises(RequirementFailed, match="table does not exist"):
        change.check(None)


def test_a_create_request_requires_that_no_table_exists() -> None:
    change = from_request([requests.assert_create()], [requests.assign_uuid(UUID)])
    change.check(None)
    with pytest.raises(RequirementFailed, match="table already exists"):
        change.check(table())


def test_the_identity_has_the_snapshots_and_the_ref_that_moves_to_the_last() -> None:
    sent = [
        updates.add_snapshot(snapshot(7)),
        updates.add_snapshot(snapshot(8)),
        updates.set_snapshot_ref("audit", 7),
        updates.set_snapshot_ref("main", 8),
    ]
    identity = from_request(UUID_HOLDS, sent, Client(caller="etl")).identity
    assert identity.snapshot_ids == (7, 8)
    assert identity.ref == "main"
    assert identity.caller == "etl"
    assert identity.idempotency_key is None


def test_main_is_chosen_among_several_refs_to_one_snapshot() -> None:
    for order in (["v1", "main"], ["main", "v1"]):
        sent = [updates.add_snapshot(snapshot(7)), *(updates.set_snapshot_ref(name, 7) for name in order)]
        assert from_request(UUID_HOLDS, sent).identity.ref == "main"


def test_a_staged_snapshot_moves_no_ref() -> None:
    assert from_request(UUID_HOLDS, [updates.add_snapshot(snapshot(7))]).identity.ref is None


def test_a_rollback_adds_no_snapshot() -> None:
    identity = from_request(UUID_HOLDS, [updates.set_snapshot_ref("main", 7)]).identity
    assert (identity.snapshot_ids, identity.ref) == ((), None)


def test_the_key_of_a_job_is_read_from_the_summary() -> None:
    sent = [updates.add_snapshot(snapshot(7, summary={"operation": "append", IDEMPOTENCY_KEY: "job-1"}))]
    assert from_request(UUID_HOLDS, sent).identity.idempotency_key == "job-1"


def test_an_idempotency_key_is_kept_in_the_summary() -> None:
    sent = [updates.add_snapshot(snapshot(7)), updates.set_snapshot_ref("main", 7)]
    change = from_request(UUID_HOLDS, sent, idempotency_key="job-1")
    assert change.identity.idempotency_key == "job-1"
    kept = change.stage(table(), NO_MANIFESTS).updates[0]["snapshot"]
    assert kept["summary"] == {"operation": "append", IDEMPOTENCY_KEY: "job-1"}
    assert sent[0]["snapshot"]["summary"] == {"operation": "append"}, "what the caller gave must not change"


@pytest.mark.parametrize(
    ("sent", "key", "message"),
    [
        ([requests.set_location("file:/x")], "job-1", "adds no snapshot"),
        ([updates.add_snapshot(snapshot(7, summary={IDEMPOTENCY_KEY: "a"}))], "b", "one idempotency key"),
        ([updates.add_snapshot(snapshot(7, summary={IDEMPOTENCY_KEY: ""}))], None, "key is empty"),
        ([updates.add_snapshot(snapshot(7))], " ", "key is empty"),
        ([updates.add_snapshot(snapshot(7)), updates.add_snapshot(snapshot(7))], None, "twice in one commit"),
    ],
)
def test_contradictions_are_refused(sent: Any, key: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        from_request(UUID_HOLDS, sent, idempotency_key=key)


@pytest.mark.parametrize(("required", "sent"), [({}, []), ([], {}), ([{}], []), ([], [{}]), (None, None)])
def test_malformed_requests_are_refused_before_anything_is_queued(required: Any, sent: Any) -> None:
    with pytest.raises(InvalidInput):
        from_request(required, sent)


def test_an_encryption_key_is_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        from_request([], [{"action": "add-encryption-key", "encryption-key": {}}])


def test_the_sender_is_the_program_and_operation_from_headers_and_summary() -> None:
    engine = {"operation": "overwrite", "engine-name": "spark", "engine-version": "4.1.4", "added-records": "3"}
    sent = [updates.add_snapshot({**snapshot(7), "summary": engine})]
    client = Client("Apache-HttpClient/5.6", "Apache Iceberg 1.11.0")
    assert from_request([], sent, client).identity.sender == (
        "Apache-HttpClient/5.6 Apache Iceberg 1.11.0 spark 4.1.4 overwrite"
    )
    assert from_request([], sent).identity.sender == "spark 4.1.4 overwrite"
    assert from_request([], []).identity.sender == ""


def first_snapshot(snapshot_id: int, parent: int | None) -> list[dict[str, Any]]:
    """A table's first snapshot, as ClickHouse sends it: with no requirement."""
    added = updates.add_snapshot({**snapshot(snapshot_id), "parent-snapshot-id": parent})
    return [added, updates.set_snapshot_ref("main", snapshot_id)]


def test_minus_one_as_a_parent_is_none() -> None:
    change = from_request([], first_snapshot(7, -1))
    change.check(table())
    staged = change.stage(table(), NO_MANIFESTS)
    assert "parent-snapshot-id" not in staged.updates[0]["snapshot"]
    base = change.identity.client_base
    assert base is not None
    assert base.parent_id is None


def test_a_first_snapshot_with_minus_one_does_not_replace_what_others_began() -> None:
    """Nor does one whose client says so itself, or one in a chain that begins with it."""
    asserted = [requests.assert_ref_snapshot_id("main", None)]
    chain = [first_snapshot(6, -1)[0], *first_snapshot(8, 6)]
    for required, sent in (([], first_snapshot(8, -1)), (asserted, first_snapshot(8, -1)), ([], chain)):
        with pytest.raises(RequirementFailed, match="branch main was created concurrently"):
            from_request(required, sent).check(with_main(7))


def test_a_table_may_be_created_with_a_snapshot_whose_parent_is_minus_one() -> None:
    from_request([requests.assert_create()], first_snapshot(7, -1)).check(None)
