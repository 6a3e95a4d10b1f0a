"""Engines whose plain appends can be told from everything that they validate, by what the snapshot's summary says.

A row is a fact about an engine's source code. It holds for the versions that were read, and it names the test that
keeps it. Two engines are not here, because nothing that they send tells the two apart:

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
    """One engine, and how its plain append looks.

    engine: what its summaries say in `engine-name`.
    engine_versions, iceberg_versions: the first and the last for which the row holds (`engine-version`,
    `iceberg-version`), both included.
    carries: keys that its plain append has. What it may not have needs no column: any key that is not known to be
    harmless keeps an append from being plain (`plain.py`).
    why: why an append that looks like this validates nothing. source: the code that proves it.
    test: the test that keeps the row, as `file::name`.
    """

    engine: str
    engine_versions: tuple[Version, Version]
    iceberg_versions: tuple[Version, Version]
    carries: tuple[str, ...]
    why: str
    source: str
    test: str

    def sent(self, summary: Mapping[str, str]) -> bool:
        """Whether a summary is that of a plain append of this engine."""
        return (
            summary.get("engine-name", "").lower() == self.engine
            and _lies_in(self.engine_versions, summary.get("engine-version", ""))
            and _lies_in(self.iceberg_versions, summary.get("iceberg-version", ""))
            and all(key in summary for key in self.carries)
        )


KNOWN_SENDERS: Final = (
    KnownSender(
        engine="trino",
        engine_versions=((476,), (476,)),
        iceberg_versions=((1, 9), (1, 9)),
        carries=("trino_query_id", "trino_user"),
        why="INSERT is a newAppend or a newFastAppend, which validate nothing; Trino sends it again after a conflict. "
        "MERGE, UPDATE and DELETE of rows validate, and are row deltas, which no Iceberg before 1.11 calls append. "
        "From 1.11 on a MERGE that only inserts looks like an INSERT, so a Trino with that can never have a row. No "
        "user's code shares the class loader, so nobody else sends these keys.",
        source="trino-iceberg 476: IcebergMetadata.finishInsert, finishWrite, IcebergUtil.commit; apache/iceberg 1.9: "
        "BaseRowDelta.operation, FastAppend, MergeAppend, SnapshotProducer.validate",
        test="integration/test_known_senders.py::test_of_all_that_trino_sends_its_inserts_alone_are_plain",
    ),
)


def is_known(summary: Mapping[str, str], senders: Iterable[KnownSender] = KNOWN_SENDERS) -> bool:
    """Whether a summary is that of a plain append of a known engine."""
    return any(sender.sent(summary) for sender in senders)


def _lies_in(versions: tuple[Version, Version], text: str) -> bool:
    """Whether `4.1.4`, `476` or `Apache Iceberg 1.11.0 (commit ...)` is one of these versions. A fork's `476-e.1` is
    none."""
    found = re.fullmatch(r"(?:Apache Iceberg )?(\d+(?:\.\d+)*)(?: \(commit [0-9a-f]+\))?", text)
    if found is None:
        return False
    numbers = tuple(map(int, found[1].split(".")))
    first, last = versions
    return first <= numbers[: len(first)] and numbers[: len(last)] <= last
