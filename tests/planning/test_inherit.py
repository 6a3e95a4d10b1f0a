"""Inheritance in columns: the same rule as for entries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.manifests.manifest import DataFile, ManifestEntry, inherit
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestFile
from iceberg_hms.planning import layout
from iceberg_hms.planning.inherit import inherited

NUMBERS = st.none() | st.integers(0, 50)
ENTRIES = st.builds(
    ManifestEntry,
    status=st.sampled_from([0, 1]),
    data_file=st.builds(
        DataFile,
        st.just("file:/a"),
        st.just("PARQUET"),
        record_count=st.integers(0, 9),
        file_size_in_bytes=st.just(1),
        content=st.integers(0, 2),
        first_row_id=NUMBERS,
    ),
    snapshot_id=NUMBERS,
    sequence_number=NUMBERS,
    file_sequence_number=NUMBERS,
)
#: The columns that inheritance changes, and where entries have them.
OF_ENTRY = (layout.SNAPSHOT_ID, layout.SEQUENCE_NUMBER, layout.FILE_SEQUENCE_NUMBER)


def batch_of(entries: list[ManifestEntry]) -> pa.RecordBatch:
    values: dict[str, list[Any]] = {
        layout.STATUS: [each.status for each in entries],
        layout.CONTENT: [each.data_file.content for each in entries],
        layout.FILE_PATH: [each.data_file.file_path for each in entries],
        layout.RECORD_COUNT: [each.data_file.record_count for each in entries],
        layout.FIRST_ROW_ID: [each.data_file.first_row_id for each in entries],
        **{name: [getattr(each, name) for each in entries] for name in OF_ENTRY},
    }
    # A column without values is absent.
    there = {name: column for name, column in values.items() if any(each is not None for each in column)}
    there |= {name: values[name] for name in (layout.STATUS, layout.CONTENT, layout.RECORD_COUNT)}
    return pa.RecordBatch.from_arrays(
        [pa.array(column, layout.TYPES[name]) for name, column in there.items()], list(there)
    )


def line(**changes: Any) -> ManifestFile:
    return ManifestFile("file:/m.avro", 1, 0, 77, **changes)


@given(
    entries=st.lists(ENTRIES, max_size=8),
    sequence_number=st.sampled_from([UNASSIGNED, 0, 5]),
    first_row_id=st.none() | st.integers(0, 100),
)
def test_columns_inherit_what_entries_do(
    entries: list[ManifestEntry], sequence_number: int, first_row_id: int | None
) -> None:
    file = line(sequence_number=sequence_number, first_row_id=first_row_id)
    found = inherited(batch_of(entries), file)
    expected = list(inherit(entries, file))
    for name in OF_ENTRY:
        assert column(found, name, len(entries)) == [getattr(each, name) for each in expected], name
    assert column(found, layout.FIRST_ROW_ID, len(entries)) == [each.data_file.first_row_id for each in expected]


def column(batch: pa.RecordBatch, name: str, count: int) -> list[Any]:
    values = layout.column(batch, name)
    if values is None:
        return [None] * count
    assert values.type == layout.TYPES[name]
    found: list[Any] = values.to_pylist()
    return found


def test_other_columns_stay() -> None:
    entry = ManifestEntry(1, DataFile("file:/a", "PARQUET", 3, 1), None, None, None)
    found = inherited(batch_of([entry]), line(sequence_number=5))
    assert found.column(layout.FILE_PATH).to_pylist() == ["file:/a"]


def test_row_ids_beyond_64_bits_are_corrupt() -> None:
    entry = ManifestEntry(1, DataFile("file:/a", "PARQUET", 2**62, 1), None, None, None)
    with pytest.raises(CorruptFile, match="row ids"):
        inherited(batch_of([entry] * 3), line(sequence_number=5, first_row_id=0))
