"""Expiring snapshots, as a change (spec: Snapshot Retention Policy; Java: RemoveSnapshots).

Which snapshots go is worked out on each base, so a branch or tag that was made meanwhile keeps what it needs. What the
files of the removed snapshots are is no part of the change: see `catalog.maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from iceberg_hms.changes import referenced_specs, updates
from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange, Update
from iceberg_hms.changes.operations.snapshots.ref_change import existing_snapshot
from iceberg_hms.changes.requirements import existing_table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Ref
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import (
    GC_ENABLED,
    MAX_REF_AGE,
    MAX_SNAPSHOT_AGE,
    MIN_SNAPSHOTS,
    is_true,
)

#: `RequirementFailed.name` of the assumption that no ref names a snapshot that is to expire.
UNREFERENCED: Final = "expire-unreferenced-snapshot"


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiration removes from one base.

    snapshot_ids: in the base's order. refs: names of branches and tags. schema_ids, spec_ids: of schemas and partition
    specs that nothing uses any more.
    """

    base: TableMetadata
    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...] = ()
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()

    def updates(self) -> Iterator[Update]:
        """Refs first: the removal of a snapshot would remove them with it."""
        yield from (updates.remove_snapshot_ref(name) for name in self.refs)
        if self.snapshot_ids:
            yield {"action": "remove-snapshots", "snapshot-ids": list(self.snapshot_ids)}
        if self.schema_ids:
            yield {"action": "remove-schemas", "schema-ids": list(self.schema_ids)}
        if self.spec_ids:
            yield {"action": "remove-partition-specs", "spec-ids": list(self.spec_ids)}


