"""The Avro schemas of manifests and manifest lists, as Java writes them, for format versions 1, 2 and 3 (spec:
manifests, manifest lists, appendix A).

A file is decoded with its own schema, after `relabel` renamed the fields by field id: names changed over the years, ids
did not.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

from iceberg_hms.errors import UnsupportedFormat
from iceberg_hms.format.schema.types import PrimitiveType, StructType, Type

_ALL: Final = (1, 2, 3)
_V1: Final = (1,)
_V2: Final = (2, 3)
_V3: Final = (3,)

#: The id of `data_file.partition`; `partition_label` names the fields inside.
PARTITION_ID: Final = 102


def manifest_file(format_version: int) -> dict[str, Any]:
    """The schema of a manifest list. Raises UnsupportedFormat for versions other than 1, 2 and 3."""
    _check(format_version)
    # Version 1 has another order, and old lists lack its counts.
    names = _LIST_ORDER_V1 if format_version == 1 else _LIST_ORDER
    fields = []
    for name in names:
        field_id, kind, doc = _LIST_FIELDS[name]
        if name == "first_row_id" and format_version < 3:
            continue
        optional = name in _LIST_OPTIONAL or (format_version == 1 and name.endswith("_count"))
        fields.append(_field(field_id, name, kind, doc, optional=optional))
    return {"type": "record", "name": "manifest_file", "fields": fields}


def manifest_entry(format_version: int, partition: StructType) -> dict[str, Any]:
    """The schema of a manifest whose spec has this partition type. Raises UnsupportedFormat for versions other than 1,
    2 and 3, and for partition fields whose type has no Avro form or whose names are equal in Avro."""
    _check(format_version)
    fields = [_field(0, "status", "int"), _field(1, "snapshot_id", "long", optional=True)]
    if format_version >= 2:
        fields.append(_field(3, "sequence_number", "long", optional=True))
        fields.append(_field(4, "file_sequence_number", "long", optional=True))
    data_file = []
    for field_id, name, kind, doc, optional, versions in _DATA_FILE:
        if format_version in versions:
            what = _partition(partition) if field_id == PARTITION_ID else kind
            data_file.append(_field(field_id, name, what, doc, optional=optional))
    fields.append(_field(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}))
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def partition_label(field_id: int) -> str:
    """The name of a partition field in decoded and encoded records."""
    return f"p{field_id}"


def relabel(schema: Any, names: Mapping[int, str]) -> Any:
    """A schema of the same layout for coding: fields are renamed by id, and logical types are dropped, so that values
    are the stored ones (days, microseconds, bytes). Fields with other ids, or none, keep their names.

    names: field id -> name. `partition_label` names the fields inside `partition`.
    """
    return _relabel(schema, names, in_partition=False)


def known_fields(schema: Any) -> dict[int, str]:
    """Field id -> name of all record fields in a schema."""
    return {field["field-id"]: field["name"] for field in _walk(schema) if "field-id" in field}


def top_level_ids(schema: Any) -> set[int]:
    """Ids of the outermost record's fields; empty for anything else than a record with ids."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return {field["field-id"] for field in fields or () if isinstance(field, dict) and "field-id" in field}


