"""A data file has at most one deletion vector."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.live_vectors import LiveVectors
from iceberg_hms.changes.operations.manifest_filter import delete_file_key
from iceberg_hms.changes.operations.new_delete_files import NewDeleteFiles
from iceberg_hms.errors import RequirementFailed
from tests.changes.operations.stored_tables import StoredTable, data_file, deletion_vector


def test_a_second_vector_is_refused_unless_it_replaces_the_first() -> None:
    stored = StoredTable(3)
    stored.append(100, data_file("a"), data_file("b"))
    new, first = deletion_vector("a", offset=44), deletion_vector("a")
    deletes = NewDeleteFiles([new], snapshot_id=900)
    alone, replacing = LiveVectors(deletes, frozenset()), LiveVectors(deletes, frozenset({delete_file_key(first)}))
    stored.foreign(101, "delete", deletion_vector("b"))
    for each in (alone, replacing):
        each.look_ahead(stored.state(), stored.store.open())
        each.refuse(stored.state(), {}, stored.store.open())
    stored.foreign(102, "delete", first)
    replacing.refuse(stored.state(), {}, stored.store.open())
    with pytest.raises(RequirementFailed, match=r"a\.parquet has a deletion vector already, of snapshot 102") as caught:
        alone.refuse(stored.state(), {}, stored.store.open())
    assert (caught.value.name, caught.value.rests_on) == ("one-deletion-vector", frozenset({102}))
