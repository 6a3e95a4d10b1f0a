"""Delete files that an operation adds must be right by themselves, and fit the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.changes.operations.manifests.new_delete_files import FILES_FIT, NewDeleteFiles
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile
from tests.changes.operations.stored_tables import (
    StoredTable,
    data_file,
    deletion_vector,
    equality_deletes,
    path_of,
    position_deletes,
)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([data_file("a")], "Not a delete file: file:/data/a.parquet"),
        ([position_deletes("p", records=-1)], "negative record count"),
        ([replace(position_deletes("p"), file_path="")], "has no path"),
        ([replace(position_deletes("p"), file_format="CSV")], "'CSV', which is none of PARQUET, ORC, AVRO, PUFFIN"),
        ([equality_deletes("e", equality_ids=())], "equality deletes and names no column"),
        ([position_deletes("p"), position_deletes("p")], "Cannot add a delete file twice"),
        ([replace(deletion_vector("a"), content_offset=None)], "without referenced_data_file, content_offset"),
        ([replace(deletion_vector("a"), referenced_data_file=None)], "without referenced_data_file"),
        ([deletion_vector("a", offset=4), deletion_vector("a", offset=44)], "Two deletion vectors for file:/data/a"),
    ],
)
def test_files_that_are_wrong_by_themselves_are_refused(files: list[DataFile], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        NewDeleteFiles(files, snapshot_id=900)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (equality_deletes("e", spec_id=7), "partition spec 7, which the table lacks"),
        (equality_deletes("e", equality_ids=(1, 9)), "deletes by column 9, which the table lacks"),
        (equality_deletes("e", "info"), r"has partition values \['level'\], its spec has \[\]"),
    ],
)
def test_files_that_do_not_fit_the_table_are_refused(file: DataFile, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        NewDeleteFiles([file], snapshot_id=900).check(StoredTable().metadata)


def test_no_files_fit_every_table() -> None:
    none = NewDeleteFiles([], snapshot_id=900)
    stored = StoredTable(1)
    none.check(stored.metadata)
    assert none.manifests(stored.metadata, stored.store.open()) == ()


def test_manifests_are_written_once() -> None:
    stored = StoredTable()
    files = NewDeleteFiles([equality_deletes("e"), position_deletes("p")], snapshot_id=900)
    first = files.manifests(stored.metadata, stored.store.open())
    assert files.manifests(stored.metadata, stored.store.open()) == first
    assert len(stored.manifest_locations()) == len(first) == 1


def test_vectors_are_known_by_their_data_files() -> None:
    files = NewDeleteFiles([deletion_vector("a", offset=4), deletion_vector("b", offset=44)], snapshot_id=900)
    assert files.vector_keys == {file_key(path_of("a")), file_key(path_of("b"))}


def test_files_that_fitted_the_table_that_their_writer_saw_are_refused_by_name_after_an_upgrade() -> None:
    planned, upgraded = StoredTable(2).metadata, StoredTable(3).metadata
    files = NewDeleteFiles([position_deletes("p")], snapshot_id=900, planned=planned)
    files.check(planned)
    with pytest.raises(RequirementFailed, match="Format version 3 takes deletion vectors") as caught:
        files.check(upgraded)
    assert caught.value.name == FILES_FIT
    never = NewDeleteFiles([deletion_vector("a")], snapshot_id=900, planned=planned)
    with pytest.raises(InvalidInput, match="Format version 2"):
        never.check(planned)
    with pytest.raises(InvalidInput, match="Format version 2"):
        never.check(StoredTable(2).metadata)