def _relabel(schema: Any, names: Mapping[int, str], *, in_partition: bool) -> Any:
    if isinstance(schema, list):
        return [_relabel(branch, names, in_partition=in_partition) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    new = {key: schema[key] for key in ("type", "name", "namespace", "size", "symbols") if key in schema}
    for key in ("items", "values"):
        if key in schema:
            new[key] = _relabel(schema[key], names, in_partition=in_partition)
    if isinstance(new.get("type"), dict | list):
        new["type"] = _relabel(new["type"], names, in_partition=in_partition)
    if "fields" in schema:
        new["fields"] = [_relabel_field(field, names, in_partition=in_partition) for field in schema["fields"]]
    return new


def _relabel_field(field: Any, names: Mapping[int, str], *, in_partition: bool) -> Any:
    field_id = field.get("field-id")
    if field_id is None:
        name = field["name"]
    elif in_partition:
        name = partition_label(field_id)
    else:
        name = names.get(field_id, field["name"])
    inside = in_partition or field_id == PARTITION_ID
    return {"name": name, "type": _relabel(field["type"], names, in_partition=inside)}


def _walk(schema: Any) -> Iterator[dict[str, Any]]:
    """All record fields, outer ones first."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _walk(branch)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield field
            yield from _walk(field["type"])
        for key in ("items", "values"):
            yield from _walk(schema.get(key))


def _check(format_version: int) -> None:
    if format_version not in _ALL:
        raise UnsupportedFormat(f"Cannot write manifests of format-version {format_version}")


def _field(field_id: int, name: str, kind: Any, doc: str | None = None, *, optional: bool = False) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": ["null", kind] if optional else kind}
    if doc is not None:
        field["doc"] = doc
    if optional:
        field["default"] = None
    return field | {"field-id": field_id}


def _partition(partition: StructType) -> dict[str, Any]:
    defined: set[str] = set()
    fields = []
    taken: dict[str, str] = {}
    for each in partition.fields:
        kind = _avro_type(each.type, defined)
        name = _sanitize(each.name)
        if name in taken:
            raise UnsupportedFormat(
                f"Cannot write manifests of a spec: fields {taken[name]} and {each.name} are both named {name} in Avro"
            )
        taken[name] = each.name
        field: dict[str, Any] = {"name": name, "type": kind if kind == "null" else ["null", kind], "default": None}
        if name != each.name:
            field["iceberg-field-name"] = each.name
        fields.append(field | {"field-id": each.id})
    return {"type": "record", "name": "r102", "fields": fields}


def _avro_type(of: Type, defined: set[str]) -> Any:
    """The Avro type of a partition value. A named type is defined once and referenced by name afterwards."""
    if not isinstance(of, PrimitiveType) or of.kind not in {*_AVRO_TYPES, "decimal", "fixed", "uuid"}:
        raise UnsupportedFormat(f"Partition values of type {of} have no Avro form")
    match of.kind:
        case "uuid":
            fixed = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
        case "fixed":
            fixed = {"type": "fixed", "name": f"fixed_{of.length}", "size": of.length}
        case "decimal":
            fixed = {
                "type": "fixed",
                "name": f"decimal_{of.precision}_{of.scale}",
                "size": decimal_size(of.precision),
                "logicalType": "decimal",
                "precision": of.precision,
                "scale": of.scale,
            }
        case kind:
            return _AVRO_TYPES[kind]
    name = str(fixed["name"])
    if name in defined:
        return name
    defined.add(name)
    return fixed


def decimal_size(precision: int) -> int:
    """The fewest bytes that hold every number of this precision (spec appendix A: minBytesRequired)."""
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1


def _sanitize(name: str) -> str:
    """An Avro name for any partition field name, as Java's AvroSchemaUtil.makeCompatibleName makes it: `a-b` is
    `a_x2Db`."""
    # Java works on UTF-16 units: a character beyond the basic plane has two.
    units = name.encode("utf-16-be", "surrogatepass")
    characters = (chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
    return "".join(_sanitize_character(each, first=not at) for at, each in enumerate(characters))


def _sanitize_character(character: str, *, first: bool) -> str:
    category = unicodedata.category(character)
    is_letter, is_digit = category[0] == "L", category == "Nd"
    # Java cannot parse a name with a letter of a newer Unicode version than its own, so those letters are escaped.
    # Readers find fields by id anyway.
    if (is_letter or is_digit) and unicodedata.ucd_3_2_0.category(character) != "Cn":
        return f"_{character}" if first and is_digit else character
    return character if character == "_" else f"_x{ord(character):X}"


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    # Avro's own maps have only string keys; the spec stores other maps as arrays of pairs.
    pair = [_field(key_id, "key", "int"), _field(value_id, "value", value)]
    items = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": pair}
    return {"type": "array", "items": items, "logicalType": "map"}


_AVRO_TYPES: Final[Mapping[str, Any]] = {
    "unknown": "null",
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}

# id, name, Avro type, doc, optional, versions
_DATA_FILE: Final[tuple[tuple[int, str, Any, str | None, bool, tuple[int, ...]], ...]] = (
    (134, "content", "int", "Contents of the file: 0=data, 1=position deletes, 2=equality deletes", False, _V2),
    (100, "file_path", "string", "Location URI with FS scheme", False, _ALL),
    (101, "file_format", "string", "File format name: avro, orc, or parquet", False, _ALL),
    (PARTITION_ID, "partition", None, "Partition data tuple, schema based on the partition spec", False, _V2),
    (PARTITION_ID, "partition", None, None, False, _V1),
    (103, "record_count", "long", "Number of records in the file", False, _ALL),
    (104, "file_size_in_bytes", "long", "Total file size in bytes", False, _ALL),
    (105, "block_size_in_bytes", "long", None, False, _V1),
    (108, "column_sizes", _map(117, 118, "long"), "Map of column id to total size on disk", True, _ALL),
    (
        109,
        "value_counts",
        _map(119, 120, "long"),
        "Map of column id to total count, including null and NaN",
        True,
        _ALL,
    ),
    (110, "null_value_counts", _map(121, 122, "long"), "Map of column id to null value count", True, _ALL),
    (
        137,
        "nan_value_counts",
        _map(138, 139, "long"),
        "Map of column id to number of NaN values in the column",
        True,
        _ALL,
    ),
    (125, "lower_bounds", _map(126, 127, "bytes"), "Map of column id to lower bound", True, _ALL),
    (128, "upper_bounds", _map(129, 130, "bytes"), "Map of column id to upper bound", True, _ALL),
    (131, "key_metadata", "bytes", "Encryption key metadata blob", True, _ALL),
    (132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}, "Splittable offsets", True, _ALL),
    (
        135,
        "equality_ids",
        {"type": "array", "items": "int", "element-id": 136},
        "Equality comparison field IDs",
        True,
        _V2,
    ),
    (140, "sort_order_id", "int", "Sort order ID", True, _ALL),
    (142, "first_row_id", "long", "The first row ID assigned to the first row in the data file", True, _V3),
    (
        143,
        "referenced_data_file",
        "string",
        "Fully qualified location (URI with FS scheme) of a data file that all deletes reference",
        True,
        _V2,
    ),
    (144, "content_offset", "long", "The offset in the file where the content starts", True, _V3),
    (145, "content_size_in_bytes", "long", "The length of referenced content stored in the file", True, _V3),
)

_SUMMARY: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field(509, "contains_null", "boolean", "True if any file has a null partition value"),
        _field(518, "contains_nan", "boolean", "True if any file has a nan partition value", optional=True),
        _field(510, "lower_bound", "bytes", "Partition lower bound for all files", optional=True),
        _field(511, "upper_bound", "bytes", "Partition upper bound for all files", optional=True),
    ],
}

_LIST_FIELDS: Final[Mapping[str, tuple[int, Any, str]]] = {
    "manifest_path": (500, "string", "Location URI with FS scheme"),
    "manifest_length": (501, "long", "Total file size in bytes"),
    "partition_spec_id": (502, "int", "Spec ID used to write"),
    "content": (517, "int", "Contents of the manifest: 0=data, 1=deletes"),
    "sequence_number": (515, "long", "Sequence number when the manifest was added"),
    "min_sequence_number": (516, "long", "Lowest sequence number in the manifest"),
    "added_snapshot_id": (503, "long", "Snapshot ID that added the manifest"),
    "added_files_count": (504, "int", "Added entry count"),
    "existing_files_count": (505, "int", "Existing entry count"),
    "deleted_files_count": (506, "int", "Deleted entry count"),
    "added_rows_count": (512, "long", "Added rows count"),
    "existing_rows_count": (513, "long", "Existing rows count"),
    "deleted_rows_count": (514, "long", "Deleted rows count"),
    "partitions": (507, {"type": "array", "items": _SUMMARY, "element-id": 508}, "Summary for each partition"),
    "key_metadata": (519, "bytes", "Encryption key metadata blob"),
    "first_row_id": (520, "long", "Starting row ID to assign to new rows in ADDED data files"),
}
_LIST_OPTIONAL: Final = frozenset({"partitions", "key_metadata", "first_row_id"})
_LIST_ORDER: Final = tuple(_LIST_FIELDS)
_LIST_ORDER_V1: Final = (
    *("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id"),
    *("added_files_count", "existing_files_count", "deleted_files_count", "partitions"),
    *("added_rows_count", "existing_rows_count", "deleted_rows_count", "key_metadata"),
)
