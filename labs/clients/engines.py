"""The engines' modules, and what each one gives."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from labs.clients.lab import Lab, Place
from labs.clients.results import Verdict

Check = Callable[[Place], Verdict | None]

#: Modules of this package, in the order in which they run.
MODULES: Final[tuple[str, ...]] = ("trino", "java", "duckdb", "flink", "pyiceberg")


@dataclass(frozen=True)
class Client:
    """An engine by one way to the tables. engine: the name of its column. checks: by their names in `checks.CHECKS`."""

    engine: str
    version: str
    checks: Mapping[str, Check]


def start(module: str, lab: Lab) -> AbstractContextManager[Sequence[Client]]:
    """The clients of an engine, which lives as long as the context."""
    engine: Any = importlib.import_module(f"{__package__}.{module}")
    started: AbstractContextManager[Sequence[Client]] = engine.start(lab)
    return started
