"""Scopes: what a caller may do in the namespaces that match a pattern.

    read[*]                      load and list everything
    write[sales marketing_*]     change tables and properties of these namespaces
    admin[dev]                   make and drop the namespace too, and set what decides how its tables are locked
    write[lab/ns_*]              change those namespaces of the warehouse `lab`
    read[*/*]                    load and list everything in every warehouse

Each level includes the lower ones. A pattern without a warehouse is for the default warehouse alone, `*` too:
namespaces of two warehouses have the same name by chance. Patterns only ever admit, and consist of characters that name
themselves and of `*` for any others. So a spelling that the metastore folds to a name (case, accents, blanks at the
ends) matches no pattern that the name itself does not match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from iceberg_hms.errors import InvalidInput
from iceberg_hms.name_pattern import NamePattern
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE

#: How many scopes a caller may have: each request may compare its namespace with all of them.
SCOPES_MAX: Final = 256

_PATTERN: Final = re.compile(r"(?:[a-z0-9_*-]{1,63}/)?[a-z0-9_*-]{1,128}")
_GROUP: Final = re.compile(r"(read|write|admin)\[([^\[\]]*)\]")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:/|-]{0,127}")


class Level(IntEnum):
    """How much a scope permits. Each level includes those before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Scope:
    """A level in the namespaces that match `pattern`: `namespaces`, or `warehouses/namespaces`. Raises InvalidInput for
    a pattern that can match no namespace."""

    level: Level
    pattern: str
    _warehouse: NamePattern = field(init=False, repr=False, compare=False)
    _namespace: NamePattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Scopes are for whole namespaces: `sales.*` says the same as `sales`.
        pattern = self.pattern.lower().removesuffix(".*")
        if not _PATTERN.fullmatch(pattern):
            raise InvalidInput(
                f"not a pattern of namespaces: {self.pattern[:128]!r}",
                next_step="use letters, digits, '_', '-' and '*', such as sales or marketing_*, or warehouse/sales",
            )
        pattern = pattern.removeprefix(f"{DEFAULT_WAREHOUSE}/")
        warehouse, _, namespace = pattern.rpartition("/")
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "_warehouse", NamePattern(warehouse or DEFAULT_WAREHOUSE))
        object.__setattr__(self, "_namespace", NamePattern(namespace))

    def covers(self, level: Level, namespace: str, warehouse: str = DEFAULT_WAREHOUSE) -> bool:
        """Whether it permits what needs `level` in a namespace of a warehouse, given in lower case."""
        return self.level >= level and self._namespace.matches(namespace) and self.enters(warehouse)

    def enters(self, warehouse: str) -> bool:
        """Whether it permits anything in a warehouse."""
        return self._warehouse.matches(warehouse)

    def __str__(self) -> str:
        return f"{self.level}[{self.pattern}]"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. name: for the audit trail, and the owner of the tables that it creates; "" if nobody has said
    who calls."""

    name: str
    scopes: tuple[Scope, ...]

    def may(self, level: Level, namespace: str, warehouse: str = DEFAULT_WAREHOUSE) -> bool:
        """Whether one of its scopes permits `level` in a namespace of a warehouse, given in lower case."""
        return any(scope.covers(level, namespace, warehouse) for scope in self.scopes)

    def may_enter(self, warehouse: str) -> bool:
        """Whether one of its scopes permits anything in a warehouse. Every caller may enter the default one."""
        return warehouse == DEFAULT_WAREHOUSE or any(scope.enters(warehouse) for scope in self.scopes)


#: Every right everywhere: what the server's only token has, and everyone on a server without tokens.
EVERYTHING: Final = (Scope(Level.ADMIN, "*/*"),)


def parse_scopes(text: str) -> tuple[Scope, ...]:
    """Scopes as a token file writes them: `write[sales marketing_*] read[*]`. Raises InvalidInput."""
    rest = _GROUP.sub("", text).strip()
    found = tuple(_scopes(text))
    if rest or not found:
        raise InvalidInput(
            f"not a list of scopes: {text[:128]!r}",
            next_step="name the namespaces in brackets: read[*], write[sales marketing_*] or admin[dev]",
        )
    return bounded(found)


def _scopes(text: str) -> Iterator[Scope]:
    for level, patterns in _GROUP.findall(text):
        for pattern in patterns.replace(",", " ").split():
            yield Scope(Level[level.upper()], pattern)


def bounded(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    """The scopes, each once. Raises InvalidInput for too many."""
    scopes = tuple(dict.fromkeys(scopes))
    if len(scopes) > SCOPES_MAX:
        raise InvalidInput(f"{len(scopes)} scopes, more than {SCOPES_MAX}", next_step="use patterns with '*'")
    return scopes


def checked_name(name: str) -> str:
    """A caller's name, which the audit trail and the metastore get to see. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"not a caller's name: {name[:128]!r}",
            next_step="use at most 128 letters, digits and . _ @ : / | -, with a letter or digit first",
        )
    return name
