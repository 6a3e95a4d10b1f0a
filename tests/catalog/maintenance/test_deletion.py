from dataclasses import replace

import pytest

from iceberg_hms.catalog.maintenance.deletion import BATCH, Deletion, FileIdentity
from iceberg_hms.catalog.maintenance.reachable_files import ReachableFiles
from iceberg_hms.catalog.maintenance.reports import DeletedFiles, FileKind, FoundFile
from iceberg_hms.coordinator.files.own_files import OwnFiles
from iceberg_hms.errors import NoSuchTable, StorageError
from iceberg_hms.storage.files import RoutedFiles
from tests.catalog.maintenance.lab import FOLDER, Lab


@pytest.fixture
def lab():
    made = Lab()
    made.append()
    return made


class Scene:
    """loads: functions that the next looks at the table call before they look."""

    def __init__(self, lab, count=3):
        self.lab, self.loads = lab, []
        services = lab.catalog.services
        self.told = []
        start = services.coordinator.load(lab.table.name())
        reached = ReachableFiles(services.ports, services.manifest_columns, lambda *_: None)
        self.deletion = Deletion(
            services.ports, start, reached, self.load, lambda _, number: self.told.append(number), "orphans"
        )
        self.found = [FoundFile(lab.data_file().file_path, FileKind.DATA, 10) for _ in range(count)]
        self.deletion.add(self.found)
        self.result = DeletedFiles()

    def load(self):
        found = self.lab.catalog.services.coordinator.load(self.lab.table.name())
        return self.loads.pop(0)(found) or found if self.loads else found


def test_files_are_deleted_in_order_but_for_those_that_are_kept(lab):
    scene = Scene(lab)
    scene.deletion.keep([scene.found[1].location.replace("file:/", "file:///")])
    scene.deletion.delete(scene.result)
    assert scene.result.deleted == [scene.found[0], scene.found[2]]
    assert scene.found[1].location in lab.present()
    assert lab.reachable() <= lab.present()


def test_foreign_files_are_kept_and_listed(lab):
    scene = Scene(lab)
    scene.deletion.add([FoundFile("file:/x/y", FileKind.DATA)])
    scene.deletion.keep_foreign(OwnFiles(FOLDER, lab.files.real_path), scene.result)
    assert scene.result.kept == ["file:/x/y"]
    assert len(scene.deletion) == 3


def test_the_table_is_looked_at_before_each_batch(lab):
    scene = Scene(lab, BATCH + 2)
    late = scene.found[-1]
    file = replace(lab.data_file(), file_path=late.location)
    scene.loads = [lambda _: None, lambda _: lab.table.append([file]) and scene.load()]
    scene.deletion.delete(scene.result)
    assert scene.told == [BATCH, BATCH + 1]
    assert late.location in lab.present()
    assert late not in scene.result.deleted


@pytest.mark.parametrize("change", ["uuid", "folder"])
def test_nothing_more_is_deleted_once_the_table_is_another_one(lab, change):
    scene = Scene(lab)

    def other(found):
        pointer = replace(found.pointer, metadata_location=f"{FOLDER}/metadata/9.metadata.json")
        if change == "uuid":
            return replace(found, pointer=pointer, metadata=found.metadata.replace(table_uuid="another"))
        return replace(found, pointer=replace(pointer, location="file:/elsewhere"))

    scene.loads = [other]
    scene.deletion.delete(scene.result)
    assert scene.result.deleted == []
    assert scene.result.stopped in ("another table has the name db.t now", "the table moved to file:/elsewhere")


def test_nothing_more_is_deleted_once_the_table_is_dropped(lab):
    scene = Scene(lab)

    def gone(_found):
        raise NoSuchTable("db.t")

    scene.loads = [gone]
    scene.deletion.delete(scene.result)
    assert scene.result.deleted == []
    assert "db.t" in scene.result.stopped
    assert {each.location for each in scene.found} <= lab.present()


def test_reading_stops_when_nothing_is_left_to_keep(lab):
    scene = Scene(lab, 1)

    def live():
        yield scene.found[0].location
        raise AssertionError("read on")

    scene.deletion.keep(live())
    scene.deletion.keep(live())
    assert scene.deletion.files() == []


FILES = RoutedFiles()


@pytest.mark.parametrize(
    "other",
    ["/a/b/c", "file:/a/b/c", "file:///a/b/c", "hdfs://nn/a/b/c", "viewfs:/a/b/c", "file:/a//b/c", "file:/a/./b/c"],
)
def test_spellings_of_one_path_have_one_key(other):
    identity = FileIdentity(FILES.real_path, FILES.is_link)
    assert identity.key(other) == identity.key("file:/a/b/c")
    assert identity.key("file:/a/b/d") != identity.key("file:/a/b/c")


def test_a_folder_that_is_a_link_is_the_folder_that_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    identity = FileIdentity(FILES.real_path, FILES.is_link)
    assert identity.key(f"file:{tmp_path}/link/x") == identity.key(f"file:{tmp_path}/real/x")


def test_a_link_has_the_key_of_the_file_behind_too(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("chained")
    (tmp_path / "chained").symlink_to("real")
    identity = FileIdentity(FILES.real_path, FILES.is_link)
    keys = {name: identity.key(f"file:{tmp_path}/{name}") for name in ("real", "link", "missing")}
    assert identity.keys(f"file:{tmp_path}/link") == (keys["link"], keys["real"])
    assert identity.keys(f"file:{tmp_path}/real") == (keys["real"],)
    assert identity.keys(f"file:{tmp_path}/missing") == (keys["missing"],)
    assert identity.keys("no location") == ("no location",)


@pytest.mark.parametrize("odd", ["", "x", "relative/x", "file:/a/..", "file:/a/\0/x", "x:y", "file://host/a"])
def test_what_names_no_file_is_its_own_key(odd):
    assert FileIdentity(FILES.real_path, FILES.is_link).key(odd) == odd


def test_a_folder_is_resolved_once():
    asked = []
    identity = FileIdentity(lambda folder: asked.append(folder) or folder, FILES.is_link)
    assert len({identity.key(f"file:/a/{number}") for number in range(5)}) == 5
    assert asked == ["file:/a"]


def test_a_folder_that_cannot_be_resolved_is_as_it_is_spelled():
    def real_path(folder):
        raise StorageError("a loop of links")

    assert FileIdentity(real_path, FILES.is_link).key("file:/a/x") == "file:/a/x"
