"""What makes two runs one job: their idempotency key, and all that they do to the table.

If a second job came under the key of the first, reporting the first one's success would silently lose what the second
one does. So a snapshot keeps a digest of its job beside the key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile


@dataclass(frozen=True, slots=True)
class Job:
    """added: the data files that the job adds, as keys of `format.locations.file_key`. digest: of all that it does, the
    same in each process and release."""

    added: frozenset[str]
    digest: str

    @classmethod
    def of(
        cls,
        operation: str,
        *,
        added: Iterable[str | DataFile] = (),
        removed: Iterable[str | DataFile] = (),
        added_deletes: Iterable[DataFile] = (),
        removed_deletes: Iterable[DataFile] = (),
        scope: str | None = None,
    ) -> Self:
        """The job of one operation.

        operation: its name in the Python API. added, removed: data files, under any spelling and in any order.
        added_deletes, removed_deletes: delete files, likewise; each deletion vector is one. scope: what it is limited
        to, as text: the filter of the rows that go, say. What an operation only assumes, such as its isolation, makes
        it no other job."""
        keys = frozenset(_key(each) for each in added)
        data = [sorted(keys), sorted(map(_key, removed))]
        deletes = [sorted(map(_delete_key, each)) for each in (added_deletes, removed_deletes)]
        parts = [operation, scope, data, deletes]
        return cls(keys, hashlib.sha256(json.dumps(parts).encode()).hexdigest())


def _key(file: str | DataFile) -> str:
    return file_key(file if isinstance(file, str) else file.file_path)


def _delete_key(delete_file: DataFile) -> tuple[str, int]:
    offset = delete_file.content_offset
    return _key(delete_file), -1 if offset is None else offset
