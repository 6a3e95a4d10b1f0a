"""Which machine each simulated process runs on: what a process writes into its locks, and whether another process can
see that it has ended."""

from __future__ import annotations

from typing import Final

from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import LockHolder, last_part
from simulation.engine.scheduler import Process

#: How many machines there are. With two, a process can see about half of the others.
MACHINES: Final = 2


class Machines:
    """The process tables of all machines. cloned: each machine is two clones with one boot id; every second process
    runs on the other clone, where another one's process id is free."""

    def __init__(self, *, cloned: bool = False) -> None:
        self._cloned = cloned
        self._processes: dict[tuple[str, int], Process] = {}

    def begin(self, process: Process, machine: int) -> ProcessIdentity:
        """A new process on one of the machines."""
        boot_id, pid = f"{machine:032x}", len(self._processes) + 1
        self._processes[boot_id, pid] = process
        return ProcessIdentity(self._processes, boot_id, pid, cloned=self._cloned)


class ProcessIdentity:
    """Stands where `iceberg_hms.metastore.locks.holder_identity` reads /proc, for one process."""

    def __init__(
        self, processes: dict[tuple[str, int], Process], boot_id: str, pid: int, *, cloned: bool = False
    ) -> None:
        self._cloned = cloned
        self._processes = processes
        self._boot_id = boot_id
        self._pid = pid
        self._attempts = 0

    def agent_info(self, request: str, protection: SwapProtection, lease_seconds: int | None = None) -> str:
        """As holder_identity's agent_info."""
        self._attempts += 1
        last = last_part(protection, lease_seconds)
        return f"iceberg-hms/{self._boot_id}/1/{self._pid}-1/{request}.{self._attempts:03}/{last}"

    def has_ended(self, holder: LockHolder) -> bool:
        """As holder_identity's has_ended."""
        if holder.boot_id != self._boot_id:
            return False
        if self._cloned and (holder.pid + self._pid) % 2:
            return True
        process = self._processes.get((holder.boot_id, holder.pid))
        return process is None or not process.alive
