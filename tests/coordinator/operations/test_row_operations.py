"""Whether a creation made its table, when the metastore's answer misleads or the creation is sent again."""

from dataclasses import replace

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    MetastoreRefused,
    MetastoreUnavailable,
    StorageError,
)
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.creations import OTHER, before_look, creation, rename, rival_table
from tests.coordinator.harness import NAME, Harness, set_properties


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


def test_a_creation_that_lost_a_race_is_proved_to_have_failed(empty):
    """the name is free | another creates it | create: refused; the name is another's, and our uuid is nowhere"""
    taken = rival_table(empty)
    empty.pointer.before_moves.append(lambda: empty.pointer.rows.update({NAME: taken}))
    with pytest.raises(AlreadyExists) as caught:
        empty.create()
    assert caught.value.proved_failed
    assert empty.location() == taken.parameters["metadata_location"]
    assert len(empty.files.locations()) == 2, "what a creation wrote that was sent is left to a sweep"


def test_a_creation_that_the_metastore_refuses_is_proved_to_have_failed(empty):
    empty.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused) as caught:
        empty.create()
    assert caught.value.proved_failed


def test_a_repeated_creation_is_acknowledged_under_the_table_s_new_name(empty):
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
    # Java, which asks nobody, registers the same file at the same time.
    mine = harness.pointer.rows.pop(NAME)
    harness.pointer.before_moves.append(lambda: harness.pointer.rows.update({free: taken, NAME: mine}))
    with pytest.raises(CommitStateUnknown, match="uuid"):
        harness.coordinator.operations.register(free, location, overwrite=False, wait_seconds=1)
    del harness.pointer.rows[free], harness.pointer.rows[NAME]
    harness.pointer.before_moves.append(lambda: harness.pointer.rows.update({free: taken}))
    with pytest.raises(AlreadyExists) as caught:
        harness.coordinator.operations.register(free, location, overwrite=False, wait_seconds=1)
    assert caught.value.proved_failed


@pytest.mark.parametrize("ids", [(), (77,), (77, 78)])
def test_a_repeated_creation_is_already_committed(empty, ids):
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
    assert len(empty.events) == 2, "one event for one creation"


def test_the_case_of_a_repeated_creation_s_uuid_does_not_matter(empty):
    uuid = SYSTEM_CLOCK.uuid()
    empty.coordinator.operations.create(NAME, creation(77, uuid=uuid))
    assert empty.coordinator.operations.create(NAME, creation(77, uuid=uuid.upper())).already_committed


def test_a_creation_without_a_uuid_is_recognised_by_its_snapshots(empty):
    empty.coordinator.operations.create(NAME, creation(77))
    assert empty.coordinator.operations.create(NAME, creation(77, uuid="")).already_committed
    for other in (creation(uuid=""), creation(78, uuid="")):
        with pytest.raises(AlreadyExists):
            empty.coordinator.operations.create(NAME, other)


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
def test_a_table_of_another_uuid_with_the_same_snapshots_leaves_the_outcome_unknown(empty, sent):
    empty.coordinator.operations.create(NAME, creation(77))
    with pytest.raises(CommitStateUnknown, match="delete nothing"):
        empty.coordinator.operations.create(NAME, creation(*sent))


@pytest.mark.parametrize("error", [None, StorageError("no route")])
def test_unreadable_metadata_of_a_taken_name_proves_nothing_about_a_creation_with_snapshots(empty, error):
    empty.coordinator.operations.create(NAME, creation(77))
    reading = empty.another()
    if error is None:
        empty.files.delete(empty.location())
    else:
        empty.files.read = lambda *_: (_ for _ in ()).throw(error)
    with pytest.raises(CommitStateUnknown, match="delete nothing") as caught:
        reading.operations.create(NAME, creation(78))
    assert not caught.value.proved_failed
    with pytest.raises(AlreadyExists):
        reading.operations.create(NAME, creation())


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("to", [OTHER, TableName("elsewhere", "t")])
@pytest.mark.parametrize("answer", [ScriptedAnswer.REFUSED_AFTER_APPLY, ScriptedAnswer.REPLY_LOST])
def test_a_creation_whose_table_another_writer_renamed_is_acknowledged(empty, taken, to, answer):
    """create: made, refused after all | another renames it | the name is free, or a third creates it"""
    empty.pointer.metastore.databases["elsewhere"] = {}
    empty.pointer.answers.append(answer)
    rows = {NAME: rival_table(empty)} if taken else {}
    before_look(empty, 2, lambda: (rename(empty, to=to), empty.pointer.rows.update(rows)))
    report = empty.coordinator.operations.create(NAME, creation())
    assert not report.already_committed
    assert empty.pointer.rows[to].parameters["metadata_location"] == report.metadata_location
    assert empty.files.read(report.metadata_location)


def test_a_creation_whose_table_was_renamed_and_committed_to_is_acknowledged(empty):
    """create: made, refused after all | another renames it, and a third commits to it and keeps no uuid in its row"""
    empty.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)

    def move_on():
        empty.foreign_commit(colour="red")
        row = empty.pointer.rows[NAME]
        silent = {key: value for key, value in row.parameters.items() if key != "uuid"}
        empty.pointer.rows[NAME] = replace(row, parameters=silent)
        rename(empty)

    before_look(empty, 2, move_on)
    report = empty.coordinator.operations.create(NAME, creation())
    assert empty.files.read(report.metadata_location)


@pytest.mark.parametrize("trouble", ["dropped", "the lookup fails", "the lookup is switched off"])
def test_a_refused_creation_whose_name_is_free_is_unknown(empty, trouble):
    """create: made, refused after all | another drops it, or renames it and the metastore is gone"""
    if trouble == "the lookup is switched off":
        empty = Harness(uuid_lookup_total_timeout_ms=0)
    empty.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    before_look(empty, 2, lambda: empty.pointer.rows.pop(NAME) if trouble == "dropped" else rename(empty))
    if trouble == "the lookup fails":

        def gone(*_, **__):
            raise MetastoreUnavailable("gone")

        empty.pointer.find_by_uuid = gone
    files = set(empty.files.locations())
    with pytest.raises(CommitStateUnknown, match="delete nothing"):
        empty.create()
    assert len(set(empty.files.locations()) - files) == 1, "its metadata file stays"


def test_a_creation_that_lost_a_race_is_unknown_if_the_lookup_fails(empty):
    taken = rival_table(empty)
    empty.pointer.before_moves.append(lambda: empty.pointer.rows.update({NAME: taken}))
    silent = {key: value for key, value in taken.parameters.items() if key != "uuid"}
    empty.pointer.rows[OTHER] = replace(taken, parameters={**silent, "metadata_location": "file:/damaged"})
    empty.files.write("file:/damaged", b"{")
    with pytest.raises(CommitStateUnknown):
        empty.create()
