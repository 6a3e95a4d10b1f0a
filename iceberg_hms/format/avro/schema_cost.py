"""What records of an Avro schema may cost a reader: a hostile schema makes a giant of a byte.

A record, or an item of an array, may take no byte at all: a count of 2^60 of them is then valid. Records within records
within records double the fields at each level, and a schema that contains itself is as deep as its data.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

#: The smallest encoding of a `fixed` is its size, of these nothing, and of every other type a byte.
_FREE: Final = frozenset({"null"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
#: How many values a record or an item may have for each byte that it takes at least, and beside.
_VALUES_PER_BYTE: Final = 8
_VALUES_BESIDE: Final = 200


class _Cost(NamedTuple):
    """bytes: of the smallest encoding. values: how many Python objects the largest makes, arrays and maps as one."""

    bytes: int
    values: int


def check_cost(schema: Any) -> None:
    """Raises ValueError if records of a schema could cost a reader far more than their bytes. What is no schema raises
    LookupError, TypeError, ValueError, AttributeError or RecursionError."""
    _check(_Costs().of(schema), "a record")


def _check(cost: _Cost, what: str) -> None:
    if cost.values > _VALUES_BESIDE + _VALUES_PER_BYTE * cost.bytes:
        raise ValueError(f"{what} may have {cost.values} values in {cost.bytes} bytes")


class _Costs:
    def __init__(self) -> None:
        #: By name; None while a type is looked at.
        self._named: dict[str, _Cost | None] = {}

    def of(self, schema: Any) -> _Cost:
        if isinstance(schema, list):
            branches = [self.of(branch) for branch in schema]
            return _Cost(1 + min(each.bytes for each in branches), 1 + max(each.values for each in branches))
        if isinstance(schema, str):
            return self._of_name(schema)
        kind = schema["type"]
        if kind in ("array", "map"):
            item = self.of(schema["items" if kind == "array" else "values"])
            # Each item of a map has a key too.
            item = _Cost(item.bytes + (kind == "map"), item.values)
            if not item.bytes:
                raise ValueError(f"an item of a {kind} may have no bytes")
            _check(item, f"an item of a {kind}")
            return _Cost(1, 1)
        if not isinstance(kind, str) or kind not in _NAMED:
            return self.of(kind)
        name = str(schema["name"])
        self._named[name] = None
        cost = self._of_named(kind, schema)
        self._named[name] = cost
        return cost

    def _of_named(self, kind: str, schema: Any) -> _Cost:
        if kind == "enum":
            return _Cost(1, 1)
        if kind == "fixed":
            return _Cost(int(schema["size"]), 1)
        fields = [self.of(field["type"]) for field in schema["fields"]]
        return _Cost(sum(each.bytes for each in fields), 1 + sum(each.values for each in fields))

    def _of_name(self, name: str) -> _Cost:
        # Names may be written with their namespace or without.
        for known in (name, name.rpartition(".")[2]):
            if known in self._named:
                cost = self._named[known]
                if cost is None:
                    raise ValueError(f"the type {name} contains itself")
                return cost
        return _Cost(0 if name in _FREE else 1, 1)
