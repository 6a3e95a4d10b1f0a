"""A migrated table over files that another row of the metastore names, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.errors import InvalidInput, MetastoreUnavailable
from tests.coordinator.harness import NAME
from tests.coordinator.operations.test_kind_changes import FOLDER, Lake

ELSEWHERE = "s3://b/elsewhere"
ITS_PARTITION = "s3://b/far/p=9"


@pytest.mark.parametrize("namespace", ["db", "other"])
@pytest.mark.parametrize("is_partition", [False, True])
@pytest.mark.parametrize(
    ("theirs", "refused"),
    [
        (FOLDER, True),
        (f"{FOLDER}/p=0", True),
        (f"{FOLDER}/deep/er", True),
        ("file:/wh/db", True),
        ("file:/", True),
        (ITS_PARTITION, True),
        (f"{ITS_PARTITION}/x", True),
        ("s3://b/far", True),
        (f"{FOLDER}2", False),
        (f"{ITS_PARTITION}9", False),
        (ELSEWHERE, False),
    ],
)
def test_it_stays_undoable_while_another_row_names_a_folder_of_its_files(
    namespace: str, is_partition: bool, theirs: str, refused: bool
) -> None:
    lake = Lake()
    lake.pointer.metastore.databases["other"] = {}
    folders = (*lake.pointer.rows[NAME].folders, ITS_PARTITION)
    lake.pointer.rows[NAME] = replace(lake.pointer.rows[NAME], folders=folders)
    lake.migrate(partitions=lake.hive.partition_names(lake.hive.load_row(NAME)))
    name = TableName(namespace, "neighbour")
    lake.hive.add(name, ELSEWHERE if is_partition else theirs, partitions=[ELSEWHERE, theirs] if is_partition else ())
    before = lake.pointer.rows[NAME]
    if not refused:
        lake.keep()
        assert HIVE_TABLE not in lake.pointer.rows[NAME].parameters
        return
    with pytest.raises(InvalidInput, match=f"{name} has the folder {theirs}, where files of db.t are"):
        lake.keep()
    assert lake.pointer.rows[NAME] == before
    del lake.pointer.rows[name]
    lake.keep()
    assert HIVE_TABLE not in lake.pointer.rows[NAME].parameters


@pytest.mark.parametrize("method", ["find_by_folder", "folders_in", "partition_folders"])
def test_it_stays_undoable_if_not_all_rows_could_be_read(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    lake = Lake()
    lake.migrate()

    def slow(*_: object, **__: object) -> None:
        raise MetastoreUnavailable("no time", next_step="")

    monkeypatch.setattr(lake.pointer, method, slow)
    with pytest.raises(MetastoreUnavailable):
        lake.keep()
    assert HIVE_TABLE in lake.pointer.rows[NAME].parameters
