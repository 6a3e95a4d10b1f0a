"""Create, register, rename and drop, on the good day and when the metastore's answers mislead."""

from dataclasses import replace
from functools import partial

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import LockUse, TableName
from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    CorruptFile,
    InvalidInput,
    LockLost,
    LockNotAcquired,
    MetastoreRefused,
    MetastoreUnavailable,
    MissingFile,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
    StorageError,
)
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.creations import LIST, OTHER, before_look, creation, rename, rival_table
from tests.coordinator.harness import NAME, Harness, append, set_properties


@pytest.fixture
def empty():
    """No table yet, and the lists of the snapshots that creations bring."""
    made = Harness()
    made.manifests.lists.update((LIST.format(id_), ()) for id_ in (5, 77, 78))
    return made


@pytest.fixture
def harness():
    made = Harness()
    made.create()
    made.commit(append("file:/a"))
    return made


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_table_that_was_created_is_there_whatever_the_metastore_answered(empty, answer):
    empty.pointer.answers.append(answer)
    metadata = empty.create()
    assert metadata.uuid
    assert empty.events[0]["report"].metadata_location == empty.location()
    assert empty.lock.acquired == 0, "the metastore's own refusal of a taken name is the fence"


def test_a_refused_creation_is_its_own_error(empty):
    empty.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        empty.create()


@pytest.mark.parametrize("answer", [ScriptedAnswer.DELAYED, ScriptedAnswer.IN_DOUBT])
def test_a_creation_that_may_still_be_made_is_unknown_and_its_file_is_kept(empty, answer):
    empty.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown, match="delete nothing"):
        empty.create()
    empty.pointer.deliver_delayed()
    assert empty.metadata().uuid


def test_an_unanswered_creation_that_cannot_be_looked_up_is_unknown(empty):
    """create: made, reply lost | look: the metastore is gone. "Unavailable" would make the client send it again."""
    gone = [MetastoreUnavailable("gone")] * 20
    empty.pointer.answers.append(ScriptedAnswer.REPLY_LOST)
    empty.pointer.before_moves.append(lambda: empty.pointer.load_errors.extend(gone))
    with pytest.raises(CommitStateUnknown):
        empty.create()
    assert empty.metadata().uuid


def test_a_taken_name_is_refused_and_leaves_no_file(harness):
    files = set(harness.files.locations())
    with pytest.raises(AlreadyExists, match=r"Table already exists: db\.t"):
        harness.create()
    assert set(harness.files.locations()) == files


def test_a_creation_that_lost_a_race_is_proved_to_have_failed(empty):
    """the name is free | another creates it | create: refused; the name is another's, and our uuid is nowhere"""
    taken = rival_table(empty)
    empty.pointer.before_moves.append(lambda: empty.pointer.rows.update({NAME: taken}))
    with pytest.raises(AlreadyExists) as caught:
        empty.create()
    assert caught.value.proved_failed
    assert empty.location() == taken.parameters["metadata_location"]
    assert len(empty.files.locations()) == 2, "what a creation wrote that was sent is left to a sweep"


def test_a_creation_that_the_metastore_refuses_for_itself_is_proved_to_have_failed(empty):
    empty.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused) as caught:
        empty.create()
    assert caught.value.proved_failed


def test_a_creation_that_was_sent_twice_is_acknowledged_under_the_name_that_it_has_now(empty):
    """create: made | another renames it, and a third takes the name meanwhile | the same creation comes again"""
    change = creation(5)
    empty.coordinator.operations.create(NAME, change)
    made = empty.location()
    rename(empty)
    taken = rival_table(empty)
    empty.pointer.before_moves.append(lambda: empty.pointer.rows.update({NAME: taken}))
    report = empty.coordinator.operations.create(NAME, change)
    assert report.already_committed
    assert (report.table, report.metadata_location) == (OTHER, made)


