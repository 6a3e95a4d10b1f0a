"""Whether a client's append is blind: whether it may be put on a parent that its client has not seen.

A blind append assumes nothing of the table's rows. But a serializable MERGE that matched nothing, an overwrite of an
empty partition, and the exactly-once appends of Flink and Kafka Connect look the same on the wire, and only their
client can validate them. So the operator sets which appends may be rebased: with the table's property
`iceberg-hms.rebase-appends`, else with its namespace's property of that name, else with the server's setting
`rebase-appends`:

    plain (default)   appends that are known to be blind: no key of the summary may mean an assumption, and either the
                      sender is in `known_senders.py` or the table promises no more than snapshot isolation
    all               all appends: the operator declares that nobody relies on a validation
    none              no append, and no rewrite either
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes.clients.known_senders import is_known_sender
from iceberg_hms.changes.summary import METRICS
from iceberg_hms.format.metadata import table_properties
from iceberg_hms.format.metadata.table_metadata import TableMetadata

logger = logging.getLogger(__name__)

#: Property of a table or a namespace: which appends may be rebased.
REBASE_APPENDS: Final = table_properties.REBASE_APPENDS.name
PLAIN, ALL, NONE = "plain", "all", "none"

#: Table properties: if all of them are `snapshot`, no append has anything to validate.
ISOLATION_LEVELS: Final = tuple(f"write.{operation}.isolation-level" for operation in ("merge", "update", "delete"))

#: Summary keys that identify the writer, and assume nothing of the table.
_HARMLESS: Final = frozenset(
    {"operation", "app-id", "app-name", "engine-name", "engine-version", "iceberg-version", "spark.app.id"}
    | {"trino_query_id", "trino_user"}
)
_OURS: Final = "iceberg-hms."

#: For the message of a conflict: what an operator can set, and what that gives up.
_ALL: Final = (
    f"set the property {REBASE_APPENDS}=all on the table or its namespace, "
    "or the setting rebase-appends=all on the server"
)
_LEVELS: Final = f"set {', '.join(ISOLATION_LEVELS)} all to snapshot on the table"
_PRICE: Final = "Then two MERGEs or overwrites that found nothing to replace can both insert the same rows"


@dataclass(frozen=True, slots=True)
class RebasePolicy:
    """Which appends may be rebased.

    mode: PLAIN, ALL or NONE. stated_by: who set it, as a clause of a conflict's message.
    """

    mode: str
    stated_by: str


#: The policy of tables that set none. It is called only when the branch moved under a client's snapshot, so it may ask
#: the metastore, within bounds; it raises nothing.
PolicyLookup = Callable[[], RebasePolicy]


def default_policy() -> RebasePolicy:
    """The policy where nobody set one."""
    return RebasePolicy(PLAIN, "nobody says otherwise")


def blind_policy() -> RebasePolicy:
    """The policy for an append that its caller knows to be blind."""
    return RebasePolicy(ALL, "its caller knows that it read nothing of the table")


def parse_mode(text: str) -> str:
    """The mode of a property's value; `none` for an unknown value, since no operator has allowed anything with it."""
    mode = text.strip().lower()
    return mode if mode in (PLAIN, ALL) else NONE


def policy_for(base: TableMetadata, default: PolicyLookup) -> RebasePolicy:
    """The table's own policy; if it has none, the result of `default`."""
    text = base.properties.get(REBASE_APPENDS)
    if text is None:
        return default()
    mode = parse_mode(text)
    if mode == NONE and text.strip().lower() != NONE:
        logger.warning(
            "%s=%.64r of the table at %s means nothing, so no append is rebased", REBASE_APPENDS, text, base.location
        )
    return RebasePolicy(mode, f"the table says {REBASE_APPENDS}={text:.64}")


def why_not_blind(base: TableMetadata, summary: Mapping[str, str]) -> str | None:
    """Why an append is not known to be blind, and what the operator can set; None if it is."""
    unknown = sorted(key for key in summary if not _is_harmless(key))
    if unknown:
        reason = f"its summary has {', '.join(unknown)}, which may mean that it read the table"
        return f"{reason}. To have the server put such appends on the new head, {_ALL}. {_PRICE}"
    if is_known_sender(summary):
        return None
    if all(base.properties.get(level, "").strip().lower() == "snapshot" for level in ISOLATION_LEVELS):
        return None
    reason = "nothing shows that its client validates no append"
    return f"{reason}. To have the server put such appends on the new head, {_LEVELS}; or {_ALL}. {_PRICE}"


def _is_harmless(key: str) -> bool:
    return key in METRICS or key in _HARMLESS or key.startswith(_OURS)
