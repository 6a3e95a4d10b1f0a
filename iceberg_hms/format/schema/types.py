"""Iceberg's types and their JSON form (spec: Schemas and Data Types, Appendix C).

    Type = PrimitiveType | StructType | ListType | MapType

All are immutable values: equal types compare equal. `parse_type` reads the JSON form, `to_json` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read

#: How deep types may be nested; a deeper schema is refused before it exhausts the stack.
MAX_NESTING: Final = 64
#: How many fields a type may have at all depths. Each takes about 500 bytes, and the widest tables have some 10,000.
MAX_FIELDS: Final = 100_000
#: How long the text of a primitive type may be. The names of coordinate reference systems are far shorter.
MAX_TYPE_TEXT: Final = 4_000
MAX_DECIMAL_PRECISION: Final = 38
#: The kinds of types with NaN.
FLOATING: Final = frozenset({"float", "double"})

_UNPARAMETERIZED: Final = frozenset(
    {"boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz"}
    | {"timestamp_ns", "timestamptz_ns", "string", "uuid", "binary", "unknown", "variant"}
)
_SINCE_V3: Final = frozenset({"timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"})
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
_FIXED: Final = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
# White space is stripped from what is found: a pattern that skipped it would try each way to divide a run of blanks.
_GEOMETRY: Final = re.compile(r"geometry(?:\(([^,()]*)\))?")
_GEOGRAPHY: Final = re.compile(r"geography(?:\(([^,()]*)(?:,([^,()]*))?\))?")
_ALGORITHM: Final = re.compile(r"\w*")


#: How many type names are remembered with their kinds; each decimal's and fixed's is another one.
_KINDS_MAX: Final = 1_024


@lru_cache(maxsize=_KINDS_MAX)
def _kind(name: str) -> str:
    # Encoding and judging files ask for each value.
    return re.split(r"[(\[]", name, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without fields. `variant` counts as one: it has no field ids.

    name: the canonical JSON form, as Java writes it: "long", "decimal(9, 2)", "fixed[16]", "geometry(srid:4326)".
    """

    name: str

    @property
    def kind(self) -> str:
        """The name without parameters: "decimal", "fixed", "long"."""
        return _kind(self.name)

    @property
    def precision(self) -> int:
        """Of a decimal. Raises InvalidInput for other types."""
        return self._decimal()[0]

    @property
    def scale(self) -> int:
        """Of a decimal. Raises InvalidInput for other types."""
        return self._decimal()[1]

    @property
    def length(self) -> int:
        """Of a fixed, in bytes. Raises InvalidInput for other types."""
        match = _FIXED.fullmatch(self.name)
        if match is None:
            raise InvalidInput(f"{self.name} has no length")
        return int(match[1])

    @property
    def min_format_version(self) -> int:
        """The first format version that has the type: 1 or 3."""
        return 3 if self.kind in _SINCE_V3 else 1

    def _decimal(self) -> tuple[int, int]:
        match = _DECIMAL.fullmatch(self.name)
        if match is None:
            raise InvalidInput(f"{self.name} has no precision and scale")
        return int(match[1]), int(match[2])

    def to_json(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class NestedField:
    """A field of a struct, or of a schema.

    id: unique in the schema. initial_default, write_default: in JSON single-value form (spec: Appendix D), v3.
    """

    id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None

    def to_json(self) -> dict[str, Any]:
        raw: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "required": self.required,
            "type": self.type.to_json(),
        }
        optional = {"doc": self.doc, "initial-default": self.initial_default, "write-default": self.write_default}
        return raw | {key: value for key, value in optional.items() if value is not None}

    def __str__(self) -> str:
        return f"{self.id}: {self.name}: {'required' if self.required else 'optional'} {self.type}"


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[NestedField, ...]

    def field(self, field_id: int) -> NestedField | None:
        """A direct field by id, or None."""
        return next((field for field in self.fields if field.id == field_id), None)

    def to_json(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [field.to_json() for field in self.fields]}

    def __str__(self) -> str:
        return f"struct<{', '.join(str(field) for field in self.fields)}>"


