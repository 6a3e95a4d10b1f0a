"""Planted defects of rebased and renumbered snapshots, and of proofs that a commit was in the table."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_APPENDED_FILES = "changes/clients/appended_files.py"
_MANIFEST_DELTA = "changes/manifest_delta.py"
_REBASE = "changes/clients/rebase.py"
_SEQUENCE_NUMBERS = "changes/sequence_numbers.py"
_STAGING = "coordinator/staging/staging.py"
_LINEAGE = "changes/clients/lineage.py"
_CLIENT_COMMIT = "changes/clients/client_commit.py"

REBASE: tuple[Mutant, ...] = (
    Mutant(
        "drop-a-head-manifest",
        "a rebased list has all of the head's manifests that the client did not replace",
        _MANIFEST_DELTA,
        "            return (*self.added, *head)\n",
        "            return (*self.added, *head[1:])\n",
        scenario="rebase-calm",
    ),
    Mutant(
        "drop-the-client-s-manifests",
        "a rebased list has the client's own manifests",
        _MANIFEST_DELTA,
        "            return (*self.added, *head)\n",
        "            return tuple(head)\n",
        scenario="rebase-calm",
    ),
    Mutant(
        "bring-merged-files-along",
        "an append whose merged manifests are gone is the files that it adds, without the older ones",
        _APPENDED_FILES,
        """        if len(added) != file.added_files_count or not all(_is_new(each, snapshot) for each in added):
            return {}
""",
        "        added = [each for each in entries if each.is_live]\n",
        scenario="groups",
    ),
    Mutant(
        "keep-the-client-s-list",
        "a rebased snapshot has a manifest list of its own",
        _SEQUENCE_NUMBERS,
        '    raw["manifest-list"] = manifests.stage_list(base, Snapshot(raw), files)\n',
        "    manifests.stage_list(base, Snapshot(raw), files)\n",
        scenario="groups",
    ),
    Mutant(
        "keep-the-client-s-parent",
        "a rebased snapshot's parent is the head",
        _REBASE,
        '        raw["parent-snapshot-id"] = head.snapshot_id\n',
        '        raw["parent-snapshot-id"] = snapshot.parent_snapshot_id or head.snapshot_id\n',
        scenario="rebase-calm",
    ),
    Mutant(
        "reuse-a-stale-sequence-number",
        "a rebased snapshot gets the table's next sequence number",
        _SEQUENCE_NUMBERS,
        '        raw["sequence-number"] = base.next_sequence_number\n',
        "        pass\n",
        scenario="rebase-calm",
    ),
    Mutant(
        "keep-the-client-s-row-ids",
        "a rebased manifest gets the table's next row ids",
        _MANIFEST_DELTA,
        "        first_row_id=None if manifest.content == ManifestContent.DATA else manifest.first_row_id,\n",
        "        first_row_id=manifest.first_row_id,\n",
        scenario="rebase",
    ),
    Mutant(
        "refuse-an-older-format-version",
        "a snapshot that was made before an upgrade gets the numbers that it lacks",
        _SEQUENCE_NUMBERS,
        "        return oldest <= snapshot.written_for < self._base.format_version\n",
        "        return False\n",
        scenario="upgrades",
    ),
    Mutant(
        "take-manifests-of-version-1",
        "no snapshot lists older files in a manifest of version 1 under a number of version 2",
        "changes/new_manifests.py",
        "        if entry is not None and entry.sequence_number is None:\n",
        "        if False:\n",
        scenario="upgrades-network",
    ),
    Mutant(
        "count-no-rows",
        "a rebased snapshot advances the table's next row id by all rows that it numbers",
        _SEQUENCE_NUMBERS,
        "    return (next_row_id or 0) - base.next_row_id\n",
        "    return 0\n",
        scenario="rebase",
    ),
    Mutant(
        "stage-on-the-base-of-the-group",
        "each change of a group is staged on the changes before it",
        _STAGING,
        "stage_one(self.metadata, change, recorded, self._now_ms, guard)",
        "stage_one(self.base, change, recorded, self._now_ms, guard)",
        scenario="rebase-calm",
    ),
    Mutant(
        "refuse-an-expired-change",
        "a change is refused only if nothing of it is in the table, expired or not",
        "coordinator/outcome/already_committed.py",
        "    if Lineage(identity, base.metadata).presence is not Presence.ABSENT:\n        return None\n",
        "",
        scenario="expired-crash",
    ),
    Mutant(
        "rebase-an-expired-change",
        "a snapshot that may have been in the table is not rebased",
        _CLIENT_COMMIT,
        "        is_new = Lineage(self.identity, base).presence is Presence.ABSENT\n",
        "        is_new = True\n",
        scenario="expired",
    ),
    Mutant(
        "ignore-a-missing-parent",
        "where a parent has expired, absence is not proved",
        _LINEAGE,
        """            self._missing.setdefault(parent, set()).add(row["snapshot-id"])\n""",
        "            pass\n",
        scenario="expired-network",
    ),
    Mutant(
        "take-every-snapshot-for-older",
        "without sequence numbers only a snapshot's ancestors are known to be older",
        _LINEAGE,
        """            return roots([row for row in base.snapshot_rows if row["snapshot-id"] not in self._older])\n""",
        "            return []\n",
        scenario="expired-unnumbered",
    ),
)
