"""python -m simulation --schedules N --seed S [--scenario NAME] [--jobs N]"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence

from iceberg_hms.clock import SYSTEM_CLOCK
from simulation.batches import Batch, run_in_batches
from simulation.scenarios.catalogue import SCENARIOS, by_name
from simulation.schedule import Result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules. Returns 0 if none fails, else 1; writes failing seeds and their traces to stdout."""
    options = _parser().parse_args(arguments)
    started = SYSTEM_CLOCK.monotonic()
    total = 0
    answers: Counter[str] = Counter()
    failures: list[Result] = []
    run = Batch(options.scenario, options.seed, 0, options.schedules, options.trace, options.stop)
    for totals in run_in_batches(run, options.jobs):
        total += totals.schedules
        answers.update(totals.answers)
        sys.stdout.write(totals.text)
        sys.stdout.write("".join(map(report, totals.failures)))
        failures += totals.failures
        if failures and options.stop:
            return 1
    seconds = SYSTEM_CLOCK.monotonic() - started
    outcome = f"{len(failures)} failed" if failures else "all invariants held"
    sys.stdout.write(
        f"{total} schedules of {len(by_name(options.scenario))} scenarios from seed {options.seed}: "
        f"{outcome}. {total / seconds:.0f} schedules/s; answers to clients: committed {answers['committed']}, "
        f"failed {answers['failed']}, unknown {answers['unknown']} times\n"
    )
    sys.stdout.write("".join(f"{each.scenario}, seed {each.seed}: {each.failure}\n" for each in failures))
    return 1 if failures else 0


def report(result: Result) -> str:
    """A failure as text: what broke, the trace, and the command that replays it."""
    lines = [
        f"{result.scenario}, seed {result.seed}: {result.failure}",
        "",
        *result.trace,
        "",
        f"again: python -m simulation --scenario {result.scenario} --seed {result.seed} --schedules 1",
        "",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulation",
        description="Run the commit protocol against simulated servers and processes that fail on purpose.",
        epilog="scenarios: " + ", ".join(scenario.name for scenario in SCENARIOS),
    )
    parser.add_argument("--schedules", type=int, default=3000, help="how many schedules to run (default %(default)s)")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="of the first schedule; each next one has the next seed",
    )
    parser.add_argument(
        "--scenario",
        default="all",
        choices=("all", *(scenario.name for scenario in SCENARIOS)),
        metavar="NAME",
        help="run this scenario alone (default: all in turn)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="processes that share the run (default %(default)s); results do not depend on it",
    )
    parser.add_argument("--stop", action="store_true", help="stop at the first schedule that fails")
    parser.add_argument("--trace", action="store_true", help="print the trace of every schedule")
    return parser


def _fix_the_hashes() -> None:
    """Restart Python with fixed string hashes, since the order of a set may decide the order of port calls."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - ourselves, no shell


if __name__ == "__main__":
    _fix_the_hashes()
    sys.exit(main())
