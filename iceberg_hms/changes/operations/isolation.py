"""Isolation levels: which changes by others conflict with an operation (Java: IsolationLevel)."""

from __future__ import annotations

from typing import Literal

from iceberg_hms.errors import InvalidInput

#: "serializable": rows that others added or deleted, which the operation might have read. "snapshot": those that
#: others deleted.
Isolation = Literal["serializable", "snapshot"]


def check_isolation(isolation: str) -> None:
    """Raises InvalidInput for what is no isolation level."""
    if isolation not in ("serializable", "snapshot"):
        raise InvalidInput(f'isolation must be "serializable" or "snapshot", but is {isolation!r}')
