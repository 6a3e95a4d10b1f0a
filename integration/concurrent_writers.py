"""Writers of all kinds that append to one table at the same time, and the result of each append.

    with ExitStack() as stack:
        writers = ConcurrentWriters(stack, table, folder, appends=3)
        writers.process("ours", metastore.uri, metastore.warehouse)
        writers.java("java", spark, catalog)
        results = writers.run()

Each writer has loaded the table before the first one starts, so all of them build their first append on the same base.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iceberg_hms.testing.history import check_table
from integration import interop
from integration.appender import COMMIT_FAILED, appended

#: The error of an append whose writer was killed: it may have landed.
KILLED = "killed"
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class AppendResult:
    """The result of one append.

    error: None when it was acknowledged. refused: the error proves that nothing of it is in the table.
    snapshot_id: of a success, if the client returns it.
    """

    writer: str
    path: str
    error: str | None
    refused: bool
    snapshot_id: int | None = None

    @property
    def acknowledged(self) -> bool:
        return self.error is None

    @property
    def items(self) -> list[int | str]:
        """For `iceberg_hms.testing.history.check_table`."""
        return [self.path, *([] if self.snapshot_id is None else [self.snapshot_id])]


class ConcurrentWriters:
    """Writers of one table. Each appends `appends` files to it, one a commit. What is started here ends with the stack.

    folder: for the data files; made here, or a location on S3, for processes alone.
    seconds: that a writer may take for all of its appends.
    """

    def __init__(self, stack: ExitStack, table: str, folder: Path | str, *, appends: int, seconds: float = 240) -> None:
        self._stack = stack
        self._table = table
        self._folder = folder
        self._appends = appends
        self._seconds = seconds
        self._processes: list[subprocess.Popen[str]] = []
        self._writers: list[Callable[[], list[AppendResult]]] = []
        if isinstance(folder, Path):
            folder.mkdir(exist_ok=True)

    def process(
        self, name: str, uri: str, warehouse: str, *, client: str = "library", **environ: str
    ) -> subprocess.Popen[str]:
        """A writer in a process of its own; appender.py lists the clients. The caller may kill it (SIGKILL): the append
        that it was at has the error KILLED then."""
        writer = len(self._writers)
        where = [uri, warehouse, self._table, str(self._folder), str(writer), str(self._appends), client]
        process = subprocess.Popen(
            [sys.executable, "-m", "integration.appender", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environ},
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        self._processes.append(process)

        def append() -> list[AppendResult]:
            output, _ = process.communicate("go\n", timeout=self._seconds)
            assert process.returncode in (0, -signal.SIGKILL)
            results = [AppendResult(name, **json.loads(line)) for line in output.splitlines()]
            if process.returncode and len(results) < self._appends:
                path = appended(client, str(self._folder), writer, len(results))
                results.append(AppendResult(name, path, KILLED, refused=False))
            return results

        self._writers.append(append)
        return process

    def java(self, name: str, spark: Any, catalog: Any) -> None:
        """A catalog object of Java, on a thread of its own."""
        writer = len(self._writers)
        table = catalog.loadTable(interop.java_identifier(spark, self._table))

        def append() -> list[AppendResult]:
            results = []
            for number in range(self._appends):
                path = interop.small_parquet(
                    Path(self._folder) / f"{writer}-{number}.parquet", [writer * 1_000_000 + number]
                )
                change = table.newFastAppend().appendFile(interop.java_data_file(spark, table, path))
                error = interop.java_error(change.commit)
                refused = error is not None and error.startswith(COMMIT_FAILED)
                results.append(AppendResult(name, f"file:{path}", error, refused))
            return results

        self._writers.append(append)

    def run(self, before: Callable[[], object] = lambda: None) -> list[AppendResult]:
        """Start all, once each has loaded the table, and wait for them. before: called at that moment."""
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        before()
        with ThreadPoolExecutor(len(self._writers)) as pool:
            running = [pool.submit(append) for append in self._writers]
            return [results for each in running for results in each.result()]


def processes_lose_nothing(
    server: Any, catalog: Any, table: str, folder: Path, *, processes: int, appends: int, **environ: str
) -> list[str]:
    """Let several processes of the library append to an empty table at the same time: none fails, and the table has
    each file once. Returns the files, sorted."""
    with ExitStack() as stack:
        writers = ConcurrentWriters(stack, table, folder, appends=appends)
        for _ in range(processes):
            writers.process("library", server.uri, server.warehouse, **environ)
        results = writers.run()
    assert [each for each in results if not each.acknowledged] == []
    paths = sorted(each.path for each in results)
    assert len(paths) == processes * appends
    report = check_table(catalog, table, acknowledged=[item for each in results for item in each.items])
    report.raise_if_broken()
    assert list(report.data_files) == paths
    assert report.snapshots == len(paths)
    return paths


def summary(results: Iterable[AppendResult]) -> str:
    """How often each writer got which result, for people."""
    counts: dict[str, Counter[str]] = {}
    for each in results:
        outcome = "acknowledged" if each.error is None else each.error.partition(":")[0].rpartition(".")[2]
        counts.setdefault(each.writer, Counter())[outcome] += 1
    return "; ".join(f"{writer}: {dict(outcomes)}" for writer, outcomes in counts.items())
