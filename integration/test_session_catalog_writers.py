"""Two Spark applications that write one table at once, one through the server in its driver, one through a server that
runs elsewhere: what is acknowledged is there, as if one statement ran after the other."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from integration.session_catalog.sessions import served, session_work
from integration.session_catalog.writers import READY, Share
from integration.spark_fixtures import SETTINGS, start_program

INSERTS, MERGES, THREADS = 16, 8, 4
#: Both applications, from their start to their end, on a busy machine.
SECONDS = 600


def start(metastore: Any, kind: str, server_uri: str, table: str, first: int, folder: Path) -> subprocess.Popen[str]:
    """An application that waits for a line before it writes. It ends when this process does, since its input does."""
    settings = {**SETTINGS, "spark.local.dir": str(folder), "spark.master": f"local[{THREADS}]"}
    shares = {"inserts": list(range(first, first + INSERTS)), "merges": MERGES, "threads": THREADS}
    work = session_work(metastore, kind, server_uri, settings, table=table, **shares)
    return start_program("integration.session_catalog.writers", work, folder.parent / f"{folder.name}.log")


def wait_until_warm(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert any(line.strip() == READY for line in process.stdout), "the application ended; its log says why"


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> Share:
    output, _ = process.communicate(timeout=SECONDS)
    return Share(**json.loads(output.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_two_applications_write_as_one_after_the_other(
    spark: Any, metastore: Any, namespace: str, tmp_path: Path, mode: str
) -> None:
    table = f"{namespace}.t"
    properties = f"'write.merge.mode' = '{mode}', 'commit.retry.num-retries' = '20'"
    spark.sql(f"CREATE TABLE {table} (id INT, n INT) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} VALUES (0, 0)")
    with ExitStack() as stack:
        uri = stack.enter_context(served(metastore, tmp_path / "server.log"))
        applications = []
        for number, kind in enumerate(("embedded", "stand-alone"), 1):
            process = start(metastore, kind, uri, table, 100 * number, tmp_path / kind)
            stack.callback(process.kill)
            applications.append(process)
        for application in applications:
            wait_until_warm(application)
        for application in applications:
            go(application)
        shares = [end(application) for application in applications]
    for share in shares:
        assert share.errors == []
        assert (len(share.inserted), share.merged) == (INSERTS, MERGES)
    expected = [(0, 2 * MERGES), *((number, 0) for share in shares for number in share.inserted)]
    assert sorted(tuple(row) for row in spark.table(table).collect()) == expected
    # Each acknowledged statement made one snapshot, and a refused attempt none.
    assert spark.table(f"{table}.snapshots").count() == 1 + 2 * (INSERTS + MERGES)
    assert spark.table(f"{table}.history").where("is_current_ancestor").count() == 1 + 2 * (INSERTS + MERGES)
