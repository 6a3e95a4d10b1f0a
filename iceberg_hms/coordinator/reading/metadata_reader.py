"""Reads the metadata files of tables and views within a memory budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.format.file_bounds import FileBounds
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.memory_budget import HeldMemory, MemoryBudget
from iceberg_hms.work import NOBODY


class _Metadata(Protocol):
    memory: HeldMemory | None


Metadata = TypeVar("Metadata", bound=_Metadata)


class MetadataReader:
    """Safe for threads. bounds: of the files. memory: counts what is read for as long as somebody has it; by default
    any memory will do."""

    def __init__(self, files: Files, bounds: FileBounds) -> None:
        self._files = files
        self._bounds = bounds
        self.memory = MemoryBudget()

    def read(self, location: str, parse: Callable[[bytes], Metadata], versions: int = 1) -> Metadata:
        """The metadata in a file. parse: makes it of its text. versions: memory is held for
        so many, of which the others are made of it.

        Raises MissingFile, StorageError; CorruptFile and UnsupportedFormat as `metadata_file.decode`; ResourceExhausted
        before the file is read, inflated or parsed, if there is no memory for that."""
        # A commit is its table's work, and of several callers: it has no share of one.
        held = self.memory.share(None if versions == 1 else NOBODY)

        def hold(size: int) -> None:
            held.require(versions * size, "a metadata file")

        limit = replace(self._bounds.metadata_bytes, admit=lambda length: hold(self._bounds.likely_bytes(length)))
        try:
            data = self._files.read(location, limit)
            with metadata_file.errors_of_file(location):
                text = metadata_file.unpacked(data, location, self._bounds, hold)
                del data
                with self.memory.alone(held.bytes):
                    metadata = parse(text)
        except BaseException:
            # The error's frames keep it until the error is answered.
            held.resize(0)
            raise
        # A response counts by itself.
        held.resize(held.bytes - 2 * versions * len(text))
        metadata.memory = held
        return metadata
