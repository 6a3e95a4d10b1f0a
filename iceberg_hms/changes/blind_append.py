"""Whether an append that a client sends may be put on a parent which that client has not seen.

A plain append assumes nothing of the table's rows. But a serializable MERGE that matched nothing, an overwrite of a
partition that is empty, and the exactly-once appends of Flink and Kafka Connect look the same on the wire, and only
their client can validate them. So an operator says which appends may be rebased, with the table's property
`iceberg-hms.rebase-appends`; where the table has none, with its namespace's property of that name; else with the
server's setting `rebase-appends`:

    plain (default)   those that are known to be plain: every key of the summary is known to assume nothing, and either
                      the sender is in `known_senders.py` or the table promises snapshot isolation alone
    all               all of them: the operator's word that nobody relies on a validation
    none              no append, and no rewrite either
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes.known_senders import is_known
from iceberg_hms.changes.summary import METRICS
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: Property of a table or a namespace: which appends are rebased.
REBASE_APPENDS: Final = "iceberg-hms.rebase-appends"
PLAIN, ALL, NONE = "plain", "all", "none"

#: Table properties: where all of them say `snapshot`, an append has nothing to validate.
ISOLATION_LEVELS: Final = tuple(f"write.{operation}.isolation-level" for operation in ("merge", "update", "delete"))

#: Keys of a summary that say who wrote, and assume nothing of the table.
_HARMLESS: Final = frozenset(
    {"operation", "app-id", "app-name", "engine-name", "engine-version", "iceberg-version", "spark.app.id"}
    | {"trino_query_id", "trino_user"}
)
_OURS: Final = "iceberg-hms."

#: What the reader of a conflict's message can set, and what that gives up.
_ALL: Final = (
    f"set the property {REBASE_APPENDS}=all on the table or its namespace, "
    "or the setting rebase-appends=all on the server"
)
_LEVELS: Final = f"set {', '.join(ISOLATION_LEVELS)} all to snapshot on the table"
_PRICE: Final = "Then two MERGEs or overwrites that found nothing to replace can both insert the same rows"


@dataclass(frozen=True, slots=True)
class RebasePolicy:
    """Which appends may be rebased.

    word: PLAIN, ALL or NONE. said: who says so, as a clause of a conflict's message.
    """

    word: str
    said: str


#: What holds where a table says nothing. It is called only when a snapshot has lost its branch's place, so it may ask
#: the metastore, within bounds; it raises nothing.
Default = Callable[[], RebasePolicy]


def unsaid() -> RebasePolicy:
    """The word where nobody said anything."""
    return RebasePolicy(PLAIN, "nobody says otherwise")


def parse(text: str) -> str:
    """A property's value as a word; `none` for one that is not known, since no operator has given it."""
    word = text.strip().lower()
    return word if word in (PLAIN, ALL) else NONE


def word_for(base: TableMetadata, default: Default) -> RebasePolicy:
    """The table's own word, else the default, which is not called where the table has one."""
    text = base.properties.get(REBASE_APPENDS)
    return default() if text is None else RebasePolicy(parse(text), f"the table says {REBASE_APPENDS}={text}")


def why_not_plain(base: TableMetadata, summary: Mapping[str, str]) -> str | None:
    """Why an append is not known to be plain, and what its caller can set; None if it is."""
    unknown = sorted(key for key in summary if not _is_harmless(key))
    if unknown:
        reason = f"its summary has {', '.join(unknown)}, which may mean that it read the table"
        return f"{reason}. To have the server put such appends on the new head, {_ALL}. {_PRICE}"
    if is_known(summary):
        return None
    if all(base.properties.get(level, "").strip().lower() == "snapshot" for level in ISOLATION_LEVELS):
        return None
    reason = "nothing shows that its client validates no append"
    return f"{reason}. To have the server put such appends on the new head, {_LEVELS}; or {_ALL}. {_PRICE}"


def _is_harmless(key: str) -> bool:
    return key in METRICS or key in _HARMLESS or key.startswith(_OURS)
