"""What a planted defect is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """name: for the table. breaks: the rule that it breaks. module: path below the package. old, new: its text.
    scenario: where it is hunted; one alone for what the turns of all would take too long to show."""

    name: str
    breaks: str
    module: str
    old: str
    new: str
    scenario: str = "all"
