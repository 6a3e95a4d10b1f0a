"""A change that did not get so far as to be sent may be in the table: it was sent before."""

from functools import partial

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.clock import CLOCK_SKEW_MS
from iceberg_hms.coordinator.outcome.already_committed import AlreadyCommitted, LookupSources, refused_at_once
from iceberg_hms.coordinator.outcome.outcome import Failed, Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap, SentSwaps
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import (
    CommitStateUnknown,
    InvalidInput,
    LockNotAcquired,
    LockUnavailable,
    MetastoreUnavailable,
    MissingFile,
    NoSuchTable,
    RequirementFailed,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from simulation.actors import requests
from tests.changes import writers
from tests.changes.writers import Writer, request
from tests.coordinator import documents
from tests.coordinator.harness import NAME, Harness
from tests.coordinator.resends import KINDS, MINE, add, expire, merge, sent, with_files

OTHER = TableName("db", "other")
_FIELD = {"id": 9, "name": "n", "required": False, "type": "int"}
NEW_SCHEMA = [requests.add_schema({"type": "struct", "fields": [_FIELD]}), requests.set_current_schema()]
LATE = LockNotAcquired("late")


def table(_=NAME):
    metadata = TableMetadata.parse(
        TableMetadata(documents.raw(snapshots=[documents.snapshot(10, 1, 1_000)])).to_bytes()
    )
    return TableVersion(Pointer(NAME, "file:/t/m.json", None, {}, None), metadata)


def raising(error):
    def load(_):
        raise error

    return load


def unread(location):
    raise MissingFile(location)


def nowhere(uuid, name):
    return []


def lookup(load):
    return AlreadyCommitted(NAME, LookupSources(load, nowhere, unread, SentSwaps(ThreadRuntime())))


@pytest.mark.parametrize(("ids", "doubted"), [((10,), True), ((9, 10), True), ((9,), False), ((), False)])
def test_a_change_whose_snapshot_is_in_the_table_did_not_fail(ids, doubted):
    outcome = lookup(table).failed_or_unknown(ChangeIdentity(snapshot_ids=ids), LATE)
    if doubted:
        assert isinstance(outcome, Unknown)
        assert "its snapshot is in db.t" in outcome.error.message
    else:
        assert outcome == Failed(LATE)


def test_a_change_that_the_table_as_it_was_read_has_did_not_fail_whatever_it_is_now():
    def load(name):
        raise AssertionError(f"{name} was read already")

    for base, ids in ((table(), (10,)), (table(), (9,))):
        outcome = lookup(load).failed_or_unknown(ChangeIdentity(snapshot_ids=ids), LATE, base)
        assert isinstance(outcome, Unknown if ids == (10,) else Failed)


def test_what_is_not_known_is_never_turned_into_a_failure():
    unknown = CommitStateUnknown("perhaps")
    assert lookup(table).failed_or_unknown(ChangeIdentity(), unknown) == Unknown(unknown)
    sent = SentSwaps(ThreadRuntime())
    assert refused_at_once(ChangeIdentity(), unknown, table(), sent) == Unknown(unknown)
    assert refused_at_once(ChangeIdentity(), LATE, table(), sent) == Failed(LATE)


def test_a_defect_while_looking_leaves_a_doubt():
    class Defective:
        snapshot_ids = property(lambda _: 1 / 0)

    outcome = lookup(table).failed_or_unknown(Defective(), LATE)
    assert isinstance(outcome, Unknown)
    assert "broke off: ZeroDivisionError" in outcome.error.message


@pytest.mark.parametrize("failure", [LATE, LockUnavailable("broken")])
def test_a_table_that_cannot_be_looked_at_leaves_a_doubt(failure):
    def load(name):
        raise MissingFile("file:/m.json")

    assert isinstance(lookup(load).failed_or_unknown(ChangeIdentity(snapshot_ids=(10,)), failure), Unknown)
    assert lookup(load).failed_or_unknown(ChangeIdentity(), failure) == Failed(failure)


@pytest.mark.parametrize(
    ("failure", "error"), [(MetastoreUnavailable("down"), MetastoreUnavailable("down")), (LATE, NoSuchTable(NAME))]
)
def test_a_client_gets_its_proved_failure_if_the_metastore_is_down_or_its_table_is_gone(failure, error):
    assert lookup(raising(error)).failed_or_unknown(ChangeIdentity(snapshot_ids=(10,)), failure) == Failed(failure)


def test_the_table_is_looked_at_once_for_all_and_not_before_it_is_asked_about():
    looks = []

    def load(name):
        looks.append(name)
        return table()

    already_committed = lookup(load)
    already_committed.failed_or_unknown(ChangeIdentity(), LATE)
    assert looks == []
    for _ in range(3):
        already_committed.failed_or_unknown(ChangeIdentity(snapshot_ids=(10,)), LATE)
    assert looks == [NAME]


@pytest.fixture(params=["1", "2", "3"])
def harness(request):
    made = Harness()
    made.create(**{"format-version": request.param})
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [1, 3])
def test_a_change_that_landed_expired_and_comes_again_is_not_refused(harness, kind, after):
    """mine lands, its answer is lost | others land | all but the last expire | mine is sent again"""
    mine = sent(harness, with_files(harness, "a", "b"), kind)
    harness.commit(mine)
    for number in range(after):
        add(harness, 20 + number, f"other{number}")
    if kind == "schema":
        harness.commit(from_request([], NEW_SCHEMA))
    expire(harness, 1, 2, MINE, *range(20, 19 + after))
    before = harness.location()
    with pytest.raises(CommitStateUnknown) as caught:
        harness.commit(mine)
    assert str(caught.value) == (
        "snapshot 10 is not in db.t any more, but it was "
        "(it was committed before and has expired since: delete none of its files)"
    )
    assert harness.location() == before, "nor is it committed again"


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_whose_snapshot_may_have_landed_and_expired_is_unknown_and_not_refused(harness, kind):
    """The same, and the older metadata files are gone."""
    mine = sent(harness, with_files(harness, "a", "b"), kind)
    harness.commit(mine)
    for number in (20, 21, 22):
        add(harness, number, f"other{number}")
    if kind == "schema":
        harness.commit(from_request([], NEW_SCHEMA))
    expire(harness, 1, 2, MINE, 20, 21)
    for location in harness.metadata_files() - {harness.location()}:
        harness.files.delete(location)
    with pytest.raises(CommitStateUnknown, match=r"nobody can tell whether snapshot 10 was committed to db\.t before"):
        harness.commit(mine, coordinator=harness.another())


