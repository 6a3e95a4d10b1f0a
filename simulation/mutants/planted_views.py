"""Planted defects of operations of views."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_VIEW_OPERATIONS = "coordinator/operations/view_operations.py"

VIEWS: tuple[Mutant, ...] = (
    Mutant(
        "replace-a-view-without-a-reload",
        "a view is read again under the lock before it is replaced",
        _VIEW_OPERATIONS,
        "        with operation.locked([operation.name], wait_seconds, use):\n"
        "            for _ in range(self._settings.commit_retry_num_retries + 1):\n"
        "                base = self._base(operation.name)\n",
        "        base = self._base(operation.name)\n"
        "        with operation.locked([operation.name], wait_seconds, use):\n"
        "            for _ in range(self._settings.commit_retry_num_retries + 1):\n",
        scenario="views-ignored",
    ),
    Mutant(
        "delete-a-view-file-on-unknown",
        "the file of a view's swap that was sent is not deleted",
        _VIEW_OPERATIONS,
        "                if operation.is_made(swap, answer):\n"
        "                    return LoadedView(operation.name, swap.location, metadata)\n",
        "                try:\n"
        "                    if operation.is_made(swap, answer):\n"
        "                        return LoadedView(operation.name, swap.location, metadata)\n"
        "                except IcebergHmsError:\n"
        "                    delete_files(self._ports, operation.name, [swap.location])\n"
        "                    raise\n",
        scenario="views-late",
    ),
)