@dataclass(frozen=True, slots=True)
class ListType:
    element_id: int
    element_required: bool
    element: Type

    @property
    def element_field(self) -> NestedField:
        """The element as a field; its name is "element"."""
        return NestedField(self.element_id, "element", self.element, self.element_required)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "list",
            "element-id": self.element_id,
            "element": self.element.to_json(),
            "element-required": self.element_required,
        }

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map; its keys are always required."""

    key_id: int
    key: Type
    value_id: int
    value_required: bool
    value: Type

    @property
    def key_field(self) -> NestedField:
        """The key as a field; its name is "key"."""
        return NestedField(self.key_id, "key", self.key, required=True)

    @property
    def value_field(self) -> NestedField:
        """The value as a field; its name is "value"."""
        return NestedField(self.value_id, "value", self.value, self.value_required)

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "map",
            "key-id": self.key_id,
            "key": self.key.to_json(),
            "value-id": self.value_id,
            "value": self.value.to_json(),
            "value-required": self.value_required,
        }

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


Type: TypeAlias = PrimitiveType | StructType | ListType | MapType

BOOLEAN: Final = PrimitiveType("boolean")
INT: Final = PrimitiveType("int")
LONG: Final = PrimitiveType("long")
FLOAT: Final = PrimitiveType("float")
DOUBLE: Final = PrimitiveType("double")
DATE: Final = PrimitiveType("date")
TIME: Final = PrimitiveType("time")
TIMESTAMP: Final = PrimitiveType("timestamp")
TIMESTAMPTZ: Final = PrimitiveType("timestamptz")
TIMESTAMP_NS: Final = PrimitiveType("timestamp_ns")
TIMESTAMPTZ_NS: Final = PrimitiveType("timestamptz_ns")
STRING: Final = PrimitiveType("string")
UUID: Final = PrimitiveType("uuid")
BINARY: Final = PrimitiveType("binary")
UNKNOWN: Final = PrimitiveType("unknown")
VARIANT: Final = PrimitiveType("variant")


def decimal_type(precision: int, scale: int) -> PrimitiveType:
    """decimal(precision, scale). Raises InvalidInput if the precision is not 1 to 38 or the scale is larger."""
    if not 1 <= precision <= MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise InvalidInput(
            f"decimal({precision}, {scale}): the precision must be 1 to {MAX_DECIMAL_PRECISION} and not below the scale"
        )
    return PrimitiveType(f"decimal({precision}, {scale})")


def fixed_type(length: int) -> PrimitiveType:
    """fixed[length], in bytes."""
    return PrimitiveType(f"fixed[{length}]")


def parse_type(raw: Any) -> Type:
    """The type of a JSON form: a string for primitives, an object for nested types.

    Optional white space in parameters is accepted (spec: Appendix C). Raises InvalidInput for anything else, and for
    a type beyond MAX_NESTING, MAX_FIELDS or MAX_TYPE_TEXT.
    """
    return _TypeParser().parse(raw, 0)


def nested_fields(type_: Type) -> tuple[NestedField, ...]:
    """The fields directly inside a type: of a struct its fields, of a list the element, of a map key and value."""
    match type_:
        case StructType():
            return type_.fields
        case ListType():
            return (type_.element_field,)
        case MapType():
            return (type_.key_field, type_.value_field)
        case PrimitiveType():
            return ()


def walk_fields(type_: Type) -> Iterator[NestedField]:
    """Every field inside a type, at any depth, parents before their children."""
    for field in nested_fields(type_):
        yield field
        yield from walk_fields(field.type)


class _TypeParser:
    """Parses one type, and counts its fields."""

    def __init__(self) -> None:
        self._fields = 0

    def parse(self, raw: Any, depth: int) -> Type:
        if depth > MAX_NESTING:
            raise InvalidInput(f"types are nested deeper than {MAX_NESTING} levels")
        if isinstance(raw, str):
            return _parse_primitive(raw)
        raw = read.require_object(raw, "type")
        match raw.get("type"):
            case "struct":
                fields = read.require_list(raw, "fields", "struct type")
                self._count(len(fields))
                return StructType(tuple(self._field(field, depth) for field in fields))
            case "list":
                self._count(1)
                return ListType(
                    read.require_int(raw, "element-id", "list type"),
                    read.require_bool(raw, "element-required", "list type"),
                    self.parse(raw.get("element"), depth + 1),
                )
            case "map":
                self._count(2)
                return MapType(
                    read.require_int(raw, "key-id", "map type"),
                    self.parse(raw.get("key"), depth + 1),
                    read.require_int(raw, "value-id", "map type"),
                    read.require_bool(raw, "value-required", "map type"),
                    self.parse(raw.get("value"), depth + 1),
                )
            case other:
                raise InvalidInput(f"type must be struct, list or map, but is {read.shown(other)}")

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > MAX_FIELDS:
            raise InvalidInput(f"a type has more than {MAX_FIELDS} fields")

    def _field(self, raw: Any, depth: int) -> NestedField:
        raw = read.require_object(raw, "field")
        name = read.require_str(raw, "name", "field")
        what = f"field {read.shown(name)}"
        if "type" not in raw:
            raise InvalidInput(f"{what}: required field is missing: type")
        return NestedField(
            id=read.require_int(raw, "id", what),
            name=name,
            type=self.parse(raw["type"], depth + 1),
            required=read.require_bool(raw, "required", what),
            doc=read.optional_str(raw, "doc", what),
            initial_default=raw.get("initial-default"),
            write_default=raw.get("write-default"),
        )


def _parse_primitive(text: str) -> PrimitiveType:
    if len(text) > MAX_TYPE_TEXT:
        raise InvalidInput(f"Cannot parse type string of {len(text)} characters: {read.shown(text)}")
    # Case is ignored as in Java: old writers used capitals. A CRS keeps its case.
    name = text.strip()
    if name.lower() in _UNPARAMETERIZED:
        return PrimitiveType(name.lower())
    if match := _DECIMAL.fullmatch(name.lower()):
        return decimal_type(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(name.lower()):
        return fixed_type(int(match[1]))
    if match := _GEOMETRY.fullmatch(name):
        return _with_parameters("geometry", match[1])
    if (match := _GEOGRAPHY.fullmatch(name)) and _ALGORITHM.fullmatch(algorithm := (match[2] or "").strip()):
        if algorithm and not match[1].strip():
            raise InvalidInput(f"Cannot parse type string: {read.shown(text)}: it has an algorithm, and no CRS")
        return _with_parameters("geography", match[1], algorithm)
    raise InvalidInput(f"Cannot parse type string: {read.shown(text)}")


def _with_parameters(kind: str, *parameters: str | None) -> PrimitiveType:
    given = [text for parameter in parameters if (text := (parameter or "").strip())]
    return PrimitiveType(f"{kind}({', '.join(given)})" if given else kind)