def test_an_append_whose_manifest_was_merged_before_it_expired_is_not_added_twice(harness):
    """mine is rebased and lands, its answer is lost, its client's list stays | manifests are rewritten | older
    snapshots expire | mine is sent again"""
    mine = sent(harness, with_files(harness, "a", "b"), "plain")
    add(harness, 20, "other")
    harness.commit(mine)
    merge(harness, 21)
    expire(harness, 1, 2, 20, MINE)
    with pytest.raises(CommitStateUnknown, match="but it was"):
        harness.commit(mine)
    assert len(harness.data_files()) == 4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_a_change_that_lost_its_place_is_refused_although_others_expired(harness, kind):
    """Its client may try again: an older metadata file shows that mine was never there."""
    mine = sent(harness, with_files(harness, "a", "b"), kind)
    for number in (20, 21, 22, 23):
        add(harness, number, f"other{number}")
    expire(harness, 1, 2, 20, 21, 22)
    if kind == "schema":
        harness.commit(from_request([], NEW_SCHEMA))
    with pytest.raises(RequirementFailed):
        harness.commit(mine)


def test_a_commit_that_lost_its_branch_gets_retry_priority_although_others_expired(harness):
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    for number in (20, 21, 22):
        add(harness, number, f"other{number}")
    expire(harness, 1, 2, 20, 21)
    with pytest.raises(RequirementFailed):
        harness.commit(mine)
    add(harness, 30, "other30")
    assert "retry-priority-wait" in [event["event"] for event in harness.events]


