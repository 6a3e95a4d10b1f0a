"""The planted defects of moves of whole tables: create, register, rename, drop."""

from __future__ import annotations

from iceberg_hms.testing.simulation.mutant import Mutant

_MOVES = "coordinator/moves.py"

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
        "        with self._locked([name], wait_seconds) as locks:\n"
        "            pointer = self._world.pointer.load(name)\n"
        "            answer = self._send(lambda: self._world.pointer.drop(pointer), locks)\n",
        "        pointer = self._world.pointer.load(name)\n"
        "        with self._locked([name], wait_seconds) as locks:\n"
        "            answer = self._send(lambda: self._world.pointer.drop(pointer), locks)\n",
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
        scenario="moves-network",
    ),
    Mutant(
        "rename-without-the-locks",
        "a rename writes the row back whole: nobody may commit meanwhile",
        _MOVES,
        "with self._locked(sorted({name, to}), wait_seconds) as locks:",
        "with self._locked([], wait_seconds) as locks:",
        scenario="moves-ignored",
    ),
    Mutant(
        "rename-without-a-re-read",
        "a rename writes the row back whole: it is read under the lock",
        _MOVES,
        "        with self._locked(sorted({name, to}), wait_seconds) as locks:\n"
        "            self._refuse_taken(to)\n"
        "            base = self._world.pointer.load(name)\n",
        "        base = self._world.pointer.load(name)\n"
        "        with self._locked(sorted({name, to}), wait_seconds) as locks:\n"
        "            self._refuse_taken(to)\n",
        scenario="moves-ignored",
    ),
    Mutant(
        "take-a-refused-move-for-made",
        "a refused move is looked up: mostly it was not made",
        _MOVES,
        "            case Refused():\n                return made()\n",
        "            case Refused():\n                return True\n",
        scenario="moves-network",
    ),
    Mutant(
        "silence-is-a-move",
        "an unanswered move is looked for",
        _MOVES,
        "return any(made() for _ in looks(self._world.runtime, self._settings))",
        "return True",
        scenario="moves-network",
    ),
    Mutant(
        "delete-on-an-unknown-create",
        "the files of a creation are deleted on proof only",
        _MOVES,
        "            if error.proved_failed:\n                delete_files(self._world.files, [location,",
        "            if error:\n                delete_files(self._world.files, [location,",
        scenario="moves-network",
    ),
    Mutant(
        "delete-on-an-unknown-registration",
        "the copy of a registration is deleted on proof only",
        _MOVES,
        "            if error.proved_failed:\n                delete_files(self._world.files, [copy])\n",
        "            if error:\n                delete_files(self._world.files, [copy])\n",
        scenario="moves-network",
    ),
    Mutant(
        "acknowledge-an-unknown-registration",
        "a registration is acknowledged when the table is known to be that file",
        _MOVES,
        "                if found is Trace.LANDED:\n",
        "                if found is not Trace.ABSENT:\n",
        scenario="moves",
    ),
)
