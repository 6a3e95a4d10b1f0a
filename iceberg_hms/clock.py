"""The only module that reads the clock, sleeps, or makes ids and random numbers.

All other modules get a `Clock`; the tidy test refuses direct calls of `time`, `random`, `uuid` and `datetime.now`
elsewhere. So a test or a simulation can set the time, and replay a run from its seed.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

#: By how much the clocks of two writers may differ: Java tolerates a minute before it calls a log unordered.
CLOCK_SKEW_MS: Final = 60_000
#: Where there is no boot clock (macOS), only the wall clock shows that the machine was suspended.
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class ClockReading:
    """Three clocks read at once, in seconds, to compute the age of a lease. None of them alone will do.

    running: the monotonic clock; stops while the machine is suspended.
    boot: the boot clock; goes on while the machine is suspended, stops while a virtual machine is paused.
    wall: the wall clock; is corrected after such a pause, and may be set wrong at any time, back or forth.
    """

    running: float
    boot: float
    wall: float

    def max_seconds_since(self, earlier: ClockReading) -> float:
        """Seconds, by the clock that advanced most: how old a holder must assume its own lease is."""
        return max(0.0, self.running - earlier.running, self.boot - earlier.boot, self.wall - earlier.wall)

    def min_seconds_since(self, earlier: ClockReading) -> float:
        """Seconds, by the clock that advanced least: how long another holder has certainly been silent."""
        return max(0.0, min(self.running - earlier.running, self.boot - earlier.boot, self.wall - earlier.wall))


class Clock(Protocol):
    """Time, sleep and ids. Durations are seconds as float, timestamps milliseconds since 1970 as int."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; for waits and durations. For leases: `reading`."""
        ...

    def now_ms(self) -> int:
        """Wall clock, in milliseconds since 1970 UTC; for timestamps in metadata alone, never for a lease."""
        ...

    def read_clocks(self) -> ClockReading:
        """All clocks at once; for leases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def uuid(self) -> str:
        """A new random UUID, lower case with dashes."""
        ...

    def snapshot_id(self) -> int:
        """A new random positive 63-bit id (spec: snapshots, `snapshot-id`)."""
        ...

    def jitter(self) -> float:
        """A random number in [0, 1), to spread waits."""
        ...


class SystemClock:
    """The real clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def read_clocks(self) -> ClockReading:
        return ClockReading(self.monotonic(), time.clock_gettime(_BOOT), self.now_ms() / 1000)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def snapshot_id(self) -> int:
        # As Java's SnapshotIdGeneratorUtil: both halves of a random UUID, xored, without the sign bit.
        value = uuid.uuid4().int
        return ((value >> 64) ^ value) & 0x7FFF_FFFF_FFFF_FFFF

    def jitter(self) -> float:
        return random.random()  # noqa: S311 - spreads waits, keeps no secret


SYSTEM_CLOCK: Clock = SystemClock()

#: The longest time between two tries of something that is away, such as a metastore that restarts.
LONGEST_AWAY_SECONDS: Final = 1.0


def away_waits() -> Iterator[float]:
    """Seconds to wait between tries of something that is away: they double from 0.05 to `LONGEST_AWAY_SECONDS`. Who
    waits leaves out up to half of each at random, so that many do not come back together."""
    seconds = 0.05
    while True:
        yield seconds
        seconds = min(2 * seconds, LONGEST_AWAY_SECONDS)


def instant(timestamp_ms: int | None) -> str | None:
    """Milliseconds since 1970 as `2021-04-01 10:00:00.000 UTC`; the number itself beyond the calendar's years."""
    if timestamp_ms is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"
