"""Plants a defect, which breaks one rule of the protocol, in a copy of the package, and runs the simulation on it.

A mutant that survives means that the simulation cannot see the rule that the mutant breaks: add the fault, the writer
or the invariant that shows it. The texts are those of the sources; a test fails when one does not match exactly once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import iceberg_hms
import simulation
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import InvalidInput
from simulation.mutants.planted import Mutant

#: The folder of the package.
PACKAGE = Path(iceberg_hms.__file__).parent
#: Seconds for one mutant.
_TIMEOUT = 3600


@dataclass(frozen=True, slots=True)
class MutantResult:
    """found: the broken invariant and its finding, None if the mutant survived. schedules: how many were run."""

    mutant: Mutant
    found: str | None
    scenario: str
    schedules: int
    seconds: float


def patched(source: str, mutant: Mutant) -> str:
    """A module's text with the defect in it. Raises InvalidInput if the old text is not there exactly once."""
    count = source.count(mutant.old)
    if count != 1:
        raise InvalidInput(f"{mutant.name}: {mutant.module} has the text {count} times, not once")
    return source.replace(mutant.old, mutant.new)


def plant(mutant: Mutant, folder: Path) -> None:
    """Copy the package and the simulation below a folder and put the defect into the copy."""
    for source in (PACKAGE, Path(simulation.__file__).parent):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    module = folder / PACKAGE.name / mutant.module
    module.write_text(patched(module.read_text(encoding="utf-8"), mutant), encoding="utf-8")


def hunt(mutant: Mutant, *, schedules: int, seed: int) -> MutantResult:
    """Run the simulation on a copy of the package with one defect."""
    started = SYSTEM_CLOCK.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant of iceberg-hms ") as name:
        plant(mutant, Path(name))
        command = [sys.executable, "-m", "simulation", "--stop"]
        command += ["--schedules", str(schedules), "--seed", str(seed), "--scenario", mutant.scenario]
        finished = subprocess.run(  # noqa: S603 - our own module, no shell
            command,
            cwd=name,
            env={**os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    seconds = SYSTEM_CLOCK.monotonic() - started
    first = finished.stdout.partition("\n")[0]
    report = re.match(r"([a-z-]+), seed (\d+): (.*)", first)
    if report is not None and finished.returncode == 1:
        return MutantResult(mutant, report[3], report[1], int(report[2]) - seed + 1, seconds)
    if finished.returncode == 0:
        return MutantResult(mutant, None, "", schedules, seconds)
    raise InvalidInput(f"{mutant.name} does not run: {finished.stderr.strip().splitlines()[-1:]}")


def table(results: Sequence[MutantResult]) -> str:
    """One line a mutant."""
    lines = [f"{'mutant':<40} {'found by':<26} {'in scenario':<20} {'schedule':>8} {'seconds':>8}"]
    for each in results:
        found = "SURVIVED" if each.found is None else each.found.partition(":")[0]
        lines.append(f"{each.mutant.name:<40} {found:<26} {each.scenario:<20} {each.schedules:>8} {each.seconds:>8.1f}")
    caught = sum(each.found is not None for each in results)
    return "\n".join([*lines, f"{caught} of {len(results)} found", ""])
