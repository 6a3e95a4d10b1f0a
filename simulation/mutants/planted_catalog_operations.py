"""Planted defects of catalog operations: create, register, rename, drop."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_CATALOG_OPERATIONS = "coordinator/operations/catalog_operations.py"
_ROW_OPERATIONS = "coordinator/operations/row_operations.py"
_OPERATION_REQUESTS = "coordinator/sending/operation_requests.py"
_STATUS_CHECK = "coordinator/sending/status_check.py"

CATALOG_OPERATIONS: tuple[Mutant, ...] = (
    Mutant(
        "register-over-without-a-copy",
        "a table is registered over with a copy: no metadata location comes back",
        _CATALOG_OPERATIONS,
        "            copy = metadata_file.new_location(metadata, taken.metadata_location, self._ports.runtime.uuid())\n"
        "            data = metadata_file.encode(metadata, self._cache.bounds)\n"
        "            self._ports.files.write(copy, data)\n",
        "            copy = location\n            data = metadata_file.encode(metadata, self._cache.bounds)\n",
        scenario="operations",
    ),
    Mutant(
        "drop-without-a-reload",
        "a table is loaded under the lock before it is dropped and purged",
        _ROW_OPERATIONS,
        "        with operation.locked([operation.name], wait_seconds, LockUse.BLIND):\n"
        "            row = self._rows.load(operation.name)\n",
        "        row = self._rows.load(operation.name)\n"
        "        with operation.locked([operation.name], wait_seconds, LockUse.BLIND):\n",
        scenario="drops",
    ),
    Mutant(
        "purge-without-proof",
        "a table is purged on proof that this drop removed it",
        _ROW_OPERATIONS,
        "            return row if is_proved else None\n",
        "            return row\n",
        scenario="operations-network",
    ),
    Mutant(
        "rename-without-the-locks",
        "a rename writes the whole row back: nobody may commit meanwhile",
        _ROW_OPERATIONS,
        "with operation.locked({name, to}, wait_seconds, LockUse.BLIND):",
        "with operation.locked([], wait_seconds, LockUse.BLIND):",
        scenario="operations-ignored",
    ),
    Mutant(
        "rename-without-a-reload",
        "a rename writes the whole row back: the row is read under the lock",
        _ROW_OPERATIONS,
        "            with operation.locked({name, to}, wait_seconds, LockUse.BLIND):\n"
        "                if (holder := self._holder(to)) is not None:\n"
        '                    raise AlreadyExists(f"{what}. {holder} already exists")\n'
        "                row = self._rows.load(name)\n",
        "            row = self._rows.load(name)\n"
        "            with operation.locked({name, to}, wait_seconds, LockUse.BLIND):\n"
        "                if (holder := self._holder(to)) is not None:\n"
        '                    raise AlreadyExists(f"{what}. {holder} already exists")\n',
        scenario="operations-ignored",
    ),
    Mutant(
        "take-a-refused-operation-for-made",
        "a refused operation is checked in the metastore: mostly it was not made",
        _STATUS_CHECK,
        "                found = self._look(could_still_land=False)\n",
        "                found = CommitStatus.SUCCESS\n",
        scenario="operations-network",
    ),
    Mutant(
        "take-an-unanswered-operation-for-made",
        "an unanswered operation is checked in the metastore",
        _STATUS_CHECK,
        "found = self._send_again() or self._look_until_seen(status_checks(runtime, settings), atomic=atomic)",
        "found = CommitStatus.SUCCESS",
        scenario="operations-network",
    ),
    Mutant(
        "delete-on-an-unknown-create",
        "the files of a creation that was sent are not deleted",
        _CATALOG_OPERATIONS,
        "        another = self._settle_creation(operation, answer, location, metadata, new_file=True)\n",
        "        try:\n"
        "            another = self._settle_creation(operation, answer, location, metadata, new_file=True)\n"
        "        except IcebergHmsError:\n"
        "            delete_files(self._ports, name, [location, *lists, *staged.files])\n"
        "            raise\n",
        scenario="operations-network",
    ),
    Mutant(
        "delete-on-an-unknown-registration",
        "the copy of a registration that was sent is not deleted",
        _CATALOG_OPERATIONS,
        "            if not sent:\n                delete_files(self._ports, name, [copy])\n",
        "            delete_files(self._ports, name, [copy])\n",
        scenario="operations-network",
    ),
    Mutant(
        "take-a-renamed-table-for-absent",
        "a refused creation is looked up under other names before it is answered as failed",
        _ROW_OPERATIONS,
        "        found = self._find_others(metadata, name)\n",
        "        found: Sequence[Pointer] | None = []\n",
        scenario="moves",
    ),
    Mutant(
        "search-one-database-only",
        "a table is looked up in all databases",
        "coordinator/reading/uuid_lookup.py",
        "        for namespace in (last_known.namespace, *others):\n",
        "        for namespace in (last_known.namespace,):\n",
        scenario="moves",
    ),
    Mutant(
        "search-all-databases-once",
        "a table may be renamed while it is searched: all databases are searched twice",
        "coordinator/reading/uuid_lookup.py",
        "_PASSES: Final = 2\n",
        "_PASSES: Final = 1\n",
        scenario="moves",
    ),
    Mutant(
        "take-a-dropped-table-for-proof",
        "a table that no longer exists proves nothing of a swap that was sent",
        "coordinator/outcome/already_committed.py",
        "        was_sent = sent.has(identity, self._group) or not sent.would_know(identity)\n",
        "        was_sent = False\n",
        scenario="lost-names",
    ),
    Mutant(
        "refuse-without-checking-the-new-name",
        "a commit to a renamed table is looked up in that table",
        "coordinator/outcome/already_committed.py",
        "        for base in found:\n            doubt = self._doubt_of_table(",
        "        for base in found[:0]:\n            doubt = self._doubt_of_table(",
        scenario="lost-names",
    ),
    Mutant(
        "acknowledge-an-unknown-registration",
        "a registration is acknowledged when the table is known to have the registered file",
        _OPERATION_REQUESTS,
        "        if status is CommitStatus.SUCCESS:\n            return True\n",
        "        if status is not CommitStatus.FAILURE:\n            return True\n",
        scenario="operations",
    ),
)
