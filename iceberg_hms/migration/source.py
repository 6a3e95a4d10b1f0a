"""What a Hive table is as an Iceberg table, from its row alone; or why it cannot be one.

source = MigrationSource.of(row)
folders = source.folders(tables.partitions(row), problems)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import cached_property
from typing import Any, Final

from iceberg_hms.coordinator.hive_ports import HivePartition, HiveRow
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.datafiles.partition_values import HIVE_NULL, has_text, value_of_text
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, mapping_text
from iceberg_hms.format.schema.new_schemas import check_column_name
from iceberg_hms.format.schema.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from iceberg_hms.format.schema.schema import Schema, assign_fresh_ids
from iceberg_hms.format.schema.transforms import parse_transform
from iceberg_hms.format.schema.types import NestedField, PrimitiveType, Type, nested_fields
from iceberg_hms.format.updates.apply import DEFAULT_FORMAT_VERSION
from iceberg_hms.format.updates.table import FORMAT_VERSION_PROPERTY, parse_format_version
from iceberg_hms.migration.column_defaults import CURRENT_DEFAULT, DEFAULTS_VERSION
from iceberg_hms.migration.hive_formats import format_of_classes, format_of_provider, table_format_of
from iceberg_hms.migration.hive_types import NO_TYPE_ADVICE, ColumnKey, hive_schema
from iceberg_hms.migration.known_keys import COPY
from iceberg_hms.migration.problems import Problems
from iceberg_hms.migration.row_keys import check_partition, check_table, properties_of
from iceberg_hms.migration.spark_schema import SPARK_SCHEMA, spark_schema
from iceberg_hms.migration.work import SourcePartition

_PROVIDER: Final = "spark.sql.sources.provider"
#: Spark's provider of tables that are Hive's own.
_HIVE_PROVIDER: Final = "hive"
_PARTITION_PROVIDER: Final = "spark.sql.partitionProvider"

_COUNT: Final = re.compile(r"\d{1,5}", re.ASCII)

#: What Hive escapes in the names of partitions' folders (FileUtils.escapePathName).
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


@dataclass(frozen=True)
class MigrationSource:
    """A Hive table that can become an Iceberg table.

    location: its folder. file_format: `parquet`, `orc` or `avro`; a partition may have another one. schema: with fresh
    field ids, the partition columns last, in Hive's order; no column is required. spec: identity of each partition
    column. properties: those of the Iceberg table: the user's own parameters of the row, the format of new files, and
    the name mapping by which files without field ids are read. time_zone: of partition values without one. ignored:
    keys that the caller lets pass, in lower case.
    """

    name: TableName
    location: str
    file_format: str
    schema: Schema
    spec: PartitionSpec
    properties: dict[str, str]
    time_zone: tzinfo
    row: HiveRow
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        row: HiveRow,
        *,
        time_zone: tzinfo = UTC,
        ignored: Collection[str] = (),
        format_version: int | None = None,
    ) -> MigrationSource:
        """time_zone: that of the Spark session, by which Spark reads the timestamps of partitions. ignored: keys of the
        row, its partitions and its columns that the caller lets pass, in any case. format_version: of the Iceberg
        table that gets the files; None: that which the row's `format-version` names. Raises InvalidInput that names the
        reason and what to do instead."""
        try:
            _check_kind(row)
            location, file_format = location_of(row), _file_format(row)
            _check_partitions_are_listed(row)
            passed = frozenset(key.lower() for key in ignored)
            version = _format_version(row) if format_version is None else format_version
            keys: list[ColumnKey] = []
            timestamp = types.TIMESTAMP if file_format == "orc" else types.TIMESTAMPTZ
            schema = _schema(row, timestamp, version, passed, keys)
            check_table(row, keys, file_format, format_version=version, ignored=passed)
            _check_names(schema)
            spec = _identity_spec(row, schema)
        except InvalidInput as error:
            raise InvalidInput(f"Cannot migrate {row.name}: {error.message}", next_step=error.next_step) from error
        properties = {
            **properties_of(row.parameters),
            "write.format.default": file_format,
            NAME_MAPPING: mapping_text(schema),
        }
        if FORMAT_VERSION_PROPERTY in row.parameters:
            properties[FORMAT_VERSION_PROPERTY] = str(version)
        return cls(row.name, location, file_format, schema, spec, properties, time_zone, row, passed)

    def folders(self, partitions: Iterable[HivePartition], problems: Problems) -> list[SourcePartition]:
        """Those of the partitions, which are all or some of the table's; of a table without partition columns its own.
        Adds to the problems each partition that `partition` refuses."""
        if not self.row.partition_keys:
            return [SourcePartition("", self.location, {}, self.file_format)]
        found: list[SourcePartition] = []
        for each in partitions:
            try:
                found.append(self.partition(each))
            except InvalidInput as error:
                problems.add(self._name_of(each), each.location, error)
        return found

    def partition(self, partition: HivePartition) -> SourcePartition:
        """Raises InvalidInput that names the partition: its format is none of the three, a value is none of its
        column's type, or a key of its own stands in the way."""
        name = self._name_of(partition)
        if len(partition.values) != len(self._columns):
            raise InvalidInput(
                f"Partition {name} of {self.name} has {len(partition.values)} values, and the table has "
                f"{len(self._columns)} partition columns"
            )
        values = {
            column.name: self._value(name, column, text)
            for column, text in zip(self._columns, partition.values, strict=True)
        }
        file_format = self._format_of(partition, name)
        check_partition(partition, self.row, name, file_format, ignored=self.ignored)
        return SourcePartition(name, partition.location, values, file_format)

    def has(self, partition: HivePartition, wanted: Mapping[str, object]) -> bool:
        """Whether a partition has these values. wanted: name of a partition column in lower case -> its value, or the
        value's text; None: null."""
        found = {
            column.name.lower(): (column, text) for column, text in zip(self._columns, partition.values, strict=False)
        }
        return all(key in found and self._is_value(*found[key], value) for key, value in wanted.items())

    def _is_value(self, column: NestedField, text: str, wanted: object) -> bool:
        other = HIVE_NULL if wanted is None else str(wanted)
        if other == text:
            return True
        try:
            return bool(self._value("", column, text) == self._value("", column, other))
        except InvalidInput:
            return False

    def _name_of(self, partition: HivePartition) -> str:
        return partition_name([key.name for key in self.row.partition_keys], partition.values)

    @cached_property
    def _columns(self) -> Sequence[NestedField]:
        return self.schema.fields[len(self.schema.fields) - len(self.spec.fields) :]

    def _value(self, partition: str, column: NestedField, text: str) -> Any:
        if text == HIVE_NULL:
            return None
        if not isinstance(column.type, PrimitiveType):
            raise _not_primitive(column)
        try:
            return value_of_text(column.type, text, time_zone=self.time_zone)
        except InvalidInput as error:
            raise InvalidInput(
                f"Partition {partition} of {self.name}: {column.name}: {error.message}",
                next_step="rename the partition, or drop it if it has no files: ALTER TABLE ... PARTITION ...",
            ) from error

    def _format_of(self, partition: HivePartition, name: str) -> str:
        classes = (partition.input_format, partition.serde)
        # Spark gives partitions of its tables no classes.
        if classes in ((None, None), (self.row.input_format, self.row.serde)):
            return self.file_format
        found = format_of_classes(*classes)
        if found is None:
            raise InvalidInput(
                f"Partition {name} of {self.name}: {_not_a_format(*classes)}",
                next_step="write its rows again in the format of the table, or drop the partition",
            )
        return found


