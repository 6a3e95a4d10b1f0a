"""Proof that this catalog staged a table in a folder that it had found empty.

`CREATE TABLE AS SELECT` stages a table, writes its files, and creates it with a commit: by then its folder is no longer
empty. So a staged table has a property that signs its name, folder and UUID; clients send the properties of a staged
table back with the commit that creates it (Java: CreateTransaction; PyIceberg: CreateTableTransaction). The catalog
takes the property out of the commit, and records the folder as the table's own if it signed just that. A table whose
client sends no such property is made all the same, and owns its folder by its place or not at all.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from iceberg_hms.changes.updates import set_field
from iceberg_hms.coordinator.ports import Runtime, TableName

#: The property of a staged table; no table has it.
STAGE_PROOF: Final = "iceberg-hms.stage-proof"


class StageProofs:
    """Signs, and checks what it signed. key: those who have the same one accept each other's proofs."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of_process(cls, runtime: Runtime) -> StageProofs:
        """With a key of its own."""
        return cls(hashlib.sha256((runtime.uuid() + runtime.uuid()).encode()).digest())

    def use_key(self, key: bytes) -> None:
        """Go on with another key."""
        self._key = key

    def sign(self, name: TableName, location: str, uuid: str) -> str:
        """The proof for a table that is staged now."""
        signed = "\n".join((str(name), location.rstrip("/"), uuid.lower()))
        return hmac.new(self._key, signed.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()

    def take(self, name: TableName, updates: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], bool]:
        """The updates that create a table, without a proof; and whether they had one that holds."""
        proof, location, uuid = (_value(updates, *each) for each in _FIELDS)
        texts = isinstance(proof, str) and isinstance(location, str) and isinstance(uuid, str)
        holds = texts and hmac.compare_digest(str(proof).encode(), self.sign(name, location, uuid).encode())
        return (updates if proof is None else [_without_proof(update) for update in updates]), holds


#: Where updates have the proof, the location and the UUID: the action, and the field of it.
_FIELDS: Final = (("set-properties", STAGE_PROOF), ("set-location", "location"), ("assign-uuid", "uuid"))


def _value(updates: Sequence[Mapping[str, Any]], action: str, field: str) -> Any:
    """What the last update of this kind that has the field says; None if none has it."""
    found = None
    for update in updates:
        if update.get("action") == action:
            values = update.get(set_field(update)) if action == "set-properties" else update
            if isinstance(values, Mapping) and field in values:
                found = values[field]
    return found


def _without_proof(update: Mapping[str, Any]) -> Mapping[str, Any]:
    if update.get("action") != "set-properties":
        return update
    field = set_field(update)
    values = update.get(field)
    if not isinstance(values, Mapping):
        return update
    return {**update, field: {key: value for key, value in values.items() if key != STAGE_PROOF}}
