"""A view's metadata, as its file has it (Iceberg view spec). It stays the JSON that it came as, so that unknown fields
survive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.cached_property import cached_property
from iceberg_hms.format.metadata.table_metadata import strip_trailing_slash
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.memory_budget import HeldMemory

#: The only format version that there is.
FORMAT_VERSION: Final = 1
SQL: Final = "sql"

_WHAT: Final = "view metadata"
_VERSION: Final = "view version"


class ViewVersion:
    """One version of a view: an immutable view of its JSON form.

    raw: the JSON object, including unknown fields; never change it.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Wrap JSON that is known to be valid; use `parse` for other JSON."""
        self.raw = raw

    @classmethod
    def parse(cls, raw: Any) -> ViewVersion:
        """The version of a JSON object. Raises InvalidInput that names the field."""
        raw = read.require_object(raw, _VERSION)
        for key in ("version-id", "schema-id"):
            read.require_int(raw, key, _VERSION)
        read.require_long(raw, "timestamp-ms", _VERSION)
        read.require_str_map(raw, "summary", _VERSION)
        read.optional_str(raw, "default-catalog", _VERSION)
        for level in read.require_list(raw, "default-namespace", _VERSION):
            if not isinstance(level, str):
                raise InvalidInput(f"{_VERSION}: default-namespace must be a list of strings")
        for each in read.require_list(raw, "representations", _VERSION):
            _check_representation(each)
        return cls(raw)

    @property
    def version_id(self) -> int:
        return int(self.raw["version-id"])

    @property
    def schema_id(self) -> int:
        return int(self.raw["schema-id"])

    @property
    def timestamp_ms(self) -> int:
        """When the version was created, wall clock."""
        return int(self.raw["timestamp-ms"])

    @property
    def summary(self) -> Mapping[str, str]:
        return self.raw["summary"]  # type: ignore[no-any-return]

    @property
    def representations(self) -> Sequence[Mapping[str, Any]]:
        """JSON objects: {"type": "sql", "sql": ..., "dialect": ...}, and those of types unknown here."""
        return self.raw["representations"]  # type: ignore[no-any-return]

    @property
    def sql_representations(self) -> Sequence[Mapping[str, Any]]:
        return [each for each in self.representations if is_sql(each)]

    @property
    def dialects(self) -> frozenset[str]:
        """The dialects that it has SQL for, in lower case."""
        return frozenset(each["dialect"].lower() for each in self.sql_representations)

    def sql_for(self, dialect: str) -> str | None:
        """Its SQL for a dialect, whatever its case; else its first SQL; None without any. As Java's `sqlFor`."""
        texts = self.sql_representations
        same = (each["sql"] for each in texts if each["dialect"].lower() == dialect.lower())
        return next(same, texts[0]["sql"] if texts else None)

    @cached_property
    def content(self) -> bytes:
        """A text that two versions share if they say the same, whatever their ids and times."""
        left_out = ("version-id", "timestamp-ms")
        said = {key: value for key, value in self.raw.items() if key not in left_out and value is not None}
        try:
            return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
        except TypeError as error:
            raise InvalidInput(f"{_VERSION} cannot be written as JSON: {error}") from error

    def with_ids(self, *, version_id: int, schema_id: int) -> ViewVersion:
        return ViewVersion({**self.raw, "version-id": version_id, "schema-id": schema_id})

    def __repr__(self) -> str:
        return f"ViewVersion({self.version_id}, schema {self.schema_id})"


