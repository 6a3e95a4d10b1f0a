"""Create, register, rename and drop, whatever the metastore answers."""

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    CorruptFile,
    InvalidInput,
    LocationNotAllowed,
    MetastoreRefused,
    MissingFile,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
)
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.creations import OTHER, creation
from tests.coordinator.harness import NAME, set_properties


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_table_that_was_created_is_there_whatever_the_metastore_answered(empty, answer):
    empty.pointer.answers.append(answer)
    metadata = empty.create()
    assert metadata.uuid
    assert empty.events[0]["report"].metadata_location == empty.location()
    assert empty.lock.acquired == 0, "the metastore's refusal of a taken name is the compare-and-swap"


def test_a_refused_creation_is_its_own_error(empty):
    empty.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        empty.create()


def test_a_taken_name_is_refused_and_leaves_no_file(harness):
    files = set(harness.files.locations())
    with pytest.raises(AlreadyExists, match=r"Table already exists: db\.t"):
        harness.create()
    assert set(harness.files.locations()) == files


def test_a_creation_whose_list_is_not_there_makes_no_table(empty):
    with pytest.raises(InvalidInput, match="snapshot 6 cannot be read: Failed to open") as caught:
        empty.coordinator.operations.create(NAME, creation(6))
    assert caught.value.proved_failed
    assert NAME not in empty.pointer.rows
    assert not empty.files.locations()


def test_a_hive_table_keeps_its_name(empty):
    empty.pointer.add_hive_table(NAME)
    with pytest.raises(AlreadyExists):
        empty.create()
    with pytest.raises(NotAnIcebergTable):
        empty.coordinator.operations.drop(NAME, wait_seconds=1)
    assert "metadata_location" not in empty.pointer.rows[NAME].parameters


def test_a_new_table_is_registered_at_the_given_file(harness):
    location = harness.location()
    with pytest.raises(InvalidInput, match=r"that of the table db\.t"):
        harness.coordinator.operations.register(OTHER, location, overwrite=False, wait_seconds=1)
    harness.coordinator.operations.drop(NAME, wait_seconds=1)
    report = harness.coordinator.operations.register(OTHER, location, overwrite=False, wait_seconds=1)
    assert report.metadata_location == location
    assert not harness.pointer.load(OTHER).owns_folder
    assert harness.pointer.load(OTHER).metadata_location == location


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_is_not_there_or_not_metadata_registers_nothing(harness, overwrite):
    harness.files.write("file:/bad.metadata.json", b'{"format-version": 2')
    for location, error in (("file:/none.metadata.json", MissingFile), ("file:/bad.metadata.json", CorruptFile)):
        with pytest.raises(error):
            harness.coordinator.operations.register(OTHER, location, overwrite=overwrite, wait_seconds=1)
    with pytest.raises(NoSuchTable):
        harness.pointer.load(OTHER)


def test_registering_over_a_table_needs_overwrite_and_points_at_a_copy(harness):
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


def test_what_a_registration_replaces_is_checked_again_under_its_lock(harness):
    """an admin sets a protected property while the registration waits for the lock"""
    old = harness.metadata().metadata_log[0]["metadata-file"]
    acquire = harness.lock.acquire
    seen = []

    def after_an_admin(name, **options):
        harness.lock.acquire = acquire
        harness.coordinator.commit(NAME, set_properties(protected="1"), wait_seconds=1)
        return acquire(name, **options)

    def check(metadata, replaced):
        seen.append(replaced.properties.get("protected"))
        if replaced.properties.get("protected") != metadata.properties.get("protected"):
            raise LocationNotAllowed("protected")

    harness.lock.acquire = after_an_admin
    files = set(harness.files.locations())
    with pytest.raises(LocationNotAllowed):
        harness.coordinator.operations.register(NAME, old, overwrite=True, wait_seconds=1, check=check)
    assert seen == [None, "1"]
    assert harness.metadata().properties["protected"] == "1"
    assert set(harness.files.locations()) - files == {harness.location()}


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_rename_that_was_made_is_success_whatever_the_metastore_answered(harness, answer):
    location = harness.location()
    harness.pointer.answers.append(answer)
    harness.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    assert harness.pointer.load(OTHER).metadata_location == location
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)
    assert not harness.lock.queues.entries(NAME)
    assert not harness.lock.queues.entries(OTHER)


