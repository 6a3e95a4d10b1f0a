"""A Hive table becomes an Iceberg table in place and a Hive table again, whatever the metastore answers."""

from dataclasses import replace

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.hive_ports import HiveColumn
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.errors import (
    AlreadyIceberg,
    CommitConflict,
    CommitStateUnknown,
    CorruptFile,
    InvalidInput,
    LockNotAcquired,
    MetastoreRefused,
    MetastoreUnavailable,
    NoSuchTable,
    NotAnIcebergTable,
    StorageError,
)
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.harness import NAME, SCHEMA, Harness, append, set_properties

FOLDER = "file:/wh/db/t"
HIDDEN = f"{FOLDER}/_iceberg"
LIST = f"{HIDDEN}/snap-77.avro"
OTHER = TableName("db", "other")
MADE = [ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY]


class Lake(Harness):
    """A Hive table with two partitions and a data file."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.hive = MemoryHiveTables(self.pointer)
        self.hive.add(NAME, FOLDER, parameters={"colour": "red"}, partitions=[f"{FOLDER}/p=0", f"{FOLDER}/p=1"])
        self.files.write(f"{FOLDER}/p=0/data.parquet", b"PAR1")
        self.manifests.lists[LIST] = ()
        self.before = self.pointer.rows[NAME]

    @property
    def kinds(self):
        return self.coordinator.kind_changes(self.hive)

    def migrate(self, row=None, *, snapshot=False, change=None, partitions=("p=0", "p=1")):
        row = row or self.hive.load_row(NAME)
        change = change or migration(snapshot=snapshot)
        return self.kinds.to_iceberg(row, change, partition_names=partitions, wait_seconds=1)

    def undo(self, name=NAME):
        return self.kinds.to_hive(name, wait_seconds=1)

    def keep(self):
        self.kinds.keep(NAME, wait_seconds=1)

    def is_as_before(self, name=NAME):
        """Whether the row is that of the Hive table, but for when it was changed."""
        row = self.pointer.rows[name]
        return without_time(row) == without_time(self.before)

    def iceberg_files(self):
        return [each for each in self.files.locations() if each.startswith(HIDDEN)]


def without_time(row):
    return replace(row, parameters={**row.parameters, "transient_lastDdlTime": ""})


def migration(*, snapshot=False, folder=FOLDER, path=HIDDEN, **properties):
    clock = SYSTEM_CLOCK
    if path is not None:
        properties["write.metadata.path"] = path
    staged = new_table_metadata(
        SCHEMA, None, None, folder, {"gc.enabled": "false", **properties}, uuid=clock.uuid(), now_ms=clock.now_ms()
    )
    made = create_updates(staged)
    if snapshot:
        raw = {"snapshot-id": 77, "sequence-number": 1, "timestamp-ms": staged.last_updated_ms, "schema-id": 0}
        made.append(updates.add_snapshot({**raw, "manifest-list": LIST, "summary": {"operation": "append"}}))
        made.append(updates.set_snapshot_ref("main", 77))
    return from_request([{"type": "assert-create"}], made)


@pytest.fixture
def lake():
    return Lake()


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("answer", MADE)
def test_a_table_that_became_iceberg_is_there_whatever_the_metastore_answered(lake, answer, snapshot):
    lake.pointer.answers.append(answer)
    report = lake.migrate(snapshot=snapshot)
    row = lake.pointer.load(NAME)
    assert report.metadata_location == row.metadata_location
    assert report.metadata_location.startswith(f"{HIDDEN}/00000-")
    assert report.snapshot_ids == ((77,) if snapshot else ())
    assert [event["event"] for event in lake.events] == ["committed"]
    assert row.parameters["colour"] == "red"
    assert row.hive_table in lake.iceberg_files()
    assert lake.version().metadata.location == FOLDER
    assert lake.pointer.rows[NAME].folders == (f"{FOLDER}/p=0", f"{FOLDER}/p=1")
    assert not lake.lock.queues.entries(NAME)


@pytest.mark.parametrize("answer", [ScriptedAnswer.REQUEST_LOST, ScriptedAnswer.DELAYED, ScriptedAnswer.IN_DOUBT])
def test_a_change_without_an_answer_is_sent_again_where_that_is_atomic(lake, answer):
    lake.pointer.answers.append(answer)
    report = lake.migrate()
    lake.pointer.deliver_delayed()
    assert lake.location() == report.metadata_location
    lake.undo()
    lake.pointer.deliver_delayed()
    assert lake.is_as_before()


def test_a_change_that_comes_after_its_undo_changes_nothing(lake):
    """
    A  reads the row; its change is on its way
    B  migrates the same row, and undoes that
       A's change arrives
    """
    lake.pointer.answers.append(ScriptedAnswer.DELAYED)
    lake.migrate()
    lake.undo()
    (answer,) = lake.pointer.deliver_delayed()
    assert answer.conflict
    assert lake.is_as_before()


def test_a_refused_change_is_its_own_error_and_leaves_no_file(lake):
    lake.pointer.answers.append(ScriptedAnswer.REFUSED)
    files = lake.files.locations()
    with pytest.raises(MetastoreRefused) as refused:
        lake.migrate(snapshot=True)
    assert refused.value.proved_failed
    assert lake.files.locations() == files
    assert lake.pointer.rows[NAME] == lake.before
    assert lake.migrate()


@pytest.mark.parametrize("answer", [ScriptedAnswer.REQUEST_LOST, ScriptedAnswer.DELAYED])
def test_without_proof_the_outcome_is_unknown_and_no_file_is_deleted(lake, answer):
    lake.pointer.atomic = False
    lake.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown, match=r"migration of db\.t"):
        lake.migrate()
    assert len(lake.iceberg_files()) == 2
    lake.pointer.deliver_delayed()
    if answer is ScriptedAnswer.DELAYED:
        assert lake.location() in lake.iceberg_files()


def test_a_reply_that_is_lost_on_a_server_that_compares_nothing_is_found_in_the_row(lake):
    lake.pointer.atomic = False
    lake.pointer.answers.append(ScriptedAnswer.REPLY_LOST)
    assert lake.migrate().metadata_location == lake.location()


CHANGES = {
    "parameters": lambda row: replace(row, parameters={**row.parameters, "colour": "blue"}),
    "columns": lambda row: replace(row, columns=(*row.columns, HiveColumn("late", "int"))),
    "partition keys": lambda row: replace(row, partition_keys=(HiveColumn("p", "string", "a comment"),)),
    "location": lambda row: replace(row, location="file:/elsewhere"),
    "serde": lambda row: replace(row, serde="another"),
    "table type": lambda row: replace(row, table_type="EXTERNAL_TABLE"),
    "settings": lambda row: replace(row, owner="eve"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_row_that_is_not_what_was_read_is_not_changed(lake, what):
    read = lake.hive.load_row(NAME)
    lake.pointer.rows[NAME] = changed = CHANGES[what](lake.before)
    files = lake.files.locations()
    with pytest.raises(CommitConflict, match=what):
        lake.migrate(read)
    assert lake.pointer.rows[NAME] == changed
    assert lake.files.locations() == files


def test_partitions_that_came_and_went_meanwhile_are_a_conflict(lake):
    with pytest.raises(CommitConflict, match="1 of its partitions are new, and 1 are gone"):
        lake.migrate(partitions=["p=0", "p=2"])
    assert lake.pointer.rows[NAME] == lake.before
    assert not lake.iceberg_files()


def test_a_hive_writer_between_the_look_and_the_change_loses_nothing(lake):
    late = replace(lake.before, parameters={**lake.before.parameters, "transient_lastDdlTime": "1700000009"})
    lake.pointer.before_moves.append(lambda: lake.pointer.rows.update({NAME: late}))
    with pytest.raises(CommitConflict, match="changed while its files were listed"):
        lake.migrate()
    assert lake.pointer.rows[NAME] == late
    assert not lake.iceberg_files()


def test_of_two_migrations_that_lost_its_lock_does_not_know_and_deletes_nothing(lake):
    """The other one has the lock by now. It may have come after this one, which somebody undid."""
    row, other = lake.hive.load_row(NAME), Lake()
    other.migrate()

    def overtake():
        lake.lock.queues.reap(NAME)
        for each in other.iceberg_files():
            lake.files.write(each, other.files.read(each))
        lake.pointer.rows[NAME] = other.pointer.rows[NAME]

    lake.pointer.before_moves.append(overtake)
    with pytest.raises(CommitStateUnknown):
        lake.migrate(row)
    pointer = lake.pointer.load(NAME)
    files = set(lake.iceberg_files())
    assert files > set(other.iceberg_files())
    with pytest.raises(AlreadyIceberg, match="migrate --undo") as already:
        lake.migrate(row)
    assert already.value.hive_table == pointer.hive_table
    assert set(lake.iceberg_files()) == files


def test_a_migration_that_was_made_and_undone_while_it_slept_is_not_known_to_have_failed(lake):
    """
    A  sends its change, and sleeps past its lease; the change is made
    B  undoes it
    A  looks: the row is Hive's, and not what it read
    """

    def made_and_undone():
        lake.lock.queues.reap(NAME)
        late = {**lake.before.parameters, "transient_lastDdlTime": "1700000009"}
        lake.pointer.rows[NAME] = replace(lake.before, parameters=late)

    lake.pointer.before_moves.append(made_and_undone)
    with pytest.raises(CommitStateUnknown):
        lake.migrate()


def test_an_undo_after_which_another_migration_came_is_not_known_to_have_failed(lake):
    lake.migrate()
    other = Lake()
    other.migrate()

    def undone_and_migrated():
        lake.lock.queues.reap(NAME)
        for each in other.iceberg_files():
            lake.files.write(each, other.files.read(each))
        lake.pointer.rows[NAME] = other.pointer.rows[NAME]

    lake.pointer.before_moves.append(undone_and_migrated)
    with pytest.raises(CommitStateUnknown):
        lake.undo()
    assert lake.location() == other.location()


def test_a_change_counts_under_a_new_lock_if_it_lost_its_own(lake):
    lake.pointer.before_moves.append(lambda: lake.lock.queues.reap(NAME))
    assert lake.migrate().metadata_location == lake.location()
    assert lake.lock.acquired == 2


def test_a_lock_that_is_held_lets_nothing_be_written_for_long(lake):
    held = lake.lock.acquire(NAME, wait_seconds=1, request="another")
    with pytest.raises(LockNotAcquired):
        lake.migrate()
    held.release()
    assert not lake.iceberg_files()


def test_what_cannot_be_migrated_is_refused_before_anything_is_written(lake):
    lake.pointer.rows[OTHER] = replace(lake.before, table_type="VIRTUAL_VIEW", location=None)
    files = lake.files.locations()
    for row, change, why in (
        (lake.hive.load_row(OTHER), migration(), "is a view"),
        (None, migration(folder="file:/wh/db/elsewhere"), "lies in file:/wh/db/t"),
        (None, migration(path=None), "where Hive may read it"),
        (None, migration(**{"format-version": "1"}), "format version 1"),
    ):
        with pytest.raises(InvalidInput, match=why) as refused:
            lake.migrate(row, change=change)
        assert refused.value.proved_failed
    assert lake.files.locations() == files
    lake.pointer.rows.pop(NAME)
    with pytest.raises(NoSuchTable):
        lake.migrate(replace(lake.hive.load_row(OTHER), name=NAME, table_type="MANAGED_TABLE", location=FOLDER))


def test_a_file_that_cannot_be_written_changes_nothing(lake):
    write = lake.files.write

    def full(location, data):
        if location.endswith(".json") and "hive-table" in location:
            raise StorageError("disk full")
        write(location, data)

    lake.files.write = full
    with pytest.raises(StorageError, match="disk full") as refused:
        lake.migrate(snapshot=True)
    assert refused.value.proved_failed
    assert not lake.iceberg_files()
    assert lake.pointer.rows[NAME] == lake.before


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("answer", MADE)
def test_an_undo_gives_the_row_as_it_was_whatever_the_metastore_answered(lake, answer, snapshot):
    lake.migrate(snapshot=snapshot)
    lake.commit(set_properties(colour="blue"))
    lake.files.write(f"{HIDDEN}/migration/slice-1.json", b"{}")
    lake.pointer.answers.append(answer)
    row = lake.undo()
    assert row.parameters["colour"] == "red"
    assert lake.is_as_before()
    assert not lake.iceberg_files()
    assert f"{FOLDER}/p=0/data.parquet" in lake.files.locations()
    assert {event["why"] for event in lake.events if event["event"] == "files-deleted"} == {"undo"}
    with pytest.raises(NotAnIcebergTable):
        lake.undo()


@pytest.mark.parametrize("answer", [ScriptedAnswer.REQUEST_LOST, ScriptedAnswer.DELAYED, ScriptedAnswer.IN_DOUBT])
def test_an_undo_without_an_answer_is_sent_again_where_that_is_atomic(lake, answer):
    lake.migrate()
    lake.pointer.answers.append(answer)
    lake.undo()
    lake.pointer.deliver_delayed()
    assert lake.is_as_before()


def test_an_undo_without_proof_is_unknown_and_deletes_nothing(lake):
    lake.migrate()
    lake.pointer.atomic = False
    lake.pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    with pytest.raises(CommitStateUnknown, match=r"undo of the migration of db\.t"):
        lake.undo()
    assert lake.location() in lake.iceberg_files()


def test_a_refused_undo_leaves_the_iceberg_table(lake):
    lake.migrate()
    location = lake.location()
    lake.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused):
        lake.undo()
    assert lake.location() == location
    assert location in lake.iceberg_files()


def test_the_row_as_it_was_is_read_without_an_undo(lake):
    lake.migrate()
    location = lake.location()
    lake.commit(append("file:/wh/db/t/p=0/b.parquet", snapshot_id=555))
    assert lake.kinds.hive_row(NAME).table == lake.before
    assert lake.location() != location, "the commit"
    lake.keep()
    with pytest.raises(InvalidInput, match="--keep"):
        lake.kinds.hive_row(NAME)


@pytest.mark.parametrize(
    "answer", [ScriptedAnswer.REFUSED, ScriptedAnswer.REPLY_LOST, ScriptedAnswer.REFUSED_AFTER_APPLY]
)
def test_a_mark_that_stays_does_no_harm(lake, answer):
    lake.migrate()
    lake.pointer.answers += [ScriptedAnswer.TRUE, answer]
    lake.undo()
    is_marked = answer is ScriptedAnswer.REFUSED
    assert (lake.hive.load_row(NAME).mark is not None) is is_marked
    with pytest.raises(NotAnIcebergTable):
        lake.pointer.load(NAME)
    assert not lake.iceberg_files()
    lake.migrate()
    assert lake.pointer.load(NAME).previous_metadata_location is None
    lake.undo()
    assert lake.is_as_before()


def test_a_table_that_was_renamed_is_undone_under_its_name(lake):
    lake.migrate()
    lake.coordinator.operations.rename(NAME, OTHER, wait_seconds=1)
    assert lake.pointer.load(OTHER).hive_table
    assert lake.undo(OTHER).name == OTHER
    assert lake.is_as_before(OTHER)


def test_a_drop_removes_the_row_alone(lake):
    lake.migrate()
    files = lake.files.locations()
    lake.coordinator.operations.drop(NAME, wait_seconds=1)
    assert NAME not in lake.pointer.rows
    assert lake.files.locations() == files


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_commit_of_files_ends_the_undo_which_names_it(lake, snapshot):
    lake.migrate(snapshot=snapshot)
    lake.commit(append("file:/wh/db/t/p=0/b.parquet", snapshot_id=555))
    location = lake.location()
    with pytest.raises(InvalidInput, match=r"snapshot 555 \(append\).*--keep"):
        lake.undo()
    assert lake.location() == location


def test_a_commit_whose_snapshot_has_expired_ends_the_undo_too(lake):
    lake.migrate()
    lake.commit(append("file:/wh/db/t/p=0/b.parquet", snapshot_id=555))
    forget = [
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "remove-snapshots", "snapshot-ids": [555]},
    ]
    lake.commit(from_request([], forget))
    assert lake.metadata().current_snapshot is None
    with pytest.raises(InvalidInput, match="has expired since"):
        lake.undo()


def test_a_commit_during_the_undo_counts(lake):
    """A writer without a lock, as those of a table with `engine.hive.lock-enabled=false`."""
    lake.migrate()
    base = lake.metadata()
    raw = {"snapshot-id": 555, "sequence-number": 1, "timestamp-ms": base.last_updated_ms, "schema-id": 0}
    added = updates.add_snapshot({**raw, "manifest-list": LIST, "summary": {"operation": "append"}})
    moved = apply(base, [added, updates.set_snapshot_ref("main", 555)], now_ms=base.last_updated_ms)
    moved = moved.with_metadata_log_entry(lake.location(), base.last_updated_ms)
    lake.files.write(f"{HIDDEN}/00001-other.metadata.json", moved.to_bytes())
    lake.pointer.before_moves.append(lambda: lake.pointer.point(NAME, f"{HIDDEN}/00001-other.metadata.json"))
    with pytest.raises(InvalidInput, match="snapshot 555"):
        lake.undo()
    assert lake.metadata().current_snapshot.snapshot_id == 555


def test_a_property_that_is_set_during_the_undo_does_not_stop_it(lake):
    lake.migrate()
    lake.pointer.before_moves.append(lake.foreign_commit)
    lake.undo()
    assert lake.is_as_before()


def test_what_was_not_migrated_is_not_undone(lake):
    with pytest.raises(NotAnIcebergTable):
        lake.undo()
    lake.pointer.rows.pop(NAME)
    with pytest.raises(NoSuchTable):
        lake.undo()
    lake.create()
    with pytest.raises(InvalidInput, match="was not migrated in place"):
        lake.undo()


def test_a_kept_row_that_is_gone_or_damaged_or_another_s_stops_the_undo(lake):
    lake.migrate()
    saved = lake.pointer.load(NAME).hive_table
    text = lake.files.read(saved)
    location = lake.location()
    for bad in (b"", b"[]", b"{}", text[:-30], text.replace(b'"format-version": 1', b'"format-version": 2')):
        lake.files.replace(saved, bad)
        with pytest.raises(CorruptFile):
            lake.undo()
    lake.files.delete(saved)
    with pytest.raises(InvalidInput, match="is gone"):
        lake.undo()
    elsewhere = "file:/wh/db/u/_iceberg/hive-table-1.json"
    lake.files.write(elsewhere, text)
    row = lake.pointer.rows[NAME]
    lake.pointer.rows[NAME] = replace(row, parameters={**row.parameters, HIVE_TABLE: elsewhere})
    with pytest.raises(InvalidInput, match="is not in the folder of the Hive table"):
        lake.undo()
    assert lake.location() == location


def test_a_table_that_another_was_registered_over_is_not_undone(lake):
    lake.migrate()
    rival = Harness()
    rival.create()
    lake.files.write(rival.location(), rival.files.read(rival.location()))
    lake.coordinator.operations.register(NAME, rival.location(), overwrite=True, wait_seconds=1)
    assert lake.pointer.load(NAME).hive_table, "its files are the Hive table's still"
    with pytest.raises(InvalidInput, match="registered over it"):
        lake.undo()


def test_files_stay_if_a_later_migration_could_find_them(lake):
    """The progress of a migration leads to its manifests. So they stay where it cannot be deleted."""
    lake.migrate()
    progress = f"{HIDDEN}/migration/slice-1.json"
    lake.files.write(progress, b"{}")
    delete = lake.files.delete

    def fails(location):
        if location == progress:
            raise StorageError("no permission")
        return delete(location)

    lake.files.delete = fails
    lake.undo()
    assert lake.is_as_before()
    assert len(lake.iceberg_files()) == 3


def test_what_comes_after_the_alter_is_not_deleted(lake):
    lake.migrate()
    late = f"{HIDDEN}/late-m0.avro"
    lake.pointer.before_moves.append(lambda: lake.files.write(late, b"a later migration's"))
    lake.undo()
    assert lake.iceberg_files() == [late]


@pytest.mark.parametrize("answer", MADE)
def test_a_table_is_kept_whatever_the_metastore_answered(lake, answer):
    lake.migrate(snapshot=True)
    lake.pointer.answers.append(answer)
    lake.keep()
    assert lake.pointer.load(NAME).hive_table is None
    metadata = lake.metadata()
    assert not {"gc.enabled", "write.metadata.path"} & metadata.properties.keys()
    assert lake.location().startswith(f"{FOLDER}/metadata/00001-")
    assert metadata.current_snapshot.snapshot_id == 77
    with pytest.raises(InvalidInput, match="--keep"):
        lake.undo()
    location = lake.location()
    lake.keep()
    assert lake.location() == location


def test_properties_that_somebody_has_set_since_are_kept(lake):
    lake.migrate()
    lake.commit(set_properties(**{"gc.enabled": "true", "write.metadata.path": f"{FOLDER}/elsewhere"}))
    lake.keep()
    assert lake.metadata().properties["gc.enabled"] == "true"
    assert lake.metadata().properties["write.metadata.path"] == f"{FOLDER}/elsewhere"


@pytest.mark.parametrize(
    ("purge", "gc", "after"), [("TRUE", "", "true"), ("false", "", None), ("true", "false", "false")]
)
def test_a_table_that_is_kept_owns_its_files_as_the_hive_table_did(lake, purge, gc, after):
    lake.hive.add(NAME, FOLDER, parameters={"external.table.purge": purge, "gc.enabled": gc})
    lake.migrate(partitions=())
    assert lake.metadata().properties["gc.enabled"] == "false"
    lake.keep()
    assert lake.metadata().properties.get("gc.enabled") == after


@pytest.mark.parametrize("data", [None, b"{}"], ids=["gone", "damaged"])
def test_a_table_whose_old_row_cannot_be_read_is_kept(lake, data):
    lake.migrate()
    saved = lake.pointer.load(NAME).hive_table
    lake.files.delete(saved)
    if data is not None:
        lake.files.write(saved, data)
    lake.keep()
    assert lake.pointer.load(NAME).hive_table is None
    assert "gc.enabled" not in lake.metadata().properties


def test_a_commit_meanwhile_is_kept_too(lake):
    lake.migrate()
    lake.pointer.before_moves.append(lambda: lake.foreign_commit(colour="blue"))
    lake.keep()
    assert lake.metadata().properties["colour"] == "blue"
    assert lake.pointer.load(NAME).hive_table is None
    named = {entry["metadata-file"] for entry in lake.metadata().metadata_log} | {lake.location()}
    assert lake.metadata_files() == named, "the file of the attempt that was not made is gone"


def test_a_swap_to_keep_it_that_is_unknown_keeps_its_file(lake):
    lake.migrate()
    lake.pointer.atomic = False
    lake.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown, match="end of the migration"):
        lake.keep()
    lake.pointer.deliver_delayed()
    assert lake.location() in lake.metadata_files()
    assert lake.pointer.load(NAME).hive_table is None


def test_a_refused_end_leaves_everything(lake):
    lake.migrate()
    files, row = lake.files.locations(), lake.pointer.rows[NAME]
    lake.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(MetastoreRefused) as refused:
        lake.keep()
    assert refused.value.proved_failed
    assert (lake.files.locations(), lake.pointer.rows[NAME]) == (files, row)


def test_a_metastore_that_is_away_changes_nothing(lake):
    row = lake.hive.load_row(NAME)
    lake.pointer.load_errors.append(MetastoreUnavailable("away"))
    with pytest.raises(MetastoreUnavailable) as refused:
        lake.migrate(row)
    assert refused.value.proved_failed
    assert not lake.iceberg_files()
