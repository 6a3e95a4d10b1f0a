"""Writers on one ensemble in memory, whose sessions are closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from iceberg_hms.clock import SystemClock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.locks.holder_identity import agent_info
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.zookeeper.lock import ZooKeeperTableLock
from iceberg_hms.zookeeper.session import ZooKeeperSession
from simulation.world.ensemble import Ensemble
from tests.zookeeper.memory_session import NAME, MemorySession, new_ensemble

MOVE_SECONDS = 600.0


class Writer:
    """A lock with a session of its own, as a process has it. may_overwrite: whether it knows of
    a metastore that does not compare and swap atomically."""

    def __init__(
        self, ensemble: Ensemble, lease_seconds: float = 30.0, clock: Any = None, may_overwrite: bool = True
    ) -> None:
        self.may_overwrite = may_overwrite
        self.session = MemorySession(ensemble, lease_seconds)
        self.runtime = ThreadRuntime(clock or SystemClock())
        self.lock = ZooKeeperTableLock(
            cast(ZooKeeperSession, self.session),
            self.runtime,
            agent_info=agent_info,
            user="ann",
            host="h1",
            may_overwrite=lambda _: self.may_overwrite,
            swap_seconds=MOVE_SECONDS,
        )

    def acquire(self, wait_seconds: float = 10.0, name: TableName = NAME) -> Any:
        return self.lock.acquire(name, wait_seconds=wait_seconds, request="r-1")


@pytest.fixture
def ensemble() -> Ensemble:
    return new_ensemble()


@pytest.fixture
def writers(ensemble: Ensemble) -> Iterator[Callable[..., Writer]]:
    made: list[Writer] = []

    def make(**options: Any) -> Writer:
        made.append(Writer(ensemble, **options))
        return made[-1]

    yield make
    for writer in made:
        writer.session.close()
