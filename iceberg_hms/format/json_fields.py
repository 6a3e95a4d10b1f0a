"""Reading fields of JSON objects, with errors that name the field.

Metadata and requests stay the JSON objects that they came as, so that unknown fields survive; these helpers check a
field when it is first read. The limits are Java's: an `int` has 32 bits and a `long` 64, since Java cannot read a file
that exceeds them.

In `require_str` and its like `what` names the object that has the field. An optional field that is absent or null is
None, a list empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeGuard

import orjson

from iceberg_hms.errors import InvalidInput

MIN_INT, MAX_INT = -(2**31), 2**31 - 1
MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MISSING = object()
_ONLY_STRINGS = frozenset({str})


def require_object(value: Any, what: str) -> Mapping[str, Any]:
    """`value` if it is a JSON object. Raises InvalidInput that names `what`."""
    # The exact type first, which most have: it costs a tenth of asking for the abstract one.
    if type(value) is not dict and not isinstance(value, Mapping):
        _refuse(what, "a JSON object", value)
    return value


def load_object(data: bytes | str | Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """The JSON object of a text; one that is parsed already stays. Raises InvalidInput that names `what`."""
    if isinstance(data, Mapping):
        return data
    try:
        return require_object(orjson.loads(data), what)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from error


def require_list(raw: Mapping[str, Any], key: str, what: str) -> list[Any]:
    value = raw.get(key, _MISSING)
    if not isinstance(value, list):
        _refuse_field(raw, key, what, "a list")
    return value


def optional_list(raw: Mapping[str, Any], key: str, what: str) -> list[Any]:
    return [] if raw.get(key) is None else require_list(raw, key, what)


def require_str(raw: Mapping[str, Any], key: str, what: str) -> str:
    value = raw.get(key, _MISSING)
    if not isinstance(value, str):
        _refuse_field(raw, key, what, "a string")
    return value


def optional_str(raw: Mapping[str, Any], key: str, what: str) -> str | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        _refuse_field(raw, key, what, "a string")
    return value


def require_bool(raw: Mapping[str, Any], key: str, what: str) -> bool:
    value = raw.get(key, _MISSING)
    if not isinstance(value, bool):
        _refuse_field(raw, key, what, "true or false")
    return value


def require_int(raw: Mapping[str, Any], key: str, what: str) -> int:
    value = raw.get(key, _MISSING)
    if type(value) is not int or not MIN_INT <= value <= MAX_INT:
        _refuse_field(raw, key, what, "an int")
    return value


def optional_int(raw: Mapping[str, Any], key: str, what: str) -> int | None:
    value = raw.get(key)
    if value is not None and (type(value) is not int or not MIN_INT <= value <= MAX_INT):
        _refuse_field(raw, key, what, "an int")
    return value


def require_long(raw: Mapping[str, Any], key: str, what: str) -> int:
    value = raw.get(key, _MISSING)
    if type(value) is not int or not MIN_LONG <= value <= MAX_LONG:
        _refuse_field(raw, key, what, "a long")
    return value


def optional_long(raw: Mapping[str, Any], key: str, what: str) -> int | None:
    value = raw.get(key)
    if value is not None and (type(value) is not int or not MIN_LONG <= value <= MAX_LONG):
        _refuse_field(raw, key, what, "a long")
    return value


def require_int_list(raw: Mapping[str, Any], key: str, what: str) -> list[int]:
    values = require_list(raw, key, what)
    if not all(is_integer(value, MIN_INT, MAX_INT) for value in values):
        _refuse_field(raw, key, what, "a list of ints")
    return values


def require_long_list(raw: Mapping[str, Any], key: str, what: str) -> list[int]:
    values = require_list(raw, key, what)
    if not all(is_integer(value, MIN_LONG, MAX_LONG) for value in values):
        _refuse_field(raw, key, what, "a list of longs")
    return values


def require_str_map(raw: Mapping[str, Any], key: str, what: str) -> Mapping[str, str]:
    values = raw.get(key, _MISSING)
    if type(values) is not dict and not isinstance(values, Mapping):
        _refuse_field(raw, key, what, "an object of strings")
    # The usual case, in two checks in C instead of one for each pair.
    if _ONLY_STRINGS.issuperset(map(type, values)) and _ONLY_STRINGS.issuperset(map(type, values.values())):
        return values
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"{what}: {key}: the value of {name!r} is not a string: {shown(value)}")
    return values


def without_nulls(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object without its fields that are null: Java takes one that is there and null for malformed."""
    return {key: value for key, value in raw.items() if value is not None}


def is_integer(value: Any, lowest: int, highest: int) -> TypeGuard[int]:
    """True for an int within the bounds; JSON's true and false are not integers."""
    return type(value) is int and lowest <= value <= highest


def is_uuid(text: str) -> bool:
    """True for the text of a UUID with its hyphens, in any case: the only form that all readers take for the same."""
    return _UUID.fullmatch(text) is not None


def shown(value: Any) -> str:
    """A value for a message, cut to 100 characters."""
    text = repr(value[:100] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 100 else text[:97] + "..."


def _refuse_field(raw: Mapping[str, Any], key: str, what: str, wanted: str) -> NoReturn:
    if key not in raw:
        raise InvalidInput(f"{what}: required field is missing: {key}")
    _refuse(f"{what}: {key}", wanted, raw[key])


def _refuse(what: str, wanted: str, value: Any) -> NoReturn:
    raise InvalidInput(f"{what} must be {wanted}, but is {shown(value)}")