def test_an_append_that_cannot_be_rebased_for_sure_is_refused_so_that_its_client_makes_it_anew(harness):
    mine = sent(harness, with_files(harness, "a", "b"), "plain")
    for number in (20, 21, 22):
        add(harness, number, f"other{number}")
    expire(harness, 1, 2, 20, 21)
    with pytest.raises(RequirementFailed, match="it may be one of the snapshots that have expired since it was made"):
        harness.commit(mine)
    harness.commit(sent(harness, harness.metadata(), "plain"))
    assert len(harness.data_files()) == 6


@pytest.mark.parametrize("kind", ["flink", "schema", "delete", "overwrite"])
@pytest.mark.parametrize("files", [["a"], ["a", "b"]])
def test_a_plain_refusal_reads_nothing_more(harness, kind, files):
    """mine and another are made on one table | the other lands | mine is refused: by what is known already"""
    mine = sent(harness, with_files(harness, *files), kind)
    add(harness, 20, "other")
    if kind == "schema":
        harness.commit(from_request([], NEW_SCHEMA))
    read = []
    harness.pointer.calls.clear()
    harness.files.read = lambda location, *_: read.append(location)
    harness.manifests.lists.clear()
    with pytest.raises(RequirementFailed):
        harness.commit(mine)
    assert read == []
    assert harness.pointer.calls == [("load", NAME)]


def test_a_staged_snapshot_that_was_cherry_picked_and_expired_is_not_refused(harness):
    """mine is staged | its files are cherry-picked | it expires, with its list | mine is sent again"""
    seen = with_files(harness, "a")
    mine = sent(harness, seen, "staged")
    harness.commit(mine)
    base, writer = harness.metadata(), Writer(harness.manifests)
    picked = writer.fast_append(base, 20, "mine", **{"source-snapshot-id": str(MINE)})
    harness.commit(request(base, picked))
    expire(harness, MINE)
    harness.commit(from_request([], [{"action": "set-properties", "updates": {"a": "b"}}]))
    conflict = from_request([requests.assert_default_spec_id(7)], list(mine.updates))
    with pytest.raises(CommitStateUnknown, match=r"is not in db\.t any more, but it was"):
        harness.commit(conflict)


@pytest.mark.parametrize("moved", [False, True])
def test_a_pick_whose_staged_snapshot_expired_is_refused_and_one_that_landed_is_not(harness, moved):
    """w is staged | two clients pick it | one lands | w expires, with its list | both are sent (again)"""
    seen = with_files(harness, "a")
    staged = Writer(harness.manifests).fast_append(seen, 30, "w")
    harness.commit(request(seen, [each for each in staged if each["action"] == "add-snapshot"]))
    base, writer = harness.metadata(), Writer(harness.manifests)
    late = request(base, writer.fast_append(base, 20, "w", **{"source-snapshot-id": "30"}))
    landed = request(base, writer.fast_append(base, MINE, "w", **{"source-snapshot-id": "30"}))
    if moved:
        harness.commit(landed)
    expire(harness, 30)
    before = harness.location()
    with pytest.raises(InvalidInput, match="snapshot 20 picks snapshot 30, which is not in the table: it has expired"):
        harness.commit(late)
    assert harness.location() == before
    if moved:
        assert harness.commit(landed).already_committed
        expire(harness, 1, *([MINE] if add(harness, 40, "b") else []))
        with pytest.raises(CommitStateUnknown):
            harness.commit(landed)


def test_what_names_no_snapshot_as_its_source_is_no_pick(harness):
    seen = with_files(harness, "a")
    harness.commit(request(seen, Writer(harness.manifests).fast_append(seen, MINE, "b", **{"source-snapshot-id": "x"})))
    assert harness.metadata().current_snapshot_id == MINE


def test_a_change_that_has_no_turn_and_expired_is_not_told_that_it_failed(harness):
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.commit(mine)
    add(harness, 20, "other")
    expire(harness, 1, 2, MINE)
    assert "but it was" in harness.already_committed().failed_or_unknown(mine.identity, LATE).error.message
    [member] = harness.members(mine)
    assert member.withdraw()
    with pytest.raises(CommitStateUnknown, match="but it was"):
        member.result()


