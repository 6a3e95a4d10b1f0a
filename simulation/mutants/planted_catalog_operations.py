"""Planted defects of catalog operations: create, register, rename, drop."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_CATALOG_OPERATIONS = "coordinator/protocol/catalog_operations.py"

CATALOG_OPERATIONS: tuple[Mutant, ...] = (
    Mutant(
        "register-over-without-a-copy",
        "a table is registered over with a copy: no metadata location comes back",
        _CATALOG_OPERATIONS,
        "        copy = metadata_file.new_location(metadata, taken.metadata_location, self._world.runtime.uuid())\n"
        "        data = metadata_file.encode(metadata)\n"
        "        self._world.files.write(copy, data)\n",
        "        copy = location\n        data = metadata_file.encode(metadata)\n",
        scenario="moves",
    ),
    Mutant(
        "drop-without-a-reload",
        "a table is loaded under the lock before it is dropped and purged",
        _CATALOG_OPERATIONS,
        "        with self._locked([name], wait_seconds, use=LockUse.BLIND) as locks:\n"
        "            pointer = self._world.pointer.load(name)\n"
        "            answer = self._send(lambda: self._world.pointer.drop(pointer), locks, blind=True)\n",
        "        pointer = self._world.pointer.load(name)\n"
        "        with self._locked([name], wait_seconds, use=LockUse.BLIND) as locks:\n"
        "            answer = self._send(lambda: self._world.pointer.drop(pointer), locks, blind=True)\n",
        scenario="drops",
    ),
    Mutant(
        "purge-without-proof",
        "a table is purged on proof that this drop removed it",
        _CATALOG_OPERATIONS,
        "            if not (isinstance(answer, Swapped) and self._covered(locks)):\n",
        "            if False:\n",
        scenario="moves-network",
    ),
    Mutant(
        "purge-without-the-lease-check",
        "a dropped table is the loaded one only if the lock covered both calls",
        _CATALOG_OPERATIONS,
        "            if not (isinstance(answer, Swapped) and self._covered(locks)):\n",
        "            if not isinstance(answer, Swapped):\n",
        scenario="drops-asleep",
    ),
    Mutant(
        "rename-without-the-locks",
        "a rename writes the whole row back: nobody may commit meanwhile",
        _CATALOG_OPERATIONS,
        "with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:",
        "with self._locked([], wait_seconds, use=use) as locks:",
        scenario="moves-ignored",
    ),
    Mutant(
        "rename-without-a-reload",
        "a rename writes the whole row back: the row is read under the lock",
        _CATALOG_OPERATIONS,
        "        with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:\n"
        "            self._refuse_taken(to)\n"
        "            base = self._world.pointer.load(name)\n",
        "        base = self._world.pointer.load(name)\n"
        "        with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:\n"
        "            self._refuse_taken(to)\n",
        scenario="moves-ignored",
    ),
    Mutant(
        "take-a-refused-operation-for-made",
        "a refused operation is checked in the metastore: mostly it was not made",
        _CATALOG_OPERATIONS,
        "            case Refused(in_doubt=False):\n                return made()\n",
        "            case Refused(in_doubt=False):\n                return True\n",
        scenario="moves-network",
    ),
    Mutant(
        "take-an-unanswered-operation-for-made",
        "an unanswered operation is checked in the metastore",
        _CATALOG_OPERATIONS,
        "return any(made() for _ in status_checks(self._world.runtime, self._settings))",
        "return True",
        scenario="moves-network",
    ),
    Mutant(
        "delete-on-an-unknown-create",
        "the files of a creation that was sent are not deleted",
        _CATALOG_OPERATIONS,
        "        another = self._settle_creation(answer, name, location, metadata)\n",
        "        try:\n"
        "            another = self._settle_creation(answer, name, location, metadata)\n"
        "        except IcebergHmsError:\n"
        "            delete_files(self._world.files, [location, *lists, *staged.files])\n"
        "            raise\n",
        scenario="moves-network",
    ),
    Mutant(
        "delete-on-an-unknown-registration",
        "the copy of a registration that was sent is not deleted",
        _CATALOG_OPERATIONS,
        "            if not sent:\n                delete_files(self._world.files, [copy])\n",
        "            delete_files(self._world.files, [copy])\n",
        scenario="moves-network",
    ),
    Mutant(
        "take-a-renamed-table-for-absent",
        "a refused creation is looked up under other names before it is answered as failed",
        _CATALOG_OPERATIONS,
        "        found = self._with_uuid(metadata, name)\n",
        "        found: Sequence[Pointer] | None = []\n",
        scenario="creations",
    ),
    Mutant(
        "search-one-database-only",
        "a table is looked up in all databases",
        "coordinator/protocol/uuid_lookup.py",
        "        return [known_as.namespace, *others]\n",
        "        return [known_as.namespace, *others][:1]\n",
        scenario="creations",
    ),
    Mutant(
        "take-a-dropped-table-for-proof",
        "a table that no longer exists proves nothing of a swap that was sent",
        "coordinator/protocol/already_committed.py",
        "        if self.sent.carried(identity) or not (found or self.sent.would_know(identity)):\n",
        "        if False:\n",
        scenario="lost-names",
    ),
    Mutant(
        "refuse-without-checking-the-new-name",
        "a commit to a renamed table is looked up in that table",
        "coordinator/protocol/already_committed.py",
        "        for base in found:\n            doubt = look_back(",
        "        self.sent.proved_absent(identity.snapshot_ids)\n"
        "        for base in found[:0]:\n            doubt = look_back(",
        scenario="lost-names",
    ),
    Mutant(
        "acknowledge-an-unknown-registration",
        "a registration is acknowledged when the table is known to have the registered file",
        _CATALOG_OPERATIONS,
        "                if found is CommitStatus.SUCCESS:\n",
        "                if found is not CommitStatus.FAILURE:\n",
        scenario="moves",
    ),
)
