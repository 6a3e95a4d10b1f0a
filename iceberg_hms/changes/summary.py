"""A snapshot's summary: what was added, and running totals (spec: Appendix F, as Java's SnapshotSummary computes them).

All values are strings. Zero counts are left out, and so are totals that the parent lacks: a wrong total is worse than
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import MAX_LONG, MIN_LONG, is_integer
from iceberg_hms.format.manifests.manifest import DataFile

#: The key of a whole job: a rerun with the same key adds nothing.
IDEMPOTENCY_KEY = "iceberg-hms.idempotency-key"

#: The digest of what is done under the key (`changes.job`).
JOB = "iceberg-hms.job"

#: Who made the snapshot, as the REST server knows its callers.
CALLER = "iceberg-hms.caller"

#: The id under which a snapshot was staged, and that of the staged snapshot which this one published (Java: WapUtil).
WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"
#: "true": the snapshot replaced exactly those partitions that it added files to.
REPLACE_PARTITIONS = "replace-partitions"

OPERATION = "operation"
APPEND = "append"
#: Data files were removed or rows deleted, and none added.
DELETE = "delete"
#: Rows were removed and others added.
OVERWRITE = "overwrite"
#: A rewrite: different files, the same rows.
REPLACE = "replace"
#: Of a long, with its sign.
_MAX_DIGITS = len(str(MIN_LONG))

#: total -> (metric added to it, metric subtracted from it)
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
class AddedFiles:
    """What data files add to a table. partitions: how many partitions they are in; 1 for an unpartitioned table."""

    files: int
    records: int
    size_in_bytes: int
    partitions: int

    @classmethod
    def of(cls, data_files: Iterable[DataFile]) -> AddedFiles:
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
    """How many manifests a snapshot's list adds, keeps and leaves out, compared with its parent's."""
    return {"manifests-created": str(created), "manifests-kept": str(kept), "manifests-replaced": str(replaced)}


def totals(parent: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """The total-* values after `changes`.

    parent: the parent snapshot's summary; None = no parent, the table was empty. A total is left out if the parent
    lacks it, if it is not a number, or if it would fall below zero or outgrow a long.
    """
    before = _EMPTY_TABLE if parent is None else parent
    found: dict[str, str] = {}
    for total, (added, removed) in _TOTALS.items():
        value = whole_number(before.get(total))
        if value is None or value < 0:
            continue
        value += (whole_number(changes.get(added)) or 0) - (whole_number(changes.get(removed)) or 0)
        if 0 <= value <= MAX_LONG:
            found[total] = str(value)
    return found


def check_custom(properties: Mapping[str, str], idempotency_key: str | None = None) -> dict[str, str]:
    """The caller's own summary properties, including the key. Raises InvalidInput for values that are not strings, for
    names of computed metrics (spec: metrics), which readers trust, for two different keys and for an empty one."""
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"Snapshot summary properties map strings to strings, found {name!r}: {value!r}")
        if name in (OPERATION, JOB, *METRICS) or name.startswith("partitions."):
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


def with_wap_id(properties: Mapping[str, str], wap_id: str | None) -> dict[str, str]:
    """A snapshot's own properties with the id under which it is staged; None: without. Raises InvalidInput for an empty
    id, and for another one in the properties."""
    if wap_id is None:
        return dict(properties)
    if not wap_id.strip() or properties.get(WAP_ID, wap_id) != wap_id:
        raise InvalidInput(f"a snapshot is staged under one WAP id that is not empty, found {wap_id!r}")
    return {**properties, WAP_ID: wap_id}


def with_caller(updates: Sequence[dict[str, Any]], caller: str) -> list[dict[str, Any]]:
    """A REST commit's updates, with its caller in the summary of each snapshot that has one; "": without. Raises
    InvalidInput for a client's own value, whatever the caller: readers take it for the server's."""
    return [_with_caller(update, caller) for update in updates]


def _with_caller(update: dict[str, Any], caller: str) -> dict[str, Any]:
    snapshot = update.get("snapshot") if update.get("action") == "add-snapshot" else None
    summary = snapshot.get("summary") if isinstance(snapshot, dict) else None
    if not isinstance(snapshot, dict) or not isinstance(summary, dict):
        return update
    if CALLER in summary:
        raise InvalidInput(f"Cannot set snapshot summary property {CALLER}: the server sets it")
    return {**update, "snapshot": {**snapshot, "summary": {**summary, CALLER: caller}}} if caller else update


def check_key(key: str | None) -> None:
    """Raises InvalidInput for an empty idempotency key: all jobs that forget to set one would share it, and only the
    first would add anything."""
    if key is not None and not key.strip():
        raise InvalidInput(
            "The idempotency key is empty", next_step="pass a key that names the job and its run, or none"
        )


def whole_number(text: str | None) -> int | None:
    """The value of a metric; None without one, and for a text that is no long of Java's."""
    try:
        value = None if text is None or len(text) > _MAX_DIGITS else int(text)
    except ValueError:
        return None
    return value if value is not None and is_integer(value, MIN_LONG, MAX_LONG) else None
