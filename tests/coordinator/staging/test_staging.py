from dataclasses import replace

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import ChangeIdentity, StagedChange
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.clock import CLOCK_SKEW_MS
from iceberg_hms.coordinator.group.commit_group import GroupResult
from iceberg_hms.coordinator.locations.location_policy import ClientLocations, LocationPolicy
from iceberg_hms.coordinator.outcome.already_committed import committed_as
from iceberg_hms.coordinator.outcome.outcome import Committed
from iceberg_hms.coordinator.staging.staging import RecordedWrites, Staging, stage_one
from iceberg_hms.errors import (
    CommitFailed,
    CommitStateUnknown,
    InvalidInput,
    LocationNotAllowed,
    RequirementFailed,
    StorageError,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.storage.manifests import ManifestStore, TableManifests
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from simulation.actors.requests import assert_create
from tests.changes import tables
from tests.changes.writers import Writer, request
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness, append, set_properties
from tests.coordinator.resends import MINE, expire, with_files


def stage(harness, *changes):
    members = harness.members(*changes)
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
    assert [(member, type(error)) for member, error in staging.refused] == [(members[1], RequirementFailed)]
    assert staging.metadata.properties == alone.metadata.properties


class Fetching:
    """Manifests that record each call of `fetch`."""

    def __init__(self, manifests):
        self._manifests = manifests
        self.fetched = []

    def fetch(self, lists):
        self.fetched.append(list(lists))

    def __getattr__(self, name):
        return getattr(self._manifests, name)


def test_the_lists_of_all_clients_are_fetched_at_once_and_only_those_that_they_may_read(harness):
    def adds(*lists):
        change = set_properties(a="b")
        return replace(change, identity=ChangeIdentity(snapshot_ids=(1,), lists=lists))

    far, near, outside = "s3://bucket/wh/l.avro", "file:/wh/l.avro", "s3://other/l.avro"
    members = harness.members(adds(far), adds(near), adds(outside), adds(outside), adds("no location"))
    policy = LocationPolicy(harness.ports.files, warehouse="s3://bucket/wh")
    for client in members[:3]:
        client.locations = ClientLocations(policy, "db", lambda _: True)
    manifests = Fetching(harness.manifests.open())
    Staging(harness.metadata(), members, manifests, harness.runtime.now_ms).begin()
    assert manifests.fetched == [[far, outside]], "the last is a caller of the Python API"


@pytest.mark.parametrize("knows_row", [True, False])
def test_only_the_commits_of_clients_are_bound_to_locations(harness, knows_row):
    """A caller of the Python API shares a group with a client, and may name what the client may not."""
    move = set_properties(**{"write.data.path": "file:/elsewhere"})
    client, caller, inside = harness.members(move, move, set_properties(**{"write.data.path": "file:/wh/x"}))
    policy = LocationPolicy(harness.ports.files, warehouse="file:/wh")
    client.locations = inside.locations = ClientLocations(policy, "db", lambda _: True)
    row = harness.ports.pointer.load(NAME) if knows_row else None
    manifests = harness.manifests.open()
    members = [client, caller, inside]
    staging = Staging(harness.metadata(), members, manifests, harness.runtime.now_ms, row).finish()
    assert [(commit, type(error)) for commit, error in staging.refused] == [(client, LocationNotAllowed)]
    assert staging.carried == [caller, inside]
    assert staging.metadata.properties["write.data.path"] == "file:/wh/x"


def test_a_change_that_cannot_be_applied_is_set_aside_and_its_list_is_not_written(harness):
    class Stale:
        identity = ChangeIdentity()

        def check(self, base):
            pass

        def stage(self, base, manifests):
            staged = append("file:/a").stage(base, manifests)
            broken = [{**update} for update in staged.updates]
            snapshot = next(update for update in broken if update["action"] == "add-snapshot")
            snapshot["snapshot"] = {**snapshot["snapshot"], "sequence-number": 0}
            return StagedChange(broken, staged.files)

    harness.commit(append("file:/0"))
    _, staging, manifests = stage(harness, Stale())
    assert [type(error) for _, error in staging.refused] == [CommitFailed]
    assert list(manifests.flush()) == []


def test_an_unexpected_defect_of_a_change_is_its_own_members_answer(harness):
    class Defective:
        identity = ChangeIdentity()

        def check(self, base):
            raise ZeroDivisionError

    members, staging, _ = stage(harness, Defective(), set_properties(a="1"))
    assert staging.carried == [members[1]]
    assert isinstance(staging.refused[0][1], ZeroDivisionError)


def test_a_change_has_landed_when_its_snapshot_is_in_its_refs_history(harness):
    harness.commit(append("file:/a", snapshot_id=5))
    harness.commit(append("file:/b", snapshot_id=6))
    metadata = harness.metadata()
    assert committed_as(ChangeIdentity((5,), "main"), metadata) == (5,)
    assert committed_as(ChangeIdentity((6,), "main"), metadata) == (6,)
    assert committed_as(ChangeIdentity((7,), "main"), metadata) is None
    assert committed_as(ChangeIdentity((5,)), metadata) == (5,), "added without a ref: being there is enough"


def test_a_snapshot_that_was_rolled_back_is_neither_committed_nor_failed(harness):
    harness.commit(append("file:/a", snapshot_id=5))
    harness.commit(append("file:/b", snapshot_id=6))
    rolled_back = harness.metadata().replace(current_snapshot_id=5, refs={"main": {"type": "branch", "snapshot-id": 5}})
    with pytest.raises(CommitStateUnknown, match="delete none of its files"):
        committed_as(ChangeIdentity((6,), "main"), rolled_back)


def test_a_key_counts_only_in_the_history_of_the_ref(harness):
    harness.commit(append("file:/a", snapshot_id=5, key="k"))
    assert committed_as(ChangeIdentity((9,), "main", "k"), harness.metadata()) == (5,), "as the table has it"
    assert committed_as(ChangeIdentity((9,), "other", "k"), harness.metadata()) is None
    assert committed_as(ChangeIdentity((9,), "main", "other"), harness.metadata()) is None


def test_a_key_counts_no_more_once_its_snapshot_was_rolled_back(harness):
    harness.commit(append("file:/a", snapshot_id=5))
    harness.commit(append("file:/b", snapshot_id=6, key="k"))
    rolled_back = harness.metadata().replace(current_snapshot_id=5, refs={"main": {"type": "branch", "snapshot-id": 5}})
    assert committed_as(ChangeIdentity((9,), "main", "k"), rolled_back) is None


def test_a_key_that_is_new_costs_no_walk_through_the_history(harness, monkeypatch):
    harness.commit(append("file:/a", snapshot_id=5, key="k"))

    def walked(metadata, snapshot_id):
        raise AssertionError(snapshot_id)

    monkeypatch.setattr(TableMetadata, "ancestors", walked)
    assert committed_as(ChangeIdentity((9,), "main", "other"), harness.metadata()) is None


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
    identity = ChangeIdentity(snapshot_ids=ids, ref="main")
    if landed is None:
        with pytest.raises(CommitStateUnknown):
            committed_as(identity, metadata)
    else:
        assert committed_as(identity, metadata) == (ids if landed else None)


def in_files(harness):
    """Keep manifests in the harness's files too, where one can see what is left of them."""
    store = ManifestStore(harness.files, harness.settings, harness.runtime)
    harness.manifests = store
    harness.replace_ports(manifests=store.open)
    return store


def avro_files(harness):
    """The manifests and lists that are there, and those that the table names."""
    metadata, reader = harness.metadata(), harness.manifests.open()
    named = {snapshot.manifest_list for snapshot in metadata.snapshots}
    for snapshot in metadata.snapshots:
        named.update(each.manifest_path for each in reader.list(snapshot))
    return {location for location in harness.files.locations() if location.endswith(".avro")}, named


class BrokenAfterStaging:
    """An append whose snapshot comes before the table's last one; as often as `times` says."""

    def __init__(self, change, times):
        self.change, self.times = change, times
        self.identity, self.check = change.identity, change.check

    def stage(self, base, manifests):
        staged = self.change.stage(base, manifests)
        self.times -= 1
        if self.times < 0:
            return staged
        stale = [dict(update) for update in staged.updates]
        added = next(update for update in stale if update["action"] == "add-snapshot")
        added["snapshot"] = {**added["snapshot"], "sequence-number": 0}
        return replace(staged, updates=stale)


def test_the_manifests_of_a_change_that_breaks_after_it_was_staged_are_deleted(harness):
    in_files(harness)
    harness.commit(append("file:/0"))
    with pytest.raises(CommitFailed, match="sequence number 0"):
        harness.commit(BrokenAfterStaging(append("file:/a"), times=9))
    there, named = avro_files(harness)
    assert there == named


def test_the_manifests_of_a_change_that_breaks_while_it_is_staged_are_deleted(harness, monkeypatch):
    """The list cannot be made, when the manifests are on disk already."""
    in_files(harness)
    harness.commit(append("file:/0"))
    stage_list = TableManifests.stage_list

    def staged_and_broken(self, *arguments):
        stage_list(self, *arguments)
        raise StorageError("broken")

    monkeypatch.setattr(TableManifests, "stage_list", staged_and_broken)
    with pytest.raises(StorageError):
        harness.commit(append("file:/a"))
    there, named = avro_files(harness)
    assert there == named


@pytest.mark.parametrize("fails", [True, False])
def test_the_manifests_of_a_change_whose_swap_was_refused_stay_whatever_comes_of_it(harness, fails):
    """swap: refused | staged again, on the same manifests: it lands, or its table has what it adds by now"""
    in_files(harness)
    harness.commit(append("file:/0"))
    change = append("file:/a")
    harness.pointer.before_moves.append(lambda: harness.foreign_commit(theirs="yes"))
    if fails:
        change = BreaksLater(change)
        with pytest.raises(RequirementFailed):
            harness.commit(change)
    else:
        harness.commit(change)
    there, named = avro_files(harness)
    left = sorted(location.rpartition("/")[2].partition("-")[0] == "snap" for location in there - named)
    assert left == ([False, True] if fails else [True]), "the list of the refused swap, and the manifest that it names"


class BreaksLater:
    """A change whose assumption holds once."""

    def __init__(self, change):
        self.change, self.identity, self.stage = change, change.identity, change.stage
        self.checks = 0

    def check(self, base):
        self.checks += 1
        if self.checks > 1:
            raise RequirementFailed("once", "it was checked before")


@pytest.mark.parametrize("anew", [False, True])
def test_a_change_that_breaks_on_what_is_remembered_and_then_lands_keeps_the_manifests_that_it_names(harness, anew):
    """What was not read just now refuses nobody: the change is staged again, on what it wrote before, or on other
    manifests, as for a table that has moved."""
    in_files(harness)
    harness.commit(append("file:/0"))
    change, other = BrokenAfterStaging(append("file:/a"), times=1), append("file:/a")
    stage, bases = change.stage, []

    def stage_again(base, manifests):
        bases.append(base)
        return (other.stage if anew and len(bases) > 1 else stage)(base, manifests)

    change.stage = stage_again
    members = harness.members(change)
    location = harness.coordinator.load(NAME).pointer.metadata_location
    harness.group(*members, last=GroupResult(location, answered_at=harness.runtime.now()))
    assert isinstance(members[0].outcome, Committed)
    assert len(bases) == 2
    there, named = avro_files(harness)
    assert there == named
    assert harness.data_files() == ["file:/0", "file:/a"]


def test_a_job_that_runs_again_gets_the_snapshot_of_its_first_run(harness):
    first = harness.commit(append("file:/a", key="job"))
    again = harness.commit(append("file:/a", key="job"))
    assert again.already_committed
    assert again.snapshot_ids == first.snapshot_ids
    assert [event["event"] for event in harness.events] == ["committed", "committed"], "the table's and the first run's"


def test_two_runs_of_a_job_in_one_group_get_the_same_snapshot(harness):
    in_files(harness)
    members = harness.members(append("file:/a", key="job"), append("file:/a", key="job"))
    harness.group(*members)
    first, second = (member.outcome.report for member in members)
    assert [snapshot.snapshot_id for snapshot in harness.metadata().snapshots] == list(first.snapshot_ids)
    assert (first.already_committed, second.already_committed) == (False, True)
    assert second.snapshot_ids == first.snapshot_ids
    assert harness.data_files() == ["file:/a"]


def test_a_job_whose_other_run_lands_first_leaves_no_manifests(harness):
    """load, build | the other run of the job commits | lock, reload: its key is in the table"""
    in_files(harness)
    reports = []

    def other_run():
        members = harness.members(append("file:/a", key="job"))
        harness.group(*members, ports=other)
        reports.append(members[0].outcome.report)

    other = harness.another_process()
    acquire = harness.lock.acquire

    def acquire_later(*arguments, **options):
        harness.lock.acquire = acquire
        other_run()
        return acquire(*arguments, **options)

    harness.lock.acquire = acquire_later
    report = harness.commit(append("file:/a", key="job"))
    assert report.already_committed
    assert report.snapshot_ids == reports[0].snapshot_ids
    there, named = avro_files(harness)
    assert there == named
    assert harness.data_files() == ["file:/a"]


NOW = 1_800_000_000_000
HOURS = 2 * 3_600_000


def sent_at(timestamp_ms, base, *, door="main", writer=None, id_=10):
    """The base and the change of a client that appends, by a clock that says `timestamp_ms`."""
    writer = writer or Writer(MemoryManifestStore())
    [add, move] = writer.fast_append(base, id_, "mine", branch="audit" if door == "audit" else "main")
    add = {**add, "snapshot": {**add["snapshot"], "timestamp-ms": timestamp_ms}}
    match door:
        case "staged":
            return base, from_request([], [add]), writer
        case "creation":
            return None, from_request([assert_create()], [*create_updates(base), add, move]), writer
        case "renumbered":
            return base.replace(last_sequence_number=5), from_request([], [add, move]), writer
        case _:
            return base, from_request([], [add, move]), writer


def stage_at(now_ms, base, change, writer):
    return stage_one(base, change, RecordedWrites(writer.store.open()), lambda: now_ms)[0]


@pytest.mark.parametrize("door", ["main", "audit", "staged", "creation", "renumbered"])
def test_a_snapshot_from_the_future_is_refused_at_every_door(door):
    """Once it was the table's, honest Java clients could not commit until their clocks had caught up."""
    base, writer = tables.table(), Writer(MemoryManifestStore())
    if door == "renumbered":
        base = stage_at(NOW, *sent_at(NOW, base, writer=writer, id_=7))
    landed = stage_at(NOW, *sent_at(NOW + CLOCK_SKEW_MS, base, door=door, writer=writer))
    assert landed.snapshot_by_id(10) is not None
    with pytest.raises(InvalidInput, match="snapshot 10 has a timestamp 7200 s ahead of this clock") as caught:
        stage_at(NOW, *sent_at(NOW + HOURS, base, door=door, writer=writer))
    assert caught.value.proved_failed
    assert "clock" in caught.value.next_step


@pytest.mark.parametrize(
    ("last_updated_ms", "latest"),
    [
        (1_000, NOW + CLOCK_SKEW_MS),
        (NOW - HOURS, NOW + CLOCK_SKEW_MS),
        # Not ahead, but within what clocks may differ by. Counted from there each writer could go a minute further.
        (NOW + CLOCK_SKEW_MS, NOW + CLOCK_SKEW_MS),
        (NOW + HOURS, NOW + HOURS + CLOCK_SKEW_MS),
    ],
)
def test_a_table_that_is_ahead_of_the_clock_still_takes_snapshots(last_updated_ms, latest):
    base = tables.table(last_updated_ms=last_updated_ms)
    assert stage_at(NOW, *sent_at(latest, base)).last_updated_ms == max(latest, last_updated_ms)
    with pytest.raises(InvalidInput):
        stage_at(NOW, *sent_at(latest + 1, base))


def test_what_adds_no_snapshot_is_not_asked_for_its_time():
    base = tables.with_main(last_updated_ms=NOW + HOURS)
    change = from_request([], [updates.set_properties({"a": "b"})])
    assert stage_at(NOW, base, change, Writer(MemoryManifestStore())).last_updated_ms == NOW + HOURS
    old = from_request([], [updates.set_snapshot_ref("audit", 7)])
    assert stage_at(NOW, base, old, Writer(MemoryManifestStore())).refs["audit"].snapshot_id == 7


def test_old_history_is_taken_over():
    assert stage_at(NOW, *sent_at(5, tables.table())).last_updated_ms == NOW


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("is_staged", [True, False])
def test_a_snapshot_whose_parent_expired_is_refused_since_its_list_names_what_the_expiry_deletes(version, is_staged):
    """mine is made on the head, for a new branch or for none | all rows are deleted | the old snapshots expire"""
    harness = Harness()
    harness.create(**{"format-version": version})
    seen, writer = with_files(harness, "a", "b"), Writer(harness.manifests)
    made = writer.fast_append(seen, MINE, "mine", branch="audit")
    if is_staged:
        made = [each for each in made if each["action"] == "add-snapshot"]
    head = harness.metadata()
    old = writer.manifests.list(head.current_snapshot)
    harness.commit(request(head, writer.rewrite_list(head, 20, "delete", [], old)))
    expire(harness, 1, 2)
    with pytest.raises(RequirementFailed, match="snapshot 10 was made on snapshot 2, which is not in the table"):
        harness.commit(request(seen, made))
    assert harness.metadata().snapshot_by_id(MINE) is None


def test_a_change_whose_caller_left_is_staged_no_further(harness):
    [member, other] = members = harness.members(append("file:/a"), set_properties(a="1"))

    class LeavesMidway:
        identity = member.change.identity
        check = member.change.check
        staged = member.change

        def stage(self, base, manifests):
            made = self.staged.stage(base, manifests)
            member.withdraw()
            return made

    member.change = LeavesMidway()
    staging = Staging(harness.metadata(), members, harness.manifests.open(), harness.runtime.now_ms).finish()
    assert (staging.withdrawn, staging.carried, staging.refused) == ([member], [other], [])
    assert staging.metadata.current_snapshot is None
    assert len(staging.files[member]) == 1, "its manifest, which is on disk"


def test_a_job_that_only_stages_its_snapshot_is_known_by_its_key_wherever_that_is(harness):
    first = append("file:/a", snapshot_id=1, key="job", stage_only=True)
    harness.group(*harness.members(append("file:/before", snapshot_id=5), first))
    again = append("file:/a", snapshot_id=2, key="job", stage_only=True)
    assert committed_as(again.identity, harness.metadata()) == (1,)
    elsewhere = append("file:/a", snapshot_id=2, key="job")
    assert committed_as(elsewhere.identity, harness.metadata()) is None
