"""How large files of metadata and manifests may be, and what may come out of them.

A few kilobytes can inflate to gigabytes, or hold millions of empty records. A reader compares what it is about to do
with a `Limit`, whose error names the setting that raises it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.config import Value, settings
from iceberg_hms.errors import CorruptFile

#: What inflates to less than this is never out of proportion.
SMALL_BYTES: Final = 16 * 1024 * 1024
#: Fewer records than this are never out of proportion.
FEW_RECORDS: Final = 10_000
#: Each record has a path of its own, which takes some bytes however well it is compressed.
RECORDS_PER_BYTE: Final = 4

#: The settings of FileBounds, in the order of its fields.
_KEYS: Final = (
    "storage.max-metadata-bytes",
    "storage.max-manifest-bytes",
    "storage.max-inflate-ratio",
    "storage.max-manifests",
    "storage.max-manifest-entries",
)


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest value of something, and the key of the setting that has it."""

    key: str
    value: int

    def exceeded(self, location: str, what: str) -> CorruptFile:
        """The error for a file that is beyond the limit. what: as in "it has more than 7 bytes"."""
        return CorruptFile(location, what, next_step=f"if the file is as it should be, raise `{self.key}`")


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Limits of the files that one process reads.

    metadata_bytes: of a metadata file, and of its text when it is inflated.
    manifest_bytes: of a manifest list or a manifest, and of one block of it when it is inflated.
    inflate_ratio: how many times its size a file may inflate to.
    manifests: in a manifest list. entries: in a manifest.
    """

    metadata_bytes: Limit
    manifest_bytes: Limit
    inflate_ratio: Limit
    manifests: Limit
    entries: Limit

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> FileBounds:
        """values: settings by key."""
        return cls(*(Limit(key, int(values[key])) for key in _KEYS))

    def inflated_bytes(self, size: int) -> int:
        """What a file of so many bytes may inflate to in all."""
        return max(SMALL_BYTES, self.inflate_ratio.value * size)


DEFAULT_BOUNDS: Final = FileBounds.of({setting.key: setting.default for setting in settings()})
