from dataclasses import replace

import pytest

from iceberg_hms.catalog.maintenance.deletion import BATCH, Deletion
from iceberg_hms.catalog.maintenance.reachable_files import ReachableFiles
from iceberg_hms.catalog.maintenance.reports import DeletedFiles, FileKind, FoundFile
from iceberg_hms.coordinator.files.own_files import OwnFiles
from iceberg_hms.errors import NoSuchTable
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
        ports = lab.catalog.services.ports
        self.told = []
        start = lab.catalog.services.coordinator.load(lab.table.name)
        reached = ReachableFiles(ports, lambda *_: None)
        self.deletion = Deletion(
            ports, start, reached, self.load, lambda _, number: self.told.append(number), "orphans"
        )
        self.found = [FoundFile(lab.data_file().file_path, FileKind.DATA, 10) for _ in range(count)]
        self.deletion.add(self.found)
        self.result = DeletedFiles()

    def load(self):
        found = self.lab.catalog.services.coordinator.load(self.lab.table.name)
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
