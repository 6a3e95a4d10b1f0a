"""python -m simulation.mutants [NAME ...]"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from simulation.mutants.hunt import PACKAGE, hunt, patched, table
from simulation.mutants.planted import MUTANTS


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt every mutant. Returns 0 if all are found, else 1; the table goes to stdout."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation.mutants",
        description="Plant each defect in a copy of the package, and run the simulation until it finds the defect.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone (default: all)")
    parser.add_argument("--schedules", type=int, default=10_000, help="at most, a mutant (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=1, help="mutants hunted side by side (default %(default)s)")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in MUTANTS)}")
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    verdicts = []
    for mutant in chosen:
        # All before the first hunt, which takes minutes.
        patched((PACKAGE / mutant.module).read_text(encoding="utf-8"), mutant)
    with ThreadPoolExecutor(options.jobs) as executor:
        for verdict in executor.map(partial(hunt, schedules=options.schedules, seed=options.seed), chosen):
            verdicts.append(verdict)
            sys.stderr.write(table([verdict]).splitlines()[1] + "\n")
    sys.stdout.write(table(verdicts))
    return 0 if all(each.found is not None for each in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
