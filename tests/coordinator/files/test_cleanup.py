"""What stays of files that were to be deleted is said: by every verb that deletes, to the log, to listeners and, where
a call has one, in its report. No outcome of a commit changes."""

import ast
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.coordinator.files.cleanup import NAMED_MAX, PUBLISHED_MAX, delete_files
from iceberg_hms.coordinator.files.own_files import RecentOwnFiles
from iceberg_hms.coordinator.files.replaced_lists import ReplacedLists
from iceberg_hms.errors import NoSuchNamespace, StorageRefused
from iceberg_hms.migration.progress import delete_progress
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.catalog.maintenance.lab import FOLDER, FUTURE, Lab
from tests.coordinator.harness import NAME, Harness, append
from tests.coordinator.operations import test_kind_changes as kind_changes

#: Each module that deletes files of tables, and what it does so for. What it calls is `delete_files`, or what ends
#: there; the others say why they need not.
CALLERS = {
    "catalog/maintenance/deletion.py": "expire_snapshots, remove_orphan_files",
    "catalog/purge.py": "drop with purge",
    "catalog/manifest_merging.py": "a merge that could not be begun",
    "catalog/operations/submitter.py": "an operation that could not be begun",
    "catalog/table_access.py": "an operation for which the queue had no room",
    "catalog/transaction.py": "a transaction that was aborted",
    "coordinator/files/group_files.py": "attempts of a group that no swap carried, commits that failed",
    "coordinator/files/own_files.py": "metadata files that fell out of the log",
    "coordinator/files/replaced_lists.py": "lists of clients that were replaced",
    "coordinator/operations/catalog_operations.py": "creations and registrations that were not sent",
    "coordinator/operations/kind_changes.py": "migrations that failed, undo",
    "coordinator/operations/view_operations.py": "views whose creation or swap was not sent",
    "migration/progress.py": "the progress of a migration; a record that cannot be replaced fails its slice",
    "migration/takeover.py": "a migration that failed",
    "cli/doctor.py": "the file that doctor wrote; its finding says what failed",
}
_DELETES = {"delete_files", "delete_own_files", "OwnDeletion"}
_OF_FILES = {"delete", "delete_all"}


