"""Files of clients that nothing names."""

from dataclasses import replace

import pytest

from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.changes.request import from_request
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID, ASSERT_TABLE_UUID
from iceberg_hms.changes.updates import add_snapshot, set_snapshot_ref
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
from iceberg_hms.coordinator.protocol.outcome import Committed, Failed, Unknown
from iceberg_hms.coordinator.protocol.own_files import RecentOwnFiles
from iceberg_hms.coordinator.protocol.replaced_lists import (
    LOOKED_INTO_MAX,
    READ_MAX,
    REFUSED_MAX,
    REMEMBERED_MAX,
    ReplacedLists,
)
from iceberg_hms.errors import CommitStateUnknown, CorruptFile, LockNotAcquired, RequirementFailed
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.actors.requests import assert_ref_snapshot_id
from tests.coordinator import documents
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
        self.leftovers = ReplacedLists(self.ports, self.settings, RecentOwnFiles(self.ports))
        for name in ("one", "two"):
            self.files.write(f"{FOLDER}/{name}", b"list")

    def row(self):
        return self.pointer.load(NAME)

    def has(self, name):
        return f"{FOLDER}/{name}" in self.files.locations()


def test_a_list_is_deleted_after_its_age_and_not_before():
    table = Table()
    table.leftovers.add([f"{FOLDER}/one"])
    table.late = 100.0
    table.leftovers.add([f"{FOLDER}/two"])
    table.late = 599.0
    table.leftovers.sweep(table.row(), table.metadata())
    assert table.has("one")
    table.late = 650.0
    table.leftovers.sweep(table.row(), table.metadata())
    assert not table.has("one")
    assert table.has("two")


def test_a_list_that_a_snapshot_names_is_kept():
    table = Table()
    metadata = table.metadata()
    [snapshot] = metadata.raw["snapshots"]
    named = metadata.replace(snapshots=[{**snapshot, "manifest-list": f"{FOLDER}/one"}])
    table.leftovers.add([f"{FOLDER}/one", f"{FOLDER}/two"])
    table.late = 700.0
    table.leftovers.sweep(table.row(), named)
    assert table.has("one")
    assert not table.has("two")


@pytest.mark.parametrize("place", ["file:/one", f"{FOLDER}/deeper/one", "file:/wh/db/t/one"])
def test_a_list_that_is_not_among_the_files_of_the_tables_metadata_is_left(place):
    table = Table()
    table.files.write(place, b"list")
    table.leftovers.add([place, f"{FOLDER}/two"])
    table.late = 700.0
    table.leftovers.sweep(table.row(), table.metadata())
    assert place in table.files.locations()
    assert not table.has("two")


def test_a_list_that_its_client_deleted_is_no_error():
    table = Table()
    table.leftovers.add([f"{FOLDER}/gone", f"{FOLDER}/one"])
    table.late = 700.0
    table.leftovers.sweep(table.row(), table.metadata())
    assert not table.has("one")


def test_none_is_deleted_where_it_is_switched_off():
    table = Table(replaced_list_age_ms=0)
    table.leftovers.add([f"{FOLDER}/one"])
    table.late = 1e9
    table.leftovers.sweep(table.row(), table.metadata())
    assert table.has("one")


