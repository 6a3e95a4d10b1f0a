"""DataFusion as a reader of manifests: what it is given, and when it is not asked."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from iceberg_hms.errors import FileBeyondLimit, ResourceExhausted
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, FileBounds, Limit
from iceberg_hms.format.manifests.manifest import StoredManifest, open_manifest
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.planning import arrow_avro
from iceberg_hms.planning.flat_columns import partition_columns
from tests.forking import said_by
from tests.planning.sample_manifests import manifest_bytes


@pytest.fixture(autouse=True)
def _datafusion_is_loaded() -> None:
    importlib.import_module("datafusion")


LINE = ManifestFile("m.avro", 1, 3, 77)


def record(path: str = "file:/a") -> dict[str, Any]:
    file = {"file_path": path, "file_format": "PARQUET", "partition": {}, "record_count": 1, "file_size_in_bytes": 1}
    return {"status": 1, "data_file": {"content": 0, **file}}


def opened(count: int = 100, path: str = "file:/a", bounds: FileBounds = DEFAULT_BOUNDS) -> StoredManifest:
    return open_manifest(manifest_bytes(2, [], [record(path)] * count), "m.avro", LINE, bounds)


def read(stored: StoredManifest, admit: Any = lambda _size: None) -> Any:
    return arrow_avro.read(stored, partition_columns(stored), admit)


def test_memory_is_asked_for_before_it_is_taken() -> None:
    asked: list[int] = []
    assert read(opened(1_000), asked.append) is not None
    assert asked == sorted(asked)
    assert asked[0] < asked[-1]

    def refuse(size: int) -> None:
        raise ResourceExhausted(f"no {size} bytes")

    with pytest.raises(ResourceExhausted):
        read(opened(), refuse)


def test_blocks_that_may_have_too_large_an_entry_are_left_to_our_reader() -> None:
    values = {name: getattr(DEFAULT_BOUNDS, name) for name in DEFAULT_BOUNDS.__dataclass_fields__}
    bounds = FileBounds(**{**values, "record_bytes": Limit("storage.max-manifest-record-bytes", 1_000)})
    assert read(opened(10, bounds=bounds)) is not None
    assert read(opened(100, bounds=bounds)) is None


def test_what_inflates_too_far_is_refused() -> None:
    values = {name: getattr(DEFAULT_BOUNDS, name) for name in DEFAULT_BOUNDS.__dataclass_fields__}
    bounds = FileBounds(**{**values, "inflate_ratio": Limit("storage.max-inflate-ratio", 2)})
    stored = opened(2_000, "file:/" + "a" * 10_000, bounds)
    with pytest.raises(FileBeyondLimit, match="inflate"):
        read(stored)


def test_without_datafusion_our_reader_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datafusion", None)
    assert read(opened()) is None


def test_a_temporary_file_serves_where_there_are_no_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create")
    assert read(opened())["file_path"].to_pylist() == ["file:/a"] * 100


LITTLE = """
import sys

from tests.planning.test_arrow_avro import opened, read

for count in (4_000, 5_000, 2_000, 100):
    print(read(opened(count)) is not None, "datafusion" in sys.modules)
"""


def test_datafusion_is_loaded_when_there_is_much_to_read() -> None:
    assert said_by(LITTLE).split("\n") == ["False False", "False False", "True True", "True True", ""]


FORKED = """
import os

import datafusion

from tests.planning.test_arrow_avro import opened, read

assert read(opened()) is not None
child = os.fork()
if not child:
    print(read(opened()), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_child_whose_parent_has_datafusions_threads_does_not_wait_for_them() -> None:
    assert said_by(FORKED) == "None\n"
