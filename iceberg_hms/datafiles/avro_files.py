"""What existing Avro files have. Reads the schema and where blocks begin, never the rows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from iceberg_hms.datafiles.column_bounds import ColumnStatistics
from iceberg_hms.datafiles.described_file import FoundInFile
from iceberg_hms.datafiles.file_columns import FileColumn, TableOfFiles
from iceberg_hms.errors import CorruptFile, InvalidInput, StorageError
from iceberg_hms.format.schema.types import MAX_FIELDS, MAX_NESTING, VARIANT, PrimitiveType

MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_LONG_BYTES: Final = 10
#: What one request reads. Most blocks are smaller, so that many come with it; the rest of a larger one is skipped.
_WINDOW_BYTES: Final = 1 << 20
#: The schema of a table of 10,000 columns has about two megabytes.
_MAX_HEADER_BYTES: Final = 16 << 20
_MAX_HEADER_ENTRIES: Final = 1_000
_MAX_ID: Final = (1 << 31) - 1
_MAX_ROWS: Final = (1 << 63) - 1
#: `FileColumn.stored` of a column that readers cannot skip.
_UNREAD: Final = "unread"
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_NULLS: Final = ("null", {"type": "null"})
#: The types of columns, with their logical types, that every reader of Avro reads as their writer meant them, and the
#: kinds of the table's columns that they are read as. The readers are Java's generic ones and Spark's; PyIceberg reads
#: no Avro files.
_READ: Final[Mapping[tuple[str, str | None], tuple[str, ...]]] = {
    ("boolean", None): ("boolean",),
    ("int", None): ("int", "long"),
    ("long", None): ("long",),
    ("float", None): ("float", "double"),
    ("double", None): ("double",),
    ("string", None): ("string",),
    ("bytes", None): ("binary",),
    ("fixed", None): ("fixed",),
    ("int", "date"): ("date",),
    ("long", "time-micros"): ("time",),
    ("long", "timestamp-millis"): ("timestamp", "timestamptz"),
    ("long", "timestamp-micros"): ("timestamp", "timestamptz"),
    ("long", "timestamp-nanos"): ("timestamp_ns", "timestamptz_ns"),
    ("bytes", "decimal"): ("decimal",),
    ("fixed", "decimal"): ("decimal",),
    ("fixed", "uuid"): ("uuid",),
}
#: Spark fails on files with such a column also where the table has no such column.
_NOT_SKIPPED: Final = frozenset({("long", "time-micros"), ("long", "timestamp-nanos")})
_TIMESTAMPS: Final = frozenset({"timestamp-millis", "timestamp-micros", "timestamp-nanos"})
#: Other types and logical types to which Avro gives a meaning, and how to write their values instead. Readers ignore
#: all other logical types, such as Hive's `varchar`.
_CURES: Final[Mapping[str, str]] = {
    "enum": "write it as a string",
    "uuid": "write it as a fixed of 16 bytes with the logical type uuid, or as a string without a logical type",
    "date": "write it as an int with the logical type date",
    "time-millis": "write it as a long with the logical type time-micros",
    "time-micros": "write it as a long with the logical type time-micros into a column of type time",
    "timestamp-millis": "write it as a long with this logical type",
    "timestamp-micros": "write it as a long with this logical type",
    "timestamp-nanos": "write it as a long with this logical type, for a column of nanoseconds",
    "local-timestamp-millis": 'write it with the logical type timestamp-millis and "adjust-to-utc": false',
    "local-timestamp-micros": 'write it with the logical type timestamp-micros and "adjust-to-utc": false',
    "local-timestamp-nanos": 'write it with the logical type timestamp-nanos and "adjust-to-utc": false',
    "decimal": "write it as bytes or fixed with the table's scale, and at most its precision",
    "big-decimal": "write it with the logical type decimal, which has one scale for all values",
    "duration": "write months, days and milliseconds as columns of their own",
    "a union": "write a union of null and one type, or a column for each of its types",
    "an array": "write the entries of a map as records of two fields, key and value in this order",
}
_ADJUST_CURE: Final = (
    'write it with the property "adjust-to-utc": true for a timestamptz, false for a timestamp; or as Parquet or ORC'
)


def found_in_avro(location: str, table: TableOfFiles, open_input: Callable[[str], Any]) -> FoundInFile | None:
    """Read an Avro file's schema and the headers of its blocks; None for a file without rows. Arguments, and the errors
    for a file that does not fit the table, are those of `found_in_parquet`; raises CorruptFile besides.

    The result has the number of rows and no metrics, as Java's: Avro keeps no statistics. So identity partition values
    come from the folders of the path, and only a type without null is one of a column without nulls.
    """
    try:
        with open_input(location) as file:
            blocks = _Blocks(location, file)
            schema = blocks.schema()
            rows, size = blocks.count_rows(), blocks.size
    except OSError as error:
        raise StorageError(f"Cannot read {location}: {error}") from error
    try:
        columns = _Types().columns(schema)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(location, f"its Avro schema cannot be read: {error!r}") from error
    if not rows:
        return None
    found = table.find(location, columns)
    _refuse_unread(location, columns, {id(each.stored) for each in found.columns})
    never_null = set(_never_null(columns))
    no_nulls = ColumnStatistics(size=None, values=rows, nulls=0)
    statistics = {each.field_id: no_nulls for each in found.columns if id(each.stored) in never_null}
    return FoundInFile("AVRO", size, rows, found, statistics)


def _never_null(columns: Iterable[FileColumn]) -> Iterator[int]:
    """The ids of objects, of columns that have a value in each row by the schema."""
    for each in columns:
        if not each.nullable:
            yield id(each)
            if each.shape == "struct":
                yield from _never_null(each.children)


def _refuse_unread(location: str, columns: Iterable[FileColumn], taken: Container[int], path: str = "") -> None:
    """Raises InvalidInput for a column that readers cannot skip. They make a reader for each column of an Avro file,
    also for those that the table lacks (AvroWithPartnerVisitor of Java's). taken: ids of objects, of the columns that
    the table has."""
    for each in columns:
        if each.stored is _UNREAD and id(each) not in taken:
            raise InvalidInput(
                f"{location}: column {path}{each.name} is {each.shown}, and readers of Avro fail on it, though the "
                "table does not have it",
                next_step=f"{each.advice(VARIANT)}; or write the file without it",
            )
        _refuse_unread(location, each.children, taken, f"{path}{each.name}.")


class _Blocks:
    """A file's header and the frames of its blocks, read through a window.

    The format: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
    """

    def __init__(self, location: str, file: Any) -> None:
        self._location = location
        self._file = file
        self.size = int(file.size())
        self._at = 0
        self._window = b""
        self._window_at = 0
        self._sync = b""

    def schema(self) -> Any:
        """The file's schema. The file is at its first block then."""
        if self._take(len(MAGIC), "header") != MAGIC:
            raise CorruptFile(self._location, "it is not an Avro file")
        text = self._header().get("avro.schema")
        self._sync = self._take(_SYNC_BYTES, "header")
        try:
            return orjson.loads(text or b"")
        except orjson.JSONDecodeError as error:
            raise CorruptFile(self._location, f"its Avro schema cannot be read: {error}") from error

    def count_rows(self) -> int:
        """The sum of the blocks' counts. Each block takes at least its frame, so the file's size bounds the loop."""
        rows = number = 0
        while self._at < self.size:
            number += 1
            what = f"block {number}"
            count, length = self._long(what), self._long(what)
            if count < 0 or length < 0:
                raise CorruptFile(self._location, f"{what} has a negative size")
            self._skip(length, what)
            if self._take(_SYNC_BYTES, what) != self._sync:
                raise CorruptFile(self._location, f"the sync marker after {what} is wrong")
            rows += count
            if rows > _MAX_ROWS:
                raise CorruptFile(self._location, f"it has {rows} rows by {what}")
        return rows

    def _header(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        seen = 0
        while count := self._long("header"):
            if count < 0:
                # After a negative count comes the size in bytes, for readers that skip the entries.
                self._long("header")
            seen += abs(count)
            if seen > _MAX_HEADER_ENTRIES:
                raise CorruptFile(self._location, f"its header has more than {_MAX_HEADER_ENTRIES} entries")
            for _ in range(abs(count)):
                key = self._take(self._long("header"), "header").decode("utf-8", "replace")
                entries[key] = self._take(self._long("header"), "header")
        return entries

    def _long(self, what: str) -> int:
        value = 0
        for place in range(_LONG_BYTES):
            byte = self._take(1, what)[0]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
        raise CorruptFile(self._location, f"a number in its {what} is too long")

    def _skip(self, length: int, what: str) -> None:
        if length > self.size - self._at:
            self._cut_off(what)
        self._at += length

    def _take(self, length: int, what: str) -> bytes:
        if length < 0 or length > self.size - self._at:
            self._cut_off(what)
        if length > _MAX_HEADER_BYTES or (what == "header" and self._at > _MAX_HEADER_BYTES):
            raise CorruptFile(self._location, f"its header has more than {_MAX_HEADER_BYTES} bytes")
        start = self._at - self._window_at
        if not 0 <= start <= start + length <= len(self._window):
            self._window_at, start = self._at, 0
            self._file.seek(self._at)
            self._window = bytes(self._file.read(max(length, min(_WINDOW_BYTES, self.size - self._at))))
            if len(self._window) < length:
                self._cut_off(what)
        self._at += length
        return self._window[start : start + length]

    def _cut_off(self, what: str) -> None:
        raise CorruptFile(self._location, f"it ends inside its {what}, at byte {self.size}; it was cut off")


@dataclass
class _Types:
    """Makes columns of an Avro schema. Raises ValueError and the errors of a schema that is none."""

    _named: dict[str, Any] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _count: int = 0

    def columns(self, schema: Any) -> list[FileColumn]:
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise ValueError("its rows are no records")
        self._named[_name(schema)] = schema
        return list(self._fields(schema, 0))

    def _fields(self, record: Any, depth: int) -> Iterator[FileColumn]:
        for each in record["fields"]:
            column = self._column(str(each["name"]), _id(each, "field-id"), each["type"], depth)
            yield column if _may_be_null(each["type"]) else replace(column, nullable=False)

    def _column(self, name: str, field_id: int | None, schema: Any, depth: int) -> FileColumn:
        self._count += 1
        if depth > MAX_NESTING or self._count > MAX_FIELDS:
            raise ValueError(f"it has more than {MAX_FIELDS} fields, or is nested deeper than {MAX_NESTING} levels")
        of = self._resolved(schema)
        if of is None:
            return self._unread(name, field_id, "a union")
        kind, logical = of["type"], of.get("logicalType")
        if kind == "record":
            return FileColumn(
                name,
                field_id,
                -1,
                "struct",
                "a record",
                reads=lambda wanted: wanted == VARIANT and logical == "variant",
                children=self._record(of, depth),
            )
        if kind == "map":
            key = self._column("key", _id(of, "key-id"), "string", depth + 1)
            value = self._column("value", _id(of, "value-id"), of["values"], depth + 1)
            return FileColumn(name, field_id, -1, "map", "a map", children=(key, value))
        if kind == "array":
            if logical == "map":
                return self._map(name, field_id, self._resolved(of["items"]), depth)
            element = self._column("element", _id(of, "element-id"), of["items"], depth + 1)
            return FileColumn(name, field_id, -1, "list", "an array", children=(element,))
        if kind == "fixed":
            int(of["size"])
        if logical == "decimal":
            int(of["precision"])
        return _leaf(name, field_id, of)

    def _map(self, name: str, field_id: int | None, entry: Any, depth: int) -> FileColumn:
        """A map whose keys are not strings: an array of records. Readers take the first field for the key."""
        children = self._record(entry, depth)
        if [each.name for each in children] != ["key", "value"]:
            return self._unread(name, field_id, "an array", children)
        return FileColumn(name, field_id, -1, "map", "a map", children=children)

    @staticmethod
    def _unread(name: str, field_id: int | None, shown: str, children: tuple[FileColumn, ...] = ()) -> FileColumn:
        return FileColumn(
            name,
            field_id,
            -1,
            "other",
            shown,
            known=False,
            children=children,
            stored=_UNREAD,
            advice=lambda _: _CURES[shown],
        )

    def _record(self, record: Any, depth: int) -> tuple[FileColumn, ...]:
        if record is None or record["type"] != "record":
            raise ValueError("the entries of a map are no records")
        name = _name(record)
        if name in self._open:
            raise ValueError(f"the type {name} contains itself")
        self._open.add(name)
        found = tuple(self._fields(record, depth + 1))
        self._open.discard(name)
        return found

    def _resolved(self, schema: Any) -> Any:
        """A type as an object, without `null`; None for a union of other than null and one type, which no reader
        takes."""
        for _ in range(MAX_NESTING):
            if isinstance(schema, list):
                others = [each for each in schema if each not in _NULLS]
                if len(schema) != 2 or len(others) != 1:
                    return None
                schema = others[0]
            elif isinstance(schema, str):
                # Names may be written with their namespace or without.
                known = self._named.get(schema.rpartition(".")[2])
                return {"type": schema} if known is None else known
            elif isinstance(schema["type"], str):
                if schema["type"] in _NAMED:
                    self._named[_name(schema)] = schema
                return self._named.get(schema["type"].rpartition(".")[2], schema)
            else:
                schema = schema["type"]
        raise ValueError(f"it is nested deeper than {MAX_NESTING} levels")


def _may_be_null(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_may_be_null, schema))
    return schema == "null" or (isinstance(schema, dict) and _may_be_null(schema["type"]))


def _name(schema: Any) -> str:
    return str(schema["name"]).rpartition(".")[2]


def _id(schema: Any, key: str) -> int | None:
    found = schema.get(key)
    if found is None:
        return None
    if not isinstance(found, int) or not 0 <= found <= _MAX_ID:
        raise ValueError(f"{key} {found!r}")
    return found


def _leaf(name: str, field_id: int | None, of: Any) -> FileColumn:
    kind, logical = of["type"], of.get("logicalType")
    key = _key(of)
    is_skipped = kind == "null" or (key in _READ and key not in _NOT_SKIPPED)
    return FileColumn(
        name,
        field_id,
        -1,
        "leaf",
        str(kind) if logical is None else f"{logical} ({kind})",
        reads=lambda wanted: can_read(of, wanted),
        stored=None if is_skipped else _UNREAD,
        advice=lambda _: _ADJUST_CURE if key in _READ and logical in _TIMESTAMPS else _CURES.get(logical or kind, ""),
    )


def _key(of: Any) -> tuple[str, str | None]:
    """Of `_READ`: without a logical type to which Avro gives no meaning."""
    logical = of.get("logicalType")
    return of["type"], logical if logical in _CURES else None


def can_read(stored: Any, wanted: PrimitiveType) -> bool:
    """Whether every reader of Avro takes a type of the file for the table's (spec: Appendix A, Avro; Schema Evolution).
    stored: the type as a JSON object."""
    if stored["type"] == "null":
        return True
    kind, logical = _key(stored)
    if wanted.kind not in _READ.get((kind, logical), ()):
        return False
    if logical == "decimal":
        return stored.get("scale", 0) == wanted.scale and int(stored["precision"]) <= wanted.precision
    if logical in _TIMESTAMPS:
        # Java's readers go by the property alone, whose default is false, and fail under a filter on a timestamptz.
        return wanted.kind.startswith("timestamptz") == _is_true(stored.get("adjust-to-utc"))
    if kind == "fixed":
        return bool(stored["size"] == 16 if wanted.kind == "uuid" else wanted.name == f"fixed[{stored['size']}]")
    return True


def _is_true(flag: Any) -> bool:
    """As Java's readers take the property."""
    return flag is True or (isinstance(flag, str) and flag.lower() == "true")
