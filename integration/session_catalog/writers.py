"""INSERTs and MERGEs on threads of one Spark application, as a program of its own.

    python -m integration.session_catalog.writers < work.json

The work: `kind`, `metastore_uri`, `warehouse`, `server_uri`, `settings`, `table`, `inserts` (the rows' ids), `merges`
(how many), `threads`. It prints a line when its session is warm, starts with the first line of its input after that,
and prints a `Share` as its last line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from integration.session_catalog.sessions import java_exception, open_session

READY: Final = "ready"
#: How often a refused statement is sent again.
ATTEMPTS: Final = 60
#: In the error of a statement that changed nothing.
_REFUSED: Final = ("CommitFailedException", "ValidationException")


@dataclass(frozen=True)
class Share:
    """What became of one application's statements. inserted: ids of the acknowledged rows; merged: acknowledged MERGEs;
    refused: attempts that changed nothing; errors: of statements whose outcome no one knows, or that were given up."""

    inserted: Sequence[int]
    merged: int
    refused: int
    errors: Sequence[str]


def attempt(spark: Any, statement: str) -> tuple[int, str | None]:
    """Run a statement until it is acknowledged. Returns how often it was refused, and the error that ended it."""
    text = ""
    for refused in range(ATTEMPTS):
        try:
            spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - py4j and Spark raise many types
            thrown = java_exception(error)
            text = str(error) if thrown is None else str(thrown.toString())
            if not any(name in text for name in _REFUSED):
                return refused, text
        else:
            return refused, None
    return ATTEMPTS, text


def main(work: dict[str, Any]) -> Share:
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    spark = open_session(work)
    try:
        table = work["table"]
        into, using = f"INSERT INTO {table} VALUES", "USING (SELECT 0 AS id) s ON t.id = s.id"
        jobs = [(number, f"{into} ({number}, 0)") for number in work["inserts"]]
        merge = f"MERGE INTO {table} t {using} WHEN MATCHED THEN UPDATE SET n = t.n + 1"
        step = max(1, len(jobs) // max(1, work["merges"]))
        for place in range(work["merges"]):
            jobs.insert(place * (step + 1), (None, merge))
        spark.sql(f"SELECT * FROM {table}").collect()
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            raise SystemExit("the test has ended")
        with ThreadPoolExecutor(work["threads"]) as pool:
            ends = list(pool.map(lambda job: attempt(spark, job[1]), jobs))
    finally:
        spark.stop()
    made = [number for (number, _), (_, error) in zip(jobs, ends, strict=True) if error is None]
    return Share(
        inserted=[number for number in made if number is not None],
        merged=made.count(None),
        refused=sum(refused for refused, _ in ends),
        errors=[error for _, error in ends if error is not None],
    )


if __name__ == "__main__":
    share = main(json.loads(sys.stdin.readline()))
    sys.stdout.write(json.dumps(asdict(share)) + "\n")
