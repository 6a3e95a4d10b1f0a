"""One writer, as a program of its own.

    python -m benchmarks.worker JOB      (JSON: kind, settings, warm_up, and for java folder)

It makes a commit to the table `warm_up`, so that connections and verdicts are there, and answers. Each line of its
input is an order, each answer a line of JSON: {"table": name} loads a table, {"commits": n} makes so many commits to it
and tells what came of them. It ends when its input ends.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.writers import JavaHive, Library, count_calls

OPEN = {
    "library": lambda job: Library(job["settings"]),
    "java": lambda job: JavaHive(job["settings"], Path(job["folder"])),
}


def main(job: dict[str, Any]) -> None:
    calls = count_calls()
    writer = OPEN[job["kind"]](job)
    try:
        writer.load(job["warm_up"])
        writer.commit()
        _say({})
        for line in sys.stdin:
            order = json.loads(line)
            if "table" in order:
                writer.load(order["table"])
                _say({})
            else:
                calls.clear()
                _say({**_make(writer, order["commits"]), "calls": calls})
    finally:
        writer.close()


def _make(writer: Any, commits: int) -> dict[str, Any]:
    """seconds: of the commits that succeeded. started, ended: of all, on the clock that the processes share."""
    seconds, errors, snapshot_ids = [], [], []
    started = time.monotonic()
    for _ in range(commits):
        before = time.perf_counter()
        try:
            made = writer.commit()
        except Exception as error:  # noqa: BLE001 - of Java's any, and a defect of ours is a failed commit too
            errors.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            seconds.append(time.perf_counter() - before)
            snapshot_ids += made
    return {
        "seconds": seconds,
        "errors": errors,
        "snapshot_ids": snapshot_ids,
        "started": started,
        "ended": time.monotonic(),
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
