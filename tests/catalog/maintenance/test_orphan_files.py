"""Files that nothing leads to are found and deleted; whatever could be somebody's stays."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from iceberg_hms.catalog.maintenance.orphan_files import OrphanFiles, Prefixes
from iceberg_hms.catalog.maintenance.reachable_files import logged_earlier
from iceberg_hms.catalog.maintenance.reports import FileKind
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.errors import InvalidInput, MetastoreUnavailable, MissingFile, RequirementFailed, StorageError
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.kept_columns import ColumnFolder
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryRow
from tests.catalog.maintenance.lab import FOLDER, FUTURE, SCHEMA, Lab
from tests.format.views.samples import schema, version

DAY = 24 * 3_600_000


@pytest.fixture
def lab():
    made = Lab()
    made.append()
    made.append()
    return made


def orphan(lab, name, days=4.0):
    location = name if name.startswith("file:") else f"{FOLDER}/{name}"
    lab.files.write(location, b"123")
    lab.files.age(location, int(days * DAY))
    return location


def age_all(lab, days=9):
    for each in lab.files.locations():
        lab.files.age(each, days * DAY)


def found(lab, **options):
    return sorted(lab.table.remove_orphan_files(**options).files.locations)


def test_old_files_that_nothing_leads_to_are_deleted(lab):
    age_all(lab)
    before = set(lab.files.locations())
    made = [orphan(lab, name) for name in ("data/x.parquet", "metadata/a/7.metadata.json", "metadata/snap-1.avro")]
    report = lab.table.remove_orphan_files(dry_run=True)
    assert sorted(report.files.locations) == made
    assert set(lab.files.locations()) == before | set(made)
    report = lab.table.remove_orphan_files()
    assert sorted(report.files.locations) == made
    assert report.files.counts == {FileKind.UNKNOWN: 3}
    assert (report.files.bytes, report.listed, report.files.stopped) == (9, len(before) + 3, "")
    assert set(lab.files.locations()) == before
    assert found(lab) == []


def test_a_cache_of_manifests_decides_nothing(tmp_path, monkeypatch):
    lab = Lab(settings={"planning.cache-dir": str(tmp_path)})
    lab.append()
    lab.append()
    age_all(lab)
    assert lab.table.scan().plan().num_rows == 2
    # Whatever is wrong with it.
    kept, of_cache = ColumnFolder.get, []

    def without_rows(self, file):
        of_cache.append(kept(self, file))
        return of_cache[-1].slice(0, 0)

    monkeypatch.setattr(ColumnFolder, "get", without_rows)
    assert lab.table.scan().plan().num_rows == 0
    assert len(of_cache) == 2
    assert found(lab) == []
    gone = f"{FOLDER}/data/1.parquet"
    lab.table.delete_files([gone])
    assert gone in lab.table.expire_snapshots(older_than=FUTURE).files.locations
    assert len(of_cache) == 2


def test_files_younger_than_three_days_stay_unless_a_time_is_named(lab):
    orphan(lab, "data/young", 2.9)
    assert found(lab) == []
    now = lab.catalog.services.ports.runtime.now_ms()
    assert found(lab, older_than=now - DAY - 1) == [f"{FOLDER}/data/young"]


def test_a_time_within_the_last_day_is_refused_unless_forced(lab):
    orphan(lab, "data/young", 0.1)
    now = lab.catalog.services.ports.runtime.now_ms()
    with pytest.raises(InvalidInput, match="younger than 24 hours"):
        lab.table.remove_orphan_files(older_than=now - DAY + 60_000)
    assert found(lab, older_than=now - 60_000, force=True) == [f"{FOLDER}/data/young"]


def test_hidden_files_stay_but_for_those_of_hidden_partition_fields(lab):
    for name in ("data/_x", "data/.x.crc", "_tmp/x", "data/a/.b/c"):
        orphan(lab, name)
    assert found(lab) == []
    with lab.table.update_schema() as schema:
        schema.add_column("_day", "string")
    with lab.table.update_spec() as spec:
        spec.add_field("_day", "identity")
    orphan(lab, "data/_day=1/x")
    orphan(lab, "data/_days=1/x")
    assert found(lab) == [f"{FOLDER}/data/_day=1/x"]


def test_statistics_version_hints_and_the_metadata_log_are_no_orphans(lab):
    hint, statistics = f"{FOLDER}/metadata/version-hint.text", f"{FOLDER}/metadata/x.stats"
    orphan(lab, hint)
    orphan(lab, statistics)
    entry = {"snapshot-id": lab.table.snapshots()[0].snapshot_id, "statistics-path": statistics}
    lab.table.set_statistics({**entry, "file-size-in-bytes": 3, "file-footer-size-in-bytes": 1, "blob-metadata": []})
    lab.table.set_properties({"write.metadata.previous-versions-max": "2"})
    age_all(lab)
    before = lab.files.locations()
    assert found(lab) == []
    assert lab.files.locations() == before


def test_no_file_of_a_table_that_can_become_a_hive_table_again_is_an_orphan(lab):
    made = orphan(lab, "data/x.parquet")
    row = lab.pointer.rows[lab.table.name()]
    lab.pointer.rows[lab.table.name()] = replace(row, parameters={**row.parameters, HIVE_TABLE: "file:/saved"})
    with pytest.raises(InvalidInput, match="migrate --keep"):
        lab.table.remove_orphan_files()
    assert made in lab.files.locations()


def metadata_files(lab):
    return sorted(each for each in lab.files.locations() if each.endswith(".metadata.json"))


def test_metadata_files_that_fell_out_of_the_log_stay_as_far_as_older_logs_lead_to_them(lab):
    """Java keeps them: ReachableFileUtil follows the oldest file of each log."""
    lab.table.set_properties({"write.metadata.previous-versions-max": "2"})
    for _ in range(6):
        lab.append()
    age_all(lab)
    made = orphan(lab, "metadata/00003-of-a-refused-commit.metadata.json")
    all_ = [each for each in metadata_files(lab) if each != made]
    assert len(all_) == 10
    assert len(lab.table.metadata.metadata_log) == 2
    assert found(lab) == [made]
    assert metadata_files(lab) == all_

    # The chain is cut where the whole of a log is gone; one file that is gone or damaged cuts nothing.
    lab.files.delete(all_[5])
    with fresh(lab) as table:
        assert table.remove_orphan_files().files.locations == []
    lab.files.write(all_[5], b"{}")
    lab.files.age(all_[5], 9 * DAY)
    with fresh(lab) as table:
        assert table.remove_orphan_files().files.locations == []
    lab.files.delete(all_[6])
    with fresh(lab) as table:
        assert sorted(table.remove_orphan_files(dry_run=True).files.locations) == all_[:5]


def test_nothing_is_deleted_while_an_older_log_cannot_be_read(lab):
    lab.table.set_properties({"write.metadata.previous-versions-max": "1"})
    lab.append()
    age_all(lab)
    made = orphan(lab, "data/x.parquet")
    oldest = lab.table.metadata.metadata_log[0]["metadata-file"]

    def broken(location):
        if location == oldest:
            raise StorageError("the store is down")
        return lab.catalog.services.coordinator.read_metadata(location)

    services = lab.catalog.services
    orphans = OrphanFiles(
        services.ports,
        services.manifest_columns,
        lambda: services.coordinator.load(lab.table.name()),
        broken,
        print,
    )
    with pytest.raises(StorageError, match="the store is down"):
        orphans.remove(None, lab.runtime.now_ms() - DAY, None, Prefixes(), dry_run=False)
    assert made in lab.files.locations()


def test_logs_that_lead_in_a_circle_end(lab):
    metadata = lab.table.metadata
    logs = {"a": ["b", "a"], "b": ["a", "c"], "c": []}
    versions = {name: logged(metadata, *files) for name, files in logs.items()}
    assert list(logged_earlier(versions["a"], versions.__getitem__)) == ["c"]


def logged(metadata, *files):
    return metadata.replace(**{"metadata-log": [{"timestamp-ms": 1, "metadata-file": each} for each in files]})


@contextmanager
def fresh(lab):
    """The table in a process whose caches are empty."""
    with memory_catalog(files=lab.files, pointer=lab.pointer, runtime=lab.runtime) as catalog:
        yield catalog.load_table("db.t")


def test_files_of_all_snapshots_branches_and_tags_stay(lab):
    lab.append(branch="b")
    lab.append(stage_only=True)
    lab.table.create_tag("t")
    lab.table.rollback_to_snapshot(lab.table.snapshots()[0].snapshot_id)
    age_all(lab)
    assert found(lab) == []


def test_a_file_that_is_committed_while_the_folder_is_listed_stays(lab):
    file = lab.data_file()
    lab.files.age(file.file_path, 5 * DAY)
    listing = lab.files.list_files

    def list_and_commit(folder):
        yield from listing(folder)
        lab.catalog.load_table("db.t").append([file])

    lab.files.list_files = list_and_commit
    assert found(lab) == []
    assert lab.rows(lab.table.refresh().current_snapshot())


def test_a_file_that_is_committed_just_before_its_deletion_stays(lab):
    file, other = lab.data_file(), orphan(lab, "data/other")
    lab.files.age(file.file_path, 5 * DAY)
    load, calls = lab.catalog.services.coordinator.load, []

    def load_and_append():
        calls.append(1)
        if len(calls) == 3:
            lab.catalog.load_table("db.t").append([file])
        return load(lab.table.name())

    read = lab.catalog.services.coordinator.read_metadata
    services = lab.catalog.services
    orphans = OrphanFiles(services.ports, services.manifest_columns, load_and_append, read, lambda *_: None)
    now = services.ports.runtime.now_ms()
    report = orphans.remove(lab.table.metadata.uuid, now - DAY, None, Prefixes(), dry_run=False)
    assert report.files.locations == [other]
    assert lab.rows(lab.table.refresh().current_snapshot())[-1] == file.file_path


def test_a_location_below_the_tables_folder_is_searched_alone(lab):
    orphan(lab, "data/x")
    orphan(lab, "data2/x")
    assert found(lab, location=f"{FOLDER}/data") == [f"{FOLDER}/data/x"]
    assert found(lab, location=f"{FOLDER}/none") == []


@pytest.mark.parametrize(
    "location", ["file:/warehouse", "file:/warehouse/db.db", "file:/other", "s3://b/warehouse/db.db/t", f"{FOLDER}/.."]
)
def test_a_location_that_is_not_the_tables_is_refused(lab, location):
    orphan(lab, "file:/warehouse/db.db/x")
    with pytest.raises(InvalidInput, match="does not lie in the table's own folder"):
        lab.table.remove_orphan_files(location=location)


@pytest.mark.parametrize("place", [f"{FOLDER}/inner", FOLDER, "file:/warehouse/db.db"])
@pytest.mark.parametrize("database", ["db", "other"])
def test_a_folder_that_another_table_shares_is_refused(lab, place, database):
    if database != "db":
        lab.catalog.create_namespace(database)
    elsewhere = lab.catalog.create_table(f"{database}.t2", SCHEMA)
    row = lab.pointer.rows[elsewhere.name()]
    location = f"{place}/metadata/00000-x.metadata.json"
    parameters = {**row.parameters, "metadata_location": location}
    lab.pointer.rows[elsewhere.name()] = replace(row, location=place, parameters=parameters)
    age_all(lab)
    orphan(lab, "data/x")
    with pytest.raises(InvalidInput, match=rf"{database}\.t2"):
        lab.table.remove_orphan_files()
    assert f"{FOLDER}/data/x" in lab.files.locations()


def test_a_table_whose_files_are_shared_is_refused(lab):
    lab.table.set_properties({"gc.enabled": "false"})
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        lab.table.remove_orphan_files()


def test_another_table_of_the_name_is_refused(lab):
    old = lab.catalog.load_table("db.t")
    lab.catalog.drop_table("db.t")
    lab.catalog.create_table("db.t", SCHEMA)
    with pytest.raises(RequirementFailed, match="another table has the name"):
        old.remove_orphan_files()


def test_nothing_is_deleted_if_something_live_is_missing(lab):
    left = orphan(lab, "data/x")
    lab.files.delete(lab.table.snapshots()[0].manifest_list)
    with memory_catalog(files=lab.files, pointer=lab.pointer) as fresh, pytest.raises(MissingFile):
        fresh.load_table("db.t").remove_orphan_files()
    assert left in lab.files.locations()


def test_nothing_is_deleted_if_the_listing_breaks_off(lab):
    left = orphan(lab, "data/x")
    listing = lab.files.list_files

    def broken(folder):
        yield from listing(folder)
        raise StorageError("the store does not answer")

    lab.files.list_files = broken
    with pytest.raises(StorageError):
        lab.table.remove_orphan_files()
    assert left in lab.files.locations()


def test_orphans_that_cannot_be_deleted_are_reported(lab):
    left, gone = orphan(lab, "data/x"), orphan(lab, "data/y")
    lab.files.stubborn.add(left)
    report = lab.table.remove_orphan_files()
    assert (report.files.locations, list(report.files.failed)) == ([gone], [left])


@pytest.mark.parametrize(
    ("one", "other", "options", "same"),
    [
        ("s3://b/x", "s3a://b/x", {}, True),
        ("hdfs://nn1/x", "/x", {}, True),
        ("hdfs://nn1/x", "hdfs:/x", {}, True),
        ("hdfs://NN1/x", "HDFS://nn1/x", {}, True),
        ("hdfs://nn1/x", "hdfs://nn2/x", {}, False),
        ("hdfs://nn1/x", "hdfs://nn2/x", {"equal_authorities": {"nn1, nn2": "cluster"}}, True),
        ("hdfs://nn1/x", "viewfs://nn1/x", {}, False),
        ("hdfs://nn1/x", "viewfs://nn1/x", {"equal_schemes": {"viewfs": "hdfs"}}, True),
    ],
)
def test_prefixes_are_equal_as_in_java(one, other, options, same):
    equal = Prefixes(**options).comparer()
    assert equal(one, other) is equal(other, one) is same


def mismatched(lab):
    """A file whose path the table names on another store."""
    file = lab.data_file()
    lab.files.age(file.file_path, 5 * DAY)
    lab.table.append([replace(file, file_path=file.file_path.replace("file:/", "hdfs://nn/"))])
    return file.file_path


def test_a_file_that_the_table_names_on_another_store_stops_the_removal(lab):
    location, other = mismatched(lab), orphan(lab, "data/x")
    with pytest.raises(InvalidInput, match=rf"names 1 files with another scheme or authority .*{location}"):
        lab.table.remove_orphan_files()
    assert {location, other} <= set(lab.files.locations())


def test_a_mismatch_is_kept_deleted_or_no_mismatch_as_the_caller_says(lab):
    location, other = mismatched(lab), orphan(lab, "data/x")
    report = lab.table.remove_orphan_files(prefix_mismatch="ignore")
    assert (report.files.locations, report.mismatched) == ([other], (location,))
    assert lab.table.remove_orphan_files(equal_schemes={"hdfs": "file"}).mismatched == ()
    assert found(lab, prefix_mismatch="delete") == [location]


def test_a_file_that_is_named_in_both_ways_is_live(lab):
    location = mismatched(lab)
    lab.table.append([replace(lab.data_file(), file_path=location)], check_duplicate_files=False)
    assert found(lab, prefix_mismatch="delete") == []
    assert location in lab.files.locations()


def test_an_unknown_way_to_treat_mismatches_is_refused(lab):
    with pytest.raises(InvalidInput, match="prefix_mismatch must be"):
        lab.table.remove_orphan_files(prefix_mismatch="remove")


def on_disk(root: Path):
    """A catalog of files on a disk."""
    return memory_catalog(files=RoutedFiles(fsync=False), warehouse=f"file:{root}")


def make_old(root: Path) -> None:
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)


def test_links_are_neither_followed_nor_deleted(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    with on_disk(tmp_path / "warehouse") as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        folder = Path(table.metadata.location.removeprefix("file:"))
        (folder / "linked").symlink_to(outside)
        (folder / "one").symlink_to(outside / "precious")
        (folder / "orphan").touch()
        make_old(tmp_path)
        assert table.remove_orphan_files().files.locations == [f"file://{folder}/orphan"]
    assert (outside / "precious").exists()
    assert (folder / "one").is_symlink()


def test_a_table_that_is_named_through_a_link_has_no_orphans(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with on_disk(tmp_path / "link") as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        folder = Path(table.metadata.location.removeprefix("file:"))
        (folder / "data").mkdir()
        (folder / "data" / "x").touch()
        real = str(folder).replace("/link/", "/real/")
        table.append([DataFile(f"file:{real}/data/x", "PARQUET", 1, 10)])
        make_old(tmp_path)
        assert table.remove_orphan_files().files.locations == []
        assert table.remove_orphan_files(location=f"{real}").files.locations == []


def test_what_a_named_link_leads_to_stays(tmp_path):
    with on_disk(tmp_path / "warehouse") as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        data = Path(table.metadata.location.removeprefix("file:")) / "data"
        data.mkdir()
        for name in ("real", "chained", "orphan"):
            (data / name).touch()
        (data / "one").symlink_to("real")
        (data / "two").symlink_to("three")
        (data / "three").symlink_to(data / "chained")
        table.append([DataFile(f"file:{data}/{name}", "PARQUET", 1, 10) for name in ("one", "two")])
        make_old(tmp_path)
        assert table.remove_orphan_files().files.locations == [f"file://{data}/orphan"]


ODD_NAMES = ["a b", "a%20b", "a+b", "ä", "a\u0308", "p=1%2F2", "a#b", "a?b", "a\nb", "a:b", "a\\b", "a;b", "\udcff"]


@pytest.mark.parametrize("prefix", ["file:", "file://", "", "file://localhost", "FILE:"])
def test_removal_keeps_odd_names_in_every_spelling_of_their_folder(tmp_path, prefix):
    with on_disk(tmp_path / "ware house%20") as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        data = Path(table.metadata.location.removeprefix("file:")) / "data"
        data.mkdir()
        for name in ODD_NAMES:
            (data / name).touch()
        # What decodes to a live name, or has another normal form, is another file.
        live = ["a b", "ä", "p=1%2F2"]
        table.append([DataFile(f"{prefix}{data}/{name}", "PARQUET", 1, 10) for name in live])
        make_old(tmp_path)
        table.remove_orphan_files()
        assert sorted(each.name for each in data.iterdir()) == sorted(live)


@pytest.mark.parametrize("namespace", ["db", "other"])
@pytest.mark.parametrize("inner", ["", "/views/v", "/data"])
def test_a_folder_that_a_view_shares_is_refused(lab, namespace, inner):
    if namespace != "db":
        lab.catalog.create_namespace(namespace)
    # As another engine makes it: this package refuses a view such a folder.
    metadata = new_view_metadata(str(UUID(int=7)), f"{FOLDER}{inner}", {}, schema(), version(1, "select 1"), now_ms=1)
    view = lab.catalog.services.views.create(TableName(namespace, "v"), metadata, owner=None)
    made = [orphan(lab, "data/x.parquet"), orphan(lab, "data/y.parquet")]
    age_all(lab)
    with pytest.raises(InvalidInput, match=rf"{namespace}\.v has the folder {FOLDER}{inner}"):
        found(lab)
    assert {*made, view.metadata_location} <= set(lab.files.locations())
    lab.catalog.views.drop(f"{namespace}.v")
    assert found(lab) == sorted([*made, view.metadata_location])


@pytest.mark.parametrize("place", [f"{FOLDER}/data", FOLDER, "file:/warehouse/db.db", "file:/"])
@pytest.mark.parametrize("database", ["db", "elsewhere"])
def test_a_folder_that_a_hive_table_shares_is_refused(lab, place, database):
    """Hive's DDL asks nobody, so its tables may be anywhere, and at any time."""
    lab.pointer.metastore.databases["elsewhere"] = {}
    lab.pointer.add_hive_table(TableName(database, "hive"), place)
    theirs = orphan(lab, "data/000000_0")
    with pytest.raises(InvalidInput, match=rf"{database}\.hive has the folder {place}"):
        lab.table.remove_orphan_files()
    assert theirs in lab.files.locations()
    lab.pointer.rows[TableName(database, "hive")] = MemoryRow({}, location="file:/warehouse/db.db/t2")
    assert found(lab) == [theirs]


def test_nothing_is_deleted_where_the_rows_of_a_database_cannot_be_read(lab, monkeypatch):
    def slow(*_, **__):
        raise MetastoreUnavailable("too many tables")

    monkeypatch.setattr(lab.pointer, "folders_in", slow)
    left = orphan(lab, "data/x")
    with pytest.raises(MetastoreUnavailable):
        lab.table.remove_orphan_files()
    assert left in lab.files.locations()