def test_a_registration_that_lost_a_race_is_proved_to_have_failed_unless_the_file_is_a_table_already(harness):
    location = harness.location()
    free = TableName("db", "free")
    taken = rival_table(harness)
    harness.pointer.before_moves.append(lambda: harness.pointer.rows.update({free: taken}))
    with pytest.raises(CommitStateUnknown, match="uuid"):
        harness.coordinator.operations.register(free, location, overwrite=False, wait_seconds=1)
    del harness.pointer.rows[free], harness.pointer.rows[NAME]
    harness.pointer.before_moves.append(lambda: harness.pointer.rows.update({free: taken}))
    with pytest.raises(AlreadyExists) as caught:
        harness.coordinator.operations.register(free, location, overwrite=False, wait_seconds=1)
    assert caught.value.proved_failed


@pytest.mark.parametrize("ids", [(), (77,), (77, 78)])
def test_a_creation_that_comes_again_is_already_committed(empty, ids):
    """create: landed, its answer is lost | another commits | the same create: its client must not delete its files"""
    change = creation(*ids)
    first = empty.coordinator.operations.create(NAME, change)
    assert not first.already_committed
    again = empty.coordinator.operations.create(NAME, change)
    assert again.already_committed
    assert again.snapshot_ids == ids
    assert (again.metadata_location, again.metadata) == (first.metadata_location, first.metadata)
    empty.commit(set_properties(a="b"))
    files = set(empty.files.locations())
    late = empty.another().operations.create(NAME, change)
    assert late.already_committed
    assert late.metadata_location == empty.location()
    assert late.previous_metadata_location == first.metadata_location
    assert late.metadata.properties["a"] == "b"
    assert (late.attempts, late.group_size) == (0, 0)
    assert set(empty.files.locations()) == files, "nothing is written, and nothing deleted"
    assert len(empty.events) == 2, "what was committed before is told once"


def test_the_uuid_of_a_creation_that_comes_again_may_be_written_otherwise(empty):
    uuid = SYSTEM_CLOCK.uuid()
    empty.coordinator.operations.create(NAME, creation(77, uuid=uuid))
    assert empty.coordinator.operations.create(NAME, creation(77, uuid=uuid.upper())).already_committed


def test_a_creation_without_a_uuid_is_known_by_its_snapshots_alone(empty):
    empty.coordinator.operations.create(NAME, creation(77))
    assert empty.coordinator.operations.create(NAME, creation(77, uuid="")).already_committed
    for other in (creation(uuid=""), creation(78, uuid="")):
        with pytest.raises(AlreadyExists):
            empty.coordinator.operations.create(NAME, other)


def test_a_creation_whose_list_is_not_there_makes_no_table(empty):
    with pytest.raises(InvalidInput, match="snapshot 6 cannot be read: Failed to open") as caught:
        empty.coordinator.operations.create(NAME, creation(6))
    assert caught.value.proved_failed
    assert NAME not in empty.pointer.rows
    assert not empty.files.locations()


@pytest.mark.parametrize("ids", [(), (77,)])
def test_another_creation_of_a_taken_name_is_refused_and_proved(empty, ids):
    empty.coordinator.operations.create(NAME, creation(5))
    files = set(empty.files.locations())
    with pytest.raises(AlreadyExists) as caught:
        empty.coordinator.operations.create(NAME, creation(*ids))
    assert caught.value.proved_failed
    assert set(empty.files.locations()) == files


@pytest.mark.parametrize(
    ("made", "sent"),
    [((77,), (77, 78)), ((77,), (78,))],
    ids=["one of them was expired, or never was", "all of them were"],
)
def test_a_table_of_the_same_uuid_with_other_snapshots_may_be_this_creation_s(empty, made, sent):
    """Manifests of a snapshot that was expired live on in those after it."""
    uuid = SYSTEM_CLOCK.uuid()
    empty.coordinator.operations.create(NAME, creation(*made, uuid=uuid))
    with pytest.raises(CommitStateUnknown, match="delete nothing") as caught:
        empty.coordinator.operations.create(NAME, creation(*sent, uuid=uuid))
    assert not caught.value.proved_failed


@pytest.mark.parametrize("sent", [(77,), (77, 78)])
def test_a_table_of_another_uuid_with_the_same_snapshots_is_a_riddle(empty, sent):
    empty.coordinator.operations.create(NAME, creation(77))
    with pytest.raises(CommitStateUnknown, match="delete nothing"):
        empty.coordinator.operations.create(NAME, creation(*sent))


