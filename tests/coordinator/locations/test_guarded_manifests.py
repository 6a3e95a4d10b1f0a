"""A client's change reads and writes nothing outside: not a list, not a manifest that a list names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.coordinator.locations.guarded_manifests import GuardedManifests
from iceberg_hms.coordinator.locations.location_policy import LocationPolicy
from iceberg_hms.errors import LocationNotAllowed
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_manifests import MemoryManifestStore


class Opened(Exception):
    """A call came through."""


class Inner:
    """Manifests of which every call raises Opened."""

    def __init__(self) -> None:
        store = MemoryManifestStore().open()
        self.flush, self.discard = store.flush, store.discard

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: object) -> None:
            raise Opened(name)

        return call


def calls(folder: str) -> dict[str, Callable[[GuardedManifests], object]]:
    """Every call of the port that opens something, on files in a folder."""
    listed = Snapshot({"snapshot-id": 1, "manifest-list": f"{folder}/l.avro"})
    inline = Snapshot({"snapshot-id": 1, "manifests": [f"{folder}/m.avro"]})
    files = [ManifestFile(f"{folder}/m.avro", 1, 0, 1)]
    metadata: Any = TableMetadata({"location": "file:/warehouse/t", "properties": {"write.metadata.path": folder}})
    return {
        "list": lambda manifests: manifests.list(listed),
        "list inline": lambda manifests: manifests.list(inline),
        "added": lambda manifests: manifests.added(listed),
        "entries": lambda manifests: manifests.entries(files),
        "candidates": lambda manifests: manifests.candidates(files, ["x"]),
        "naming": lambda manifests: manifests.naming(files, ["x"]),
        "write": lambda manifests: manifests.write(metadata, None, None, 1, []),  # type: ignore[arg-type]
        "stage_list": lambda manifests: manifests.stage_list(metadata, listed, []),
    }


@pytest.mark.parametrize("name", calls(""))
def test_no_call_opens_what_is_outside(name: str) -> None:
    policy = LocationPolicy(MemoryFiles(), warehouse="file:/warehouse")
    guarded = GuardedManifests(Inner(), policy.guard())  # type: ignore[arg-type]
    with pytest.raises(Opened):
        calls("file:/warehouse/t/metadata")[name](guarded)
    with pytest.raises(LocationNotAllowed):
        calls("file:/etc")[name](guarded)
