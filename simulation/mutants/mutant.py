"""What a planted defect is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect.

    name: what the defect does. breaks: the rule that it breaks. module: a path below the package.
    old, new: a text that stands once in the module, and what replaces it.
    scenario: the one to run; `all` where a few schedules of each are enough to show it.
    """

    name: str
    breaks: str
    module: str
    old: str
    new: str
    scenario: str = "all"
