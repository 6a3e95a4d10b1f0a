"""A change that did not get so far as to be sent may be in the table: it was sent before."""

import pytest

from iceberg_hms.changes.change import Identity
from iceberg_hms.coordinator.doubts import Doubts
from iceberg_hms.errors import (
    CommitStateUnknown,
    LockNotAcquired,
    LockUnavailable,
    MetastoreUnavailable,
    MissingFile,
    NoSuchTable,
)
from iceberg_hms.format.metadata import TableMetadata
from tests.coordinator import documents
from tests.coordinator.harness import NAME

LATE = LockNotAcquired("late")


def table():
    return TableMetadata.parse(TableMetadata(documents.raw(snapshots=[documents.snapshot(10, 1, 1_000)])).to_bytes())


@pytest.mark.parametrize(("ids", "doubted"), [((10,), True), ((9, 10), True), ((9,), False), ((), False)])
def test_a_change_whose_snapshot_is_in_the_table_did_not_fail(ids, doubted):
    doubt = Doubts(NAME, table).about(Identity(snapshot_ids=ids), LATE)
    assert isinstance(doubt, CommitStateUnknown) is doubted
    assert doubt is None or "its snapshot is in db.t" in doubt.message


@pytest.mark.parametrize("failure", [LATE, LockUnavailable("broken")])
def test_a_table_that_cannot_be_looked_at_leaves_a_doubt(failure):
    def load():
        raise MissingFile("file:/m.json")

    assert isinstance(Doubts(NAME, load).about(Identity(snapshot_ids=(10,)), failure), CommitStateUnknown)
    assert Doubts(NAME, load).about(Identity(), failure) is None


@pytest.mark.parametrize(
    ("failure", "error"), [(MetastoreUnavailable("down"), MetastoreUnavailable("down")), (LATE, NoSuchTable(NAME))]
)
def test_a_client_that_is_told_to_come_again_and_one_without_a_table_are_left_no_doubt(failure, error):
    def load():
        raise error

    assert Doubts(NAME, load).about(Identity(snapshot_ids=(10,)), failure) is None


def test_the_table_is_looked_at_once_for_all_and_not_before_it_is_asked_about():
    looks = []

    def load():
        looks.append(1)
        return table()

    doubts = Doubts(NAME, load)
    doubts.about(Identity(), LATE)
    assert looks == []
    for _ in range(3):
        doubts.about(Identity(snapshot_ids=(10,)), LATE)
    assert looks == [1]