def _check_names(schema: Schema) -> None:
    for column in schema.fields:
        try:
            check_column_name(column.name)
        except InvalidInput as error:
            raise InvalidInput(error.message, next_step=f"{COPY} with another name for the column") from error


def partition_name(keys: Iterable[str], values: Iterable[str]) -> str:
    """A partition as Hive writes it, `month=1/day=2` (Java: Warehouse.makePartName)."""
    return "/".join(f"{_escaped(key.lower())}={_escaped(value)}" for key, value in zip(keys, values, strict=False))


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text) or HIVE_NULL


def _provider(row: HiveRow) -> str | None:
    """Spark's data source, of a table that is not Hive's own."""
    found = row.parameters.get(_PROVIDER, _HIVE_PROVIDER)
    return None if found.lower() == _HIVE_PROVIDER else found


def _spark_partition_columns(row: HiveRow) -> int:
    """How many partition columns Spark's table has; -1 if the row does not say it readably."""
    count = row.parameters.get(f"{SPARK_SCHEMA}.numPartCols", "0")
    return int(count) if _COUNT.fullmatch(count) else -1


def _check_kind(row: HiveRow) -> None:
    """Raises InvalidInput for what is no table of files whose rows are those of the files."""
    handler = row.parameters.get("storage_handler")
    kind = row.table_type.upper()
    if kind.endswith("_VIEW"):
        what = "a materialized view" if kind.startswith("MATERIALIZED") else "a view"
        raise InvalidInput(f"it is {what}, which has no files of its own", next_step="migrate the tables that it reads")
    named = row.parameters.get("table_type", "")
    other = table_format_of(named, row.parameters.get(_PROVIDER), row.input_format, row.serde, handler)
    if other == "Iceberg":
        raise InvalidInput("it is an Iceberg table already", next_step="nothing is left to do")
    if other is not None:
        raise InvalidInput(f"it is a table of {other}, whose log says which files count", next_step=COPY)
    if row.bucket_columns and row.num_buckets > 0:
        raise InvalidInput(
            f"it has {row.num_buckets} buckets, by which readers join and sample: Iceberg counts buckets by another "
            "hash",
            next_step=COPY,
        )


