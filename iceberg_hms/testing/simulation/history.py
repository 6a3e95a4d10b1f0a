"""What every client asked for, and what it was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class Told(Enum):
    """What a client knows of an attempt. A failed one is proved to be absent: it deletes its data files then."""

    NOTHING = "nothing"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Kind(Enum):
    """Who wrote it. OURS: a coordinator. LOCKED: a foreign writer with the lock and a blind swap. SWAPPED: a foreign
    writer with compare-and-swap and no lock. STRAY: a foreign writer that swaps blindly after it lost its lock."""

    OURS = "ours"
    LOCKED = "locked"
    SWAPPED = "swapped"
    STRAY = "stray"


@dataclass(slots=True, eq=False)
class Attempt:
    """One change object that was given to a coordinator, or built by a foreign writer.

    wish: what the client wants; several attempts may serve one, and at most one of them may be in the table.
    snapshot_id, data_file: of an append. mark: the property that any other change sets.
    ref: the tag that it makes, and the snapshot that the tag names. assumes_main: (True, main's snapshot) if the change
    requires main to be there, (False, None) if it does not care.
    denied: it was in the table when it was sent again, and was refused for what it is.
    """

    wish: str
    writer: str
    kind: Kind = Kind.OURS
    snapshot_id: int | None = None
    data_file: str | None = None
    mark: str | None = None
    ref: tuple[str, int] | None = None
    assumes_main: tuple[bool, int | None] = (False, None)
    told: Told = Told.NOTHING
    denied: bool = False


@dataclass(slots=True)
class History:
    """All attempts, in the order in which they began. on_told: called after each answer."""

    attempts: list[Attempt] = field(default_factory=list)
    on_told: Callable[[Attempt], None] | None = None

    def begin(self, attempt: Attempt) -> Attempt:
        self.attempts.append(attempt)
        return attempt

    def tell(self, attempt: Attempt, told: Told) -> None:
        """Note an answer. Once it was unknown whether an attempt is in the table, a later failure proves nothing."""
        if attempt.told is Told.UNKNOWN and told is Told.FAILED:
            return
        attempt.told = told
        if self.on_told is not None:
            self.on_told(attempt)

    def by_wish(self) -> dict[str, list[Attempt]]:
        wishes: defaultdict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            wishes[attempt.wish].append(attempt)
        return wishes
