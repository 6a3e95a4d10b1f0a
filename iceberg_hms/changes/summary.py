"""A snapshot's summary: what was added and removed, and running totals (spec: Appendix F; Java: SnapshotSummary).

All values are strings. Zero counts are left out, and so are totals that the parent lacks: a wrong total is worse than
none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iceberg_hms.changes.partition_set import partition_key
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import MAX_LONG, MIN_LONG
from iceberg_hms.format.manifests.manifest import DataFile, FileContent

#: The key of a whole job: a rerun with the same key adds nothing.
IDEMPOTENCY_KEY = "iceberg-hms.idempotency-key"

#: The digest of what is done under the key (`changes.change.Job`).
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
#: (content of a file, whether it is a deletion vector) -> the metrics of its rows, and those that count files.
_ADDED: Mapping[tuple[int, bool], tuple[str, ...]] = {
    (FileContent.DATA, False): ("added-records", "added-data-files"),
    (FileContent.POSITION_DELETES, False): (
        "added-position-deletes",
        "added-delete-files",
        "added-position-delete-files",
    ),
    (FileContent.POSITION_DELETES, True): ("added-position-deletes", "added-delete-files", "added-dvs"),
    (FileContent.EQUALITY_DELETES, False): (
        "added-equality-deletes",
        "added-delete-files",
        "added-equality-delete-files",
    ),
}
_REMOVED: Mapping[tuple[int, bool], tuple[str, ...]] = {
    **{kind: tuple(name.replace("added", "removed") for name in names) for kind, names in _ADDED.items()},
    (FileContent.DATA, False): ("deleted-records", "deleted-data-files"),
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
    }
    | set(_TOTALS)
    | {name for pair in _TOTALS.values() for name in pair}
    | {name for kinds in (_ADDED, _REMOVED) for names in kinds.values() for name in names}
)


def file_metrics(added: Iterable[DataFile], removed: Iterable[DataFile] = (), *, duplicates: int = 0) -> dict[str, str]:
    """What a snapshot adds and removes: data files and delete files. duplicates: how often a removed file was listed
    again. The number of changed partitions is there even if it is zero, as in Java."""
    counts: Counter[str] = Counter()
    partitions = set()
    for files, names, size_name in ((added, _ADDED, "added-files-size"), (removed, _REMOVED, "removed-files-size")):
        # How many files and rows there are of each kind: most commits have many files of one kind.
        tallies: defaultdict[tuple[int, bool], list[int]] = defaultdict(lambda: [0, 0])
        for each in files:
            is_vector = each.content != FileContent.DATA and each.is_deletion_vector
            tally = tallies[each.content, is_vector]
            tally[0] += 1
            tally[1] += each.record_count
            # A deletion vector is a part of its file.
            size = each.content_size_in_bytes if is_vector else None
            counts[size_name] += each.file_size_in_bytes if size is None else size
            # Java counts the paths of partitions: one of two specs with the same fields is one.
            partitions.add(partition_key(each)[1])
        for kind, (number, rows) in tallies.items():
            rows_name, *number_names = names[kind]
            counts[rows_name] += rows
            counts.update(dict.fromkeys(number_names, number))
    counts["deleted-duplicate-files"] = duplicates
    summary = {name: str(count) for name, count in counts.items() if count > 0}
    return {**summary, "changed-partition-count": str(len(partitions))}


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
        value = whole_number(before[total]) if total in before else None
        if value is None or value < 0:
            continue
        if added in changes:
            value += whole_number(changes[added]) or 0
        if removed in changes:
            value -= whole_number(changes[removed]) or 0
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
    if update.get("action") != "add-snapshot":
        return update
    snapshot = update.get("snapshot")
    summary = snapshot.get("summary") if isinstance(snapshot, dict) else None
    if snapshot is None or not isinstance(summary, dict):
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
    if text is None or len(text) > _MAX_DIGITS:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if MIN_LONG <= value <= MAX_LONG else None