def test_they_are_bounded_and_the_newest_are_left():
    table = Table()
    table.leftovers.add([f"{FOLDER}/{number}" for number in range(REMEMBERED_MAX)])
    table.leftovers.add([f"{FOLDER}/one"])
    table.late = 700.0
    for _ in range(REMEMBERED_MAX // 64 + 1):
        table.leftovers.sweep(table.row(), table.metadata())
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


def test_a_coordinator_deletes_what_a_refused_attempt_left_once_its_change_has_landed():
    harness = Harness()
    harness.create()
    harness.commit(append("file:/a"))
    folder = "file:/wh/db/t/metadata"
    merged = {name: manifest(name, 77, folder=folder) for name in ("first-merged", "second-merged")}
    harness.manifests.lists |= {f"{folder}/{name}": (merged[f"{name}-merged"],) for name in ("first", "second")}
    for name in ("first", "second", *merged):
        harness.files.write(f"{folder}/{name}", b"a list or a manifest")

    def delete(list_, base):
        head = base and base.current_snapshot_id
        raw = {**documents.snapshot(77, 2, 1), "manifest-list": f"{folder}/{list_}", "schema-id": 0}
        raw |= {"parent-snapshot-id": head, "summary": {"operation": "delete"}}
        moved = set_snapshot_ref("main", 77)
        return from_request([assert_ref_snapshot_id("main", head)], [add_snapshot(raw), moved])

    with pytest.raises(RequirementFailed):
        harness.commit(delete("first", None))
    harness.commit(delete("second", harness.metadata()))
    now = harness.runtime.now
    harness.runtime.now = lambda: now() + 700.0
    # The manifest that it merged is no manifest, so nobody may look for files in it.
    harness.commit(append("file:/b", check_duplicates=False))
    left = {location.rpartition("/")[2] for location in harness.files.locations()}
    assert left & {"first", "second", *merged} == {"second", "second-merged"}


METADATA = "file:/t/metadata"
LOST = Failed(RequirementFailed(ASSERT_REF_SNAPSHOT_ID, "branch main has changed"))
LANDED = Committed(CommitReport(NAME, "file:/t/metadata/1.metadata.json", TableMetadata.parse(documents.raw())))


def manifest(name, snapshot_id=11, added=1, existing=2, folder=METADATA):
    """A line of a list. existing: files that were merged from others; None where the list does not say."""
    counts = {"added_files_count": added, "existing_files_count": existing}
    return ManifestFile(f"{folder}/{name}", 1_000, 0, snapshot_id, sequence_number=2, min_sequence_number=1, **counts)


class Sent:
    """A member as the leftovers see one."""

    def __init__(self, outcome, *lists, ids=(11,)):
        self.change = self
        self.identity = ChangeIdentity(ids, "main", lists=tuple(f"{METADATA}/{name}" for name in lists))
        self.outcome = outcome


class Refused(Table):
    """A change that made snapshot 11 of 10, with `first` and `second` as its lists. What it wrote the first time is
    there as well: one manifest with its file and those of others, and one that has but its own file."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.named = documents.raw(refs={})
        self.opened = 0
        self.leftovers = ReplacedLists(
            replace(self.ports, manifests=self.open), self.settings, RecentOwnFiles(self.ports)
        )
        self.list("10.avro", manifest("others", 10, 2, 0))
        self.list("11.avro", manifest("second-merged"))
        self.list("first", manifest("first-merged"), manifest("first-added", existing=0), manifest("others", 10, 2, 0))
        for name in ("first-merged", "first-added", "second-merged", "others"):
            self.files.write(f"{METADATA}/{name}", b"manifest")

    def row(self):
        return replace(super().row(), location="file:/t")

    def open(self):
        self.opened += 1
        return self.manifests.open()

    def list(self, name, *manifests):
        self.manifests.lists[f"{METADATA}/{name}"] = manifests
        if not self.left(name):
            self.files.write(f"{METADATA}/{name}", b"list")

    def left(self, *names):
        """Those of the files that are there."""
        return [name for name in names if f"{METADATA}/{name}" in self.files.locations()]

    def names(self, *snapshots, **fields):
        """More snapshots in the table, each with a list of one manifest: (id, parent, number, manifest)."""
        for id_, parent, number, path in snapshots:
            self.list(f"{id_}.avro", manifest(path, id_))
            row = {**documents.snapshot(id_, number, 2_000), "parent-snapshot-id": parent}
            self.named["snapshots"].append(row)
        self.named.update(fields)

    def sweep(self, late=700.0):
        self.late = late
        self.leftovers.sweep(self.row(), TableMetadata.parse(self.named))

    def goes(self):
        """Refuse it, let it land, and sweep when its time is over: what is left of the first attempt."""
        self.leftovers.settled([Sent(LOST, "first")])
        self.leftovers.settled([Sent(LANDED, "11.avro")])
        self.sweep()
        assert self.left("11.avro", "10.avro", "second-merged", "others", "first-added") == [
            "11.avro",
            "10.avro",
            "second-merged",
            "others",
            "first-added",
        ]
        return self.left("first", "first-merged")


def test_what_a_refused_attempt_left_is_deleted_when_its_change_has_landed():
    assert Refused().goes() == []


def test_it_stays_for_its_age_from_when_the_change_landed():
    table = Refused()
    table.leftovers.settled([Sent(LOST, "first")])
    table.late = 500.0
    table.leftovers.settled([Sent(LANDED, "11.avro")])
    table.sweep(1_099.0)
    assert table.left("first", "first-merged") == ["first", "first-merged"]
    table.sweep(1_100.0)
    assert table.left("first", "first-merged") == []


def test_it_is_left_where_that_is_switched_off():
    assert Refused(replaced_list_age_ms=0).goes() == ["first", "first-merged"]


@pytest.mark.parametrize(
    "outcome",
    [
        LOST,
        Failed(LockNotAcquired("late")),
        Unknown(CommitStateUnknown("lost")),
        Committed(replace(LANDED.report, already_committed=True)),
        None,
    ],
)
def test_it_is_left_as_long_as_its_change_has_not_landed(outcome):
    table = Refused()
    table.leftovers.settled([Sent(LOST, "first"), Sent(outcome, "second"), Sent(LANDED, "12.avro", ids=(12,))])
    table.sweep()
    assert table.left("first", "first-merged") == ["first", "first-merged"]


@pytest.mark.parametrize("error", [LockNotAcquired("late"), RequirementFailed(ASSERT_TABLE_UUID, "another table")])
def test_only_commits_that_lost_a_race_for_their_branch_have_their_files_deleted(error):
    table = Refused()
    table.leftovers.settled([Sent(Failed(error), "first"), Sent(LANDED, "11.avro")])
    table.sweep()
    assert table.left("first", "first-merged") == ["first", "first-merged"]


def test_all_attempts_of_a_change_go_and_the_one_that_landed_does_not():
    table = Refused()
    table.list("between", manifest("first-merged"))
    table.leftovers.settled([Sent(LOST, "first"), Sent(LOST, "between"), Sent(LOST, "11.avro")])
    table.leftovers.settled([Sent(LANDED, "11.avro")])
    table.sweep()
    assert table.left("first", "between", "first-merged", "11.avro") == ["11.avro"]


def test_the_same_list_that_is_sent_again_and_rebased_is_not_one_of_a_refused_attempt():
    table = Refused()
    table.leftovers.settled([Sent(LOST, "first")])
    table.leftovers.settled([Sent(LANDED, "first")])
    table.sweep()
    assert table.left("first", "first-merged") == ["first", "first-merged"]


def test_nothing_goes_if_a_snapshot_names_the_list():
    table = Refused()
    table.names(refs={"main": {"type": "branch", "snapshot-id": 10}})
    table.named["snapshots"][0]["manifest-list"] = f"{METADATA}/first"
    assert table.goes() == ["first", "first-merged"]


@pytest.mark.parametrize(
    "snapshots",
    [
        pytest.param([(12, 11, 3, "first-merged"), (13, 12, 4, "other")], id="one that was made on the change's own"),
        pytest.param([(12, 11, 3, "other"), (13, 12, 4, "first-merged")], id="a head"),
    ],
)
def test_a_manifest_that_another_snapshot_names_stays(snapshots):
    table = Refused()
    table.names(*snapshots, refs={"main": {"type": "branch", "snapshot-id": 13}})
    assert table.goes() == ["first-merged"]


def test_a_manifest_that_the_change_s_own_list_names_stays():
    table = Refused()
    table.names((12, 11, 3, "other"), refs={"main": {"type": "branch", "snapshot-id": 12}})
    table.list("11.avro", manifest("second-merged"), manifest("first-merged"))
    assert table.goes() == ["first-merged"]


def test_manifests_stay_if_the_change_s_snapshot_is_no_longer_in_the_table():
    table = Refused()
    table.named["snapshots"] = table.named["snapshots"][:1]
    table.names(**{"current-snapshot-id": 10})
    assert table.goes() == ["first-merged"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(manifest("first-merged", 10), id="another snapshot's"),
        pytest.param(manifest("first-merged", existing=0), id="with added files alone"),
        pytest.param(manifest("first-merged", existing=None), id="without counts"),
        pytest.param(manifest("../data/file"), id="behind the table's folder"),
        pytest.param(replace(manifest(""), manifest_path="file:/another/metadata/file"), id="another table's"),
    ],
)
def test_other_manifests_of_the_list_stay(line):
    table = Refused()
    table.list("first", line)
    for location in {line.manifest_path}.difference(table.files.locations()):
        table.files.write(location, b"a file")
    assert table.goes() == ["first-merged"]
    assert line.manifest_path in table.files.locations()


def test_a_list_that_is_not_in_the_table_s_folder_stays():
    table = Refused()
    table.names(properties={"write.metadata.path": "file:/elsewhere"})
    assert table.goes() == ["first", "first-merged"]


def test_who_deleted_its_list_has_deleted_its_manifests():
    table = Refused()
    del table.manifests.lists[f"{METADATA}/first"]
    assert table.goes() == ["first", "first-merged"], "nobody asks for them"


@pytest.mark.parametrize("unreadable", ["first", "11.avro"])
def test_nothing_goes_if_a_list_cannot_be_read(unreadable, monkeypatch):
    table = Refused()
    read = type(table.manifests.open()).list

    def broken(self, snapshot):
        if snapshot.manifest_list == f"{METADATA}/{unreadable}":
            raise CorruptFile(unreadable, "it is no list")
        return read(self, snapshot)

    monkeypatch.setattr(type(table.manifests.open()), "list", broken)
    assert table.goes() == ["first", "first-merged"]


def test_manifests_that_their_client_deleted_are_no_error():
    table = Refused()
    table.files.delete(f"{METADATA}/first-merged")
    assert table.goes() == []


@pytest.mark.parametrize(("heads", "left"), [(LOOKED_INTO_MAX - 1, []), (LOOKED_INTO_MAX, ["first-merged"])])
def test_where_too_many_heads_are_newer_manifests_stay(heads, left):
    table = Refused()
    newer = range(100, 100 + heads)
    older = range(200, 210)
    table.names(*((id_, 10, 9, "other") for id_ in newer), *((id_, 10, 1, "other") for id_ in older))
    table.named["refs"] = {f"b{id_}": {"type": "branch", "snapshot-id": id_} for id_ in (*newer, *older)}
    assert table.goes() == left


def test_a_few_are_read_at_a_time_and_the_others_next_time():
    table = Refused()
    names = [f"list-{number}" for number in range(READ_MAX + 1)]
    for name in names:
        table.list(name)
        table.leftovers.settled([Sent(LOST, name), Sent(LANDED, "11.avro")])
    table.sweep()
    assert table.left(*names) == names[READ_MAX:]
    table.sweep()
    assert table.left(*names) == []


def test_those_that_were_refused_are_bounded_and_the_oldest_are_forgotten():
    table = Refused()
    table.leftovers.settled([Sent(LOST, "first")])
    table.leftovers.settled([Sent(LOST, "second", ids=(12,))])
    table.leftovers.settled([Sent(LOST, ids=(1_000 + number,)) for number in range(REFUSED_MAX)])
    table.leftovers.settled([Sent(LOST, "other", ids=(1_000 + number,)) for number in range(REFUSED_MAX - 1)])
    table.list("second")
    table.leftovers.settled([Sent(LANDED, "11.avro"), Sent(LANDED, "12.avro", ids=(12,))])
    table.sweep()
    assert table.left("first", "first-merged") == ["first", "first-merged"]
    assert table.left("second") == [], "those without lists take no room"


def test_a_change_of_two_snapshots_leaves_two_lists():
    table = Refused()
    table.list("first-of-10", manifest("merged-for-10", 10))
    table.files.write(f"{METADATA}/merged-for-10", b"manifest")
    table.leftovers.settled([Sent(LOST, "first-of-10", "first", ids=(10, 11))])
    table.leftovers.settled([Sent(LANDED, "10.avro", "11.avro", ids=(10, 11))])
    table.sweep()
    assert table.left("first-of-10", "merged-for-10", "first", "first-merged") == []


def test_no_list_is_read_for_tables_whose_clients_were_never_refused():
    table = Refused()
    table.leftovers.settled([Sent(LANDED, "11.avro")])
    table.files.write(f"{METADATA}/one", b"list")
    table.leftovers.add([f"{METADATA}/one"])
    table.sweep()
    assert table.left("one") == []
    assert table.opened == 0