def long_running(harness):
    """Let the harness begin anew, as if that were long before anything was made."""
    runtime = harness.runtime
    began_ms = -2 * CLOCK_SKEW_MS
    began = runtime.now() - (runtime.now_ms() - began_ms) / 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "now", lambda: began)
        patch.setattr(runtime, "now_ms", lambda: began_ms)
        harness.restart()


def test_a_change_of_a_table_that_is_gone_or_another_now_may_be_in_that_one(harness):
    """mine lands, its answer is lost | the table is renamed | mine is sent again: a 404 would delete its files"""
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.commit(mine)
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1.0)
    with pytest.raises(CommitStateUnknown, match=r"its snapshot is in db\.other, and it was not committed again"):
        harness.commit(mine)
    harness.create()
    with pytest.raises(CommitStateUnknown, match=r"its snapshot is in db\.other"):
        harness.commit(mine, coordinator=harness.another())
    with pytest.raises(NoSuchTable):
        harness.coordinator.commit(TableName("db", "none"), from_request([], NEW_SCHEMA), wait_seconds=1.0)


def test_a_change_that_landed_and_expired_under_another_name_is_not_refused(harness):
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.commit(mine)
    add(harness, 20, "other")
    expire(harness, 1, 2, MINE)
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1.0)
    with pytest.raises(CommitStateUnknown, match=r"is not in db\.other any more, but it was"):
        harness.commit(mine, coordinator=harness.another())


@pytest.mark.parametrize("replaced", [False, True])
def test_a_change_that_was_never_in_a_renamed_table_failed(harness, replaced):
    """mine is made | the table is renamed, and another is made under its name | mine is sent"""
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.coordinator.operations.rename(NAME, TableName("db", "renamed"), wait_seconds=1.0)
    if replaced:
        harness.create()
    with pytest.raises((NoSuchTable, RequirementFailed)) as caught:
        harness.commit(mine)
    assert caught.value.proved_failed


@pytest.mark.parametrize("replaced", [False, True])
def test_a_change_whose_table_was_dropped_failed_if_no_swap_carried_it(harness, replaced):
    """mine is made | the table is dropped, and another is made under its name | mine is sent, for the first time"""
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.coordinator.operations.drop(NAME, wait_seconds=1.0)
    if replaced:
        harness.create()
    # A server that began after mine was made cannot know what its predecessor sent.
    harness.begin_now()
    with pytest.raises(CommitStateUnknown, match=r"whether the change was committed before"):
        harness.commit(mine)
    long_running(harness)
    with pytest.raises((NoSuchTable, RequirementFailed)) as caught:
        harness.commit(mine)
    assert caught.value.proved_failed


def test_a_change_that_landed_in_a_table_that_was_dropped_is_not_told_that_it_failed(harness):
    """mine lands, its answer is lost | the table is dropped, not purged | mine is sent again: its files may come back
    with the table"""
    long_running(harness)
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.commit(mine)
    harness.coordinator.operations.drop(NAME, wait_seconds=1.0)
    with pytest.raises(CommitStateUnknown, match=r"there is no table db\.t"):
        harness.commit(mine)


def test_a_change_whose_swap_may_still_be_made_is_not_told_that_it_failed(harness):
    """mine is sent, and nobody answers | the table is renamed | mine is sent again: it could come back to its name"""
    long_running(harness)
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    harness.pointer.atomic = False
    harness.pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    with pytest.raises(CommitStateUnknown):
        harness.commit(mine)
    harness.pointer.atomic = True
    # The lease of the lock that was left is over.
    harness.lock.queues.reap(NAME)
    harness.runtime.skipped += harness.lock.short_lease_seconds
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1.0)
    with pytest.raises(CommitStateUnknown, match="a swap with it was sent"):
        harness.commit(mine)


