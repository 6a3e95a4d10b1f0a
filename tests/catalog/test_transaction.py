"""Several operations in one swap: all of them, or none."""

from __future__ import annotations

import pytest

from iceberg_hms.catalog.transaction import TransactionChange
from iceberg_hms.changes.operations.snapshots.cherry_pick import CherryPick
from iceberg_hms.changes.operations.snapshots.refs import RemoveRef
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.files.test_append import NOW, append, committed
from tests.changes.operations.pickable import PickableTable
from tests.changes.tables import UUID
from tests.changes.tables import table as empty_table
from tests.outcomes.stage import join_commits

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def files():
    return MemoryFiles()


@pytest.fixture
def catalog(files):
    with memory_catalog(files=files) as made:
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog):
    return catalog.create_table("logging.events", SCHEMA)


def data_file(name):
    return DataFile(f"file:/in/{name}.parquet", "PARQUET", 1, 10)


def live(catalog):
    head = catalog.load_table("logging.events").current_snapshot()
    manifests = catalog.services.ports.manifests()
    entries = manifests.entries(manifests.list(head)) if head is not None else ()
    return sorted(entry.data_file.file_path.rpartition("/")[2] for entry in entries if entry.is_live)


def test_all_steps_are_in_one_new_version_of_the_table(table, catalog):
    before = table.metadata_location
    with table.transaction() as tx:
        tx.append([data_file("a")])
        tx.append([data_file("b")], snapshot_properties={"job": "nightly"})
        assert len(tx.metadata.snapshots) == 2
        assert catalog.load_table("logging.events").metadata_location == before
    assert tx.report.previous_metadata_location == before
    assert len(tx.report.snapshot_ids) == 2
    assert table.metadata_location == tx.report.metadata_location
    assert live(catalog) == ["a.parquet", "b.parquet"]
    assert [each.parent_snapshot_id for each in table.snapshots()] == [None, tx.report.snapshot_ids[0]]


def test_steps_follow_what_other_writers_commit_meanwhile(table, catalog):
    with table.transaction() as tx:
        tx.append([data_file("a")])
        tx.append([data_file("b")])
        catalog.load_table("logging.events").append([data_file("theirs")])
    assert live(catalog) == ["a.parquet", "b.parquet", "theirs.parquet"]
    assert [each.sequence_number for each in table.snapshots()] == [1, 2, 3]


def test_an_exception_in_the_block_commits_nothing_and_leaves_no_file(table, catalog, files):
    before = set(files.locations())
    tx = table.transaction()

    def breaks_off():
        with tx:
            tx.append([data_file("a")])
            assert set(files.locations()) > before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_off()
    assert set(files.locations()) == before
    assert tx.report is None
    assert live(catalog) == []


@pytest.fixture(params=[1, 2, 3])
def expired(request, catalog, files):
    """A table as a process loaded it before others compacted it and expired its snapshots."""
    made = catalog.create_table("logging.events", SCHEMA, properties={"format-version": str(request.param)})
    for name in "abc":
        files.write(f"file:/in/{name}.parquet", b"0123456789")
        made.append([data_file(name)])
    with memory_catalog(files=files, pointer=catalog.services.ports.pointer) as other:
        old = other.load_table("logging.events")
        made.append([data_file("theirs")])
        made.rewrite_manifests()
        made.expire_snapshots(older_than=2**62, retain_last=1)
        assert old.current_snapshot().manifest_list not in files.locations()
        yield old


def test_a_transaction_on_a_state_that_others_expired_applies_to_the_table_as_it_is(expired, catalog, files):
    """It failed with a missing file, though the table is in order."""
    with expired.transaction() as tx:
        tx.append([data_file("d")])
        tx.delete_files([data_file("a"), data_file("d")])
        tx.append([data_file("e")])
        tx.create_tag("mine", tx.metadata.current_snapshot.snapshot_id)
        tx.update_schema().add_column("more", "string").commit()
        tx.rewrite_manifests()
    assert live(catalog) == ["b.parquet", "c.parquet", "e.parquet", "theirs.parquet"]
    found = catalog.load_table("logging.events")
    assert found.metadata_location == expired.metadata_location
    assert "not-staged" not in files.read(found.metadata_location).decode()
    assert found.metadata.ref("mine").snapshot_id in {each.snapshot_id for each in found.ancestors()}
    for each in files.locations():
        assert "not-staged" not in each


def test_a_step_on_an_expired_state_keeps_its_assumptions(expired, catalog, files):
    before, stored = catalog.load_table("logging.events").metadata_location, set(files.locations())
    steps = {
        "files-exist": lambda tx: tx.delete_files([data_file("none")]),
        "new-files": lambda tx: tx.append([data_file("theirs")]),
        "starting-snapshot": lambda tx: tx.overwrite([data_file("x")], "true"),
        "assert-ref-snapshot-id": lambda tx: tx.remove_branch("main2"),
    }
    for name, step in steps.items():
        with pytest.raises(RequirementFailed) as refused:
            after_an_append(expired, step)
        assert refused.value.name == name
    with pytest.raises(RequirementFailed, match="has moved since the table was read"):
        after_an_append(expired, lambda tx: tx.rollback_to_snapshot(tx.metadata.snapshots[0].snapshot_id))
    assert catalog.load_table("logging.events").metadata_location == before
    assert set(files.locations()) == stored


def after_an_append(table, step):
    with table.transaction() as tx:
        tx.append([data_file("d")])
        step(tx)