@pytest.mark.parametrize("error", [None, StorageError("no route")])
def test_a_taken_name_whose_metadata_cannot_be_read_proves_nothing_to_who_sends_snapshots(empty, error):
    empty.coordinator.operations.create(NAME, creation(77))
    reading = empty.another()
    if error is None:
        empty.files.delete(empty.location())
    else:
        empty.files.read = lambda _: (_ for _ in ()).throw(error)
    with pytest.raises(CommitStateUnknown, match="delete nothing") as caught:
        reading.operations.create(NAME, creation(78))
    assert not caught.value.proved_failed
    with pytest.raises(AlreadyExists):
        reading.operations.create(NAME, creation())


def test_a_hive_table_keeps_its_name(empty):
    empty.pointer.add_hive_table(NAME)
    with pytest.raises(AlreadyExists):
        empty.create()
    with pytest.raises(NotAnIcebergTable):
        empty.coordinator.operations.drop(NAME, wait_seconds=1)
    assert "metadata_location" not in empty.pointer.rows[NAME].parameters


def test_a_new_table_is_registered_at_the_given_file(harness):
    location = harness.location()
    report = harness.coordinator.operations.register(OTHER, location, overwrite=False, wait_seconds=1)
    assert report.metadata_location == location
    assert harness.pointer.load(OTHER).metadata_location == location


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_is_not_there_or_not_metadata_registers_nothing(harness, overwrite):
    harness.files.write("file:/bad.metadata.json", b'{"format-version": 2')
    for location, error in (("file:/none.metadata.json", MissingFile), ("file:/bad.metadata.json", CorruptFile)):
        with pytest.raises(error):
            harness.coordinator.operations.register(OTHER, location, overwrite=overwrite, wait_seconds=1)
    with pytest.raises(NoSuchTable):
        harness.pointer.load(OTHER)


def test_registering_over_a_table_needs_the_word_and_points_at_a_copy(harness):
    old = harness.metadata().metadata_log[0]["metadata-file"]
    before = harness.location()
    with pytest.raises(AlreadyExists):
        harness.coordinator.operations.register(NAME, old, overwrite=False, wait_seconds=1)
    report = harness.coordinator.operations.register(NAME, old, overwrite=True, wait_seconds=1)
    assert report.previous_metadata_location == before
    assert harness.location() == report.metadata_location
    assert harness.location() not in (old, before), "a name that was used before would open an A-B-A hole"
    assert harness.metadata().current_snapshot is None
    assert harness.lock.acquired == 2


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_rename_that_was_made_is_success_whatever_the_metastore_answered(harness, answer):
    location = harness.location()
    harness.pointer.answers.append(answer)
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    assert harness.pointer.load(OTHER).metadata_location == location
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)
    assert not harness.lock.table.entries[NAME]
    assert not harness.lock.table.entries[OTHER]


def test_a_rename_onto_a_taken_name_or_into_nowhere_is_refused(harness):
    harness.pointer.add_hive_table(OTHER)
    with pytest.raises(AlreadyExists):
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    with pytest.raises(NoSuchNamespace):
        harness.coordinator.operations.rename(NAME, TableName("nowhere", "t"), wait_seconds=1)
    assert harness.pointer.load(NAME)


@pytest.mark.parametrize("answer", [ScriptedAnswer.REQUEST_LOST, ScriptedAnswer.IN_DOUBT])
def test_a_rename_that_is_not_seen_is_unknown(harness, answer):
    harness.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    assert harness.pointer.load(NAME)


def test_renames_take_their_locks_in_the_order_of_the_names(harness):
    taken = []
    acquire = harness.lock.acquire

    def noted(name, **options):
        taken.append(name)
        return acquire(name, **options)

    harness.lock.acquire = noted
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    harness.coordinator.operations.rename(OTHER, NAME, wait_seconds=1)
    assert taken == [OTHER, NAME, OTHER, NAME]


def test_a_lock_that_cannot_be_had_gives_the_first_one_back(harness):
    held = harness.lock.acquire(NAME, wait_seconds=1, request="other")
    with pytest.raises(LockNotAcquired):
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=0.01)
    assert not harness.lock.table.entries[OTHER]
    held.release()


