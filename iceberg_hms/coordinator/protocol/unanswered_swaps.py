"""What is said and done about a move that is not answered, and that nothing but its lock fences.

Its callers hear that its state is unknown when the ordinary time is over. The move goes on without them under its lock,
and what comes of it is published. If that is still unknown at last, the lock is not given back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from iceberg_hms.coordinator.ports import CommitPorts, HeldLock, TableName
from iceberg_hms.coordinator.protocol.caller_timeouts import on_caller_timeout
from iceberg_hms.errors import CommitStateUnknown

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def publish_overdue(world: CommitPorts, name: TableName, what: str) -> CommitStateUnknown:
    """Publish that a move is overdue. Returns what its callers hear. what: is not known."""
    logger.warning(
        "The metastore has not answered yet, and it is not known %s. The lock of %s is kept until the metastore "
        "answers, or has had its time (`metastore.unanswered-swap-timeout-ms`); its other writers wait for that",
        what,
        name,
    )
    world.events.publish({"event": "overdue", "table": name})
    return CommitStateUnknown(
        f"it is not known {what}: the metastore has not answered yet",
        next_step="delete nothing; look at the table once its lock is given back (`iceberg-hms locks list`)",
    )


def leave_locks_to_expire(world: CommitPorts, name: TableName, locks: Sequence[HeldLock]) -> float:
    """Do not give locks back under which a move may still be made. Returns for how many seconds they stay."""
    seconds = max((lock.lease_seconds for lock in locks), default=0.0)
    logger.warning(
        "It is still not known whether a metastore works on a swap of %s, which would overwrite later commits. Its "
        "lock stays until its lease of %.0f s ends; a metastore without a reaper keeps it. Once the metastore's log "
        "shows no call that is still running: `iceberg-hms locks list`, `iceberg-hms locks break ID --yes`",
        name,
        seconds,
    )
    for lock in locks:
        lock.let_expire()
    world.events.publish({"event": "lock-left-to-expire", "table": name, "seconds": seconds})
    return seconds


def run_with_caller_timeout(world: CommitPorts, name: TableName, what: str, move: Callable[[], Result]) -> Result:
    """Make a move on a thread of its own, so that its caller may leave when it is overdue. Raises what the move raises,
    and CommitStateUnknown when its caller leaves; the move goes on then. what: it is, for messages."""
    settled = world.runtime.event()
    results: list[Result] = []
    errors: list[BaseException] = []
    unknown: list[CommitStateUnknown] = []

    def overdue() -> None:
        if not unknown:
            unknown.append(publish_overdue(world, name, f"whether the {what} was made"))
            settled.set()

    def run() -> None:
        try:
            with on_caller_timeout(overdue):
                results.append(move())
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            errors.append(error)
            if unknown:
                logger.warning("The %s, whose caller has left, ended: %s", what, error)
        else:
            if unknown:
                logger.warning("The %s, whose caller has left, was made", what)
        settled.set()

    try:
        world.runtime.spawn(what, run)
    except Exception as error:  # noqa: BLE001 - there is no thread to be had: its caller cannot leave, and that is all
        logger.warning("The %s is made without a thread of its own: %s", what, error)
        run()
    settled.wait()
    if unknown:
        raise unknown[0]
    if errors:
        raise errors[0]
    return results[0]
