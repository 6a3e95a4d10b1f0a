"""Whether an append that a client sends may be put on a parent which that client has not seen.

A plain append assumes nothing of the table's rows. But a serializable MERGE that matched nothing, and the exactly-once
appends of Flink and Kafka Connect, look the same on the wire, and only their client can validate them. So the table
says which appends may be rebased, with its property `iceberg-hms.rebase-appends`:

    plain (default)   those that are known to be plain: the sender never validates an append, and every key of the
                      summary is known to assume nothing
    all               all of them: the operator's word that nobody relies on a validation
    none              no append, and no rewrite either
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from iceberg_hms.changes.summary import METRICS
from iceberg_hms.format.metadata import TableMetadata

#: Table property: which appends are rebased.
REBASE_APPENDS: Final = "iceberg-hms.rebase-appends"
PLAIN, ALL, NONE = "plain", "all", "none"

#: Table properties: where all of them say `snapshot`, an append has nothing to validate.
ISOLATION_LEVELS: Final = tuple(f"write.{operation}.isolation-level" for operation in ("merge", "update", "delete"))

#: Keys of a summary that say who wrote, and assume nothing of the table.
_HARMLESS: Final = frozenset(
    {"operation", "app-id", "app-name", "engine-name", "engine-version", "iceberg-version", "spark.app.id"}
    | {"trino_query_id"}
)
_OURS: Final = "iceberg-hms."
#: Spark's MERGE tells here how many rows it matched: it read the table.
_MERGE: Final = "spark.merge-into."
#: The first Spark and Iceberg whose MERGE does so, and the first PyIceberg that sends an append again by itself.
_SPARK, _ICEBERG, _PYICEBERG = (4, 1), (1, 11), (0, 12)


def mode(base: TableMetadata) -> str:
    """The table's word; `none` for one that is not known, since no operator has given it."""
    word = base.properties.get(REBASE_APPENDS, PLAIN).strip().lower()
    return word if word in (PLAIN, ALL) else NONE


def why_not_plain(base: TableMetadata, summary: Mapping[str, str], client: str) -> str | None:
    """Why an append is not known to be plain; None if it is.

    client: what its request's headers say of the sender (`User-Agent` and `X-Client-Version`)."""
    unknown = sorted(key for key in summary if not _is_harmless(key))
    if unknown:
        return f"its summary has {', '.join(unknown)}, which may mean that it read the table"
    if _is_new_pyiceberg(client) or _is_new_spark(summary):
        return None
    if all(base.properties.get(level, "").strip().lower() == "snapshot" for level in ISOLATION_LEVELS):
        return None
    return f"its sender may have read the table (where no writer relies on that, set {REBASE_APPENDS}={ALL})"


def _is_harmless(key: str) -> bool:
    return key in METRICS or key in _HARMLESS or key.startswith(_OURS)


def _is_new_pyiceberg(client: str) -> bool:
    # It validates no append, not even that of an upsert, and sends it again by itself after a conflict; older ones tell
    # their caller. Its summaries do not name it.
    found = re.search(r"pyiceberg/(\d+)\.(\d+)", client.lower())
    return found is not None and (int(found[1]), int(found[2])) >= _PYICEBERG


def _is_new_spark(summary: Mapping[str, str]) -> bool:
    if summary.get("engine-name", "").lower() != "spark" or any(key.startswith(_MERGE) for key in summary):
        return False
    spark, iceberg = _version(summary.get("engine-version", "")), _version(summary.get("iceberg-version", ""))
    return spark is not None and iceberg is not None and spark >= _SPARK and iceberg >= _ICEBERG


def _version(text: str) -> tuple[int, int] | None:
    """Major and minor of `4.1.4`, or of `Apache Iceberg 1.11.0 (commit ...)`."""
    found = re.match(r"(?:Apache Iceberg )?(\d+)\.(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]))