def test_a_drop_returns_what_the_table_was(harness):
    metadata = harness.metadata()
    dropped = harness.coordinator.operations.drop(NAME, wait_seconds=1)
    assert dropped.metadata == metadata
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)


@pytest.mark.parametrize("answer", [ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_drop_that_may_have_been_another_s_gives_nothing_to_purge(harness, answer):
    harness.pointer.answers.append(answer)
    assert harness.coordinator.operations.drop(NAME, wait_seconds=1) is None
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)


@pytest.mark.parametrize("kind", ["drop", "rename"])
def test_a_move_that_was_made_refused_and_undone_by_another_is_not_told_that_it_failed(harness, kind):
    """drop: made, and the metastore tries once more and finds no table | another registers its file under the name"""
    row = harness.pointer.rows[NAME]

    def undo():
        harness.pointer.rows = {NAME: row}

    harness.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    moves = harness.coordinator.operations
    # A rename looks at its target first.
    before_look(harness, 3 if kind == "rename" else 2, undo)
    move = partial(moves.drop, NAME) if kind == "drop" else partial(moves.rename, NAME, OTHER)
    with pytest.raises(CommitStateUnknown):
        move(wait_seconds=1)


def test_a_table_that_was_renamed_in_the_last_moment_is_not_given_to_be_purged(harness):
    """drop: lock, load | pause; the lock is reaped, another renames the table | drop: refused, and the name is gone"""

    def renamed():
        harness.lock.table.reap(NAME)
        harness.pointer.rows[OTHER] = replace(harness.pointer.rows.pop(NAME))

    harness.pointer.before_moves.append(renamed)
    assert harness.coordinator.operations.drop(NAME, wait_seconds=1) is None


def test_a_drop_under_a_lock_that_was_lost_gives_nothing_to_purge(harness):
    """drop: lock, load | the lock is reaped: another may put another table there | drop: made"""
    harness.pointer.before_moves.append(lambda: harness.lock.table.reap(NAME))
    assert harness.coordinator.operations.drop(NAME, wait_seconds=1) is None


def test_a_file_that_was_deleted_since_it_was_read_is_not_registered(harness):
    location = harness.location()
    harness.coordinator.load(NAME)
    harness.coordinator.operations.drop(NAME, wait_seconds=1)
    harness.files.delete(location)
    with pytest.raises(MissingFile):
        harness.coordinator.operations.register(NAME, location, overwrite=False, wait_seconds=1)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_was_written_anew_under_its_old_name_is_registered_as_it_is(harness, overwrite):
    """HadoopCatalog: a table's first file is v1.metadata.json; the table is dropped and made anew at the same place"""
    location = "file:/hadoop/metadata/v1.metadata.json"
    moves = harness.coordinator.operations
    harness.files.write(location, harness.metadata().replace(properties={"made": "first"}).to_bytes())
    moves.register(OTHER, location, overwrite=False, wait_seconds=1)
    assert harness.coordinator.load(OTHER).metadata.properties == {"made": "first"}
    moves.drop(OTHER, wait_seconds=1)
    harness.files.delete(location)
    harness.files.write(location, harness.metadata().replace(properties={"made": "second"}).to_bytes())
    name = NAME if overwrite else OTHER
    report = moves.register(name, location, overwrite=overwrite, wait_seconds=1)
    assert report.metadata.properties == {"made": "second"}
    assert harness.coordinator.load(name).metadata.properties == {"made": "second"}
    assert harness.pointer.load(name).metadata_location == report.metadata_location
    harness.coordinator.commit(name, set_properties(a="b"), wait_seconds=1)
    harness.runtime.join()
    assert harness.coordinator.load(name).metadata.properties == {"made": "second", "a": "b"}


@pytest.mark.parametrize("answer", [ScriptedAnswer.DELAYED, ScriptedAnswer.IN_DOUBT])
def test_a_drop_that_is_not_proven_is_unknown(harness, answer):
    harness.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        harness.coordinator.operations.drop(NAME, wait_seconds=1)


def test_a_refused_drop_is_its_own_error(harness):
    harness.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        harness.coordinator.operations.drop(NAME, wait_seconds=1)
    assert harness.pointer.load(NAME)


def test_a_table_whose_metadata_is_gone_can_be_dropped(harness):
    harness.files.delete(harness.location())
    assert harness.another().operations.drop(NAME, wait_seconds=1) is None
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)