def test_a_table_whose_own_files_are_missing_is_an_error(catalog, table, files):
    table.append([data_file("a")])
    files.delete(table.current_snapshot().manifest_list)
    with memory_catalog(files=files, pointer=catalog.services.ports.pointer) as other:
        broken = other.load_table("logging.events")
        with pytest.raises(MissingFile):
            after_an_append(broken, lambda _tx: None)


def test_manifests_are_rewritten_of_a_state_that_others_expired(expired, catalog):
    expired.rewrite_manifests()
    assert len(live(catalog)) == 4


def test_a_step_that_fails_at_the_commit_fails_all_and_leaves_no_manifest(table, catalog, files):
    transaction = table.transaction()
    transaction.append([data_file("a")])
    transaction.append([data_file("b")])
    catalog.load_table("logging.events").append([data_file("b")])
    before = set(files.locations())
    with pytest.raises(RequirementFailed) as caught:
        transaction.commit()
    assert caught.value.name == "new-files"
    assert live(catalog) == ["b.parquet"]
    join_commits()
    left = {each for each in files.locations() if each.endswith("-m0.avro")}
    assert len(left) == 1 < len({each for each in before if each.endswith("-m0.avro")})


def test_a_step_sees_what_those_before_it_did(table):
    tx = table.transaction()
    tx.append([data_file("a")])
    with pytest.raises(RequirementFailed) as caught:
        tx.append([data_file("a")])
    assert caught.value.name == "new-files"


def test_a_transaction_without_a_step_commits_nothing(table):
    before = table.metadata_location
    with table.transaction() as tx:
        pass
    assert tx.report is None
    assert table.refresh().metadata_location == before


def test_a_transaction_ends_once(table):
    with table.transaction() as tx:
        tx.append([data_file("a")])
    for again in (tx.commit, tx.abort, lambda: tx.append([data_file("b")])):
        with pytest.raises(InvalidInput, match="has ended"):
            again()


def test_a_transaction_that_was_committed_by_hand_is_not_committed_again(table):
    with table.transaction() as tx:
        tx.append([data_file("a")])
        report = tx.commit()
    assert tx.report is report
    assert len(table.snapshots()) == 1


@pytest.mark.parametrize(
    ("wish", "says"), [({"idempotency_key": "k"}, "no idempotency key"), ({"wait_seconds": 1}, "wait")]
)
def test_a_step_has_no_key_and_no_wait_of_its_own(table, files, wish, says):
    before = set(files.locations())
    with pytest.raises(InvalidInput, match=says), table.transaction() as tx:
        tx.append([data_file("a")], **wish)
    assert set(files.locations()) == before


def test_it_is_known_by_all_its_snapshots_and_the_branch_of_the_last() -> None:
    change = TransactionChange(
        [append([data_file("a")], 100, caller="ann"), append([data_file("b")], 101, branch="audit")], lambda: NOW
    )
    assert (change.identity.snapshot_ids, change.identity.ref, change.identity.caller) == ((100, 101), "audit", "ann")


def test_one_that_moves_refs_itself_is_known_by_its_snapshots_wherever_they_are() -> None:
    remove = RemoveRef(name="audit", seen=None, table_uuid=UUID)
    change = TransactionChange([append([data_file("a")], 100, branch="audit"), remove], lambda: NOW)
    assert (change.identity.snapshot_ids, change.identity.ref) == ((100,), None)
    assert TransactionChange([remove], lambda: NOW).identity.snapshot_ids == ()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_step_is_staged_on_what_those_before_it_left(version: int) -> None:
    manifests = MemoryManifestStore().open()
    base = committed(empty_table(version), append([data_file("old")], 99), manifests)
    change = TransactionChange([append([data_file("a")], 100), append([data_file("b")], 101)], lambda: NOW)
    staged = change.stage(base, manifests)
    new = apply(base, staged.updates, now_ms=NOW)
    assert [each.parent_snapshot_id for each in new.snapshots] == [None, 99, 100]
    assert new.refs["main"].snapshot_id == 101
    head = new.current_snapshot
    assert head is not None
    assert head.summary["total-data-files"] == "3"
    assert len(staged.files) == 4, "a manifest and a list for each step"


def test_a_step_that_fails_on_a_new_base_fails_all() -> None:
    manifests = MemoryManifestStore().open()
    change = TransactionChange([append([data_file("a")], 100), append([data_file("b")], 101)], lambda: NOW)
    moved = committed(empty_table(), append([data_file("b")], 99), manifests)
    change.check(moved)
    with pytest.raises(RequirementFailed, match="main has 1 of the files already"):
        change.stage(moved, manifests)


def test_it_checks_its_table() -> None:
    change = TransactionChange([append([], 100)], lambda: NOW)
    with pytest.raises(RequirementFailed, match="UUID does not match"):
        change.check(empty_table(table_uuid="1df58d5c-2e1f-4f1c-8a59-4a3ed7a1c62a"))


def test_nothing_to_do_is_refused() -> None:
    with pytest.raises(InvalidInput, match="without a step"):
        TransactionChange([], lambda: NOW)


def test_a_step_that_only_moves_a_ref_on_this_base_adds_no_snapshot() -> None:
    made = PickableTable()
    made.append(1, "a")
    made.stage(2, "b")
    change = TransactionChange([CherryPick(made.new(100), 2), append([], 101)], lambda: NOW)
    assert change.identity.snapshot_ids == (100, 101)
    assert change.stage(made.metadata, made.manifests).snapshot_ids == (101,)
    made.append(3, "c")
    assert change.stage(made.metadata, made.manifests).snapshot_ids == (100, 101)
