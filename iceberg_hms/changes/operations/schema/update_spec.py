"""Evolving a table's default partition spec, as a change: the steps that make the new spec from the current one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.changes.operations.schema.spec_draft import SpecDraft
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.transforms import Transform, UnknownTransform, parse_transform

#: A step on a draft: it calls one of its methods.
SpecStep = Callable[[SpecDraft], None]

_CALL: Final = re.compile(r"(bucket|truncate)\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
#: Spark's and SQL's names.
_SYNONYMS: Final[Mapping[str, str]] = {
    "years": "year",
    "months": "month",
    "days": "day",
    "date": "day",
    "hours": "hour",
    "date_hour": "hour",
}


def to_transform(transform: Transform | str) -> Transform:
    """A transform, of its text as specs store it ("bucket[16]", "day"), or as SQL has it ("bucket(16)", "days").
    Raises InvalidInput for an unknown one."""
    if not isinstance(transform, Transform):
        text = _CALL.sub(r"\1[\2]", transform.strip()) if isinstance(transform, str) else ""
        transform = parse_transform(_SYNONYMS.get(text.lower(), text))
    if isinstance(transform, UnknownTransform):
        known = "identity, year, month, day, hour, bucket[N], truncate[W]"
        raise InvalidInput(f"Unknown transform: {transform}", next_step=f"use one of {known}")
    return transform


class UpdateSpec(MetadataOperation):
    """Adds, removes and renames fields of the default partition spec.

    It keeps the steps, so on a table that moved they are taken again on the current spec. It assumes that each column
    that a step names has the name, the field id and the type that its caller saw, and each partition field the source,
    the transform and the id.

    steps: in their order. case_sensitive: whether they name columns as they are written.
    Raises InvalidInput if the steps are not valid on `seen`.
    """

    name: ClassVar[str] = "update-spec"

    def __init__(
        self,
        seen: TableMetadata,
        steps: Sequence[SpecStep],
        *,
        case_sensitive: bool = True,
        start: TableMetadata | None = None,
        caller: str = "",
    ) -> None:
        super().__init__(seen, start=start, caller=caller)
        self._steps = tuple(steps)
        self._case_sensitive = case_sensitive
        draft = self._draft(seen)
        last_id = self._start.last_column_id
        self._columns = tuple(replace(each, last_id=last_id) for each in draft.seen_columns.values())
        self._fields = dict(draft.seen_fields)
        self.validate()

    def check_seen(self, base: TableMetadata) -> None:
        for column in self._columns:
            column.check(base.schema, case_sensitive=self._case_sensitive)
        for name, was in self._fields.items():
            now = next((field for field in base.spec.fields if field.name == name), None)
            if now == was:
                continue
            # Added by an earlier step of the same transaction: on a table that moved it has another id.
            own = was.field_id > self._start.last_partition_id
            if not own or now is None or now.transform != was.transform:
                self._refuse(name, was, now)

    def updates(self, base: TableMetadata) -> Sequence[Update]:
        spec = self._draft(base).finish()
        if PartitionSpec.parse(spec).content == base.spec.content:
            return []
        return [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]

    def _refuse(self, name: str, was: PartitionField, now: PartitionField | None) -> None:
        what = "was removed or renamed" if now is None else f"was {was} and is {now} now"
        raise RequirementFailed(
            "seen-partition-field",
            f"since the caller looked, partition field {name} {what}",
            expected=str(was),
            found=None if now is None else str(now),
        )

    def _draft(self, base: TableMetadata) -> SpecDraft:
        draft = SpecDraft(base, case_sensitive=self._case_sensitive)
        for step in self._steps:
            step(draft)
        return draft
