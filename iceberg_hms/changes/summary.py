"""A snapshot's summary: what was added, and running totals (spec: Appendix F, as Java's SnapshotSummary computes them).

All values are strings. A count of zero is left out; so is a total that the parent does not know, since a wrong total is
worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest import DataFile

#: The key of a whole job: a rerun that carries the same one adds nothing.
IDEMPOTENCY_KEY = "iceberg-hms.idempotency-key"

OPERATION = "operation"
APPEND = "append"
#: A rewrite: other files, the same rows.
REPLACE = "replace"

#: total -> (what adds to it, what takes from it)
_TOTALS: Mapping[str, tuple[str, str]] = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
_EMPTY_TABLE: Mapping[str, str] = dict.fromkeys(_TOTALS, "0")

#: The names of the running totals.
TOTALS: frozenset[str] = frozenset(_TOTALS)
#: The names of all metrics of the specification, besides `partitions.*` (spec: Appendix F).
METRICS: frozenset[str] = frozenset(
    {
        "changed-partition-count",
        "partition-summaries-included",
        "manifests-created",
        "manifests-kept",
        "manifests-replaced",
        "entries-processed",
        "deleted-duplicate-files",
        "added-equality-delete-files",
        "removed-equality-delete-files",
        "added-position-delete-files",
        "removed-position-delete-files",
        "added-dvs",
        "removed-dvs",
    }
    | set(_TOTALS)
    | {name for pair in _TOTALS.values() for name in pair}
)


@dataclass(frozen=True, slots=True)
class Added:
    """What data files add to a table. partitions: how many they lie in; an unpartitioned table counts as one."""

    files: int
    records: int
    size_in_bytes: int
    partitions: int

    @classmethod
    def of(cls, data_files: Iterable[DataFile]) -> Added:
        files = records = size = 0
        partitions = set()
        for data_file in data_files:
            files += 1
            records += data_file.record_count
            size += data_file.file_size_in_bytes
            partitions.add(tuple(sorted(data_file.partition.items(), key=lambda item: item[0])))
        return cls(files, records, size, len(partitions))

    def to_summary(self) -> dict[str, str]:
        counts = {
            "added-data-files": self.files,
            "added-records": self.records,
            "added-files-size": self.size_in_bytes,
        }
        summary = {name: str(count) for name, count in counts.items() if count > 0}
        summary["changed-partition-count"] = str(self.partitions)
        return summary


def manifest_counts(*, created: int, kept: int, replaced: int = 0) -> dict[str, str]:
    """How many manifests of a snapshot's list are its own, its parent's, and gone since the parent."""
    return {"manifests-created": str(created), "manifests-kept": str(kept), "manifests-replaced": str(replaced)}


def totals(parent: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """The total-* values after `changes`.

    parent: the parent snapshot's summary; None = there is no parent, the table was empty. A total is left out if the
    parent lacks it, if it is no number, or if it would fall below zero.
    """
    before = _EMPTY_TABLE if parent is None else parent
    found: dict[str, str] = {}
    for total, (added, removed) in _TOTALS.items():
        value = _number(before.get(total))
        if value is None or value < 0:
            continue
        value += (_number(changes.get(added)) or 0) - (_number(changes.get(removed)) or 0)
        if value >= 0:
            found[total] = str(value)
    return found


def check_custom(properties: Mapping[str, str], idempotency_key: str | None = None) -> dict[str, str]:
    """The caller's own summary properties, with the key among them. Raises InvalidInput for values that are not
    strings, for names whose value is computed (spec: metrics), which readers trust, for two different keys and for an
    empty one."""
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"Snapshot summary properties map strings to strings, found {name!r}: {value!r}")
        if name in (OPERATION, *METRICS) or name.startswith("partitions."):
            raise InvalidInput(f"Cannot set snapshot summary property {name}: its value is computed")
    for key in (idempotency_key, properties.get(IDEMPOTENCY_KEY)):
        check_key(key)
    if idempotency_key is None:
        return dict(properties)
    if properties.get(IDEMPOTENCY_KEY, idempotency_key) != idempotency_key:
        raise InvalidInput(
            f"A commit has one idempotency key, found {properties[IDEMPOTENCY_KEY]} and {idempotency_key}"
        )
    return {**properties, IDEMPOTENCY_KEY: idempotency_key}


def check_key(key: str | None) -> None:
    """Raises InvalidInput for an empty idempotency key: jobs that forget to name themselves would share it, and all but
    the first would add nothing."""
    if key is not None and not key.strip():
        raise InvalidInput(
            "The idempotency key is empty", next_step="give a key that names the job and its run, or none"
        )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
