"""Clients' lists that no snapshot names."""

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.leftovers import REMEMBERED_MAX, Leftovers
from tests.coordinator.harness import Harness, append


class Table(Harness):
    """A table with one snapshot, and a clock that a test sets."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.create()
        self.commit(append("file:/a"))
        self.late = 0.0
        self.runtime.now = lambda: self.late
        self.leftovers = Leftovers(self.coordinator._world, self.settings)
        for name in ("one", "two"):
            self.files.write(f"file:/{name}", b"list")

    def has(self, name):
        return f"file:/{name}" in self.files.locations()


def test_a_list_is_deleted_after_its_age_and_not_before():
    table = Table()
    table.leftovers.add(["file:/one"])
    table.late = 100.0
    table.leftovers.add(["file:/two"])
    table.late = 599.0
    table.leftovers.sweep(table.metadata)
    assert table.has("one")
    table.late = 650.0
    table.leftovers.sweep(table.metadata)
    assert not table.has("one")
    assert table.has("two")


def test_a_list_that_a_snapshot_names_is_kept():
    table = Table()
    metadata = table.metadata()
    [snapshot] = metadata.raw["snapshots"]
    named = metadata.replace(snapshots=[{**snapshot, "manifest-list": "file:/one"}])
    table.leftovers.add(["file:/one", "file:/two"])
    table.late = 700.0
    table.leftovers.sweep(lambda: named)
    assert table.has("one")
    assert not table.has("two")


def test_a_list_that_its_client_deleted_is_no_error():
    table = Table()
    table.leftovers.add(["file:/gone", "file:/one"])
    table.late = 700.0
    table.leftovers.sweep(table.metadata)
    assert not table.has("one")


def test_none_is_deleted_where_it_is_switched_off():
    table = Table(replaced_list_age_ms=0)
    table.leftovers.add(["file:/one"])
    table.late = 1e9
    table.leftovers.sweep(table.metadata)
    assert table.has("one")


def test_they_are_bounded_and_the_oldest_are_left():
    table = Table()
    table.leftovers.add(["file:/one"])
    table.leftovers.add([f"file:/{number}" for number in range(REMEMBERED_MAX)])
    table.late = 700.0
    for _ in range(REMEMBERED_MAX // 64 + 1):
        table.leftovers.sweep(table.metadata)
    assert table.has("one")


@pytest.mark.parametrize("lands", [True, False])
def test_a_coordinator_deletes_the_lists_of_rebased_snapshots_that_landed(lands):
    harness = Harness()
    harness.create()
    harness.files.write("file:/theirs", b"list")

    class Rebased:
        def __init__(self, inner):
            self.inner = inner
            self.identity = inner.identity

        def check(self, base):
            if not lands:
                raise ValueError("broken")

        def stage(self, base, manifests):
            return replace(self.inner.stage(base, manifests), replaced=["file:/theirs"])

    try:
        harness.commit(Rebased(append("file:/a")))
    except ValueError:
        assert not lands
    now = harness.runtime.now
    harness.runtime.now = lambda: now() + 700.0
    harness.commit(append("file:/b"))
    assert ("file:/theirs" in harness.files.locations()) is not lands
