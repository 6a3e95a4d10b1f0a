"""What a simulated process writes into its locks, in place of what `holder_identity` reads from /proc."""

from __future__ import annotations

from iceberg_hms.metastore.connection.cas_support import SwapProtection
from iceberg_hms.metastore.locks.holder_identity import last_part


class ProcessIdentity:
    """pid: the process's own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._attempts = 0

    def agent_info(self, request: str, protection: SwapProtection, lease_seconds: int | None = None) -> str:
        """As holder_identity's agent_info."""
        self._attempts += 1
        last = last_part(protection, lease_seconds)
        return f"iceberg-hms/{0:032x}/1/{self._pid}-1/{request}.{self._attempts:03}/{last}"
