"""Parses what clients send: names in paths, query parameters, JSON bodies (REST spec: request schemas).

Malformed input raises InvalidInput with the field's name. Unknown fields are ignored, as the protocol asks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

import orjson

from iceberg_hms.errors import InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from iceberg_hms.format.json_fields import is_uuid

#: Joins the parts of a namespace in a path (REST spec: parameter `namespace`).
SEPARATOR: Final = "\x1f"

#: Names in a page at most, if no setting says so.
PAGE_SIZE_MAX: Final = 10_000
_MARK_BYTES: Final = 6
_BOOLEANS: Final = {"true": True, "false": False}
#: The name of Spark's session catalog, which is fixed.
_SESSION_CATALOG: Final = "spark_catalog"


def decode_segment(segment: str) -> str:
    """Decode a path segment. Java encodes a blank as `+`, other clients as `%20`."""
    if "%" not in segment and "+" not in segment:
        return segment
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInput("The path is not percent-encoded UTF-8") from error


def joined_parts(namespace: str, separator: str) -> str:
    """A namespace of a request with its parts joined by SEPARATOR. separator: decoded, another one that clients may
    use; SEPARATOR itself stays valid (REST spec: parameter `namespace`)."""
    return namespace.replace(separator, SEPARATOR)


def single_namespace(parts: str) -> str:
    """A namespace from a path. Raises NoSuchNamespace for several parts: the metastore has one level."""
    if SEPARATOR in parts:
        raise NoSuchNamespace(parts.replace(SEPARATOR, "."))
    return parts


def single_level(parts: str, name: str, missing: type[NoSuchTable | NoSuchView]) -> tuple[str, str]:
    """A table or view from a path. Raises `missing`, not NoSuchNamespace, for a namespace with several parts: Spark
    requests `db.table.files` so, its extensions as a view first, and tries it as a metadata table, a branch or a time
    travel only after NoSuchTable."""
    if SEPARATOR in parts:
        raise missing(f"{parts.replace(SEPARATOR, '.')}.{name}")
    return parts, name


@contextmanager
def missing_namespace_is(missing: type[NoSuchTable | NoSuchView], name: tuple[str, str]) -> Iterator[None]:
    """Raises `missing` in place of NoSuchNamespace, for the same reason."""
    try:
        yield
    except NoSuchNamespace as error:
        raise missing(".".join(name)) from error


def new_namespace(parts: list[str]) -> str:
    """The name of a namespace to create. Raises InvalidInput."""
    if len(parts) != 1 or not parts[0] or SEPARATOR in parts[0]:
        raise InvalidInput("A namespace in the Hive Metastore has exactly one level, with a name that is not empty")
    return parts[0]


def check_identifier(sent: tuple[Sequence[str], str] | None, path: tuple[str, str], kind: str) -> None:
    """Raises InvalidInput for a body that names another table or view than the path: one of the two is a mistake.

    sent: (namespace parts, name) if the body has one. kind: "table" or "view"."""
    if sent is None:
        return
    parts, name = sent
    named = (SEPARATOR.join(parts), name)
    # The metastore folds case: spellings that differ in case have one meaning.
    if tuple(part.lower() for part in named) != tuple(part.lower() for part in path):
        raise InvalidInput(f"The body names {kind} {'.'.join((*parts, name))}, the path names {'.'.join(path)}")


def parse_object(body: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"Malformed JSON in the request body: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput("The request body must be a JSON object")
    return value


class Fields:
    """Typed access to the fields of a JSON object; null counts as absent."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw

    @classmethod
    def parse(cls, body: bytes) -> Fields:
        """Those of a request."""
        return cls(parse_object(body))

    def __contains__(self, name: object) -> bool:
        return name in self._raw

    def _get(self, name: str, kind: type, called: str) -> Any:
        value = self._raw.get(name)
        if value is not None and not isinstance(value, kind):
            raise InvalidInput(f"Field {name} must be {called}")
        return value

    def _required(self, name: str, value: Any) -> Any:
        if value is None or value == "":
            raise InvalidInput(f"Field {name} is missing")
        return value

    def optional_text(self, name: str) -> str | None:
        value: str | None = self._get(name, str, "a string")
        return value

    def text(self, name: str) -> str:
        value: str = self._required(name, self.optional_text(name))
        return value

    def flag(self, name: str) -> bool:
        return bool(self._get(name, bool, "a boolean"))

    def optional_object(self, name: str) -> dict[str, Any] | None:
        value: dict[str, Any] | None = self._get(name, dict, "an object")
        return value

    def object(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = self._required(name, self.optional_object(name))
        return value

    def objects(self, name: str) -> list[dict[str, Any]]:
        """A list of objects; absent is empty."""
        values: list[Any] = self._get(name, list, "a list of objects") or []
        for value in values:
            if not isinstance(value, dict):
                raise InvalidInput(f"Field {name} must be a list of objects")
        return values

    def strings(self, name: str) -> list[str]:
        """A list of strings; absent is empty."""
        values: list[Any] = self._get(name, list, "a list of strings") or []
        if not all(isinstance(value, str) for value in values):
            raise InvalidInput(f"Field {name} must be a list of strings")
        return values

    def string_map(self, name: str) -> dict[str, str]:
        """An object of strings; absent is empty."""
        values = self.optional_object(name) or {}
        for key, value in values.items():
            if not isinstance(value, str):
                raise InvalidInput(f"Field {name} must map strings to strings, but {key} is {type(value).__name__}")
        return values


@dataclass(frozen=True, slots=True)
class CommitTable:
    """Of a table or a view. identifier: (namespace parts, name) if the body has one."""

    identifier: tuple[Sequence[str], str] | None
    requirements: list[dict[str, Any]]
    updates: list[dict[str, Any]]

    @classmethod
    def parse(cls, body: bytes) -> CommitTable:
        fields = Fields.parse(body)
        named = fields.optional_object("identifier")
        requirements = fields.objects("requirements")
        if "updates" not in fields:
            # Else it would seem that they are made. Without `requirements` it is a commit of ClickHouse's.
            raise InvalidInput("Field updates is missing")
        return cls(
            identifier=None if named is None else _identifier(named),
            requirements=[_in_lower_case(each, "type") for each in requirements],
            updates=[_in_lower_case(each, "action") for each in fields.objects("updates")],
        )


def renamed(body: bytes, missing: type[NoSuchTable | NoSuchView]) -> tuple[tuple[str, str], tuple[str, str]]:
    """The source and the destination of a rename. Raises as `single_level`, and NoSuchNamespace for a destination."""
    fields = Fields.parse(body)
    (parts, name), destination = _identifier(fields.object("source")), _identifier(fields.object("destination"))
    return single_level(SEPARATOR.join(parts), name, missing), _new_name(*destination)


def _in_lower_case(source: dict[str, Any], name: str) -> dict[str, Any]:
    """With its kind in lower case, as Iceberg's parsers read it (MetadataUpdateParser): every check of a kind must find
    the same."""
    kind = source.get(name)
    return source if not isinstance(kind, str) or kind.islower() else {**source, name: kind.lower()}


def _identifier(raw: Mapping[str, Any]) -> tuple[list[str], str]:
    fields = Fields(raw)
    parts = fields.strings("namespace")
    if not parts or not all(parts):
        raise InvalidInput("Field namespace must be a list of names that are not empty")
    return parts, fields.text("name")


def _new_name(parts: list[str], name: str) -> tuple[str, str]:
    """What a rename names as its destination. Raises NoSuchNamespace for several parts.

    Spark sends the catalog's name with it, if the statement has it; Java's HiveCatalog takes it off, too."""
    is_after_catalog = len(parts) == 2 and parts[0].lower() == _SESSION_CATALOG
    return single_namespace(SEPARATOR.join(parts[1:] if is_after_catalog else parts)), name


def boolean(query: Mapping[str, str], name: str) -> bool:
    """A query parameter that is true or false; absent is false."""
    value = _BOOLEANS.get(query.get(name, "false").lower())
    if value is None:
        raise InvalidInput(f"Query parameter {name} must be true or false")
    return value


def asks_for_credentials(headers: Mapping[str, str]) -> bool:
    """Whether the client takes credentials for a table's files (REST spec: parameter `data-access`)."""
    ways = headers.get("x-iceberg-access-delegation", "").lower().split(",")
    return "vended-credentials" in [each.strip() for each in ways]


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """The header Idempotency-Key, a UUID (REST spec: parameter `idempotency-key`)."""
    value = headers.get("idempotency-key")
    if value is not None and not is_uuid(value):
        raise InvalidInput("Header Idempotency-Key must be a UUID")
    return value


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a sorted list of names (REST spec: `pageToken`, `pageSize`).

    A token holds the last name of its page, so names that are added or dropped meanwhile neither shift nor repeat
    others, and any server of these tables can go on.
    listing: what is listed, such as `tables sales`: a token of one list is none of another. size: None for all.
    after: None for the beginning.
    """

    listing: str = ""
    size: int | None = None
    after: str | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], listing: str = "", max_size: int = PAGE_SIZE_MAX) -> Page:
        """The page that a query asks for. max_size: names in a page at most, whatever the client wants."""
        token = query.get("pageToken")
        size = query.get("pageSize")
        if size is not None and (re.fullmatch(r"[0-9]{1,9}", size) is None or int(size) < 1):
            raise InvalidInput("Query parameter pageSize must be a whole number of at least 1")
        if token is None:
            # The spec has servers return everything to who sends no token.
            return cls(listing)
        return cls(listing, min(int(size or max_size), max_size), _decode_token(token, listing) if token else None)

    def cut(self, names: Sequence[str]) -> tuple[list[str], str | None]:
        """The page of these names, and the token of the next page or None."""
        rest = sorted(name for name in names if self.after is None or name > self.after)
        if self.size is None or len(rest) <= self.size:
            return rest, None
        page = rest[: self.size]
        return page, self.token(page[-1])

    def token(self, last: str) -> str:
        """The token of the page after the one that ends with this name."""
        name = last.encode()
        return base64.urlsafe_b64encode(_mark(self.listing, name) + name).decode()


def _mark(listing: str, name: bytes) -> bytes:
    """Tells tokens of this listing from anything else. It protects nothing: who asks for a page may see all."""
    return hashlib.blake2b(listing.encode() + b"\0" + name, digest_size=_MARK_BYTES).digest()


def _decode_token(token: str, listing: str) -> str:
    try:
        data = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        mark, name = data[:_MARK_BYTES], data[_MARK_BYTES:]
        if mark == _mark(listing, name):
            return name.decode()
    except (binascii.Error, UnicodeError):
        pass
    raise InvalidInput(
        "Query parameter pageToken does not come from this server, or from another list",
        next_step="list from the beginning, with an empty pageToken",
    )
