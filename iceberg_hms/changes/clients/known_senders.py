"""Engines whose blind appends differ, in the snapshot's summary, from every commit that they validate.

A row is a fact about an engine's source code. It holds for the versions that were read, and names the test that guards
it. Two engines are missing, because nothing that they send distinguishes the two:

- PyIceberg sends an `append` and an `overwrite` whose delete matched nothing with the same headers and summary. After a
  conflict it validates the second (pyiceberg 0.12: `Transaction.overwrite`).
- Spark sends an `INSERT` and `df.writeTo(t).option("isolation-level", "serializable").overwrite(lit(False))` with the
  same summary. The second validates that nobody added data (Iceberg 1.11: `SparkWrite.OverwriteByFilter`,
  `BaseOverwriteFiles.operation` and `dataConflictDetectionFilter`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: The numbers of a version, as many as matter: (4, 1), or (476,).
Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KnownSender:
    """One engine, and how to recognize its blind append.

    engine: the value of `engine-name` in its summaries.
    engine_versions, iceberg_versions: the first and the last version for which the row holds (`engine-version`,
    `iceberg-version`), both included.
    required_keys: keys that every blind append has. Forbidden keys need no column: any key that is not known to be
    harmless makes an append not blind (`blind_append.py`).
    why: why such an append validates nothing. source: the code that proves it.
    test: the test that guards the row, as `file::name`.
    """

    engine: str
    engine_versions: tuple[Version, Version]
    iceberg_versions: tuple[Version, Version]
    required_keys: tuple[str, ...]
    why: str
    source: str
    test: str

    def matches(self, summary: Mapping[str, str]) -> bool:
        """Whether a summary is that of a blind append of this engine."""
        return (
            summary.get("engine-name", "").lower() == self.engine
            and _in_range(self.engine_versions, summary.get("engine-version", ""))
            and _in_range(self.iceberg_versions, summary.get("iceberg-version", ""))
            and all(key in summary for key in self.required_keys)
        )


KNOWN_SENDERS: Final = (
    KnownSender(
        engine="trino",
        engine_versions=((476,), (476,)),
        iceberg_versions=((1, 9), (1, 9)),
        required_keys=("trino_query_id", "trino_user"),
        why="INSERT is a newAppend or a newFastAppend, which validate nothing; Trino sends it again after a conflict. "
        "MERGE, UPDATE and DELETE of rows validate, and are row deltas, which no Iceberg before 1.11 calls append. "
        "From 1.11 on a MERGE that only inserts looks like an INSERT, so no Trino with that version can have a row. "
        "User code does not share the class loader, so nobody else sends these keys.",
        source="trino-iceberg 476: IcebergMetadata.finishInsert, finishWrite, IcebergUtil.commit; apache/iceberg 1.9: "
        "BaseRowDelta.operation, FastAppend, MergeAppend, SnapshotProducer.validate",
        test="labs/matrix/test_known_senders.py::test_of_trinos_commits_only_its_inserts_are_blind_appends",
    ),
)


def is_known_sender(summary: Mapping[str, str], senders: Iterable[KnownSender] = KNOWN_SENDERS) -> bool:
    """Whether a summary is that of a blind append of a known engine."""
    return any(sender.matches(summary) for sender in senders)


def _in_range(versions: tuple[Version, Version], text: str) -> bool:
    """Whether a version such as `4.1.4`, `476` or `Apache Iceberg 1.11.0 (commit ...)` is in a range. A fork's version
    (`476-e.1`) is in none."""
    found = re.fullmatch(r"(?:Apache Iceberg )?(\d{1,9}(?:\.\d{1,9})*)(?: \(commit [0-9a-f]+\))?", text)
    if found is None:
        return False
    numbers = tuple(map(int, found[1].split(".")))
    first, last = versions
    return first <= numbers[: len(first)] and numbers[: len(last)] <= last