def calls_of(module: Path) -> set[str]:
    """The calls of a module that delete files: ours, and those of the Files port."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            if name in _DELETES or (last in _OF_FILES and name.rpartition(".")[0].endswith("files")):
                found.add(name)
    return found


def test_these_modules_delete_files_and_no_others_do() -> None:
    package = Path(iceberg_hms.__file__).parent
    found = {str(each.relative_to(package)): calls_of(each) for each in package.rglob("*.py")}
    # Below the port are its drivers; the fakes and contracts are not users.
    ours = {name: calls for name, calls in found.items() if calls and name.split("/")[0] not in ("storage", "testing")}
    assert ours.pop("coordinator/files/cleanup.py") == {"ports.files.delete_all"}
    assert ours.pop("catalog/maintenance/expired_files.py", set()) == set()
    assert ours.pop("catalog/operations/maintenance.py") == {"files.delete"}, "it is ExpiredFiles.delete"
    assert ours.keys() == CALLERS.keys()
    direct = {name for name, calls in ours.items() if not calls <= _DELETES}
    assert direct == {"migration/progress.py", "cli/doctor.py"}


def locked(location: str) -> bool:
    raise StorageRefused(f"{location}: the object is locked")


class Refusing(MemoryFiles):
    """Deletes nothing once `refuses` is set."""

    refuses = False

    def delete(self, location: str) -> bool:
        return locked(location) if self.refuses and location in self.locations() else super().delete(location)


@dataclass
class Told:
    """What a verb said. report: of its own, what of it names files that stay."""

    events: list[Mapping[str, Any]]
    left: set[str]
    report: Mapping[str, object] | None = None


def lab(**properties: str) -> tuple[Lab, Refusing, list[Mapping[str, Any]]]:
    made = Lab(files=Refusing(), **properties)
    events: list[Mapping[str, Any]] = []
    made.catalog.subscribe(events.append)
    return made, made.files, events


def purge() -> Told:
    made, files, events = lab()
    made.append()
    files.refuses = True
    report = made.catalog.purge_table("db.t")
    assert report.failed == len(report.left) == len(files.locations())
    assert not made.catalog.table_exists("db.t")
    return Told(events, set(files.locations()), report.left)


def expire() -> Told:
    made, files, events = lab()
    made.append()
    gone = made.table.current_snapshot().manifest_list
    made.append()
    files.refuses = True
    report = made.table.expire_snapshots(older_than=FUTURE)
    assert len(report.snapshot_ids) == len(made.table.snapshots()) == 1
    return Told(events, {gone}, report.files.failed)


def orphans() -> Told:
    made, files, events = lab()
    files.write(f"{FOLDER}/data/orphan", b"")
    files.refuses = True
    report = made.table.remove_orphan_files(older_than=FUTURE, force=True)
    assert report.files.deleted == []
    return Told(events, {f"{FOLDER}/data/orphan"}, report.files.failed)


def old_metadata() -> Told:
    made, files, events = lab(
        **{"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    )
    first = made.table.metadata_location
    made.append()
    files.refuses = True
    made.append()
    made.runtime.join()
    assert len(made.table.refresh().snapshots()) == 2
    return Told(events, {first})


def aborted() -> Told:
    made, files, events = lab()
    made.append()
    files.refuses = True
    transaction = made.table.transaction()
    transaction.append([made.data_file()])
    transaction.delete_files([f"{FOLDER}/data/1.parquet"])
    transaction.abort()
    return Told(events, {each for event in events for each in event.get("locations", ())})


def refused_attempt() -> Told:
    """mine is built | another swaps: mine is built anew, and lands"""
    harness = Harness()
    files = Refusing()
    harness.files, harness.ports = files, replace(harness.ports, files=files)
    harness.begin_now()
    harness.create()
    before = harness.metadata_files()
    acquire = harness.lock.acquire

    def overtaken(*arguments: Any, **options: Any) -> Any:
        harness.foreign_commit(theirs="1")
        return acquire(*arguments, **options)

    harness.lock.acquire = overtaken  # type: ignore[method-assign]
    files.refuses = True
    report = harness.commit(append("file:/a"))
    theirs = harness.metadata_files() - before - {report.metadata_location}
    unsent = {each for event in harness.events if event["event"] == "files-left" for each in event["locations"]}
    assert unsent
    return Told(harness.events, unsent & theirs)


def creation() -> Told:
    made, files, events = lab()
    files.refuses = True

    def refuse(*_: Any, **__: Any) -> Any:
        raise NoSuchNamespace("db")

    made.pointer.create = refuse  # type: ignore[method-assign]
    before = set(files.locations())
    with pytest.raises(NoSuchNamespace):
        made.catalog.create_table("db.another", {"type": "struct", "fields": []})
    return Told(events, set(files.locations()) - before)


def undone() -> Told:
    lake = kind_changes.Lake()
    lake.migrate()
    lake.files.delete = locked  # type: ignore[method-assign]
    lake.undo()
    assert lake.is_as_before()
    return Told(lake.events, set(lake.iceberg_files()))


def replaced_list() -> Told:
    harness = Harness(replaced_list_age_ms=1)
    files = Refusing()
    harness.create()
    ports = replace(harness.ports, files=files)
    location = "file:/wh/db/t/metadata/theirs"
    files.write(location, b"list")
    files.refuses = True
    lists = ReplacedLists(ports, harness.settings, RecentOwnFiles(ports))
    lists.add([location])
    harness.runtime.skipped += 10
    lists.sweep(harness.pointer.load(NAME), harness.metadata())
    return Told(harness.events, {location})


def progress() -> Told:
    harness = Harness()
    files = Refusing()
    files.write("file:/t/migration/1", b"")
    files.refuses = True
    assert delete_progress(replace(harness.ports, files=files), NAME, "file:/t/migration") == 0
    return Told(harness.events, {"file:/t/migration/1"})


VERBS: Mapping[str, tuple[str, Callable[[], Told]]] = {
    "drop with purge": ("purge", purge),
    "expire_snapshots": ("expired snapshots", expire),
    "remove_orphan_files": ("orphans", orphans),
    "delete-after-commit": ("old metadata", old_metadata),
    "replaced lists": ("replaced lists", replaced_list),
    "an aborted transaction": ("own files", aborted),
    "an attempt that was staged again": ("own files", refused_attempt),
    "a creation that was not sent": ("own files", creation),
    "undo of a migration": ("undo", undone),
    "progress of a migration": ("migration progress", progress),
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_says_which_files_stay(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    why, run = VERBS[verb]
    with caplog.at_level(logging.WARNING):
        told = run()
    named = [each for event in told.events if event["event"] == "files-left" for each in event["locations"]]
    assert told.left
    assert told.left <= set(named)
    assert {event["why"] for event in told.events if event["event"] == "files-left"} == {why}
    lines = [each.getMessage() for each in caplog.records if "could not be deleted" in each.getMessage()]
    assert any(f"({why})" in line and "the object is locked" in line for line in lines)
    assert any(each in line for line in lines for each in told.left)
    if told.report is not None:
        assert told.left <= told.report.keys()


def test_many_files_that_stay_are_one_line_and_events_of_a_thousand(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    files = Refusing()
    locations = [f"file:/t/{number}" for number in range(PUBLISHED_MAX + 5)]
    files.write_all([(each, b"") for each in locations])
    files.refuses = True
    with caplog.at_level(logging.WARNING):
        found = delete_files(replace(harness.ports, files=files), NAME, ["file:/t/none", *locations], "purge")
    assert (list(found.failed), list(found.locations)) == (locations, [])
    [line] = [each.getMessage() for each in caplog.records]
    assert f"{len(locations)} files of db.t stay (purge)" in line
    assert sum(f"{each}" in line.replace(",", " ").split() for each in locations) <= NAMED_MAX
    assert [len(event["locations"]) for event in harness.events] == [PUBLISHED_MAX, 5]


def test_a_driver_with_a_defect_has_deleted_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryFiles):
        def delete(self, location: str) -> bool:
            raise ZeroDivisionError

    harness = Harness()
    found = delete_files(replace(harness.ports, files=Broken()), NAME, ["file:/t/1"], "purge")
    assert found.failed.keys() == {"file:/t/1"}
    assert [event["event"] for event in harness.events] == ["files-left"]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(("why", "told"), [("purge", 1), ("own files", 0), ("migration progress", 0)])
def test_deleted_files_are_published_if_a_table_named_them(why: str, told: int) -> None:
    harness = Harness()
    harness.files.write("file:/t/1", b"")
    found = delete_files(harness.ports, NAME, ["file:/t/1", "file:/t/gone"], why)
    assert (list(found.locations), found.failed) == (["file:/t/1"], {})
    assert len(harness.events) == told


def test_what_a_refused_swap_carried_stays_and_what_was_never_sent_does_not():
    """mine is built | another swaps: built anew | swap: refused, another was faster | built anew: made"""
    harness = Harness()
    harness.create()
    before = harness.metadata_files()
    acquire = harness.lock.acquire

    def overtaken(*arguments, **options):
        harness.foreign_commit(theirs="1")
        return acquire(*arguments, **options)

    harness.lock.acquire = overtaken
    harness.pointer.before_moves.append(lambda: harness.foreign_commit(theirs="2"))
    theirs_and_mine = 3
    report = harness.commit(append("file:/a"))
    assert report.replays == 2
    assert len(harness.metadata_files() - before) == theirs_and_mine + 1, (
        "the refused one stays, the unsent one is gone"
    )
