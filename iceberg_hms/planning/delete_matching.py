"""Which delete files apply to the data files of a decoded manifest, by the index that the operations use.

delete files as columns --of a partition or a file of the batch--> entries --DeleteIndex--> those that apply
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from iceberg_hms.changes.operations.manifests.delete_index import DeleteIndex
from iceberg_hms.format.manifests.manifest import DataFile, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import HeldMemory
from iceberg_hms.planning import layout
from iceberg_hms.planning.entries import files_of
from iceberg_hms.planning.partition_columns import named_partition, partition_fields, partitions_of
from iceberg_hms.planning.waiting_deletes import WaitingDeletes, keys_of, tails_of


class DeleteMatching:
    """The live delete files of a snapshot, matched with data files.

    batches, memory: as for `WaitingDeletes`. files: the entries of those that apply to a data file so far.
    stats: ids of the columns whose statistics rule out equality deletes.
    """

    def __init__(
        self, batches: Iterable[tuple[int, pa.RecordBatch]], metadata: TableMetadata, memory: HeldMemory
    ) -> None:
        self.files: list[ManifestEntry] = []
        self._waiting = WaitingDeletes(batches, metadata, memory)
        self.stats = self._waiting.equality_ids
        #: Of all that were taken.
        self._index = DeleteIndex((), metadata)
        self._metadata = metadata
        self._positions: dict[int, int] = {}

    def applying_to(self, batch: pa.RecordBatch, spec_id: int) -> pa.ListArray:
        """For each data file the positions in `files` of what may delete its rows.

        batch: as `planning.layout`, with inherited sequence numbers. spec_id: of its files. Raises ResourceExhausted.
        """
        if not self._waiting or not batch.num_rows:
            nowhere = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows + 1)
            return pa.ListArray.from_arrays(nowhere, pa.array([], pa.int32()))
        found: list[list[int]] = [[]] * batch.num_rows
        for row, file, number in _data_files(batch, self._candidates(batch, spec_id), spec_id, self.stats):
            found[row] = [self._position(each) for each in self._index.applying_to(file, number)]
        return pa.array(found, pa.list_(pa.int32()))

    def _candidates(self, batch: pa.RecordBatch, spec_id: int) -> dict[int, Mapping[str, Any]]:
        """The rows that a delete file may apply to, with their partitions. The index has all that may."""
        fields = partition_fields(self._metadata, spec_id)
        tuples, places = partitions_of(batch, fields)
        partitions = [named_partition(fields, each) for each in tuples]
        keys, tails = keys_of(partitions, spec_id), tails_of(batch.column(layout.FILE_PATH))
        for entry in self._waiting.taken({*keys, *tails}):
            self._index.add(entry)
        is_any = self._index.has_global
        wanted = [is_any or key in self._waiting for key in keys]
        return {
            row: partitions[each]
            for row, (each, tail) in enumerate(zip(places, tails, strict=True))
            if wanted[each] or tail in self._waiting
        }

    def _position(self, entry: ManifestEntry) -> int:
        position = self._positions.get(id(entry))
        if position is None:
            position = self._positions[id(entry)] = len(self.files)
            self.files.append(entry)
        return position


def _data_files(
    batch: pa.RecordBatch, rows: Mapping[int, Mapping[str, Any]], spec_id: int, stats: frozenset[int]
) -> Iterator[tuple[int, DataFile, int]]:
    """Some rows of a batch, each with what the index reads of its data file, and its data sequence number. rows: with
    their partitions."""
    if not rows:
        return
    wanted = {layout.FILE_PATH, layout.SEQUENCE_NUMBER}
    wanted |= {layout.statistic(name, id_) for name in layout.STATISTICS for id_ in stats}
    read = batch.select([name for name in batch.schema.names if name in wanted])
    chosen = read.take(pa.array(list(rows), pa.int64()))
    files, numbers = files_of(chosen, [layout.FILE_PATH]), layout.values_of(chosen, layout.SEQUENCE_NUMBER)
    for (row, partition), file, number in zip(rows.items(), files, numbers, strict=True):
        data_file = DataFile(
            **file, file_format="", record_count=0, file_size_in_bytes=0, partition=partition, spec_id=spec_id
        )
        yield row, data_file, number or 0
