"""Planted defects of tables that become Iceberg's in place, and Hive's again."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_KIND_CHANGES = "coordinator/operations/kind_changes.py"
_KIND_OF_ROW = "metastore/tables/kind_of_row.py"

KINDS: tuple[Mutant, ...] = (
    Mutant(
        "migrate-a-row-that-changed",
        "a row that is not what was read before its files were listed is not migrated",
        _KIND_CHANGES,
        "        if found != row:\n",
        "        if found.name != row.name:\n",
        scenario="kinds",
    ),
    Mutant(
        "undo-to-the-old-time",
        "a change of kind sets a time that the row never had",
        _KIND_OF_ROW,
        "    table.parameters |= {METADATA_LOCATION: mark, LAST_CHANGED: _later(now_seconds, last)}\n",
        '    table.parameters |= {METADATA_LOCATION: mark, LAST_CHANGED: row.last_changed or ""}\n'
        "    _later(now_seconds, last)\n",
        scenario="kinds-late",
    ),
    Mutant(
        "delete-the-files-of-a-migration-on-unknown",
        "the files of a migration that may have been made are kept",
        _KIND_CHANGES,
        "        except CommitStateUnknown:\n"
        "            raise\n"
        "        except IcebergHmsError as error:\n"
        "            manifests.discard(recorded.lists)\n",
        "        except IcebergHmsError as error:\n            manifests.discard(recorded.lists)\n",
        scenario="kinds-late",
    ),
    Mutant(
        "believe-a-row-after-a-lost-lock",
        "another row proves that a migration was not made only while its lock is held",
        _KIND_CHANGES,
        "                is_proof = last_changed == row.last_changed or operation.held_until_now()\n",
        "                is_proof = True\n",
        scenario="kinds-worst",
    ),
)
