"""Data files that an operation adds: whether they fit the table, and the manifests that list them.

Their manifests depend on no base, so they are written once and every replay of the operation reuses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from iceberg_hms.changes import evolution, updates
from iceberg_hms.changes.change import Manifests, Update
from iceberg_hms.changes.operations.manifests.row_lineage import refuse_unassigned_values
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.expressions.bounds import bound_value
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.lineage_columns import RowLineage, stated_lineage
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED_ORDER_ID
from iceberg_hms.format.schema.transforms import Bucket, UnknownTransform, Void
from iceberg_hms.format.schema.types import PrimitiveType
from iceberg_hms.format.schema.values import kind_of

#: `RequirementFailed.name` of the assumptions that the table can still read files of the schema, the partition spec and
#: the name mapping that they were written with.
FILES_SCHEMA = "files-schema"
FILES_SPEC = "files-spec"
FILES_NAME_MAPPING = "files-name-mapping"

#: The formats of data files and delete files (spec: data_file, file_format), and that of deletion vectors.
_FORMATS: Final = ("PARQUET", "ORC", "AVRO")
_VECTOR_FORMAT: Final = "PUFFIN"
#: Types whose bounds writers cut (Java: write.metadata.metrics.default, truncate(16)): the rows may all have one value
#: even if the bounds differ.
_CUT: Final = frozenset({"string", "binary", "fixed"})
_NEXT: Final = "give the bounds that its writer counted, or none"


class NewDataFiles:
    """The data files that one operation adds.

    snapshot_id: of the operation's snapshot.
    schema_id, schema: of the schema that they were written with. specs: partition spec id -> spec, of those that they
    were written with. A schema or spec that is None is assumed to be the one with its id.
    name_mapping: the name mapping, as JSON, that found the columns of files without field ids; None if all files have
    ids. Readers need it (spec: column projection), so it becomes the table property `schema.name-mapping.default` if
    the table has none.
    sequence_number: the files' data sequence number; None: that of the snapshot, as for rows that are new. A rewrite
    states the number that its rows had, so that newer deletes still apply to them.
    lineage: location -> the metadata columns of row lineage that the file carries, where its footer was read; of others
    the record says what is known. own_keys: the keys of the same files by their own paths, where local ones are named
    through linked folders.

    Raises InvalidInput for delete files, a file named twice, files of another spec, and as `check_record`.
    """

    def __init__(
        self,
        data_files: Sequence[DataFile],
        *,
        snapshot_id: int,
        schema_id: int,
        schema: Schema | None = None,
        specs: Mapping[int, PartitionSpec | None],
        name_mapping: str | None = None,
        sequence_number: int | None = None,
        lineage: Mapping[str, RowLineage] | None = None,
        own_keys: frozenset[str] = frozenset(),
    ) -> None:
        self.files = tuple(map(_with_order, data_files))
        #: The keys (`format.locations.file_key`) under which the table may have the files already.
        self.known_keys = _check_files(self.files, specs) | own_keys
        self._snapshot_id = snapshot_id
        self._schema_id = schema_id
        self._schema = schema
        self._specs = specs
        self._name_mapping = name_mapping
        self._sequence_number = sequence_number
        self._lineage = dict(lineage or {})
        self._written: dict[int, tuple[ManifestFile, ...]] = {}
        self._values_checked = False

    def check(self, base: TableMetadata) -> None:
        """Raises RequirementFailed if the schema or a spec of the files was removed; if the current schema or the name
        mapping gives their columns another meaning, as after a CREATE OR REPLACE, or requires a column that they lack
        (`evolution.incompatible_columns`): it names the columns. InvalidInput if a file lacks its spec's partition
        values, as `check_bounds`, or if it carries row ids that the table has not given."""
        schema = self._written_with(base)
        self._check_meaning(schema, base)
        names = {id_: {field.name for field in self._spec(base, id_).fields} for id_ in self._specs}
        for data_file in self.files:
            check_partition(data_file, names[data_file.spec_id])
        if not self._values_checked:
            for data_file in self.files:
                check_bounds(data_file, schema, self._spec(base, data_file.spec_id))
                refuse_unassigned_values(data_file, self.lineage(data_file), base)
            self._values_checked = True

    def manifests(self, base: TableMetadata, manifests: Manifests) -> tuple[ManifestFile, ...]:
        """The manifests of the files, written on first use. Raises as `check`."""
        # A manifest has the layout of one format version, so a table that was upgraded meanwhile needs new ones.
        version = base.format_version
        if version not in self._written:
            self._written[version] = tuple(self._write(base, manifests))
        return self._written[version]

    def lineage(self, data_file: DataFile) -> RowLineage:
        """The metadata columns of row lineage that one of the files carries, as far as it is known."""
        found = self._lineage.get(data_file.file_path)
        if found is None:
            found = self._lineage[data_file.file_path] = stated_lineage(data_file)
        return found

    def name_mapping_update(self, base: TableMetadata) -> list[Update]:
        """The update that makes the files' name mapping the table's, if the table has none."""
        if self._name_mapping is None or NAME_MAPPING in base.properties:
            return []
        mapping = self._name_mapping
        if base.current_schema_id != self._schema_id:
            mapping = evolution.add_schema_names(mapping, base.schema)
        return [updates.set_properties({NAME_MAPPING: mapping})]

    def _write(self, base: TableMetadata, manifests: Manifests) -> list[ManifestFile]:
        schema = self._written_with(base)
        written: list[ManifestFile] = []
        for spec_id in sorted({each.spec_id for each in self.files}):
            entries = [
                ManifestEntry(
                    EntryStatus.ADDED, each, snapshot_id=self._snapshot_id, sequence_number=self._sequence_number
                )
                for each in self.files
                if each.spec_id == spec_id
            ]
            written.extend(manifests.write(base, schema, self._spec(base, spec_id), self._snapshot_id, entries))
        return written

    def _written_with(self, base: TableMetadata) -> Schema:
        schema = base.schema_by_id(self._schema_id)
        if schema is None:
            raise RequirementFailed(FILES_SCHEMA, f"schema {self._schema_id} was removed", expected=self._schema_id)
        planned = self._schema or schema
        # Versions of a table share their schemas' JSON, so this mostly compares two references.
        if planned.raw is not schema.raw and not planned.same_as(schema):
            what = f"schema {self._schema_id} was removed, and another one has its id"
            raise RequirementFailed(FILES_SCHEMA, what, expected=self._schema_id)
        for spec_id in self._specs:
            self._spec(base, spec_id)
        return schema

    def _spec(self, base: TableMetadata, spec_id: int) -> PartitionSpec:
        spec, planned = base.spec_by_id(spec_id), self._specs[spec_id]
        if spec is None:
            raise RequirementFailed(FILES_SPEC, f"spec {spec_id} was removed", expected=spec_id)
        if planned is not None and planned.fields != spec.fields:
            what = f"spec {spec_id} was removed, and another one has its id"
            raise RequirementFailed(FILES_SPEC, what, expected=spec_id)
        return spec

    def _check_meaning(self, written: Schema, base: TableMetadata) -> None:
        if base.current_schema_id != self._schema_id and (
            problems := evolution.incompatible_columns(written, base.schema)
        ):
            what = f"the table's schema changed since the files were written: {'; '.join(problems)}"
            raise RequirementFailed(FILES_SCHEMA, what, expected=self._schema_id, found=base.current_schema_id)
        self._check_names(base)

    def _check_names(self, base: TableMetadata) -> None:
        mapping, now = self._name_mapping, base.properties.get(NAME_MAPPING)
        if mapping is None:
            return
        what = "the table's name mapping changed since the files were matched by it"
        moved = evolution.remapped_names(mapping, now) if now else []
        if NAME_MAPPING not in base.properties:
            # The mapping becomes the table's, so it applies to later files too.
            what = "names by which the files' columns were matched now belong to other columns"
            moved = evolution.conflicting_names(mapping, base.schema)
        if moved:
            raise RequirementFailed(FILES_NAME_MAPPING, f"{what}: {', '.join(moved)}")


def _with_order(data_file: DataFile) -> DataFile:
    """An unknown order counts as unsorted (spec: sort_order_id), and older releases of Trino fail to read an entry
    without one (trinodb/trino#29211)."""
    return data_file if data_file.sort_order_id is not None else replace(data_file, sort_order_id=UNSORTED_ORDER_ID)


def check_record(file: DataFile) -> None:
    """Raises InvalidInput for the record of a data file or delete file that no reader can read."""
    if not file.file_path:
        raise InvalidInput("A file's record has no path")
    formats = _FORMATS if file.content == FileContent.DATA else (*_FORMATS, _VECTOR_FORMAT)
    if file.file_format.upper() not in formats:
        raise InvalidInput(
            f"{file.file_path} has the format {file.file_format!r}, which is none of {', '.join(formats)}"
        )
    numbers = (file.record_count, file.file_size_in_bytes)
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise InvalidInput(
            f"{file.file_path} has a negative record count or size, or one that is no whole number: {numbers}"
        )


def check_partition(file: DataFile, names: Set[str]) -> None:
    """Raises InvalidInput for a data file or delete file that has no value for one of its spec's fields, or has others.
    names: of the fields."""
    if file.partition.keys() != names:
        found, wanted = sorted(file.partition), sorted(names)
        raise InvalidInput(f"{file.file_path} has partition values {found}, its spec has {wanted}")


def _check_files(data_files: Sequence[DataFile], specs: Mapping[int, PartitionSpec | None]) -> frozenset[str]:
    """The keys of the files (`format.locations.file_key`)."""
    seen: set[str] = set()
    for data_file in data_files:
        path = data_file.file_path
        if data_file.content != FileContent.DATA:
            raise InvalidInput(f"Cannot append a delete file: {path}")
        if data_file.spec_id not in specs:
            known = ", ".join(map(str, sorted(specs)))
            raise InvalidInput(f"{path} was made for partition spec {data_file.spec_id}, the operation is for {known}")
        check_record(data_file)
        key = file_key(path)
        if key in seen:
            raise InvalidInput(f"Cannot append a file twice: {path}")
        seen.add(key)
    return frozenset(seen)


def check_bounds(data_file: DataFile, schema: Schema, spec: PartitionSpec) -> None:
    """Raises InvalidInput for bounds of a column that no value is within, and for bounds of the source column of a
    partition field by which some row is in another partition than the file's, which has a value for each field: readers
    leave a file out where its bounds or its partition rule out every row, so its rows would be lost silently."""
    lower, upper = data_file.lower_bounds or {}, data_file.upper_bounds or {}
    for id_ in lower.keys() & upper.keys():
        of = _type(schema, id_)
        if of is None:
            continue
        least, greatest = bound_value(of, lower[id_]), bound_value(of, upper[id_])
        if least is not None and greatest is not None and least > greatest:
            raise InvalidInput(
                f"{data_file.file_path} has bounds of {schema.name_of(id_)} that no value is within: {least!r} to "
                f"{greatest!r}",
                next_step=_NEXT,
            )
    for field in spec.fields:
        of = _type(schema, field.source_id)
        if of is None or isinstance(field.transform, UnknownTransform | Void):
            continue
        least, greatest = bound_value(of, lower.get(field.source_id)), bound_value(of, upper.get(field.source_id))
        if not _may_be_in(data_file.partition[field.name], field, of, least, greatest):
            raise InvalidInput(
                f"{data_file.file_path} is in partition {field.name}={data_file.partition[field.name]!r}, and its "
                f"bounds of {schema.name_of(field.source_id)} are {least!r} to {greatest!r}",
                next_step=f"write one file for each partition, with its partition's value; or {_NEXT}",
            )


def _may_be_in(value: Any, field: PartitionField, of: PrimitiveType, least: Any, greatest: Any) -> bool:
    """Whether all rows between two bounds, of which each may be unknown, may have a partition value."""
    if least is None and greatest is None:
        return True
    if value is None:
        # A bound is of a row that has a value.
        return False
    if isinstance(field.transform, Bucket):
        return least != greatest or bool(field.transform.apply(least, of) == value)
    lowest, highest = field.transform.apply(least, of), field.transform.apply(greatest, of)
    if kind_of(of) in _CUT:
        return (lowest is None or lowest <= value) and (highest is None or value <= highest)
    return lowest in (None, value) and highest in (None, value)


def _type(schema: Schema, id_: int) -> PrimitiveType | None:
    field = schema.field(id_)
    return field.type if field is not None and isinstance(field.type, PrimitiveType) else None
