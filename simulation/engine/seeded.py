"""Random numbers from a seed, the same on every machine and Python version."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = 0xFFFF_FFFF_FFFF_FFFF


class SeededRandom:
    """SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """The next 64 bits."""
        self._state = (self._state + 0x9E37_79B9_7F4A_7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return (self.bits() * bound) >> 64

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return (self.bits() >> 11) / 9_007_199_254_740_992

    def between(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self.fraction()

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.fraction() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items. There must be at least one."""
        return items[self.below(len(items))]

    def uuid(self) -> str:
        """Lower case with dashes, like a random one."""
        text = f"{self.bits():016x}{self.bits():016x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def fork(self, label: str) -> SeededRandom:
        """A generator for one part of a schedule: what one part draws does not change what another part gets."""
        return SeededRandom(self.bits() ^ (zlib.crc32(label.encode()) << 17))