def location_of(row: HiveRow) -> str:
    """The folder of a table, as Spark reads it. Raises InvalidInput if it has none."""
    # The row's own location is a placeholder in some tables of Spark's.
    spark_path = row.serde_parameters.get("path") if _provider(row) is not None else None
    location = spark_path or row.location
    if not location:
        raise InvalidInput("it has no location", next_step="set one: ALTER TABLE ... SET LOCATION")
    return location


def _file_format(row: HiveRow) -> str:
    provider = _provider(row)
    if provider is None:
        found = format_of_classes(row.input_format, row.serde)
        why = _not_a_format(row.input_format, row.serde)
    else:
        found, why = format_of_provider(provider), f"Spark reads it by {provider}, not as Parquet, ORC or Avro"
    if found is None:
        raise InvalidInput(why, next_step=COPY)
    return found


def _not_a_format(input_format: str | None, serde: str | None) -> str:
    return f"its files are not Parquet, ORC or Avro: input format {input_format or 'none'}, serde {serde or 'none'}"


def _format_version(row: HiveRow) -> int:
    text = row.parameters.get(FORMAT_VERSION_PROPERTY)
    return DEFAULT_FORMAT_VERSION if text is None else parse_format_version(text)


def _check_partitions_are_listed(row: HiveRow) -> None:
    """Raises InvalidInput if Spark finds partitions by what the metastore does not know."""
    is_listed = row.parameters.get(_PARTITION_PROVIDER) == "catalog" or not _spark_partition_columns(row)
    if _provider(row) is not None and not is_listed:
        raise InvalidInput(
            "the metastore has no list of its partitions: Spark looks for their folders",
            next_step="run MSCK REPAIR TABLE in Spark, which lists them there",
        )


def _schema(
    row: HiveRow, timestamp: PrimitiveType, version: int, ignored: Collection[str], keys: list[ColumnKey]
) -> Schema:
    """Spark's schema of a table of Spark's; of Hive's own Hive's columns, by the names that Spark knows them by.
    version: of the Iceberg table's format. ignored: keys that the caller lets pass. keys: gets what else the
    columns say."""
    defaults = version >= DEFAULTS_VERSION and CURRENT_DEFAULT.lower() not in ignored
    sparks = spark_schema(row.parameters, timestamp=timestamp, defaults=defaults, keys=keys)
    if _provider(row) is None:
        hives = hive_schema([*row.columns, *row.partition_keys], timestamp=timestamp, keys=keys)
        return hives if sparks is None else _in_sparks_case(hives, sparks)
    if sparks is None:
        raise InvalidInput(f"it is a table of Spark's, and its row has no {SPARK_SCHEMA}", next_step=COPY)
    return _partitioned_last(row, sparks)


def _in_sparks_case(hives: Schema, sparks: Schema) -> Schema:
    """Hive's columns in Hive's order, named as Spark named them: Hive may have altered the table since."""
    known = {field.name.lower(): field for field in sparks.fields}
    # Ids need only differ until fresh ones are assigned.
    hives = assign_fresh_ids(hives, start=sparks.highest_field_id + 1)

    def named(field: NestedField) -> NestedField:
        spark = known.get(field.name.lower())
        if spark is None:
            return field
        if _folded(spark.type) == _folded(field.type):
            return replace(spark, doc=field.doc)
        return replace(field, name=spark.name)

    return assign_fresh_ids(Schema.of(named(field) for field in hives.fields))


def _partitioned_last(row: HiveRow, schema: Schema) -> Schema:
    """The same columns, with the row's partition columns last and in its order."""
    place = {key.name.lower(): at for at, key in enumerate(row.partition_keys, 1)}
    fields = sorted(schema.fields, key=lambda field: place.get(field.name.lower(), 0))
    last = [field.name.lower() for field in fields[len(fields) - len(place) :]]
    if last != list(place) or _spark_partition_columns(row) != len(place):
        raise InvalidInput(
            f"its partition columns in the metastore are {', '.join(place) or 'none'}, and {SPARK_SCHEMA} has others",
            next_step=COPY,
        )
    return assign_fresh_ids(Schema.of(fields))


def _folded(of: Type) -> Any:
    """What two types share that differ in the case of names and in comments alone."""
    if isinstance(of, PrimitiveType):
        return of.name
    return type(of), [(field.name.lower(), _folded(field.type)) for field in nested_fields(of)]


def _identity_spec(row: HiveRow, schema: Schema) -> PartitionSpec:
    columns = schema.fields[len(schema.fields) - len(row.partition_keys) :]
    for column in columns:
        if not isinstance(column.type, PrimitiveType) or not has_text(column.type):
            raise _not_primitive(column)
    if len(columns) == len(schema.fields):
        raise InvalidInput("it has no columns but those of its partitions", next_step=COPY)
    identity = parse_transform("identity")
    return PartitionSpec.of(
        PartitionField(column.id, FIRST_PARTITION_FIELD_ID + at, identity, column.name)
        for at, column in enumerate(columns)
    )


def _not_primitive(column: NestedField) -> InvalidInput:
    return InvalidInput(
        f"no partition value of column {column.name} can be read as {column.type}", next_step=NO_TYPE_ADVICE
    )
