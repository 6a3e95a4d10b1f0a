"""What a watcher of many tables sees, in memory."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.watching import new_snapshots, positions
from iceberg_hms.catalog.watching.head_moves import ChangeKind
from iceberg_hms.catalog.watching.new_snapshots import NewSnapshots, TableChange
from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName, ThreadEvent
from iceberg_hms.errors import (
    InvalidInput,
    MetastoreUnavailable,
    NoSuchNamespace,
    NoSuchTable,
    NotAnIcebergTable,
    StorageError,
)
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
NUMBERS = itertools.count()


@pytest.fixture
def pointer() -> MemoryTablePointer:
    return MemoryTablePointer(namespaces=())


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def catalog(pointer: MemoryTablePointer, files: MemoryFiles) -> Iterator[Catalog]:
    with memory_catalog(pointer=pointer, files=files) as made:
        made.create_namespace("nyc")
        made.create_namespace("logging")
        yield made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("nyc.flights", SCHEMA)


def append(table: Table) -> int:
    report = table.append([DataFile(f"file:/in/{next(NUMBERS)}.parquet", "PARQUET", 1, 10)])
    return report.snapshot_ids[0]


def begun(catalog: Catalog, *watch: str) -> NewSnapshots:
    watcher = catalog.new_snapshots(watch or ["nyc"])
    assert list(watcher.poll()) == []
    return watcher


def kinds(changes: Any) -> list[tuple[str, str, int | None]]:
    return [(str(each.table), each.kind.value, each.snapshot and each.snapshot.snapshot_id) for each in changes]


def test_each_snapshot_comes_once_in_the_tables_order(catalog: Catalog, table: Table) -> None:
    append(table)
    watcher = begun(catalog)
    first, second, third = append(table), append(table), append(table)
    expected = [("nyc.flights", "snapshot", each) for each in (first, second, third)]
    assert kinds(watcher.poll()) == expected
    assert kinds(watcher.poll()) == []
    fourth = append(table)
    assert kinds(watcher.poll()) == [("nyc.flights", "snapshot", fourth)]


def test_each_change_has_a_token_from_which_another_watcher_goes_on(catalog: Catalog, table: Table) -> None:
    watcher = begun(catalog)
    before = watcher.token
    events = catalog.create_table("nyc.events", SCHEMA)
    for _ in range(3):
        append(table)
        append(events)
    changes = list(watcher.poll())
    assert len(changes) == 7
    assert changes[-1].token == watcher.token
    for at, token in enumerate([before, *(each.token for each in changes)]):
        again = catalog.new_snapshots(["nyc"], token=token)
        assert again.token == token
        assert list(again.poll()) == changes[at:]
        assert again.token == watcher.token


def test_a_watch_may_begin_with_what_there_is(catalog: Catalog, table: Table) -> None:
    first, second = append(table), append(table)
    watcher = catalog.new_snapshots(["nyc.flights"], from_beginning=True)
    assert kinds(watcher.poll()) == [("nyc.flights", "snapshot", first), ("nyc.flights", "snapshot", second)]
    table.expire_snapshots(snapshot_ids=[first])
    [change] = catalog.new_snapshots(["nyc"], from_beginning=True).poll()
    assert (change.kind, change.expired) == (ChangeKind.GAP, (first,))


def test_what_is_not_watched_is_not_seen(catalog: Catalog, table: Table) -> None:
    events = catalog.create_table("logging.events", SCHEMA)
    catalog.create_table("logging.more", SCHEMA)
    watcher = begun(catalog, "nyc", "logging.events")
    append(catalog.load_table("logging.more"))
    wanted = append(events), append(table)
    assert [each.snapshot and each.snapshot.snapshot_id for each in watcher.poll()] == list(wanted)
    # What else the table does is none of main's history.
    table.create_branch("audit")
    table.append([DataFile("file:/in/audit.parquet", "PARQUET", 1, 10)], branch="audit")
    assert list(watcher.poll()) == []
    assert list(catalog.new_snapshots(["nyc", "logging.events"], token=watcher.token).poll()) == []


def test_only_tables_that_moved_have_their_metadata_read(
    catalog: Catalog, pointer: MemoryTablePointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [catalog.create_table(f"nyc.t{each}", SCHEMA) for each in range(20)]
    watcher = begun(catalog, "nyc", "logging")
    append(tables[7])
    read: list[str] = []
    load = catalog.services.coordinator.read_metadata
    monkeypatch.setattr(
        catalog.services.coordinator, "read_metadata", lambda location: read.append(location) or load(location)
    )
    pointer.calls.clear()
    assert len(list(watcher.poll())) == 1
    assert read == [tables[7].metadata_location]
    assert pointer.calls == [("locations", TableName("logging", "")), ("locations", TableName("nyc", ""))]
    assert list(watcher.poll()) == []
    assert len(read) == 1


def test_a_change_that_a_poll_overlooks_comes_with_the_next_one(
    catalog: Catalog, table: Table, pointer: MemoryTablePointer
) -> None:
    pointer.unlucky = frozenset({"flights"})
    watcher = begun(catalog)
    first, second = append(table), append(table)
    # A watcher that begins overlooks nothing.
    assert len(list(catalog.new_snapshots(["nyc"], token=watcher.token).poll())) == 2
    assert list(watcher.poll()) == []
    third = append(table)
    assert kinds(watcher.poll()) == [("nyc.flights", "snapshot", each) for each in (first, second, third)]


def test_tables_come_and_go(catalog: Catalog, table: Table) -> None:
    watcher = begun(catalog)
    events = catalog.create_table("nyc.events", SCHEMA)
    snapshot = append(events)
    assert kinds(watcher.poll()) == [("nyc.events", "created", None), ("nyc.events", "snapshot", snapshot)]
    catalog.drop_table("nyc.events")
    assert kinds(watcher.poll()) == [("nyc.events", "dropped", None)]
    catalog.drop_table("nyc.flights")
    snapshot = append(catalog.create_table("nyc.flights", SCHEMA))
    assert kinds(watcher.poll()) == [("nyc.flights", "replaced", None), ("nyc.flights", "snapshot", snapshot)]
    catalog.drop_table("nyc.flights")
    catalog.drop_namespace("nyc")
    assert kinds(watcher.poll()) == [("nyc.flights", "dropped", None)]
    assert list(watcher.poll()) == []


def test_a_renamed_table_is_followed(catalog: Catalog, table: Table) -> None:
    watcher = begun(catalog, "nyc", "logging")
    catalog.rename_table("nyc.flights", "logging.flights")
    [change] = watcher.poll()
    assert (change.kind, change.table, change.previous_name) == (
        ChangeKind.RENAMED,
        TableName("logging", "flights"),
        TableName("nyc", "flights"),
    )
    missed = append(catalog.load_table("logging.flights"))
    catalog.rename_table("logging.flights", "nyc.a")
    snapshot = append(catalog.load_table("nyc.a"))
    append(catalog.create_table("logging.flights", SCHEMA))
    found = kinds(watcher.poll())
    assert found[0] == ("nyc.a", "renamed", None)
    assert [each for each in found if each[0] == "nyc.a"][1:] == [
        ("nyc.a", "snapshot", missed),
        ("nyc.a", "snapshot", snapshot),
    ]
    assert [kind for name, kind, _ in found if name == "logging.flights"] == ["created", "snapshot"]


def test_a_name_that_was_given_to_another_table_while_its_own_is_elsewhere(catalog: Catalog, table: Table) -> None:
    watcher = begun(catalog)
    other = catalog.create_table("nyc.other", SCHEMA)
    assert len(list(watcher.poll())) == 1
    catalog.rename_table("nyc.flights", "nyc.before")
    catalog.rename_table("nyc.other", "nyc.flights")
    snapshot = append(catalog.load_table("nyc.flights"))
    found = kinds(watcher.poll())
    assert found == [
        ("nyc.before", "renamed", None),
        ("nyc.other", "dropped", None),
        ("nyc.flights", "created", None),
        ("nyc.flights", "snapshot", snapshot),
    ]
    assert other.metadata.uuid != table.metadata.uuid


def test_a_table_that_got_a_second_name_is_no_renamed_one(
    catalog: Catalog, table: Table, pointer: MemoryTablePointer
) -> None:
    append(table)
    watcher = begun(catalog)
    # As another catalog registers it.
    pointer.rows[TableName("nyc", "copy")] = pointer.rows[table.name()]
    append(table)
    assert [(name, kind) for name, kind, _ in kinds(watcher.poll())] == [
        ("nyc.copy", "created"),
        ("nyc.copy", "snapshot"),
        ("nyc.flights", "snapshot"),
    ]


def test_a_table_that_is_renamed_while_the_rows_are_read_is_not_dropped(
    catalog: Catalog, table: Table, pointer: MemoryTablePointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = begun(catalog, "nyc", "logging")
    locations_in, raced = pointer.locations_in, []

    def rename_meanwhile(namespace: str, *names: Any, **more: Any) -> Any:
        if namespace == "nyc" and not raced:
            raced.append(namespace)
            catalog.rename_table("nyc.flights", "logging.flights")
        return locations_in(namespace, *names, **more)

    monkeypatch.setattr(pointer, "locations_in", rename_meanwhile)
    assert [each.kind for each in watcher.poll()] == [ChangeKind.RENAMED]


def test_a_rollback_and_a_gap_have_kinds_of_their_own(catalog: Catalog, table: Table) -> None:
    first, second = append(table), append(table)
    watcher = begun(catalog)
    table.rollback_to_snapshot(first)
    third = append(table)
    left, gained = watcher.poll()
    assert (left.kind, left.left, left.snapshot and left.snapshot.snapshot_id) == (
        ChangeKind.ROLLBACK,
        (second,),
        first,
    )
    assert kinds([gained]) == [("nyc.flights", "snapshot", third)]
    fourth, fifth, sixth = append(table), append(table), append(table)
    table.expire_snapshots(snapshot_ids=[first, second, third, fourth])
    gap, last = watcher.poll()
    assert (gap.kind, gap.snapshot and gap.snapshot.snapshot_id) == (ChangeKind.GAP, fifth)
    assert kinds([last]) == [("nyc.flights", "snapshot", sixth)]


def test_a_list_may_grow_and_shrink_between_two_watchers(catalog: Catalog, table: Table) -> None:
    append(catalog.create_table("logging.events", SCHEMA))
    token = begun(catalog).token
    missed = append(table)
    grown = catalog.new_snapshots(["nyc", "logging.events"], token=token)
    assert kinds(grown.poll()) == [("nyc.flights", "snapshot", missed)]
    snapshot = append(catalog.load_table("logging.events"))
    shrunk = catalog.new_snapshots(["logging.events"], token=grown.token)
    assert kinds(shrunk.poll()) == [("logging.events", "snapshot", snapshot)]
    assert "nyc" not in shrunk.token.replace("nyc.db", "")


def test_a_table_that_is_named_besides_its_namespace_goes_on_where_it_was(catalog: Catalog, table: Table) -> None:
    token = begun(catalog).token
    missed = append(table)
    grown = catalog.new_snapshots(["nyc", "nyc.flights"], token=token)
    assert kinds(grown.poll()) == [("nyc.flights", "snapshot", missed)]


def test_a_name_that_nothing_has_is_refused_at_the_beginning(catalog: Catalog, pointer: MemoryTablePointer) -> None:
    pointer.add_hive_table(TableName("nyc", "hive"))
    for watch, error in (
        (["nowhere"], NoSuchNamespace),
        (["nyc.missing"], NoSuchTable),
        (["nyc.hive"], NotAnIcebergTable),
    ):
        with pytest.raises(error):
            list(catalog.new_snapshots(watch).poll())


@pytest.mark.parametrize(
    "arguments",
    [
        {"watch": []},
        {"watch": "nyc"},
        {"watch": ["a.b.c"]},
        {"poll_seconds": 0.01},
        {"poll_seconds": 1e9},
        {"token": "x"},
    ],
)
def test_what_cannot_be_meant_is_refused(catalog: Catalog, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        catalog.new_snapshots(**{"watch": ["nyc"], **arguments})


def test_the_number_of_tables_has_a_bound(catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_snapshots, "TABLES_MAX", 1)
    monkeypatch.setattr(positions, "TABLES_MAX", 1)
    watcher = begun(catalog)
    catalog.create_table("nyc.more", SCHEMA)
    with pytest.raises(InvalidInput, match="More than 1 tables"):
        list(watcher.poll())


def test_the_iteration_goes_on_until_it_is_stopped(catalog: Catalog, table: Table) -> None:
    snapshots: list[int] = []
    found: list[TableChange] = []
    with catalog.new_snapshots(["nyc"], poll_seconds=0.1) as watcher:
        assert list(watcher.poll()) == []
        snapshots += [append(table), append(table)]
        for change in watcher:
            found.append(change)
            if len(found) == 2:
                # The third is committed while the watcher runs.
                snapshots.append(append(table))
            if len(found) == 3:
                snapshots.append(append(table))
                watcher.stop()
    assert [each.snapshot and each.snapshot.snapshot_id for each in found] == snapshots[:3]
    assert list(watcher) == []
    assert len(list(catalog.new_snapshots(["nyc"], token=found[-1].token).poll())) == 1


def test_a_stop_ends_a_wait_and_hands_out_no_further_change(catalog: Catalog, table: Table) -> None:
    watcher = catalog.new_snapshots(["nyc"], poll_seconds=3_600)
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (list(watcher), ended.set()))
    thread.start()
    watcher.stop()
    assert ended.wait(30)
    thread.join()
    watcher = begun(catalog)
    append(table), append(table)
    polled = watcher.poll()
    next(polled)
    watcher.stop()
    assert list(polled) == []


def test_the_iteration_outlives_an_outage_and_logs_it_once(
    catalog: Catalog, table: Table, pointer: MemoryTablePointer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "iceberg_hms")
    watcher = catalog.new_snapshots(["nyc"], token=begun(catalog).token, poll_seconds=0.1)
    snapshot = append(table)
    pointer.load_errors.extend(MetastoreUnavailable("no answer") for _ in range(2))
    for change in watcher:
        assert kinds([change]) == [("nyc.flights", "snapshot", snapshot)]
        watcher.stop()
    told = [each.message for each in caplog.records if "metastore answers" in each.message]
    assert [each.startswith("No metastore answers") for each in told] == [True, False]


def test_it_waits_between_two_polls() -> None:
    waits: list[float | None] = []

    class Recorded(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            if len(waits) == 3:
                self.set()
            return self.is_set()

    class Recording(ThreadRuntime):
        def event(self) -> ThreadEvent:
            return Recorded()

    pointer = MemoryTablePointer(namespaces=("nyc",))
    with memory_catalog(pointer=pointer, runtime=Recording()) as catalog:
        assert list(catalog.new_snapshots(["nyc"], poll_seconds=7)) == []
    assert waits == [7, 7, 7]
    assert len(pointer.calls) == 3


def test_an_outage_that_takes_too_long_is_raised(pointer: MemoryTablePointer) -> None:
    class Leaping(SystemClock):
        seconds = 0.0

        def monotonic(self) -> float:
            self.seconds += 100.0
            return self.seconds

    with memory_catalog(pointer=pointer, clock=Leaping()) as catalog:
        catalog.create_namespace("nyc")
        pointer.load_errors.extend(MetastoreUnavailable(f"no answer {each}") for each in range(5))
        with pytest.raises(MetastoreUnavailable, match="no answer 2"):
            list(catalog.new_snapshots(["nyc"], poll_seconds=0.1, outage_seconds=150))
    pointer.load_errors.clear()


def test_a_table_that_cannot_be_read_holds_up_no_other_and_loses_nothing(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = catalog.create_table("nyc.other", SCHEMA)
    watcher = begun(catalog)
    lost, seen = append(table), append(other)
    load = catalog.services.coordinator.read_metadata
    broken = table.metadata_location

    def read(location: str) -> TableMetadata:
        if location == broken:
            raise StorageError("the store does not answer")
        return load(location)

    monkeypatch.setattr(catalog.services.coordinator, "read_metadata", read)
    assert kinds(watcher.poll()) == [("nyc.other", "snapshot", seen)]
    assert list(watcher.poll()) == []
    assert list(watcher.unreadable) == [table.name()]
    assert len([each for each in caplog.records if "cannot be read" in each.message]) == 1
    with pytest.raises(StorageError):
        list(catalog.new_snapshots(["nyc"]).poll())
    broken = ""
    assert kinds(watcher.poll()) == [("nyc.flights", "snapshot", lost)]
    assert watcher.unreadable == {}


def test_a_store_that_does_not_answer_for_the_former_metadata_makes_no_gap(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = append(table), append(table)
    watcher = begun(catalog)
    former = table.metadata_location
    append(table)
    last = append(table)
    table.expire_snapshots(snapshot_ids=[each.snapshot_id for each in table.snapshots()[:-1]])
    load = catalog.services.coordinator.read_metadata

    def read(location: str) -> TableMetadata:
        if location == former:
            raise StorageError("the store does not answer")
        return load(location)

    with monkeypatch.context() as patched:
        patched.setattr(catalog.services.coordinator, "read_metadata", read)
        assert list(watcher.poll()) == []
        assert list(watcher.unreadable) == [table.name()]
    [gap] = watcher.poll()
    assert (gap.kind, gap.snapshot and gap.snapshot.snapshot_id) == (ChangeKind.GAP, last)
    assert (first, second) != (last, last)


class Follower:
    """What a consumer knows by the changes alone: main of each table, newest last; and whether a gap is in it."""

    def __init__(self) -> None:
        self.lines: dict[TableName, list[int]] = {}
        self.holes: set[TableName] = set()

    def take(self, change: TableChange) -> None:
        name, snapshot = change.table, change.snapshot
        match change.kind:
            case ChangeKind.SNAPSHOT:
                assert snapshot is not None
                line = self.lines[name]
                assert snapshot.parent_snapshot_id == (line[-1] if line else None), "a snapshot was skipped"
                assert snapshot.snapshot_id not in line, "a snapshot came twice"
                line.append(snapshot.snapshot_id)
            case ChangeKind.GAP:
                assert snapshot is not None
                self.lines[name] = [snapshot.snapshot_id]
                self.holes.add(name)
            case ChangeKind.ROLLBACK:
                line = self.lines[name]
                at = 0 if snapshot is None else line.index(snapshot.snapshot_id) + 1 if name not in self.holes else None
                if at is None:
                    assert snapshot is not None
                    self.lines[name] = [snapshot.snapshot_id]
                else:
                    assert set(line[at:]) <= set(change.left), "a snapshot was left in silence"
                    del line[at:]
            case ChangeKind.CREATED | ChangeKind.REPLACED:
                self.lines[name] = []
                self.holes.discard(name)
            case ChangeKind.DROPPED:
                del self.lines[name]
                self.holes.discard(name)
            case ChangeKind.RENAMED:
                assert change.previous_name is not None
                self.lines[name] = self.lines.pop(change.previous_name)
                if change.previous_name in self.holes:
                    self.holes.remove(change.previous_name)
                    self.holes.add(name)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "append",
                "append",
                "expire",
                "rollback",
                "current",
                "create",
                "drop",
                "rename",
                "poll",
                "restart",
            ]
        ),
        st.integers(0, 2),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(max_examples=100)
@given(steps=STEPS, forgets=st.booleans())
def test_a_follower_always_knows_main_or_that_there_is_a_gap(steps: list[tuple[str, int, int]], forgets: bool) -> None:
    """forgets: the table deletes its former metadata files, so that a watcher cannot look at them."""
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    pointer = MemoryTablePointer(namespaces=())
    pointer.unlucky = frozenset({"t0"})
    with memory_catalog(pointer=pointer) as catalog:
        catalog.create_namespace("nyc")
        follower, parents = Follower(), dict[int, int | None]()
        watcher = catalog.new_snapshots(["nyc"])
        assert list(watcher.poll()) == []
        for action, which, number in [*steps, ("poll", 0, 0)]:
            name = f"nyc.t{which}"
            if action == "poll":
                # What one poll overlooks, the next one sees.
                for change in [*watcher.poll(), *watcher.poll()]:
                    follower.take(change)
                _compare(catalog, follower, parents)
            elif action == "restart":
                token = watcher.token
                for change in itertools.islice(watcher.poll(), number):
                    follower.take(change)
                    token = change.token
                watcher = catalog.new_snapshots(["nyc"], token=token)
            else:
                _act(catalog, action, name, number, properties if forgets else {}, parents)


def _act(
    catalog: Catalog, action: str, name: str, number: int, properties: dict[str, str], parents: dict[int, int | None]
) -> None:
    if not catalog.table_exists(name):
        if action == "create":
            catalog.create_table(name, SCHEMA, properties=properties)
        return
    table = catalog.load_table(name)
    line = [each.snapshot_id for each in table.ancestors()]
    known = [each.snapshot_id for each in table.snapshots()]
    match action:
        case "append":
            parents[append(table)] = line[0] if line else None
        case "expire" if known:
            table.expire_snapshots(snapshot_ids=[each for each in known[: number + 1] if each not in line[:1]])
        case "rollback" if line:
            table.rollback_to_snapshot(line[number % len(line)])
        case "current" if known:
            table.set_current_snapshot(known[number % len(known)])
        case "drop":
            catalog.drop_table(name)
        case "rename" if not catalog.table_exists(f"nyc.t{number % 3}"):
            catalog.rename_table(name, f"nyc.t{number % 3}")


def _compare(catalog: Catalog, follower: Follower, parents: dict[int, int | None]) -> None:
    """The follower knows the whole line of each table, or its newest part and that there is a gap."""
    assert set(follower.lines) == set(catalog.list_tables("nyc"))
    for name, line in follower.lines.items():
        at = catalog.load_table(name).metadata.current_snapshot_id
        whole: list[int] = []
        while at is not None:
            whole.append(at)
            at = parents[at]
        whole.reverse()
        if name in follower.holes:
            assert whole[-1:] == line[-1:]
        else:
            assert whole == line
