"""How large files of metadata and manifests may be, and what may come out of them.

A few kilobytes can inflate to gigabytes, or hold millions of empty records. A reader compares what it is about to do
with a `Limit`, whose error names the setting that raises it. A writer compares what it is about to write with the same
limits, so that whatever it writes can be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.errors import FileBeyondLimit, InvalidInput
from iceberg_hms.setting import Value, described

#: What inflates to less than this is never out of proportion.
SMALL_BYTES: Final = 16 * 1024 * 1024
#: Fewer records than this are never out of proportion.
FEW_RECORDS: Final = 10_000
#: How many times `storage.max-metadata-bytes` a metadata file may take once it is parsed. Parsing keeps the
#: interpreter, three seconds of processor time for each GB.
_PARSED_TIMES: Final = 4
#: And its bytes, its text and a response, which are held besides.
_TEXTS: Final = 3
#: How many times its length a file may take in all, so that few take more: metadata is estimated to take 8 to 14 times
#: its text once it is parsed.
_LIKELY_TIMES: Final = 14
#: What it may take in any case.
_SMALL_PARSED_BYTES: Final = 1024 * 1024
#: Each record has a path of its own, which takes some bytes however well it is compressed.
RECORDS_PER_BYTE: Final = 4

#: The settings of FileBounds, in the order of its fields.
_KEYS: Final = (
    "storage.max-metadata-bytes",
    "storage.max-manifest-bytes",
    "storage.max-inflate-ratio",
    "storage.max-manifests",
    "storage.max-manifest-entries",
    "storage.max-manifest-record-bytes",
)


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest value of something, and the key of the setting that has it. admit: called with what is within the
    limit, before it is read; raises to refuse it."""

    key: str
    value: int
    admit: Callable[[int], object] | None = field(default=None, compare=False)

    def check(self, location: str, size: int) -> None:
        """Raises FileBeyondLimit for a file of so many bytes that is beyond the limit, and what `admit` raises."""
        if size > self.value:
            raise self.exceeded(location, f"it has more than {self.value} bytes")
        if self.admit is not None:
            self.admit(size)

    def exceeded(self, location: str, what: str) -> FileBeyondLimit:
        """The error for a file that is beyond the limit. what: as in "it has more than 7 bytes"."""
        return FileBeyondLimit(location, what, next_step=f"if the file is as it should be, raise `{self.key}`")

    def refused(self, what: str, smaller: str) -> InvalidInput:
        """The error for what is not written, since a reader with this limit would not read it. smaller: what the caller
        can do to stay within the limit."""
        return InvalidInput(what, next_step=f"{smaller}; or raise `{self.key}` for all that read the table")


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Limits of the files that one process reads.

    metadata_bytes: of a metadata file, and of its text when it is inflated.
    manifest_bytes: of a manifest list or a manifest, and of one block of it when it is inflated.
    inflate_ratio: how many times its size a file may inflate to.
    manifests: in a manifest list. entries: in a manifest.
    record_bytes: of an entry of either, as it is encoded.
    """

    metadata_bytes: Limit
    manifest_bytes: Limit
    inflate_ratio: Limit
    manifests: Limit
    entries: Limit
    record_bytes: Limit

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> FileBounds:
        """values: settings by key."""
        return cls(*(Limit(key, int(values[key])) for key in _KEYS))

    @property
    def parsed_bytes(self) -> int:
        """What a metadata file may take once it is parsed, as `TextSize` estimates it."""
        return max(_SMALL_PARSED_BYTES, _PARSED_TIMES * self.metadata_bytes.value)

    @property
    def held_bytes(self) -> int:
        """What a metadata file may take in all while it is loaded and its response is sent."""
        return self.parsed_bytes + _TEXTS * self.metadata_bytes.value

    def likely_bytes(self, length: int) -> int:
        """What a metadata file of this length probably takes in all, before more is known of it."""
        return min(_LIKELY_TIMES * length, self.held_bytes)

    def inflated_bytes(self, size: int) -> int:
        """What a file of so many bytes may inflate to in all."""
        return max(SMALL_BYTES, self.inflate_ratio.value * size)


DEFAULT_BOUNDS: Final = FileBounds.of({setting.key: setting.default for setting in described(Settings)})
