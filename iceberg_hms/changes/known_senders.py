"""Engines whose plain appends can be told from everything that they validate, by what the snapshot's summary says.

A row is a fact about an engine's source code and holds for the versions that it names. It is proved by reading that
source, and kept by a test that runs the engine. What a client says in its request's headers is no fact: PyIceberg sends
`append` and an `overwrite` whose delete matched nothing with the same headers and the same keys, and validates the
second after a conflict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Major and minor.
Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KnownSender:
    """One engine, and how its plain append looks.

    engine: what its summaries say in `engine-name`. engine_from, iceberg_from: the first versions for which the row
    holds (`engine-version`, `iceberg-version`).
    carries: keys that its plain append has. never_carries: beginnings of keys that its plain append does not have.
    why: why an append that looks like this validates nothing. source: the files that prove it.
    test: the test that runs the engine, as `file::name`.
    """

    engine: str
    engine_from: Version
    iceberg_from: Version
    carries: tuple[str, ...]
    never_carries: tuple[str, ...]
    why: str
    source: str
    test: str

    def sent(self, summary: Mapping[str, str]) -> bool:
        """Whether a summary is that of a plain append of this engine."""
        engine, iceberg = _version(summary.get("engine-version", "")), _version(summary.get("iceberg-version", ""))
        return (
            summary.get("engine-name", "").lower() == self.engine
            and engine is not None
            and engine >= self.engine_from
            and iceberg is not None
            and iceberg >= self.iceberg_from
            and all(key in summary for key in self.carries)
            and not any(key.startswith(self.never_carries) for key in summary)
        )


KNOWN_SENDERS: Final = (
    KnownSender(
        engine="spark",
        engine_from=(4, 1),
        iceberg_from=(1, 11),
        carries=("spark.app.id",),
        never_carries=("spark.merge-into.",),
        why="Spark's own writes set spark.app.id; a Java program in the driver has all other keys of Spark too, since "
        "EnvironmentContext is that of the JVM, but not this one. A MERGE that only inserts validates, and sets the "
        "counts of its rows; UPDATE and DELETE never come as an append.",
        source="apache/iceberg 1.11.0: spark/v4.1 SparkWrite.commitOperation, SparkPositionDeltaWrite.commitOperation, "
        "BaseSparkWrite.setMergeSummaryProperties; core EnvironmentContext",
        test="integration/test_rebase_spark.py::test_of_two_merges_of_one_new_key_exactly_one_lands",
    ),
)


def is_known(summary: Mapping[str, str]) -> bool:
    """Whether a summary is that of a plain append of a known engine."""
    return any(sender.sent(summary) for sender in KNOWN_SENDERS)


def _version(text: str) -> Version | None:
    """Major and minor of `4.1.4`, or of `Apache Iceberg 1.11.0 (commit ...)`."""
    found = re.match(r"(?:Apache Iceberg )?(\d+)\.(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]))