class ExpireSnapshots:
    """Removes old snapshots, and refs that are too old.

    Kept of a branch are its head, its newest `min-snapshots-to-keep`, and then those that are young enough, up to the
    first ancestor that is not; of a tag its snapshot; of the rest what is young enough. Java's rules, except that
    `snapshot_ids` alone removes these snapshots alone: Java would remove all that are old besides, which a caller who
    names ids does not expect.

    seen: the state of the table that the caller saw. now_ms: the time from which ages count, on every base.
    older_than_ms: expire what was made before this time, where a branch has no age of its own; None: by the table's
    property. retain_last: how many snapshots to keep of a branch that has no number of its own; None: by the property.
    snapshot_ids: expire these, however young; none if it is empty; None: expire by age. It is refused while a branch or
    tag names one of them; one that is gone by then is no error.
    clean_expired_metadata: also remove schemas and partition specs that no kept snapshot uses.

    Raises InvalidInput for retain_last below 1, if `gc.enabled` is false, and for malformed properties;
    RequirementFailed for a named snapshot that the seen table does not have, or that a ref names.
    """

    def __init__(
        self,
        seen: TableMetadata,
        *,
        now_ms: int,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        snapshot_ids: Iterable[int] | None = None,
        clean_expired_metadata: bool = False,
        caller: str = "",
    ) -> None:
        if retain_last is not None and retain_last < 1:
            raise InvalidInput(f"at least 1 snapshot is kept, but retain_last is {retain_last}")
        self._uuid = seen.uuid
        self._now_ms = now_ms
        self._older_than_ms = older_than_ms
        self._retain_last = retain_last
        self._named = tuple(dict.fromkeys(snapshot_ids or ()))
        self._by_age = snapshot_ids is None or older_than_ms is not None or retain_last is not None
        self._clean = clean_expired_metadata
        self._identity = ChangeIdentity(caller=caller)
        self._known_specs: referenced_specs.KnownSpecs = {}
        #: What it removes from the base that it was staged on last. Once the change is committed, that is the base of
        #: the swap; a refused or overtaken one is staged again.
        self.staged: Expiry | None = None
        for id_ in self._named:
            existing_snapshot(seen, id_)

    @property
    def identity(self) -> ChangeIdentity:
        return self._identity

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed if the table is gone or is another one, or if a ref names a snapshot that was named
        to expire; InvalidInput as the class."""
        self._expired(existing_table(base, self._uuid))

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """Raises as `check`. Reads lists only if the partition specs in use matter."""
        self.staged = self.plan(existing_table(base, self._uuid), manifests)
        return StagedChange(tuple(self.staged.updates()))

    def plan(self, base: TableMetadata, manifests: Manifests) -> Expiry:
        """What goes from a base. Raises as `stage`."""
        ids, refs = self._expired(base)
        if not self._clean:
            return Expiry(base, ids, refs)
        gone = set(ids)
        kept = [each for each in base.snapshots if each.snapshot_id not in gone]
        schemas = {base.current_schema_id, *(each.schema_id for each in kept)}
        specs = {base.default_spec_id}
        if len(base.specs) > 1:
            specs |= referenced_specs.used(kept, manifests, self._known_specs)
        return Expiry(
            base,
            ids,
            refs,
            tuple(each.schema_id for each in base.schemas if each.schema_id not in schemas),
            tuple(each.spec_id for each in base.specs if each.spec_id not in specs),
        )

    def _expired(self, base: TableMetadata) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The ids of the snapshots and the names of the refs that go."""
        require_gc(base)
        kept_refs = {name: ref for name, ref in base.refs.items() if self._is_kept(name, ref, base)}
        self._refuse_referenced(kept_refs)
        named = set(self._named)
        kept = set(self._kept_ids(base, kept_refs.values())) if self._by_age else base.raw_snapshots_by_id.keys()
        ids = (each["snapshot-id"] for each in base.snapshot_rows)
        expired = tuple(id_ for id_ in ids if id_ in named or id_ not in kept)
        return expired, tuple(name for name in base.refs if name not in kept_refs)

    def _is_kept(self, name: str, ref: Ref, base: TableMetadata) -> bool:
        if name == MAIN_BRANCH or not self._by_age:
            return True
        max_age = MAX_REF_AGE.require(base.properties)
        if ref.max_ref_age_ms is not None:
            max_age = ref.max_ref_age_ms
        snapshot = base.snapshot_by_id(ref.snapshot_id)
        # Java removes a ref without a snapshot as well.
        return snapshot is not None and self._now_ms - snapshot.timestamp_ms <= max_age

    def _refuse_referenced(self, refs: Mapping[str, Ref]) -> None:
        named = set(self._named)
        for name, ref in refs.items():
            if ref.snapshot_id in named:
                raise RequirementFailed(
                    UNREFERENCED,
                    f"snapshot {ref.snapshot_id} cannot expire: {ref.type} {name} names it",
                    expected="a snapshot that no branch or tag names",
                    found=name,
                    next_step=f"leave it out, or move or remove {ref.type} {name} before",
                    rests_on=frozenset({ref.snapshot_id}),
                )

    def _kept_ids(self, base: TableMetadata, refs: Iterable[Ref]) -> Iterator[int]:
        """The snapshots that refs keep, and those beside them that are young enough."""
        oldest = self._older_than_ms
        if oldest is None:
            oldest = self._now_ms - MAX_SNAPSHOT_AGE.require(base.properties)
        count = self._retain_last
        if count is None:
            count = MIN_SNAPSHOTS.require(base.properties)
        referenced: set[int] = set()
        for ref in refs:
            yield ref.snapshot_id
            referenced.add(ref.snapshot_id)
            if ref.is_branch:
                lineage = [(each.snapshot_id, each.timestamp_ms) for each in base.ancestors(ref.snapshot_id)]
                referenced.update(id_ for id_, _ in lineage)
                yield from self._kept_of_branch(ref, lineage, oldest, count)
        for each in base.snapshots:
            if each.snapshot_id not in referenced and each.timestamp_ms >= oldest:
                yield each.snapshot_id

    def _kept_of_branch(self, ref: Ref, lineage: Sequence[tuple[int, int]], oldest: int, count: int) -> Iterator[int]:
        if ref.max_snapshot_age_ms is not None:
            oldest = self._now_ms - ref.max_snapshot_age_ms
        if ref.min_snapshots_to_keep is not None:
            count = ref.min_snapshots_to_keep
        for number, (id_, made_at) in enumerate(lineage):
            if number >= count and made_at < oldest:
                return
            yield id_


def require_gc(base: TableMetadata) -> None:
    """Raises InvalidInput if `gc.enabled` is anything but true: files of the table may be another table's too."""
    if not is_true(GC_ENABLED, base.properties):
        raise InvalidInput(
            f"files of this table must not be deleted: its property {GC_ENABLED.name} is "
            f"{base.properties[GC_ENABLED.name]!r}",
            next_step="if no other table uses them, set the property to true",
        )
