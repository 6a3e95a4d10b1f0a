"""Manifest lists of clients that the coordinator replaced."""

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.files.own_files import RecentOwnFiles
from iceberg_hms.coordinator.files.replaced_lists import REMEMBERED_MAX, ReplacedLists
from tests.coordinator.harness import NAME, Harness, append

#: Where the metadata of a table of the harness is.
FOLDER = "file:/wh/db/t/metadata"


class Table(Harness):
    """A table with one snapshot, and a clock that a test sets."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.create()
        self.commit(append("file:/a"))
        self.late = 0.0
        self.runtime.now = lambda: self.late
        self.lists = ReplacedLists(self.ports, self.settings, RecentOwnFiles(self.ports))
        for name in ("one", "two"):
            self.files.write(f"{FOLDER}/{name}", b"list")

    def row(self):
        return self.pointer.load(NAME)

    def has(self, name):
        return f"{FOLDER}/{name}" in self.files.locations()


def test_a_list_is_deleted_after_its_age_and_not_before():
    table = Table()
    table.lists.add([f"{FOLDER}/one"])
    table.late = 100.0
    table.lists.add([f"{FOLDER}/two"])
    table.late = 599.0
    table.lists.sweep(table.row(), table.metadata())
    assert table.has("one")
    table.late = 650.0
    table.lists.sweep(table.row(), table.metadata())
    assert not table.has("one")
    assert table.has("two")


def test_a_list_that_a_snapshot_names_is_kept():
    table = Table()
    metadata = table.metadata()
    [snapshot] = metadata.raw["snapshots"]
    named = metadata.replace(snapshots=[{**snapshot, "manifest-list": f"{FOLDER}/one"}])
    table.lists.add([f"{FOLDER}/one", f"{FOLDER}/two"])
    table.late = 700.0
    table.lists.sweep(table.row(), named)
    assert table.has("one")
    assert not table.has("two")


@pytest.mark.parametrize("place", ["file:/one", f"{FOLDER}/deeper/one", "file:/wh/db/t/one"])
def test_a_list_that_is_not_among_the_files_of_the_tables_metadata_is_left(place):
    table = Table()
    table.files.write(place, b"list")
    table.lists.add([place, f"{FOLDER}/two"])
    table.late = 700.0
    table.lists.sweep(table.row(), table.metadata())
    assert place in table.files.locations()
    assert not table.has("two")


def test_a_list_that_its_client_deleted_is_no_error():
    table = Table()
    table.lists.add([f"{FOLDER}/gone", f"{FOLDER}/one"])
    table.late = 700.0
    table.lists.sweep(table.row(), table.metadata())
    assert not table.has("one")


def test_none_is_deleted_where_it_is_switched_off():
    table = Table(replaced_list_age_ms=0)
    table.lists.add([f"{FOLDER}/one"])
    table.late = 1e9
    table.lists.sweep(table.row(), table.metadata())
    assert table.has("one")


def test_they_are_bounded_and_the_newest_are_left():
    table = Table()
    table.lists.add([f"{FOLDER}/{number}" for number in range(REMEMBERED_MAX)])
    table.lists.add([f"{FOLDER}/one"])
    table.late = 700.0
    for _ in range(REMEMBERED_MAX // 64 + 1):
        table.lists.sweep(table.row(), table.metadata())
    assert table.has("one")


@pytest.mark.parametrize("lands", [True, False])
def test_a_coordinator_deletes_the_lists_of_rebased_snapshots_that_landed(lands):
    harness = Harness()
    harness.create()
    harness.files.write(f"{FOLDER}/theirs", b"list")

    class Rebased:
        def __init__(self, inner):
            self.inner = inner
            self.identity = inner.identity

        def check(self, base):
            if not lands:
                raise ValueError("broken")

        def stage(self, base, manifests):
            return replace(self.inner.stage(base, manifests), replaced=[f"{FOLDER}/theirs"])

    try:
        harness.commit(Rebased(append("file:/a")))
    except ValueError:
        assert not lands
    now = harness.runtime.now
    harness.runtime.now = lambda: now() + 700.0
    harness.commit(append("file:/b"))
    assert (f"{FOLDER}/theirs" in harness.files.locations()) is not lands