def test_a_rename_to_a_taken_name_or_a_missing_namespace_is_refused(harness):
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


def test_a_drop_returns_what_the_table_was(harness):
    metadata = harness.metadata()
    dropped = harness.coordinator.operations.drop(NAME, wait_seconds=1)
    assert dropped.metadata == metadata
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)


@pytest.mark.parametrize("answer", [ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_drop_without_proof_returns_nothing_to_purge(harness, answer):
    harness.pointer.answers.append(answer)
    assert harness.coordinator.operations.drop(NAME, wait_seconds=1) is None
    with pytest.raises(NoSuchTable):
        harness.pointer.load(NAME)


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.DELAYED])
def test_a_table_that_another_renamed_during_its_drop_is_not_gone(harness, answer):
    """another renames the table without a lock; the drop is refused, or removes what has the name when it arrives"""

    def renamed():
        harness.pointer.rows[OTHER] = harness.pointer.rows.pop(NAME)

    harness.pointer.answers.append(answer)
    harness.pointer.before_moves.append(renamed)
    with pytest.raises(CommitStateUnknown):
        harness.coordinator.operations.drop(NAME, wait_seconds=1)


def test_a_dropped_table_that_cannot_be_searched_for_is_gone_and_not_purged(harness):
    harness.pointer.answers.append(ScriptedAnswer.REPLY_LOST)

    def unavailable(*_, **__):
        raise MetastoreRefused("no answer")

    harness.pointer.find_by_uuid = unavailable
    assert harness.coordinator.operations.drop(NAME, wait_seconds=1) is None


def test_a_drop_under_a_lost_lock_returns_nothing_to_purge(harness):
    """drop: lock, load | the lock is reaped: another may put another table there | drop: made"""
    harness.pointer.before_moves.append(lambda: harness.lock.queues.reap(NAME))
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
    operations = harness.coordinator.operations
    metadata = harness.metadata().replace(location="file:/hadoop")
    harness.files.write(location, metadata.replace(properties={"made": "first"}).to_bytes())
    operations.register(OTHER, location, overwrite=False, wait_seconds=1)
    assert harness.coordinator.load(OTHER).metadata.properties == {"made": "first"}
    operations.drop(OTHER, wait_seconds=1)
    harness.files.delete(location)
    harness.files.write(location, metadata.replace(properties={"made": "second"}).to_bytes())
    name = NAME if overwrite else OTHER
    report = operations.register(name, location, overwrite=overwrite, wait_seconds=1)
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


def test_a_commit_to_a_dropped_table_is_refused(harness):
    harness.coordinator.operations.drop(NAME, wait_seconds=1)
    with pytest.raises(NoSuchTable):
        harness.commit(set_properties(a="b"))


@pytest.mark.parametrize("answer", [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY])
def test_a_registration_that_was_made_is_success_whatever_the_metastore_answered(harness, answer):
    harness.pointer.answers.append(answer)
    before = harness.location()
    report = harness.coordinator.operations.register(NAME, before, overwrite=True, wait_seconds=1)
    assert harness.location() == report.metadata_location != before


def test_a_registration_whose_swap_is_proved_absent_is_sent_again(harness):
    """swap: lost | another commits | the same swap: refused | absent, and never made: the row has left its base"""
    harness.pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    harness.pointer.before_moves.append(lambda: harness.foreign_commit(other="1"))
    report = harness.coordinator.operations.register(NAME, harness.location(), overwrite=True, wait_seconds=1)
    assert harness.location() == report.metadata_location
    assert [call for call, _ in harness.pointer.calls].count("swap") == 4


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
