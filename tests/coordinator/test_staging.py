import pytest

from iceberg_hms.changes.change import Identity, Staged
from iceberg_hms.coordinator.doubts import Doubts
from iceberg_hms.coordinator.member import Member
from iceberg_hms.coordinator.staging import Staging, has_landed
from iceberg_hms.errors import AssumptionBroken, CommitFailed, CommitStateUnknown
from iceberg_hms.format.metadata import TableMetadata
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness, append, set_properties


@pytest.fixture
def harness():
    made = Harness()
    made.create()
    return made


def stage(harness, *changes):
    doubts = Doubts(NAME, harness.metadata)
    members = [Member(harness.runtime, change, 1.0, doubts) for change in changes]
    manifests = harness.manifests.open()
    return members, Staging(harness.metadata(), members, manifests, harness.runtime.now_ms).finish(), manifests


def test_each_change_is_staged_on_what_the_ones_before_it_left(harness):
    members, staging, manifests = stage(harness, append("file:/a"), append("file:/b"))
    assert staging.carried == members
    assert [snapshot.sequence_number for snapshot in staging.metadata.snapshots] == [1, 2]
    assert len(manifests.list(staging.metadata.current_snapshot)) == 2, "made of the first, unwritten"
    assert all(len(files) == 2 for files in staging.files.values()), "a manifest and a list each"


def test_a_broken_change_leaves_no_trace_in_the_metadata(harness):
    bad = set_properties({"type": "assert-default-spec-id", "default-spec-id": 5}, bad="yes")
    _, alone, _ = stage(harness, set_properties(a="1"))
    members, staging, _ = stage(harness, set_properties(a="1"), bad)
    assert [(member, type(error)) for member, error in staging.broken] == [(members[1], AssumptionBroken)]
    assert staging.metadata.properties == alone.metadata.properties


def test_a_change_that_cannot_be_applied_is_set_aside_and_its_list_is_not_written(harness):
    class Stale:
        identity = Identity()

        def check(self, base):
            pass

        def stage(self, base, manifests):
            staged = append("file:/a").stage(base, manifests)
            broken = [{**update} for update in staged.updates]
            snapshot = next(update for update in broken if update["action"] == "add-snapshot")
            snapshot["snapshot"] = {**snapshot["snapshot"], "sequence-number": 0}
            return Staged(broken, staged.files)

    harness.commit(append("file:/0"))
    _, staging, manifests = stage(harness, Stale())
    assert [type(error) for _, error in staging.broken] == [CommitFailed]
    assert list(manifests.flush()) == []


def test_an_unexpected_defect_of_a_change_is_its_own_members_answer(harness):
    class Defective:
        identity = Identity()

        def check(self, base):
            raise ZeroDivisionError

    members, staging, _ = stage(harness, Defective(), set_properties(a="1"))
    assert staging.carried == [members[1]]
    assert isinstance(staging.broken[0][1], ZeroDivisionError)


def test_a_change_has_landed_when_its_snapshot_is_in_its_refs_history(harness):
    harness.commit(append("file:/a", snapshot_id=5))
    harness.commit(append("file:/b", snapshot_id=6))
    metadata = harness.metadata()
    assert has_landed(Identity((5,), "main"), metadata)
    assert has_landed(Identity((6,), "main"), metadata)
    assert not has_landed(Identity((7,), "main"), metadata)
    assert has_landed(Identity((5,)), metadata), "added without a ref: being there is enough"


def test_a_snapshot_that_was_rolled_back_is_neither_committed_nor_failed(harness):
    harness.commit(append("file:/a", snapshot_id=5))
    harness.commit(append("file:/b", snapshot_id=6))
    rolled_back = harness.metadata().replace(current_snapshot_id=5, refs={"main": {"type": "branch", "snapshot-id": 5}})
    with pytest.raises(CommitStateUnknown, match="delete none of its files"):
        has_landed(Identity((6,), "main"), rolled_back)


def test_a_key_counts_only_in_the_history_of_the_ref(harness):
    harness.commit(append("file:/a", snapshot_id=5, key="k"))
    assert has_landed(Identity((9,), "main", "k"), harness.metadata())
    assert not has_landed(Identity((9,), "other", "k"), harness.metadata())
    assert not has_landed(Identity((9,), "main", "other"), harness.metadata())


def test_a_key_counts_no_more_once_its_snapshot_was_rolled_back(harness):
    harness.commit(append("file:/a", snapshot_id=5))
    harness.commit(append("file:/b", snapshot_id=6, key="k"))
    rolled_back = harness.metadata().replace(current_snapshot_id=5, refs={"main": {"type": "branch", "snapshot-id": 5}})
    assert not has_landed(Identity((9,), "main", "k"), rolled_back)


def test_a_key_that_is_new_costs_no_walk_through_the_history(harness, monkeypatch):
    harness.commit(append("file:/a", snapshot_id=5, key="k"))

    def walked(metadata, snapshot_id):
        raise AssertionError(snapshot_id)

    monkeypatch.setattr(TableMetadata, "ancestors", walked)
    assert not has_landed(Identity((9,), "main", "other"), harness.metadata())


@pytest.mark.parametrize(
    ("ids", "landed"),
    [((10, 11), True), ((9, 11), True), ((11,), True), ((11, 12), None), ((10, 12), None), ((9,), False)],
)
def test_a_change_landed_as_a_whole_though_its_older_snapshots_may_have_expired(ids, landed):
    """None: it is in doubt, and to fail would be an order to delete what the table names."""
    metadata = TableMetadata(
        documents.raw(
            snapshots=[
                documents.snapshot(10, 1, 1_000),
                {**documents.snapshot(11, 2, 2_000), "parent-snapshot-id": 10},
            ],
            refs={"main": {"snapshot-id": 11, "type": "branch"}},
        )
    )
    identity = Identity(snapshot_ids=ids, ref="main")
    if landed is None:
        with pytest.raises(CommitStateUnknown):
            has_landed(identity, metadata)
    else:
        assert has_landed(identity, metadata) is landed
