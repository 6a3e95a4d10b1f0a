"""Ids of plans and of their tasks: the whole scan, signed, so that the server keeps nothing of it.

A client that never comes back costs nothing, a killed server loses nothing, and every server with the same key
(`rest.signing-key-file`) answers what another one began. A token says nothing that its client did not send or was not
told, but it is signed: a task's answer names files, and of a table only those that its snapshots have.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import orjson

from iceberg_hms.clock import Clock
from iceberg_hms.planning.answers import Run

#: Characters of a plan's id at most: it is part of paths. A longer scan gets an id that can only be cancelled.
ID_CHARACTERS_MAX: Final = 2_000
_SIGNATURE_BYTES: Final = 16
#: These words tell what the key signs here from what else it signs. The number is another one where a token has other
#: fields, or means something else: servers of two releases do not know each other's tokens then.
_PURPOSE: Final = b"iceberg-hms scan plans 1"
_TASK, _PLAN, _LONG_PLAN = b"t", b"p", b"l"


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan of a table's snapshot, as the first request named it.

    table: its UUID. snapshot_id: None for a table without snapshots. filter: in the protocol's JSON; None: none.
    schema_id: of the current schema then. has_residuals: whether tasks have the filter that is left for their rows, not
    only `true`. digest: as `answers.PlanAnswer`. run: None for a whole plan.
    """

    table: str
    snapshot_id: int | None
    schema_id: int
    start_snapshot_id: int | None = None
    filter: Any = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    stats_fields: tuple[str, ...] = ()
    min_rows: int | None = None
    has_residuals: bool = True
    digest: str = ""
    run: Run | None = None

    def _to_json(self) -> list[Any]:
        run = self.run
        return [
            self.table,
            self.snapshot_id,
            self.schema_id,
            self.start_snapshot_id,
            self.filter,
            self.case_sensitive,
            self.use_snapshot_schema,
            self.stats_fields,
            self.min_rows,
            self.has_residuals,
            self.digest,
            None if run is None else [run.first, run.end, run.files],
        ]

    @classmethod
    def _of_json(cls, found: list[Any]) -> Self:
        *fields, run = found
        scan = cls(*fields)
        files = None if run is None or run[2] is None else (run[2][0], run[2][1], run[2][2])
        return replace(
            scan,
            stats_fields=tuple(scan.stats_fields),
            run=None if run is None else Run(run[0], run[1], files),
        )


class PlanTokens:
    """Signs, and reads what it signed. key: those who have the same one read each other's tokens."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, _PURPOSE, hashlib.sha256)

    @classmethod
    def of_process(cls, clock: Clock) -> Self:
        """With a key of its own."""
        return cls(hashlib.sha256((clock.uuid() + clock.uuid()).encode()).digest())

    def task(self, scan: PlannedScan) -> str:
        """The token of a run."""
        return self._signed(_TASK, scan._to_json())

    def plan_id(self, scan: PlannedScan) -> str:
        """The id of a plan."""
        found = self._signed(_PLAN, scan._to_json())
        return found if len(found) <= ID_CHARACTERS_MAX else self._signed(_LONG_PLAN, [scan.table])

    def read_task(self, token: str) -> PlannedScan | None:
        """What a task's token says; None if it is none of this key's."""
        found = self._read(token)
        return PlannedScan._of_json(found[_TASK]) if _TASK in found else None

    def read_plan(self, plan_id: str) -> tuple[str, PlannedScan | None] | None:
        """The table of a plan, and the scan unless it was too long for an id; None if the id is none of this key's."""
        found = self._read(plan_id)
        if _PLAN in found:
            scan = PlannedScan._of_json(found[_PLAN])
            return scan.table, scan
        return (str(found[_LONG_PLAN][0]), None) if _LONG_PLAN in found else None

    def _signed(self, kind: bytes, content: list[Any]) -> str:
        data = kind + zlib.compress(orjson.dumps(content))
        return base64.urlsafe_b64encode(self._signature(data) + data).rstrip(b"=").decode()

    def _read(self, token: str) -> Mapping[bytes, list[Any]]:
        """The content by its kind; nothing for what this key did not sign."""
        try:
            signed = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeError):
            return {}
        signature, data = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(data)):
            return {}
        # Only what this server, or one with its key, compressed is inflated.
        return {data[:1]: orjson.loads(zlib.decompress(data[1:]))}

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)[:_SIGNATURE_BYTES]
