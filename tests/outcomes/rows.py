"""The rows of a table, by a model in which a data file is a set of row ids and a delete file says which it deletes.

`live_rows` follows the table's real manifests and the specification's rules of scan planning; it decodes no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.snapshot import Snapshot

#: Field ids of the table's columns.
ID, DAY, LEVEL, COUNT = 1, 2, 3, 4
FOLDER: Final = "file:/data/"


@dataclass
class Contents:
    """What is in the files. rows: a data file's name -> the ids of its rows. deletes: a delete file's name -> the ids
    of the rows that it deletes, of the data file that it references or by equality."""

    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    deletes: dict[str, frozenset[int]] = field(default_factory=dict)

    def data_file(self, name: str, day: int, *ids: int) -> DataFile:
        """A file of one partition. Its column count has the value of its day."""
        assert self.rows.setdefault(name, ids) == ids
        values = {ID: (min(ids), max(ids)), DAY: (day, day), COUNT: (day, day)}
        sizes = {ID: 8, DAY: 4, COUNT: 4}
        return DataFile(
            f"{FOLDER}{name}.parquet",
            "PARQUET",
            len(ids),
            100 * len(ids),
            {"day": day},
            value_counts=dict.fromkeys(values, len(ids)),
            null_value_counts=dict.fromkeys(values, 0),
            lower_bounds={key: _bound(low, sizes[key]) for key, (low, _) in values.items()},
            upper_bounds={key: _bound(high, sizes[key]) for key, (_, high) in values.items()},
        )

    def moved_file(self, name: str, day: int, *ids: int) -> DataFile:
        """A file of rows that the table has already, which carries their row ids."""
        file = self.data_file(name, day, *ids)
        return replace(file, null_value_counts={**(file.null_value_counts or {}), **dict.fromkeys(LINEAGE_COLUMNS, 0)})

    def position_deletes(self, name: str, day: int, of: str, *ids: int) -> DataFile:
        """Deletes rows of the data file `of`."""
        return replace(
            self._delete_file(name, day, *ids),
            content=FileContent.POSITION_DELETES,
            referenced_data_file=f"{FOLDER}{of}.parquet",
        )

    def equality_deletes(self, name: str, day: int, *ids: int, bounded: bool = False) -> DataFile:
        """Deletes rows of all earlier files of the partition, by their ids. bounded: whether the record has their
        bounds, by which the deletes apply to fewer files."""
        file = self._delete_file(name, day, *ids)
        file = replace(file, content=FileContent.EQUALITY_DELETES, equality_ids=(ID,))
        if not bounded:
            return file
        return replace(
            file,
            value_counts={ID: len(ids)},
            null_value_counts={ID: 0},
            lower_bounds={ID: _bound(min(ids), 8)},
            upper_bounds={ID: _bound(max(ids), 8)},
        )

    def deletion_vector(self, name: str, day: int, of: str, *ids: int) -> DataFile:
        """Deletes rows of the data file `of`."""
        file = self.position_deletes(name, day, of, *ids)
        path = file.file_path.replace(".parquet", ".puffin")
        return replace(file, file_path=path, file_format="PUFFIN", content_offset=4, content_size_in_bytes=40)

    def _delete_file(self, name: str, day: int, *ids: int) -> DataFile:
        assert self.deletes.setdefault(name, frozenset(ids)) == frozenset(ids)
        return DataFile(f"{FOLDER}{name}.parquet", "PARQUET", len(ids), 100 * len(ids), {"day": day})


def _bound(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little", signed=True)


def live_rows(catalog: Catalog, table: Table, contents: Contents) -> dict[str, tuple[int, ...]]:
    """Name of a ref -> the ids of its rows, in order; an id that is there twice counts twice."""
    names = table.metadata.raw_refs
    snapshots = {name: table.metadata.snapshot_by_id(table.metadata.raw_refs[name]["snapshot-id"]) for name in names}
    return {name: rows_of(catalog, snapshot, contents) for name, snapshot in snapshots.items() if snapshot is not None}


def live_entries(catalog: Catalog, snapshot: Snapshot) -> list[ManifestEntry]:
    """Of data files and delete files."""
    manifests = catalog.manifests()
    return list(manifests.entries(manifests.list(snapshot), lambda entry: entry.is_live))


def rows_of(catalog: Catalog, snapshot: Snapshot, contents: Contents) -> tuple[int, ...]:
    """The ids of a snapshot's rows, in order."""
    found: list[int] = []
    for data, deletes in planned(catalog, snapshot):
        gone = set[int]().union(*(contents.deletes[name_of(each)] for each in deletes))
        found += [row for row in contents.rows[name_of(data)] if row not in gone]
    return tuple(sorted(found))


def planned(catalog: Catalog, snapshot: Snapshot) -> Iterator[tuple[ManifestEntry, list[ManifestEntry]]]:
    """The live data files of a snapshot, each with the delete files that apply to it."""
    entries = live_entries(catalog, snapshot)
    deletes = [entry for entry in entries if entry.data_file.content != FileContent.DATA]
    for entry in entries:
        if entry.data_file.content == FileContent.DATA:
            yield entry, [each for each in deletes if _applies(each, entry)]


def _applies(delete: ManifestEntry, data: ManifestEntry) -> bool:
    """Spec: Scan Planning."""
    of, to = delete.data_file, data.data_file
    if (of.spec_id, dict(of.partition)) != (to.spec_id, dict(to.partition)):
        return False
    was, is_ = data.sequence_number or 0, delete.sequence_number or 0
    if of.content == FileContent.EQUALITY_DELETES:
        return was < is_
    return was <= is_ and of.referenced_data_file in (None, to.file_path)


def name_of(entry: ManifestEntry) -> str:
    """The name of an entry's file."""
    return entry.data_file.file_path.removeprefix(FOLDER).rpartition(".")[0]
