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
    carries: keys that its plain append has. never_carries: beginnings of keys that its plain append does not have.
    why: why an append that looks like this validates nothing. source: the code that proves it.
    test: the test that keeps the row, as `file::name`.
    """

    engine: str
    engine_versions: tuple[Version, Version]
    iceberg_versions: tuple[Version, Version]
    carries: tuple[str, ...]
    never_carries: tuple[str, ...]
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
            and not any(key.startswith(self.never_carries) for key in summary)
        )


KNOWN_SENDERS: Final[tuple[KnownSender, ...]] = ()


def is_known(summary: Mapping[str, str], senders: Iterable[KnownSender] = KNOWN_SENDERS) -> bool:
    """Whether a summary is that of a plain append of a known engine."""
    return any(sender.sent(summary) for sender in senders)


def _lies_in(versions: tuple[Version, Version], text: str) -> bool:
    """Whether `4.1.4`, `476` or `Apache Iceberg 1.11.0 (commit ...)` is one of these versions."""
    found = re.match(r"(?:Apache Iceberg )?(\d+(?:\.\d+)*)", text)
    if found is None:
        return False
    numbers = tuple(map(int, found[1].split(".")))
    first, last = versions
    return first <= numbers[: len(first)] and numbers[: len(last)] <= last
