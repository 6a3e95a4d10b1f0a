"""A table's default partition spec while the steps of one update change it, by the rules of Java's
BaseUpdatePartitionSpec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from iceberg_hms.changes.operations.schema.seen_columns import Path, SeenColumn, find_column, shown_path
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from iceberg_hms.format.schema.transforms import Bucket, Transform, Truncate, UnknownTransform, Void
from iceberg_hms.format.schema.types import NestedField

_TIME_TRANSFORMS: Final = frozenset({"year", "month", "day", "hour"})


class SpecDraft:
    """One run of the steps, on one state of a table. Each step raises InvalidInput that names the field.

    base: the state. seen_columns: the columns that steps named; seen_fields: the partition fields, by name.
    Steps name the fields of the default spec as they are called before the first step. Raises InvalidInput if that spec
    has a transform that is unknown.
    """

    def __init__(self, base: TableMetadata, *, case_sensitive: bool = True) -> None:
        self.base = base
        self.case_sensitive = case_sensitive
        self.seen_columns: dict[Path, SeenColumn] = {}
        self.seen_fields: dict[str, PartitionField] = {}
        self._by_name = {field.name: field for field in base.spec.fields}
        self._by_transform = {_key(field): field for field in base.spec.fields}
        self._added: dict[tuple[int, str], PartitionField] = {}
        self._added_times: dict[int, PartitionField] = {}
        self._deleted: set[int] = set()
        self._renamed: dict[str, str] = {}
        for field in base.spec.fields:
            if isinstance(field.transform, UnknownTransform):
                raise InvalidInput(f"Cannot update partition spec with unknown transform: {field}")

    def add_field(self, source: Path, transform: Transform, name: str | None = None) -> None:
        """Partition by a transform of a column. A field that an earlier step removed comes back as it was. Without a
        name it gets that of an equal field of an older spec, else Java's default: `<column>_bucket_16`."""
        column = self._column(source)
        self._check_transform(source, column, transform)
        what = f"{'' if name is None else f'{name}='}{transform}({shown_path(source)})"
        if name is not None and any(each.name == name for each in self._added.values()):
            raise InvalidInput(f"Cannot add duplicate partition field: {name}")
        key = column.id, str(transform)
        existing = self._by_transform.get(key)
        if existing is not None and existing.field_id in self._deleted:
            self._deleted.discard(existing.field_id)
            if name is not None and name != existing.name:
                self.rename_field(existing.name, name)
            return
        if existing is not None:
            raise InvalidInput(f"Cannot add duplicate partition field {what}, conflicts with {existing}")
        if key in self._added:
            raise InvalidInput(f"Cannot add duplicate partition field {what}, already added: {self._added[key]}")
        field = PartitionField(column.id, 0, transform, name or self._default_name(column, transform))
        if str(transform) in _TIME_TRANSFORMS:
            first = self._added_times.setdefault(column.id, field)
            if first is not field:
                raise InvalidInput(f"Cannot add redundant partition field: {first.name} conflicts with {field.name}")
        self._make_room(field.name)
        self._added[key] = field

    def remove_field(self, name: str) -> None:
        """Stop partitioning by a field, given by its name."""
        if any(each.name == name for each in self._added.values()):
            raise InvalidInput(f"Cannot delete newly added field: {name}")
        self._remove(self._existing(name, "remove"))

    def remove_transform(self, source: Path, transform: Transform) -> None:
        """Stop partitioning by a transform of a column."""
        column = self._column(source)
        key = column.id, str(transform)
        if key in self._added:
            raise InvalidInput(f"Cannot delete newly added field: {self._added[key].name}")
        field = self._by_transform.get(key)
        if field is None:
            raise InvalidInput(f"Cannot find partition field to remove: {transform}({shown_path(source)})")
        self._remove(self._existing(field.name, "remove"))

    def rename_field(self, name: str, new_name: str) -> None:
        """Give a field another name; it keeps its id."""
        if any(each.name == name for each in self._added.values()):
            raise InvalidInput(f"Cannot rename newly added partition field: {name}")
        field = self._existing(name, "rename")
        if field.field_id in self._deleted:
            raise InvalidInput(f"Cannot delete and rename partition field: {name}")
        taken = self._by_name.get(new_name)
        if taken is not None and taken is not field and isinstance(taken.transform, Void):
            self._renamed.setdefault(taken.name, _spare_name(taken))
        self._renamed[name] = new_name

    def finish(self) -> Mapping[str, Any]:
        """The spec's JSON, without ids of the spec and of new fields. A table of version 1 keeps removed fields as void
        ones, since its field ids are the fields' positions (spec: Partition Evolution)."""
        fields = []
        for field in self.base.spec.fields:
            now = replace(field, name=self._renamed.get(field.name, field.name))
            if field.field_id not in self._deleted:
                fields.append(now.to_json())
            elif self.base.format_version < 2:
                fields.append(replace(now, transform=Void()).to_json())
        for field in self._added.values():
            raw = field.to_json()
            del raw["field-id"]
            fields.append(raw)
        return {"fields": fields}

    def _column(self, source: Path) -> NestedField:
        column = find_column(self.base.schema, source, case_sensitive=self.case_sensitive)
        if column is None:
            raise InvalidInput(f"Cannot find source column of a partition field: {shown_path(source)}")
        key = source if isinstance(source, str) else tuple(source)
        self.seen_columns.setdefault(key, SeenColumn(key, column))
        return column

    def _check_transform(self, source: Path, column: NestedField, transform: Transform) -> None:
        try:
            PartitionSpec.of([PartitionField(column.id, FIRST_PARTITION_FIELD_ID, transform, "_")]).check_compatible(
                self.base.schema
            )
        except InvalidInput as error:
            what = f"Cannot partition by {transform} of column {shown_path(source)}"
            raise InvalidInput(f"{what}: {error.message}") from error

    def _default_name(self, column: NestedField, transform: Transform) -> str:
        if self.base.format_version > 1:
            for spec in self.base.specs:
                for field in spec.fields:
                    if _key(field) == (column.id, str(transform)):
                        return field.name
        name = self.base.schema.name_of(column.id) or column.name
        match transform:
            case Bucket():
                return f"{name}_bucket_{transform.buckets}"
            case Truncate():
                return f"{name}_trunc_{transform.width}"
            case _:
                return name if str(transform) == "identity" else f"{name}_{transform}"

    def _make_room(self, name: str) -> None:
        """A void field, or one that a step removed, leaves its name to a new field."""
        if any(each.name == name for each in self._added.values()):
            raise InvalidInput(f"Cannot add duplicate partition field: {name}")
        existing = self._by_name.get(name)
        if existing is None or self._renamed.get(name, name) != name:
            return
        if existing.field_id not in self._deleted and not isinstance(existing.transform, Void):
            raise InvalidInput(f"Cannot add duplicate partition field name: {name}")
        self._renamed[name] = _spare_name(existing)

    def _existing(self, name: str, verb: str) -> PartitionField:
        field = self._by_name.get(name)
        if field is None:
            known = ", ".join(self._by_name) or "none"
            raise InvalidInput(f"Cannot find partition field to {verb}: {name} (the spec has: {known})")
        self.seen_fields.setdefault(name, field)
        return field

    def _remove(self, field: PartitionField) -> None:
        if field.name in self._renamed:
            raise InvalidInput(f"Cannot rename and delete partition field: {field.name}")
        self._deleted.add(field.field_id)


def _key(field: PartitionField) -> tuple[int, str]:
    return field.source_id, str(field.transform)


def _spare_name(field: PartitionField) -> str:
    return f"{field.name}_{field.field_id}"
