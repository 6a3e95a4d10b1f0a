"""Planted defects of the operations of the table format: what each assumes, replays and deletes."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_OPERATIONS = "changes/operations"

OPERATIONS: tuple[Mutant, ...] = (
    Mutant(
        "revive-deleted-rows",
        "a rewrite is refused if others deleted rows of its files by position",
        f"{_OPERATIONS}/files/rewrite.py",
        "        self._conflicts.no_positions_for(since, files, manifests)\n",
        "",
        scenario="users",
    ),
    Mutant(
        "replace-files-that-are-gone",
        "what an operation replaces is live in the branch when it lands",
        f"{_OPERATIONS}/files/file_changes.py",
        "        if filtered.missing:\n",
        "        if False:\n",
        scenario="users",
    ),
    Mutant(
        "overwrite-rows-that-nobody-read",
        "a serializable overwrite is refused if others added rows since it was planned",
        f"{_OPERATIONS}/manifests/conflicts.py",
        '        if isolation == "serializable":\n',
        '        if isolation == "never":\n',
        scenario="users",
    ),
    Mutant(
        "replay-manifests-of-another-state",
        "manifests are rewritten anew if one of the old ones is gone",
        f"{_OPERATIONS}/files/rewrite_manifests.py",
        "is_current or not all(each.old <= listed for each in self._rewritten):\n",
        "is_current:\n",
        scenario="users",
    ),
    Mutant(
        "drop-deletes-that-apply",
        "a delete file stays as long as it may apply to a data file",
        f"{_OPERATIONS}/manifests/manifest_filter.py",
        "        lowest = 0 if is_wrong else min(lowest, each.min_sequence_number)\n",
        "        lowest = 0 if is_wrong else lowest\n",
        scenario="users",
    ),
    Mutant(
        "delete-rows-of-files-that-are-gone",
        "the data file whose rows are deleted by position is live when the deletes land",
        f"{_OPERATIONS}/files/row_delta.py",
        "        named = self._named_data(state, manifests)\n",
        "        named = self._referenced.find(state.manifests, manifests)\n",
        scenario="users",
    ),
    Mutant(
        "add-a-second-vector",
        "a data file has one deletion vector at most",
        f"{_OPERATIONS}/files/row_delta.py",
        "        self._conflicts.no_new_vectors(since, self._deletes.vector_keys, manifests)\n"
        "        self._vectors.refuse(state, named, manifests)\n",
        "",
        scenario="users-mixed",
    ),
    Mutant(
        "forget-what-was-added",
        "a merged manifest says which files its own snapshot added",
        f"{_OPERATIONS}/manifests/manifest_merge.py",
        "    if entry.snapshot_id == snapshot_id and entry.status != EntryStatus.EXISTING:\n        return entry\n",
        "",
        scenario="users",
    ),
    Mutant(
        "land-half-a-transaction",
        "a transaction lands whole",
        "catalog/transaction.py",
        "            step.check(running)\n            staged = step.stage(running, manifests)\n",
        "            try:\n"
        "                step.check(running)\n"
        "                staged = step.stage(running, manifests)\n"
        "            except Exception:\n"
        "                if step is self._steps[-1]:\n"
        "                    raise\n"
        "                continue\n",
        scenario="users",
    ),
    Mutant(
        "delete-files-of-live-snapshots",
        "an expiration keeps the files of snapshots that stay",
        "catalog/maintenance/expired_files.py",
        "        deletion.keep(reached.content(live))\n",
        "",
        scenario="users-expiring",
    ),
)
