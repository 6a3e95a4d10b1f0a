"""What expired snapshots led to: random histories, and what happens beside the deletion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from iceberg_hms.catalog.maintenance.expired_files import ExpiredFiles
from iceberg_hms.catalog.maintenance.reports import FileKind
from iceberg_hms.catalog.table import Table
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.errors import CommitFailed, CommitStateUnknown, InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.catalog.maintenance.lab import FOLDER, FUTURE, Lab


@pytest.fixture
def lab():
    return Lab()


def expired_files(lab, load):
    services = lab.catalog.services
    return ExpiredFiles(services.ports, services.manifest_columns, load, lambda *_: None)


class Histories(RuleBasedStateMachine):
    @initialize(version=st.sampled_from([1, 2, 3]), merge=st.booleans())
    def make(self, version: int, merge: bool) -> None:
        self.lab = Lab(
            version,
            **{"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": str(merge).lower()},
        )
        self.lab.append()
        self.names = 0

    @property
    def table(self) -> Table:
        return self.lab.table

    def branches(self) -> list[str]:
        return sorted(name for name, ref in self.table.refs().items() if ref.is_branch)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self.lab.append(branch=data.draw(st.sampled_from(self.branches())))

    @rule()
    def stage(self) -> None:
        self.lab.append(stage_only=True)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(self.branches()))
        live = self.lab.rows(self.table.snapshot_by_id(self.table.refs()[branch].snapshot_id))
        if live:
            self.table.delete_files(data.draw(st.lists(st.sampled_from(live), min_size=1, unique=True)), branch=branch)

    @rule(data=st.data())
    def rewrite_manifests(self, data: st.DataObject) -> None:
        self.table.rewrite_manifests(branch=data.draw(st.sampled_from(self.branches())))

    @rule(data=st.data(), kind=st.sampled_from(["branch", "tag"]), age=st.sampled_from([None, 1, 10**12]))
    def make_ref(self, data: st.DataObject, kind: str, age: int | None) -> None:
        id_ = data.draw(st.sampled_from([each.snapshot_id for each in self.table.snapshots()]))
        self.names += 1
        make = self.table.create_branch if kind == "branch" else self.table.create_tag
        make(f"{kind}-{self.names}", id_, max_ref_age_ms=age)

    @precondition(lambda self: len(self.table.refs()) > 1)
    @rule(data=st.data())
    def remove_ref(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(set(self.table.refs()) - {MAIN_BRANCH})))
        is_branch = self.table.refs()[name].is_branch
        (self.table.remove_branch if is_branch else self.table.remove_tag)(name)

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        ids = [each.snapshot_id for each in self.table.ancestors()]
        self.table.rollback_to_snapshot(data.draw(st.sampled_from(ids)))

    @rule(data=st.data())
    def pick(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from([each.snapshot_id for each in self.table.snapshots()]))
        try:
            self.table.cherry_pick(id_)
        except (CommitFailed, InvalidInput):
            self.table.refresh()

    @rule(data=st.data())
    def add_statistics(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from([each.snapshot_id for each in self.table.snapshots()]))
        self.names += 1
        path = f"{FOLDER}/metadata/{self.names}.stats"
        if id_ not in {each["snapshot-id"] for each in self.table.metadata.fields.get("statistics") or ()}:
            self.lab.files.write(path, b"12345")
            self.table.set_statistics(
                {
                    "snapshot-id": id_,
                    "statistics-path": path,
                    "file-size-in-bytes": 5,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                }
            )

    @rule(data=st.data(), retain=st.sampled_from([None, 1, 2, 3]), clean=st.booleans(), named=st.booleans())
    def expire(self, data: st.DataObject, retain: int | None, clean: bool, named: bool) -> None:
        heads = {ref.snapshot_id for ref in self.table.refs().values()}
        others = [each.snapshot_id for each in self.table.snapshots() if each.snapshot_id not in heads]
        times = [each.timestamp_ms + 1 for each in self.table.snapshots()]
        options: dict[str, Any] = {"retain_last": retain, "clean_expired_metadata": clean}
        if named and others:
            options["snapshot_ids"] = data.draw(st.lists(st.sampled_from(others), min_size=1, unique=True))
        else:
            options["older_than"] = data.draw(st.sampled_from([None, FUTURE, *times]))
        before = {each.snapshot_id: self.lab.rows(each) for each in self.table.snapshots()}
        present, location = self.lab.present(), self.table.metadata_location
        reachable = self.lab.reachable()
        preview = self.table.expire_snapshots(**options, dry_run=True)
        assert (self.lab.present(), self.table.refresh().metadata_location) == (present, location)
        report = self.table.expire_snapshots(**options)
        assert report.files.stopped == ""
        assert (report.files.kept, report.files.failed) == ([], {})
        after = {each.snapshot_id: self.lab.rows(each) for each in self.table.snapshots()}
        assert after == {id_: rows for id_, rows in before.items() if id_ not in report.snapshot_ids}
        assert set(report.files.locations) == present - self.lab.present() == reachable - self.lab.reachable()
        assert preview.snapshot_ids == report.snapshot_ids
        assert set(preview.files.locations) == set(report.files.locations)
        assert report.files.bytes == preview.files.bytes

    @invariant()
    def nothing_is_missing(self) -> None:
        if hasattr(self, "lab"):
            assert self.lab.reachable() <= self.lab.present()

    def teardown(self) -> None:
        """After everything has expired once more, no file is left that nothing leads to, but for what was staged and
        merged away before it was ever listed."""
        if hasattr(self, "lab"):
            self.table.expire_snapshots(FUTURE)
            assert self.lab.reachable() <= self.lab.present()
            report = self.table.remove_orphan_files(FUTURE, force=True)
            assert report.files.stopped == ""
            assert self.lab.present() == self.lab.reachable()
            self.lab.catalog.close()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=15, stateful_step_count=14, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_the_report_counts_what_went_by_kind(lab):
    data, deletes = lab.data_file(), lab.data_file()
    lab.table.append([data])
    delete = DataFile(
        deletes.file_path, "PARQUET", 1, 10, content=FileContent.POSITION_DELETES, referenced_data_file=data.file_path
    )
    lab.table.row_delta(deletes=[delete])
    lab.table.delete_files([data])
    told: list[tuple[str, int]] = []
    report = lab.table.expire_snapshots(FUTURE, on_progress=lambda what, count: told.append((what, count)))
    assert report.files.counts[FileKind.MANIFEST_LIST] == 2
    assert report.files.counts[FileKind.DATA] == 1
    assert report.files.counts[FileKind.MANIFEST] >= 1
    assert report.files.bytes > 10
    kinds = [each.kind for each in report.files.deleted]
    assert kinds.index(FileKind.DATA) < kinds.index(FileKind.MANIFEST) < kinds.index(FileKind.MANIFEST_LIST)
    assert ("deleting", len(kinds)) in told
    assert report.commit.metadata_location == lab.table.metadata_location


def test_files_that_cannot_be_deleted_are_reported_and_the_rest_goes(lab):
    lab.append()
    lab.table.delete_files([f"{FOLDER}/data/1.parquet"])
    lab.files.stubborn.add(f"{FOLDER}/data/1.parquet")
    report = lab.table.expire_snapshots(FUTURE)
    assert list(report.files.failed) == [f"{FOLDER}/data/1.parquet"]
    assert "denied" in report.files.failed[f"{FOLDER}/data/1.parquet"]
    assert report.files.counts == {FileKind.MANIFEST: 1, FileKind.MANIFEST_LIST: 1}
    assert lab.present() - lab.reachable() == {f"{FOLDER}/data/1.parquet"}


def test_files_outside_of_the_tables_folder_are_kept(lab):
    outside = lab.data_file("file:/elsewhere")
    lab.table.append([outside])
    lab.table.delete_files([outside])
    report = lab.table.expire_snapshots(FUTURE)
    assert report.files.kept == [outside.file_path]
    assert outside.file_path in lab.present()
    assert lab.table.expire_snapshots(FUTURE).snapshot_ids == ()


def test_files_in_a_folder_that_another_table_has_too_are_kept(lab):
    lab.append()
    lab.append()
    lab.pointer.rows[TableName("db", "same")] = lab.pointer.rows[lab.table.name()]
    before = lab.present()
    report = lab.table.expire_snapshots(FUTURE)
    assert (len(report.snapshot_ids), report.files.deleted) == (1, [])
    assert report.files.kept
    assert lab.present() == before


def test_files_of_a_table_that_can_become_a_hive_table_again_are_kept(lab):
    lab.append()
    lab.append()
    row = lab.pointer.rows[lab.table.name()]
    lab.pointer.rows[lab.table.name()] = replace(row, parameters={**row.parameters, HIVE_TABLE: "file:/saved"})
    before = lab.present()
    report = lab.table.expire_snapshots(FUTURE)
    assert (len(report.snapshot_ids), report.files.deleted) == (1, [])
    assert lab.present() == before


def test_a_file_that_another_commit_adds_again_before_its_deletion_is_kept(lab):
    file = lab.data_file()
    lab.table.append([file])
    lab.table.delete_files([file])
    base, first = lab.table.metadata, lab.table.snapshots()[0].snapshot_id
    lab.files.stubborn.update(lab.files.locations())
    lab.table.expire_snapshots(FUTURE)
    lab.files.stubborn.clear()
    calls = 0

    def load_and_append():
        nonlocal calls
        calls += 1
        # The first look says what is live; this lands before the second one.
        if calls == 2:
            lab.table.append([file])
        return lab.catalog.services.coordinator.load(lab.table.name())

    result = expired_files(lab, load_and_append).delete(base, [first])
    assert calls == 2
    assert (result.stopped, result.counts) == ("", {FileKind.MANIFEST: 1, FileKind.MANIFEST_LIST: 1})
    assert lab.rows(lab.table.current_snapshot()) == [file.file_path]
    assert lab.reachable() <= lab.present()


def test_a_snapshot_that_is_in_the_table_loses_nothing(lab):
    """If its removal was lost after all, or is not committed."""
    first, before = lab.append(), lab.present()
    lab.append()
    load = lab.catalog.services.coordinator.load
    expired = expired_files(lab, lambda: load(lab.table.name()))
    assert expired.delete(lab.table.metadata, [first]).deleted == []
    assert before <= lab.present()


@pytest.mark.parametrize("lands_later", [True, False])
def test_nothing_is_deleted_if_the_outcome_of_the_commit_is_not_known(lands_later):
    waits = ("commit.status-check.min-wait-ms", "commit.status-check.max-wait-ms")
    lab = Lab(settings={**dict.fromkeys(waits, 1), "metastore.unanswered-swap-timeout-ms": 100})
    lab.append()
    lab.append()
    before = lab.present()
    lab.pointer.atomic = False
    lab.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown):
        lab.table.expire_snapshots(FUTURE)
    if lands_later:
        lab.pointer.deliver_delayed()
    lab.catalog.close()
    assert lab.present() == before


@pytest.mark.parametrize("which", ["list", "manifest"])
def test_nothing_is_deleted_if_something_live_cannot_be_read(lab, which):
    file = lab.data_file()
    lab.table.append([file])
    lab.table.delete_files([file])
    lab.append()
    manifests = lab.catalog.services.ports.manifests()
    damaged = {
        "list": lab.table.current_snapshot().manifest_list,
        "manifest": manifests.list(lab.table.current_snapshot())[0].manifest_path,
    }[which]
    before = lab.present()
    with memory_catalog(files=lab.files, pointer=lab.pointer) as fresh:
        lab.files.replace(damaged, b"damaged")
        report = fresh.load_table("db.t").expire_snapshots(FUTURE)
    assert report.snapshot_ids
    assert "is damaged" in report.files.stopped
    assert report.files.deleted == []
    assert lab.present() == before


def test_no_manifest_is_read_where_all_of_them_stay(lab):
    for _ in range(3):
        lab.append()
    manifests = lab.catalog.services.ports.manifests()
    for each in manifests.list(lab.table.current_snapshot()):
        lab.files.replace(each.manifest_path, b"never read")
    with memory_catalog(files=lab.files, pointer=lab.pointer) as fresh:
        report = fresh.load_table("db.t").expire_snapshots(FUTURE)
    assert (report.files.stopped, report.files.counts) == ("", {FileKind.MANIFEST_LIST: 2})


def test_an_expired_list_that_is_gone_already_does_not_keep_the_rest(lab):
    ids = [lab.append() for _ in range(4)]
    with memory_catalog(files=lab.files, pointer=lab.pointer) as fresh:
        table = fresh.load_table("db.t")
        lab.files.delete(table.snapshot_by_id(ids[1]).manifest_list)
        report = table.expire_snapshots(FUTURE)
    assert report.files.counts[FileKind.MANIFEST_LIST] == 3
    assert lab.present() == lab.reachable()


def test_a_live_file_that_is_spelled_in_another_way_is_kept(lab):
    """A rewrite of the table by another writer may spell its files as it likes."""
    file = lab.data_file()
    lab.table.append([file])
    lab.table.append(
        [replace(file, file_path=file.file_path.replace("file:/", "file:///"))], check_duplicate_files=False
    )
    lab.table.rollback_to_snapshot(lab.table.snapshots()[0].snapshot_id)
    lab.table.delete_files([file])
    picked = lab.table.snapshots()[1]
    lab.table.create_tag("kept", picked.snapshot_id)
    lab.table.expire_snapshots(FUTURE)
    assert file.file_path in lab.present()