@pytest.mark.parametrize("made_by", ["its snapshot", "its job's key"])
def test_a_change_of_this_process_that_landed_in_a_table_that_was_dropped_is_not_told_that_it_failed(made_by):
    """a job's swap is sent, and nobody answers | it lands | the table is dropped | the job runs again"""
    sent_swaps = SentSwaps(ThreadRuntime())
    carries = frozenset([7]) if made_by == "its snapshot" else frozenset(["job"])
    sent_swaps.send(SentSwap(NAME, "file:/t/m.json", carries=carries), [])
    sources = LookupSources(raising(NoSuchTable(NAME)), nowhere, unread, sent_swaps)
    again = ChangeIdentity(snapshot_ids=(7 if made_by == "its snapshot" else 8,), idempotency_key="job")
    outcome = AlreadyCommitted(NAME, sources).failed_or_unknown(again, NoSuchTable(NAME))
    assert isinstance(outcome, Unknown)
    another = ChangeIdentity(snapshot_ids=(9,), idempotency_key="another job")
    outcome = AlreadyCommitted(NAME, sources).failed_or_unknown(another, NoSuchTable(NAME))
    assert isinstance(outcome, Failed)


@pytest.mark.parametrize("trouble", ["nobody can look", "nobody is to look", "no uuid"])
def test_a_change_whose_table_cannot_be_looked_for_may_be_in_it(harness, trouble):
    if trouble == "nobody is to look":
        harness.restart(uuid_lookup_total_timeout_ms=0)
    long_running(harness)
    mine = sent(harness, with_files(harness, "a", "b"), "delete")
    if trouble == "no uuid":
        shipped = Writer(harness.manifests).fast_append(harness.metadata(), MINE, "mine")
        mine = from_request([], shipped)
    harness.coordinator.operations.rename(NAME, TableName("db", "renamed"), wait_seconds=1.0)
    if trouble == "nobody can look":

        def gone(*_, **__):
            raise MetastoreUnavailable("gone")

        harness.pointer.find_by_uuid = gone
    with pytest.raises(CommitStateUnknown, match=r"could not be looked for|does not say which"):
        harness.commit(mine)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("kind", ["flink", "delete"])
def test_a_tag_of_a_snapshot_whose_parent_expired_leaves_no_doubt_of_a_conflict(version, kind):
    """others land, all but a tagged one expire | mine and another are made on one table | the other lands"""
    harness = Harness()
    harness.create(**{"format-version": version})
    with_files(harness, "a", "b", "c", "d")
    harness.commit(from_request([], [updates.set_snapshot_ref("release", 2, kind="tag")]))
    before = harness.metadata_files()
    expire(harness, 1, 3)
    add(harness, 20, "x")
    mine = sent(harness, harness.metadata(), kind)
    add(harness, 21, "other")
    for location in before:
        harness.files.delete(location)
    with pytest.raises(RequirementFailed):
        harness.commit(mine, coordinator=harness.another())


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("kind", ["staged", "create or replace"])
def test_what_asserts_no_place_is_not_refused_because_others_expired_before_it_was_made(version, kind, monkeypatch):
    """others land and expire, one with a tag stays | two minutes later mine is made"""
    harness = Harness()
    harness.create(**{"format-version": version})
    with_files(harness, "a", "b", "c", "d")
    harness.commit(from_request([], [updates.set_snapshot_ref("release", 2, kind="tag")]))
    expire(harness, 1, 3)
    later = harness.metadata().last_updated_ms + 120_000
    monkeypatch.setattr(harness.runtime, "now_ms", lambda: later)
    monkeypatch.setattr(writers, "NOW", later)
    assert harness.commit(sent(harness, harness.metadata(), kind)).snapshot_ids == (MINE,)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("in_time", [True, False])
def test_a_group_looks_for_its_missing_table_once_for_all_its_changes(harness, replaced, in_time):
    """The callers wait for these calls, and cannot time out meanwhile, even where each call takes as long as it may."""
    base = with_files(harness, "a", "b")
    changes = [request(base, Writer(harness.manifests).fast_append(base, id_, "mine")) for id_ in range(20, 28)]
    harness.coordinator.operations.drop(NAME, wait_seconds=1.0)
    if replaced:
        harness.create()
    members = harness.members(*changes)
    harness.pointer.calls.clear()
    if not in_time:
        harness.pointer.look_ups.extend([partial(harness.runtime.sleep, 11.0)] * 16)
    began = harness.runtime.now()
    harness.group(*members, began_now=True)
    assert all(isinstance(member.outcome, Unknown) for member in members)
    assert harness.pointer.calls.count(("databases", TableName("", ""))) <= 2
    assert harness.runtime.now() - began < 20
