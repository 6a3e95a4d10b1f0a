"""What to tell callers, and what to do with the locks, while an operation that only its lock protects (a swap, rename
or drop) is not answered.

Its callers get CommitStateUnknown when the ordinary time for an answer is over. The operation goes on without them
under its lock, and listeners hear its outcome. If that is unknown even at the end, the lock is left to expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from iceberg_hms.coordinator.outcome.interrupts import wait_after_interrupt
from iceberg_hms.coordinator.ports import CommitPorts, HeldLock, TableName
from iceberg_hms.errors import CommitStateUnknown

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def publish_overdue(ports: CommitPorts, name: TableName, what: str) -> CommitStateUnknown:
    """Log and publish that an operation is overdue. Returns the error for its callers. what: is not known, as in
    "whether the drop of db.t was made"."""
    logger.warning(
        "The metastore has not answered yet, and it is not known %s. The lock of %s is kept until the metastore "
        "answers or its time is over (`metastore.unanswered-swap-timeout-ms`); other writers of the table wait for "
        "that",
        what,
        name,
    )
    ports.events.publish({"event": "overdue", "table": name})
    return CommitStateUnknown(
        f"it is not known {what}: the metastore has not answered yet",
        next_step="delete nothing; look at the table once its lock is released (`iceberg-hms locks list`)",
    )


def let_locks_expire(ports: CommitPorts, name: TableName, locks: Sequence[HeldLock]) -> float:
    """Do not release locks under which an operation may still be made. Returns for how many seconds they stay."""
    seconds = max((lock.lease_seconds for lock in locks), default=0.0)
    logger.warning(
        "It is still not known whether a metastore works on an operation on %s, which would overwrite later commits. "
        "Its lock stays until its lease of %.0f s ends; a metastore without a reaper keeps it. Once the metastore's "
        "log shows no call that is still running: `iceberg-hms locks list`, `iceberg-hms locks break ID --yes`",
        name,
        seconds,
    )
    for lock in locks:
        lock.let_expire()
    ports.events.publish({"event": "lock-left-to-expire", "table": name, "seconds": seconds})
    return seconds


def run_with_caller_timeout(
    ports: CommitPorts, name: TableName, what: str, operation: Callable[[Callable[[], None]], Result]
) -> Result:
    """Run an operation on a thread of its own, so that its caller can leave when it is overdue: then the operation
    calls its argument, and goes on. Raises what the operation raises, or CommitStateUnknown when it is overdue. what:
    it is, for messages.
    After Ctrl-C the caller waits as `wait_after_interrupt` does: the operation may have been sent.
    """
    settled = ports.runtime.event()
    results: list[Result] = []
    errors: list[BaseException] = []
    unknown: list[CommitStateUnknown] = []

    def overdue() -> None:
        if not unknown:
            unknown.append(publish_overdue(ports, name, f"whether the {what} was made"))
            settled.set()

    def run() -> None:
        try:
            results.append(operation(overdue))
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            errors.append(error)
            if unknown:
                logger.warning("The %s, whose caller has left, ended: %s", what, error)
        else:
            if unknown:
                logger.warning("The %s, whose caller has left, was made", what)
        settled.set()

    try:
        try:
            ports.runtime.spawn(what, run)
        except Exception as error:  # noqa: BLE001 - without a thread the caller cannot leave early; nothing else changes
            logger.warning("The %s is made without a thread of its own: %s", what, error)
            run()
        settled.wait()
    except KeyboardInterrupt as interrupt:
        wait_after_interrupt(settled, interrupt, what)
    if unknown:
        raise unknown[0]
    if errors:
        raise errors[0]
    return results[0]
