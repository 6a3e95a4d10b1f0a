"""The lock of a group whose callers have all left.

A group writes files while it holds its table's lock. A store that hangs (NFS, HDFS) holds the group for as long as it
likes, and the lock's heartbeats would keep all other writers out meanwhile. Once no caller is left nothing of the group
can be sent any more, so its lock is given back at once, on a thread of its own. When the store answers again, the group
finds its lock released (`HeldLock.ensure_held`) and nobody to commit for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from iceberg_hms.coordinator.log_and_continue import REPORT, log_and_continue
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import HeldLock, Runtime, TableName
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit

logger = logging.getLogger(__name__)


class GroupLock:
    """Gives the lock of a group back once nobody waits for the group.

    commits: all of the group. swaps: those that it sent so far; it adds to them.
    """

    def __init__(
        self, runtime: Runtime, name: TableName, commits: Sequence[PendingCommit], swaps: Sequence[SentSwap]
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._commits = commits
        self._swaps = swaps
        self._lock: HeldLock | None = None
        for commit in commits:
            commit.when_withdrawn(self._release_if_abandoned)

    def took(self, lock: HeldLock) -> None:
        """The group holds this lock. Its callers may have left while it waited for it."""
        self._lock = lock
        self._release_if_abandoned()

    def gone(self) -> None:
        """The group has given its lock back."""
        self._lock = None

    def _release_if_abandoned(self) -> None:
        """Called on the thread of each caller that leaves, so it must not wait for the metastore."""
        lock = self._lock
        if lock is None or not abandoned(self._commits):
            return
        # One that is under way without its callers needs the lock until its outcome is known.
        if any(swap.status is CommitStatus.UNKNOWN for swap in self._swaps):
            return
        logger.warning(
            "The callers of a group of %s left before anything of it was sent, so its lock is released. If commits to "
            "the table time out from now on, look whether the store of its metadata hangs",
            self._name,
        )
        with log_and_continue(f"releasing the lock of {self._name}, which nobody waits for", REPORT):
            self._runtime.spawn(f"release {self._name}", lock.release)


def abandoned(commits: Sequence[PendingCommit]) -> bool:
    """Whether some callers of a group have left, and all others have their answers."""
    withdrawn = [commit.withdrawn for commit in commits]
    return any(withdrawn) and all(
        gone or commit.outcome is not None for gone, commit in zip(withdrawn, commits, strict=True)
    )
