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
    """Hunt the mutants. Returns 0 if all are found, else 1; writes a table to stdout."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation.mutants",
        description="Plant each defect in a copy of the package, and run the simulation until it finds the defect.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="hunt these alone (default: all)")
    parser.add_argument("--schedules", type=int, default=10_000, help="at most, for each mutant (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants to hunt at the same time (default %(default)s)")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}; known: {', '.join(m.name for m in MUTANTS)}")
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    results = []
    for mutant in chosen:
        # Refuse a text that does not match now: a hunt takes minutes.
        patched((PACKAGE / mutant.module).read_text(encoding="utf-8"), mutant)
    with ThreadPoolExecutor(options.jobs) as executor:
        for result in executor.map(partial(hunt, schedules=options.schedules, seed=options.seed), chosen):
            results.append(result)
            sys.stderr.write(table([result]).splitlines()[1] + "\n")
    sys.stdout.write(table(results))
    return 0 if all(each.found is not None for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
