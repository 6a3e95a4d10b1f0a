"""The planted defects of moves of whole tables: create, register, rename, drop."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_MOVES = "coordinator/protocol/catalog_operations.py"

MOVES: tuple[Mutant, ...] = (
    Mutant(
        "register-over-under-its-own-name",
        "a table is registered over with a copy: no pointer name comes back",
        _MOVES,
        "        copy = metadata_file.new_location(metadata, taken.metadata_location, self._world.runtime.uuid())\n"
        "        data = metadata_file.encode(metadata)\n"
        "        self._world.files.write(copy, data)\n",
        "        copy = location\n        data = metadata_file.encode(metadata)\n",
        scenario="moves",
    ),
    Mutant(
        "drop-without-a-re-read",
        "what is dropped, and purged, was read under the lock",
        _MOVES,
        "        with self._locked([name], wait_seconds, use=LockUse.BLIND) as locks:\n"
        "            pointer = self._world.pointer.load(name)\n"
        "            answer = self._send(lambda: self._world.pointer.drop(pointer), locks, blind=True)\n",
        "        pointer = self._world.pointer.load(name)\n"
        "        with self._locked([name], wait_seconds, use=LockUse.BLIND) as locks:\n"
        "            answer = self._send(lambda: self._world.pointer.drop(pointer), locks, blind=True)\n",
        scenario="drops",
    ),
    Mutant(
        "purge-what-is-only-gone",
        "a table is purged on proof that this drop removed it",
        _MOVES,
        "            if not (isinstance(answer, Swapped) and self._covered(locks)):\n",
        "            if False:\n",
        scenario="moves-network",
    ),
    Mutant(
        "purge-what-the-lock-did-not-cover",
        "what was dropped is what was loaded only if the lock covered both",
        _MOVES,
        "            if not (isinstance(answer, Swapped) and self._covered(locks)):\n",
        "            if not isinstance(answer, Swapped):\n",
        scenario="drops-asleep",
    ),
    Mutant(
        "rename-without-the-locks",
        "a rename writes the row back whole: nobody may commit meanwhile",
        _MOVES,
        "with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:",
        "with self._locked([], wait_seconds, use=use) as locks:",
        scenario="moves-ignored",
    ),
    Mutant(
        "rename-without-a-re-read",
        "a rename writes the row back whole: it is read under the lock",
        _MOVES,
        "        with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:\n"
        "            self._refuse_taken(to)\n"
        "            base = self._world.pointer.load(name)\n",
        "        base = self._world.pointer.load(name)\n"
        "        with self._locked(sorted({name, to}), wait_seconds, use=use) as locks:\n"
        "            self._refuse_taken(to)\n",
        scenario="moves-ignored",
    ),
    Mutant(
        "take-a-refused-move-for-made",
        "a refused move is looked up: mostly it was not made",
        _MOVES,
        "            case Refused(in_doubt=False):\n                return made()\n",
        "            case Refused(in_doubt=False):\n                return True\n",
        scenario="moves-network",
    ),
    Mutant(
        "silence-is-a-move",
        "an unanswered move is looked for",
        _MOVES,
        "return any(made() for _ in status_checks(self._world.runtime, self._settings))",
        "return True",
        scenario="moves-network",
    ),
    Mutant(
        "delete-on-an-unknown-create",
        "the files of a creation that was sent are not deleted",
        _MOVES,
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
        _MOVES,
        "            if not sent:\n                delete_files(self._world.files, [copy])\n",
        "            delete_files(self._world.files, [copy])\n",
        scenario="moves-network",
    ),
    Mutant(
        "take-a-renamed-table-for-none",
        "a creation that was refused is looked for under other names before it is told that it failed",
        _MOVES,
        "        found = self._with_uuid(metadata, name)\n",
        "        found: Sequence[Pointer] | None = []\n",
        scenario="creations",
    ),
    Mutant(
        "look-where-it-was-known-alone",
        "a table is looked for in all databases",
        "coordinator/protocol/uuid_lookup.py",
        "        return [known_as.namespace, *others]\n",
        "        return [known_as.namespace, *others][:1]\n",
        scenario="creations",
    ),
    Mutant(
        "take-a-dropped-table-for-proof",
        "a table that is nowhere proves nothing of a swap that was sent",
        "coordinator/protocol/already_committed.py",
        "        if self.sent.carried(identity) or not (found or self.sent.would_know(identity)):\n",
        "        if False:\n",
        scenario="lost-names",
    ),
    Mutant(
        "refuse-what-is-under-another-name",
        "a commit whose table has another name is looked for in that table",
        "coordinator/protocol/already_committed.py",
        "        for base in found:\n            doubt = look_back(",
        "        self.sent.proved_absent(identity.snapshot_ids)\n"
        "        for base in found[:0]:\n            doubt = look_back(",
        scenario="lost-names",
    ),
    Mutant(
        "acknowledge-an-unknown-registration",
        "a registration is acknowledged when the table is known to be that file",
        _MOVES,
        "                if found is CommitStatus.SUCCESS:\n",
        "                if found is not CommitStatus.FAILURE:\n",
        scenario="moves",
    ),
)