class ViewMetadata:
    """One version of a view's metadata. Immutable: `format.views.apply` makes a new one.

    raw: the JSON object, including unknown fields; never change it.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Wrap JSON that is known to be valid; use `parse` for other JSON."""
        self.raw = raw
        #: As `TableMetadata.memory`.
        self.memory: HeldMemory | None = None

    @classmethod
    def parse(cls, data: bytes | str | Mapping[str, Any]) -> ViewMetadata:
        """Metadata of JSON text, or of a parsed JSON object, fully checked. Raises InvalidInput that names the field,
        UnsupportedFormat for format version 2 and later."""
        raw = read.load_object(data, _WHAT)
        # Before the version: this may be a table's metadata.
        read.require_str(raw, "view-uuid", _WHAT)
        check_format_version(read.require_int(raw, "format-version", _WHAT))
        read.require_str(raw, "location", _WHAT)
        if raw.get("properties") is not None:
            read.require_str_map(raw, "properties", _WHAT)
        read.require_int(raw, "current-version-id", _WHAT)
        for each in read.require_list(raw, "versions", _WHAT):
            ViewVersion.parse(each)
        for each in read.require_list(raw, "version-log", _WHAT):
            entry = read.require_object(each, "version-log entry")
            read.require_long(entry, "timestamp-ms", "version-log entry")
            read.require_int(entry, "version-id", "version-log entry")
        read.require_list(raw, "schemas", _WHAT)
        metadata = cls(raw)
        _check_unique("versions", [each.version_id for each in metadata.versions])
        _check_unique("schemas", [each.schema_id for each in metadata.schemas])
        if metadata.current_version_id not in metadata.versions_by_id:
            ids = sorted(metadata.versions_by_id)
            raise InvalidInput(f"Cannot find current version {metadata.current_version_id} in view versions: {ids}")
        if metadata.current_schema_id not in metadata.schemas_by_id:
            ids = sorted(metadata.schemas_by_id)
            raise InvalidInput(f"Cannot find current schema with id {metadata.current_schema_id} in schemas: {ids}")
        return metadata

    def to_bytes(self) -> bytes:
        """The JSON text, UTF-8. Raises InvalidInput for values that JSON cannot express: lone surrogates."""
        try:
            return orjson.dumps(self.raw)
        except TypeError as error:
            raise InvalidInput(f"{_WHAT} cannot be written as JSON: {error}") from error

    @property
    def format_version(self) -> int:
        return int(self.raw["format-version"])

    @property
    def uuid(self) -> str:
        return str(self.raw["view-uuid"])

    @property
    def location(self) -> str:
        """The view's base location, byte for byte: unlike a table's, Java keeps its slashes at the end."""
        return str(self.raw["location"])

    @property
    def folder(self) -> str:
        """`location` without slashes at its end."""
        return strip_trailing_slash(self.location)

    @property
    def properties(self) -> Mapping[str, str]:
        return self.raw.get("properties") or {}

    @cached_property
    def schemas(self) -> tuple[Schema, ...]:
        return tuple(Schema.parse(raw) for raw in self.raw["schemas"])

    @cached_property
    def schemas_by_id(self) -> dict[int, Schema]:
        return {schema.schema_id: schema for schema in self.schemas}

    @property
    def current_schema_id(self) -> int:
        """The schema of the current version."""
        return self.current_version.schema_id

    @property
    def schema(self) -> Schema:
        """The current version's schema."""
        return self.schemas_by_id[self.current_schema_id]

    @cached_property
    def versions(self) -> tuple[ViewVersion, ...]:
        """In the file's order."""
        return tuple(ViewVersion(raw) for raw in self.raw["versions"])

    @cached_property
    def versions_by_id(self) -> dict[int, ViewVersion]:
        return {version.version_id: version for version in self.versions}

    @property
    def current_version_id(self) -> int:
        return int(self.raw["current-version-id"])

    @property
    def current_version(self) -> ViewVersion:
        return self.versions_by_id[self.current_version_id]

    @property
    def version_log(self) -> Sequence[Mapping[str, Any]]:
        """Which version became current when, oldest first: {"timestamp-ms": ..., "version-id": ...}."""
        return self.raw["version-log"]  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ViewMetadata) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ViewMetadata({self.uuid}, version {self.current_version_id}, {self.location})"


def is_sql(representation: Mapping[str, Any]) -> bool:
    """Whether a representation is SQL text."""
    return bool(representation["type"].lower() == SQL)


def check_format_version(version: int) -> None:
    """Raises UnsupportedFormat for a format version that does not exist yet."""
    if version != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"Unsupported format version: {version}", next_step=f"use a view of format version {FORMAT_VERSION}"
        )


def _check_representation(raw: Any) -> None:
    what = "view representation"
    raw = read.require_object(raw, what)
    read.require_str(raw, "type", what)
    if is_sql(raw):
        for key in ("sql", "dialect"):
            read.require_str(raw, key, what)


def _check_unique(what: str, ids: Sequence[int]) -> None:
    if len(set(ids)) < len(ids):
        raise InvalidInput(f"{_WHAT}: two of its {what} have one id: {sorted(ids)}")
