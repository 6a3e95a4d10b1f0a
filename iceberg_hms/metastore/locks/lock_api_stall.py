"""A metastore whose lock calls wait for each other: what a writer says of it.

A lock call takes a connection to the metastore's database, and on Derby a lock inside of the metastore too. With more
calls than connections those that have a connection wait for that lock, and its holder for a connection, until it gives
up after half a minute and the next one takes its place. No writer can end that: with waits of up to a minute before
each asked again, 24 writers fared as badly as without.
"""

from __future__ import annotations

import logging

from iceberg_hms.coordinator.ports import TableName

logger = logging.getLogger(__name__)

#: Seconds without an answer after which it is said what may be behind it.
SLOW_SECONDS = 5.0


def warn_if_slow(name: TableName, unanswered_seconds: float) -> None:
    """After a lock call that was not answered for so long."""
    if unanswered_seconds >= SLOW_SECONDS:
        logger.warning(
            "The metastore did not answer a call for the lock of %s for %.0f s. It may have fewer connections to its "
            "database than lock calls, which then wait for each other: set datanucleus.connectionPool.maxPoolSize (10 "
            "by default) on the metastore to more than the connections of all writers together",
            name,
            unanswered_seconds,
        )
