"""One writer, as a program of its own.

    python -m benchmarks.worker JOB      (JSON: kind, settings, warm_up, and for java folder)

It makes a commit to the table `warm_up`, so that connections and verdicts are there, and answers. Each line of its
input is an order, each answer a line of JSON: {"table": name} loads a table, {"commits": n} makes so many commits to it
and tells what came of them; with "seconds" it tells after so many at the latest. It ends when its input ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.writers import JavaHive, Library, PyIceberg, Writer, count_calls

OPEN: dict[str, Callable[[dict[str, Any]], Writer]] = {
    "library": lambda job: Library(job["settings"]),
    "java": lambda job: JavaHive(job["settings"], Path(job["folder"])),
    "pyiceberg": lambda job: PyIceberg(job["settings"]),
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
                _say({**_make(writer, order["commits"], order.get("seconds")), "calls": calls})
    finally:
        writer.close()


def _make(writer: Writer, commits: int, limit: float | None) -> dict[str, Any]:
    """seconds: of the commits that succeeded. started, ended: of all, on the clock that the processes share.
    unfinished: commits that were begun and not answered within the limit; the writer is of no use then."""
    seconds: list[float] = []
    errors: list[str] = []
    snapshot_ids: list[int] = []
    started = time.monotonic()

    def make() -> None:
        for _ in range(commits):
            if limit is not None and time.monotonic() - started > limit:
                return
            before = time.perf_counter()
            try:
                made = writer.commit()
            except Exception as error:  # noqa: BLE001 - of Java's any, and a defect of ours is a failed commit too
                errors.append(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            else:
                seconds.append(time.perf_counter() - before)
                snapshot_ids.extend(made)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(limit)
    return {
        "seconds": list(seconds),
        "errors": list(errors),
        "snapshot_ids": list(snapshot_ids),
        "started": started,
        "ended": time.monotonic(),
        "unfinished": int(thread.is_alive()),
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