def test_a_dropped_table_takes_no_commit(harness):
    harness.coordinator.operations.drop(NAME, wait_seconds=1)
    with pytest.raises(NoSuchTable):
        harness.commit(set_properties(a="b"))


@pytest.fixture
def suspended(harness):
    """A harness whose locks are had and let nothing start."""
    acquire = harness.lock.acquire

    def acquire_and_lose(name, **options):
        held = acquire(name, **options)

        def ensure_held(*, blind=False):
            raise LockLost("the session is SUSPENDED")

        held.ensure_held = ensure_held
        return held

    harness.lock.acquire = acquire_and_lose
    harness.pointer.calls.clear()
    return harness


@pytest.mark.parametrize(
    "move",
    [
        lambda moves, location: moves.rename(NAME, OTHER, wait_seconds=1),
        lambda moves, location: moves.drop(NAME, wait_seconds=1),
        lambda moves, location: moves.register(NAME, location, overwrite=True, wait_seconds=1),
    ],
    ids=["rename", "drop", "register over"],
)
def test_no_move_is_sent_under_a_lock_that_lets_none_start(suspended, move):
    files = set(suspended.files.locations())
    with pytest.raises(LockLost) as caught:
        move(suspended.coordinator.operations, suspended.location())
    assert caught.value.proved_failed
    assert {call for call, _ in suspended.pointer.calls} == {"load"}
    assert set(suspended.files.locations()) == files


@pytest.fixture
def asked(harness):
    """Whether each lock that was asked for was for moves that compare, in order."""
    asked = []
    acquire = harness.lock.acquire

    def noted(name, **options):
        asked.append(options["use"])
        return acquire(name, **options)

    harness.lock.acquire = noted
    return asked


def test_only_moves_with_an_expected_value_ask_for_a_lock_that_may_be_taken_from_a_sleeper(harness, asked):
    harness.coordinator.operations.register(NAME, harness.location(), overwrite=True, wait_seconds=1)
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    harness.coordinator.operations.drop(OTHER, wait_seconds=1)
    assert asked == [LockUse.CAS, LockUse.CAS, LockUse.CAS, LockUse.BLIND]


@pytest.mark.parametrize("move", ["rename", "register over"])
def test_a_move_whose_short_lease_was_lost_or_that_cannot_be_fenced_is_made_under_the_servers(harness, asked, move):
    """The metastore is slower than the lease, or nobody may make a scratch row on it."""
    harness.lock.short_lease_seconds = 20.0
    harness.pointer.atomic = False
    if move == "rename":
        harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
        assert asked == [LockUse.CAS, LockUse.CAS, LockUse.CAS_FULL_LEASE, LockUse.CAS_FULL_LEASE]
    else:
        harness.coordinator.operations.register(NAME, harness.location(), overwrite=True, wait_seconds=1)
        assert asked == [LockUse.CAS, LockUse.CAS_FULL_LEASE]


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_registration_that_was_made_is_success_whatever_the_metastore_answered(harness, answer):
    harness.pointer.answers.append(answer)
    before = harness.location()
    report = harness.coordinator.operations.register(NAME, before, overwrite=True, wait_seconds=1)
    assert harness.location() == report.metadata_location != before


def test_a_registration_that_was_overtaken_after_it_landed_is_success(harness):
    """swap: made, refused | another commits on it | looked up: in the chain behind the pointer"""
    harness.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    load = harness.pointer.load
    swaps = []

    def overtaken(name):
        if len([call for call, _ in harness.pointer.calls if call == "swap"]) > 1 and not swaps:
            swaps.append(name)
            harness.foreign_commit(other="1")
        return load(name)

    harness.pointer.load = overtaken
    report = harness.coordinator.operations.register(NAME, harness.location(), overwrite=True, wait_seconds=1)
    assert swaps
    assert harness.metadata().metadata_log[-1]["metadata-file"] == report.metadata_location
