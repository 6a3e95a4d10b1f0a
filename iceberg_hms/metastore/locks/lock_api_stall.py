"""Lock API stall: lock calls of a metastore that wait for each other, and what a writer logs about it.

A lock call takes a connection to the metastore's database, and on Derby a lock inside the metastore too. With more
calls than connections, those that have a connection wait for that lock, and its holder waits for a connection, until it
gives up after half a minute and the next one takes its place. Writers cannot end that: with waits of up to a minute
before each retry, 24 writers fared as badly as without.
"""

from __future__ import annotations

import logging
from typing import Final

from iceberg_hms.coordinator.ports import TableName

logger = logging.getLogger(__name__)

#: An unanswered lock call that took longer is logged with its likely cause.
SLOW_SECONDS: Final = 5.0


def warn_if_slow(name: TableName, unanswered_seconds: float) -> None:
    """Log the likely cause of a lock call that was not answered for so long."""
    if unanswered_seconds >= SLOW_SECONDS:
        logger.warning(
            "The metastore did not answer a call for the lock of %s for %.0f s. It may have fewer connections to its "
            "database than lock calls, which then wait for each other: set datanucleus.connectionPool.maxPoolSize (10 "
            "by default) on the metastore to more than the connections of all writers together",
            name,
            unanswered_seconds,
        )
