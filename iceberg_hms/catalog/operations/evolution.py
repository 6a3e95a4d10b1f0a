"""Operations that change a table in place, without its data: schema, partition spec, sort order, properties, location,
format version, statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from iceberg_hms.catalog.operations.builders import SchemaBuilder, SortOrderBuilder, SpecBuilder
from iceberg_hms.catalog.operations.submitter import Result, Submitter
from iceberg_hms.changes.operations.properties import ChangeProperties, SetLocation, UpgradeFormatVersion
from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.changes.operations.schema.sort_order import ReplaceSortOrder, SortOrderDraft
from iceberg_hms.changes.operations.schema.spec_draft import SpecDraft
from iceberg_hms.changes.operations.schema.update_schema import UpdateSchema
from iceberg_hms.changes.operations.schema.update_spec import UpdateSpec
from iceberg_hms.changes.operations.statistics import RemoveStatistics, SetStatistics

_SortStep = Callable[[SortOrderDraft], None]


class EvolutionOperations(Submitter[Result]):
    """Each operation applies to the table as it is when it is committed, whatever others changed meanwhile, as long as
    what the operation uses is what its caller saw. Else it raises RequirementFailed that names the column, partition
    field, snapshot or property. Bad input raises InvalidInput before anything is written.

    wait_seconds: how long a commit waits for a group and the lock; by default it outlives a dead writer's lock. Steps
    of a transaction take none.
    """

    def update_schema(
        self,
        *,
        allow_incompatible_changes: bool = False,
        case_sensitive: bool = True,
        wait_seconds: float | None = None,
    ) -> SchemaBuilder[Result]:
        """Add, delete, rename, promote and move columns.

            with table.update_schema() as schema:
                schema.add_column("host", "string").rename_column("msg", "message")
            report = table.update_schema().delete_column("level").commit()

        allow_incompatible_changes: whether columns may become required, or be added as such, though rows may lack their
        values; and whether a column may get the name that another one had in files without field ids. case_sensitive:
        whether steps name columns as they are written; else a name that several columns have is refused.
        What a column is called decides: two writers may add columns at once, and the second of two that add the same
        name is refused."""
        seen, access = self.metadata, self._access
        options = {"allow_incompatible_changes": allow_incompatible_changes, "case_sensitive": case_sensitive}
        start, caller = self._start_metadata, access.services.settings.user
        return SchemaBuilder(
            partial(SchemaDraft, seen, **options),
            lambda steps: UpdateSchema(seen, steps, **options, start=start, caller=caller),
            partial(self._submit, wait_seconds=wait_seconds),
        )

    def update_spec(self, *, case_sensitive: bool = True, wait_seconds: float | None = None) -> SpecBuilder[Result]:
        """Add, remove and rename fields of the default partition spec.

            with table.update_spec() as spec:
                spec.add_field("event_time", "day").remove_field("level")

        Files that are there keep their partitions; new ones are written by the new spec. Raises InvalidInput for a spec
        with a transform that this version does not know."""
        seen, start, caller = self.metadata, self._start_metadata, self._access.services.settings.user
        return SpecBuilder(
            partial(SpecDraft, seen, case_sensitive=case_sensitive),
            lambda steps: UpdateSpec(seen, steps, case_sensitive=case_sensitive, start=start, caller=caller),
            partial(self._submit, wait_seconds=wait_seconds),
        )

    def update_sort_order(
        self, *, case_sensitive: bool = True, wait_seconds: float | None = None
    ) -> SortOrderBuilder[Result]:
        """Choose how writers sort rows from now on.

            table.update_sort_order().asc("level").desc("event_time", null_order="nulls-first").commit()

        Refused if another writer replaced the order since this state was loaded."""
        seen, start, caller = self.metadata, self._start_metadata, self._access.services.settings.user
        new_draft = partial(SortOrderDraft, seen, case_sensitive=case_sensitive)

        def make(steps: Sequence[_SortStep]) -> ReplaceSortOrder:
            draft = new_draft()
            for step in steps:
                step(draft)
            return ReplaceSortOrder(seen, draft.terms, case_sensitive=case_sensitive, start=start, caller=caller)

        return SortOrderBuilder(new_draft, make, partial(self._submit, wait_seconds=wait_seconds))

    def set_properties(self, properties: Mapping[str, str], *, wait_seconds: float | None = None) -> Result:
        """Set table properties; others stay. Values are text. The last writer of a property sets its value, as in Java.
        Raises InvalidInput for names that are reserved, such as `format-version` and `uuid`, and for a property of a
        column's metrics without the column."""
        change = ChangeProperties(self.metadata, properties, **self._origin)
        return self._submit(change, wait_seconds=wait_seconds)

    def remove_properties(self, *names: str, wait_seconds: float | None = None) -> Result:
        """Remove table properties; missing ones are ignored. Raises InvalidInput for reserved names."""
        return self._submit(ChangeProperties(self.metadata, {}, names, **self._origin), wait_seconds=wait_seconds)

    def set_location(self, location: str, *, wait_seconds: float | None = None) -> Result:
        """Write new files of the table below another folder; existing files stay where they are, and stay the table's.
        location: absolute. Raises InvalidInput, also for the folder of another table."""
        return self._submit(SetLocation(self.metadata, location, **self._origin), wait_seconds=wait_seconds)

    def upgrade_table_version(self, format_version: int, *, wait_seconds: float | None = None) -> Result:
        """Upgrade the table to format version 2 or 3; there is no way back. Version 3 has default values, row lineage
        and more types; readers that know version 2 alone can no longer read the table. Raises InvalidInput for a lower
        version, UnsupportedFormat for version 4 and later."""
        return self._submit(
            UpgradeFormatVersion(self.metadata, format_version, **self._origin), wait_seconds=wait_seconds
        )

    def set_statistics(self, file: Mapping[str, Any], *, wait_seconds: float | None = None) -> Result:
        """Name the statistics file (Puffin) of a snapshot, in place of an older one.

        file: the specification's JSON object (spec: Table Statistics): `snapshot-id`, `statistics-path`,
        `file-size-in-bytes`, `file-footer-size-in-bytes`, `blob-metadata`. The file exists already. Raises InvalidInput
        for an incomplete object, and for a snapshot that the table does not have."""
        change = SetStatistics(self.metadata, "statistics", file, **self._origin)
        return self._submit(change, wait_seconds=wait_seconds)

    def remove_statistics(self, snapshot_id: int, *, wait_seconds: float | None = None) -> Result:
        """Forget the statistics file of a snapshot, if it has one; the file itself stays."""
        change = RemoveStatistics(self.metadata, "statistics", snapshot_id, **self._origin)
        return self._submit(change, wait_seconds=wait_seconds)

    def set_partition_statistics(self, file: Mapping[str, Any], *, wait_seconds: float | None = None) -> Result:
        """Name the partition statistics file of a snapshot, in place of an older one.

        file: the specification's JSON object (spec: Partition Statistics): `snapshot-id`, `statistics-path`,
        `file-size-in-bytes`. Raises as `set_statistics`."""
        change = SetStatistics(self.metadata, "partition-statistics", file, **self._origin)
        return self._submit(change, wait_seconds=wait_seconds)

    def remove_partition_statistics(self, snapshot_id: int, *, wait_seconds: float | None = None) -> Result:
        """Forget the partition statistics file of a snapshot, if it has one; the file itself stays."""
        change = RemoveStatistics(self.metadata, "partition-statistics", snapshot_id, **self._origin)
        return self._submit(change, wait_seconds=wait_seconds)

    @property
    def _origin(self) -> dict[str, Any]:
        return {"caller": self._access.services.settings.user}
