"""The simulation keeps manifests as records: this makes the columns that maintenance reads of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from iceberg_hms.changes.change import Manifests
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.planning import layout
from iceberg_hms.planning.manifest_columns import ManifestColumns

#: What maintenance reads. Nobody scans a table here.
_NAMES: Final = (layout.FILE_PATH, layout.CONTENT, layout.FILE_SIZE)


class RecordedColumns(ManifestColumns):
    """open_manifests: the port of manifests."""

    def __init__(self, open_manifests: Callable[[], Manifests]) -> None:
        self._open_manifests = open_manifests

    def uncached(self) -> ManifestColumns:
        return self

    def read(self, files: Sequence[ManifestFile], stats: frozenset[int] | None = None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - the interface
        for file in files:
            live = [each.data_file for each in self._open_manifests().entries([file]) if each.is_live]
            yield pa.RecordBatch.from_pydict({name: [getattr(each, name) for each in live] for name in _NAMES})
