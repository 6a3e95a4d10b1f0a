"""Two callers at once, each with a namespace: B does what is right (`honest_caller.py`), A tries to reach what is B's
(`hostile_caller.py`), and an operator maintains the tables of both.

    make fuzz-callers REQUESTS=50000 SEED=7 MINUTES=30

On a real metastore, or with --in-memory. No row, file or pointer of another namespace than A's changes but by B's own
requests, and nothing of B or of the operator is refused. What each thread asks comes of the seed; which request of one
comes before which of another does not.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import IcebergHmsError, MetastoreUnavailable
from iceberg_hms.local.metastore import LocalMetastore
from tests.security.fuzz import Broken, require
from tests.security.honest_caller import HonestCaller
from tests.security.hostile_caller import STANDING_TABLES, TABLES, HostileCaller
from tests.security.neighbours import InMemory, Neighbours, OnHms

#: Threads of each caller.
HONEST, HOSTILE = 2, 3
#: How many times as long as a look at what stands takes, or a job of the operator, is the pause after it.
PAUSES = 4
#: How long a thread may take to end.
END_SECONDS = 180


@dataclass
class Outcome:
    """statuses: of A's requests. succeeded: how many did, by kind. did: B's steps and the operator's jobs, by name.
    deferred: how often B was asked to send again. looks: at what stands."""

    requests: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    did: Counter[str] = field(default_factory=Counter)
    deferred: int = 0
    looks: int = 0
    seconds: float = 0.0


class Operator:
    """Maintains tables through the Python API, which nothing restricts."""

    def __init__(self, world: Neighbours, seed: int) -> None:
        self._world = world
        self._random = random.Random(f"{seed} operator")
        self.did: Counter[str] = Counter()

    def step(self) -> None:
        """One job. Raises Broken if it was refused on a table of others than A, or deleted a file of such a one."""
        if self._random.random() < 0.6:
            table, job = f"a.{self._random.choice(TABLES)}", self._random.choice((self._expire, self._remove_orphans))
            try:
                job(table)
            except IcebergHmsError as error:
                self.did[f"A's refused by {type(error).__name__}"] += 1
            return
        table = self._random.choice(STANDING_TABLES)
        try:
            deleted = self._remove_orphans(table)
        except MetastoreUnavailable:
            self.did["unavailable"] += 1
            return
        except IcebergHmsError as error:
            raise Broken(f"no orphans of {table} could be removed: {error!r}") from error
        require(not deleted, f"the sweep of {table} deleted {deleted}")

    def _expire(self, table: str) -> list[str]:
        self.did["expire"] += 1
        loaded = self._world.operator.load_table(table)
        found = loaded.expire_snapshots(older_than=SYSTEM_CLOCK.now_ms() + 60_000, retain_last=1, wait_seconds=20)
        return found.files.locations

    def _remove_orphans(self, table: str) -> list[str]:
        self.did["remove orphans"] += 1
        loaded = self._world.operator.load_table(table)
        found = loaded.remove_orphan_files(
            older_than=SYSTEM_CLOCK.now_ms() + 60_000, force=True, prefix_mismatch="delete"
        )
        return found.files.locations


class Run:
    """All threads over one world. requests: of both callers together, after which it ends. until: the time at which it
    ends at the latest, on the monotonic clock."""

    def __init__(self, world: Neighbours, seed: int, requests: int, until: float) -> None:
        self._world, self._requests, self._until = world, requests, until
        self.honest = [HonestCaller(world, number, seed) for number in range(HONEST)]
        self.hostile = [HostileCaller(world, number, seed, self.honest) for number in range(HOSTILE)]
        self.operator = Operator(world, seed)
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self.looks = 0

    def run(self, tell: Callable[[int], None] = lambda _sent: None) -> Outcome:
        """Until it is over. tell: called now and then with the number of requests. Raises what broke first."""
        started = SYSTEM_CLOCK.monotonic()
        jobs = [
            *((f"B {number}", each.step, 0) for number, each in enumerate(self.honest)),
            *((f"A {number}", each.step, 0) for number, each in enumerate(self.hostile)),
            ("operator", self.operator.step, PAUSES),
            ("look", self._look, PAUSES),
        ]
        threads = [threading.Thread(target=self._repeat, args=job, name=job[0], daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        while not self._ended.wait(5):
            tell(self.sent)
        for thread in threads:
            thread.join(END_SECONDS)
        for each in self.honest:
            each.close()
        if self._failures:
            raise self._failures[0]
        require(not any(thread.is_alive() for thread in threads), "a thread does not end")
        for each in self.honest:
            each.check_unchanged()
        self._look()
        did = sum((Counter(each.did) for each in self.honest), self.operator.did)
        statuses = sum((each.statuses for each in self.hostile), Counter[str]())
        succeeded = sum((each.did for each in self.hostile), Counter[str]())
        deferred = sum(each.deferred for each in self.honest)
        return Outcome(self.sent, statuses, succeeded, did, deferred, self.looks, SYSTEM_CLOCK.monotonic() - started)

    @property
    def sent(self) -> int:
        """Requests of both callers."""
        return sum(each.requests for each in self.honest) + sum(each.statuses.total() for each in self.hostile)

    def _look(self) -> None:
        changes = self._world.changes()
        require(not changes, "what stands changed:\n" + "\n".join(changes[:20]))
        self.looks += 1

    def _repeat(self, name: str, step: Callable[[], None], pauses: int) -> None:
        try:
            while not self._ended.is_set():
                began = SYSTEM_CLOCK.monotonic()
                step()
                if self.sent >= self._requests or SYSTEM_CLOCK.monotonic() > self._until:
                    self._ended.set()
                self._ended.wait(pauses * (SYSTEM_CLOCK.monotonic() - began))
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            # The first says what broke; others may follow from it.
            self._failures.append(error)
            error.add_note(f"in {name}, after {self.sent} requests; the last of A:")
            for each in self.hostile:
                error.add_note("\n".join(each.last))
            self._ended.set()


@contextmanager
def in_memory(folder: Path) -> Iterator[Neighbours]:
    """A world over a catalog in memory. folder: for its files."""
    warehouse = folder / "wh"
    warehouse.mkdir()
    with Neighbours(InMemory(warehouse), folder, warehouse) as world:
        yield world


@contextmanager
def on_metastore(server: Any, folder: Path, warehouse: Path) -> Iterator[Neighbours]:
    """A world over a real metastore, whose databases have folders below `warehouse`."""
    metastore = OnHms(server.uri, f"file:{warehouse}")
    try:
        with Neighbours(metastore, folder, warehouse) as world:
            yield world
    finally:
        metastore.close()


def fuzz(world: Neighbours, seed: int, requests: int, minutes: float, tell: Callable[[int], None]) -> Outcome:
    """Run both callers. Raises Broken."""
    return Run(world, seed, requests, SYSTEM_CLOCK.monotonic() + 60 * minutes).run(tell)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=50_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=60.0, help="it ends then with fewer requests")
    options.add_argument("--in-memory", action="store_true", help="no metastore")
    given = options.parse_args()
    logging.disable(logging.CRITICAL)

    def tell(sent: int) -> None:
        print(f"{sent} requests", flush=True)

    with tempfile.TemporaryDirectory(prefix="iceberg-hms-") as name:
        folder = Path(name).resolve()
        try:
            if given.in_memory:
                with in_memory(folder) as world:
                    found = fuzz(world, given.seed, given.requests, given.minutes, tell)
            else:
                with (
                    LocalMetastore(folder / "hms") as server,
                    on_metastore(server, folder, folder / "hms" / "warehouse") as world,
                ):
                    found = fuzz(world, given.seed, given.requests, given.minutes, tell)
        except BaseException:
            print(f"failed; the same requests again: make fuzz-callers SEED={given.seed}", file=sys.stderr)
            raise
    print(f"{found.requests} requests in {found.seconds:.0f} s, seed {given.seed}; {found.looks} looks at what stands")
    print("A:", ", ".join(f"{status}: {count}" for status, count in sorted(found.statuses.items())))
    print("of which succeeded:", ", ".join(f"{kind}: {count}" for kind, count in sorted(found.succeeded.items())))
    print("B and the operator:", ", ".join(f"{name}: {count}" for name, count in sorted(found.did.items())))
    print(f"B was asked to send again {found.deferred} times")


if __name__ == "__main__":
    main()
