"""Ctrl-C while a caller waits for what another thread may have sent.

A KeyboardInterrupt says that nothing was done, and Ctrl-C cannot call back what was sent. So the caller waits for the
outcome for a while, and another Ctrl-C ends the wait, with the outcome unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from iceberg_hms.coordinator.ports import ThreadEvent
from iceberg_hms.errors import CommitStateUnknown

logger = logging.getLogger(__name__)

#: How long to wait for an outcome after Ctrl-C: as long as a metastore may take for one call, by default.
INTERRUPTED_SECONDS: Final = 60.0


def wait_after_interrupt(
    settled: ThreadEvent, interrupt: KeyboardInterrupt, what: str, snapshot_ids: Collection[int] = ()
) -> None:
    """Wait until `settled` is set. what: may have been sent, for messages. snapshot_ids: that it adds.

    Raises CommitStateUnknown from the interrupt if that takes longer than INTERRUPTED_SECONDS, or at another Ctrl-C.
    """
    try:
        if settled.is_set():
            return
        logger.warning(
            "Ctrl-C came after the %s may have been sent: waiting up to %g s for its outcome, which decides what the "
            "call returns; another Ctrl-C leaves it unknown",
            what,
            INTERRUPTED_SECONDS,
        )
        if settled.wait(INTERRUPTED_SECONDS):
            return
    except KeyboardInterrupt as again:
        interrupt = again
    names = ", ".join(map(str, snapshot_ids))
    raise CommitStateUnknown(
        f"it is not known whether the {what} was made: the wait for its outcome was interrupted",
        next_step=f"delete nothing; look for {f'snapshot {names}' if names else 'what it changes'}, and again once no "
        "lock of the table is held (`iceberg-hms locks list`), before you try again: it may still be made",
    ) from interrupt
