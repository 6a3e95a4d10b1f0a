"""Holds a group while its metastore is away, and nothing of it was sent.

A metastore that restarts is away for some seconds. A client that hears so fails its job, unless it sends the commit
again by itself: Java's REST client does after a 429, PyIceberg's does not. So the group begins again, until the
metastore is back or the time of its callers is over. What a failed try wrote no table names.

Only the group is held, on the thread that its table has in any case. Commits that come meanwhile wait in the queue as
ever; one whose time is over has failed for the same reason, and nobody asks the metastore again to say so (`away`).
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from iceberg_hms.clock import away_waits
from iceberg_hms.coordinator.ports import Runtime, TableName
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CompareAndSwapUnproven, MetastoreUnavailable

logger = logging.getLogger(__name__)

#: For how long an outage is known after the last group that met it has ended.
_KNOWN_SECONDS: Final = 5.0
#: How many tables are remembered; the one whose outage is oldest is forgotten first.
REMEMBERED_MAX: Final = 10_000


class Outages:
    """The outages that the groups of a process met. Safe for threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        #: By table: the last error, and until when it counts.
        self._away: OrderedDict[TableName, tuple[MetastoreUnavailable, float]] = OrderedDict()
        self._closed = False

    def begin(self, name: TableName) -> Hold:
        """A group of a table begins."""
        return Hold(self, self._runtime, name)

    def away(self, name: TableName, *, has_turn: bool) -> MetastoreUnavailable | None:
        """Why a commit to a table was not sent, if the metastore is away. has_turn: a group of the table is under way;
        without one its commits wait for a thread, perhaps for that of a table that is held."""
        now = self._runtime.now()
        with self._mutex:
            error, until = self._away.get(name, (None, 0.0))
            if error is not None and now < until:
                return error
            others = (error for error, until in reversed(self._away.values()) if now < until)
            return None if has_turn else next(others, None)

    def note(self, name: TableName, error: MetastoreUnavailable, until: float) -> None:
        """A group found the metastore away; that counts until then, by `Runtime.now()`."""
        with self._mutex:
            self._away[name] = error, until
            self._away.move_to_end(name)
            while len(self._away) > REMEMBERED_MAX:
                self._away.popitem(last=False)

    def note_end(self, name: TableName, until: float) -> None:
        """The group that found the metastore away has ended; what it found counts until then."""
        with self._mutex:
            if name in self._away:
                self._away[name] = self._away[name][0], until

    def forget(self, name: TableName) -> None:
        """A group found the metastore there."""
        with self._mutex:
            self._away.pop(name, None)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Hold nothing any more: the connections are about to be closed."""
        self._closed = True


class Hold:
    """Whether and how long one group is held. Not safe for threads."""

    def __init__(self, outages: Outages, runtime: Runtime, name: TableName) -> None:
        self._outages = outages
        self._runtime = runtime
        self._name = name
        self._waits = away_waits()
        #: When the first try ended.
        self._began: float | None = None
        self._is_away = False

    def wait(self, error: MetastoreUnavailable, commits: Iterable[PendingCommit]) -> None:
        """Wait before the group tries again. Raises the error for its callers if it is not held, or not any longer.
        error: ended the last try, before anything was sent."""
        runtime = self._runtime
        if isinstance(error, CompareAndSwapUnproven) or self._outages.is_closed:
            raise error
        now = runtime.now()
        if self._began is None:
            self._began = now
        self._is_away = True
        given_up = self._given_up(error, now - self._began)
        self._outages.note(self._name, given_up, math.inf)
        deadline = max((commit.deadline for commit in commits if commit.waits), default=now)
        if deadline <= now:
            raise given_up
        if self._began == now:
            logger.warning(
                "The metastore is away, so commits to %s are held, and are sent once it is back: %s", self._name, error
            )
        runtime.sleep(min(next(self._waits) * (1 - runtime.jitter() / 2), deadline - now))

    def found(self) -> None:
        """The metastore is there."""
        if self._is_away and self._began is not None:
            self._is_away = False
            self._outages.forget(self._name)
            seconds = self._runtime.now() - self._began
            logger.info("The metastore is back after %.1f s, in which commits to %s were held", seconds, self._name)

    def ended(self) -> None:
        """The group has ended, and its callers have their answers."""
        if self._is_away:
            self._outages.note_end(self._name, self._runtime.now() + _KNOWN_SECONDS)

    def _given_up(self, error: MetastoreUnavailable, seconds: float) -> MetastoreUnavailable:
        """The error for callers whose time ends now."""
        if not seconds:
            return error
        away = f"The metastore was away for {seconds:.0f} s, and this change was not sent: {error.message}"
        return MetastoreUnavailable(away, next_step=error.next_step)
