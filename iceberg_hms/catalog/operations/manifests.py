"""Operations on a table's manifests."""

from __future__ import annotations

from collections.abc import Mapping

from iceberg_hms.catalog.operations.submitter import Result, Submitter
from iceberg_hms.changes.operations.rewrite_manifests import RewriteManifests


class ManifestOperations(Submitter[Result]):
    """What keeps planning quick."""

    def rewrite_manifests(
        self,
        *,
        spec_id: int | None = None,
        branch: str = "main",
        summary: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
    ) -> Result:
        """List the branch's files in fewer manifests, sorted by partition, so that readers plan quicker. No file and no
        row changes. A table that needs no rewrite is left as it is.

        spec_id: rewrite the manifests of this partition spec alone; None: all.
        The table property `commit.manifest.target-size-bytes` gives the size of the new manifests.
        branch, summary, idempotency_key, stage_only, wap_id, wait_seconds: as for `append`. A rewrite that finds
        nothing to do stages nothing.
        Applies to the current table, however often it moves. Raises InvalidInput (no such spec), RequirementFailed
        (another table has the name now), CommitStateUnknown.
        """
        new = self._new_snapshot(branch, summary, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        new = new.of_job("rewrite_manifests", scope=None if spec_id is None else f"spec {spec_id}")
        return self._submit_operation(RewriteManifests(new, spec_id=spec_id), wait_seconds=wait_seconds)
