"""Table properties that decide something here: their names, their defaults, and the values that they may have.

A value is refused when somebody sets it (`check`), over REST too. A table may have got another one from another writer.
Where it decides how files are laid out, it means the default then, and the log says so: Java fails each commit to such
a table. Where it decides what is deleted, the operation is refused (`TableProperty.require`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.json_fields import MAX_INT, MAX_LONG, MIN_INT, MIN_LONG, shown
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, parse_mapping

Parsed = TypeVar("Parsed")

_log = logging.getLogger(__name__)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_METRICS_MODE: Final = re.compile(r"(none|counts|full)|(truncate)\((?=0*[1-9])([0-9]{1,9})\)")


@dataclass(frozen=True, slots=True)
class TableProperty(Generic[Parsed]):
    """One property. default: what its absence means. values: which texts it may be, for messages. parse: the value of a
    text; None: it may not be this text."""

    name: str
    default: Parsed
    values: str
    parse: Callable[[str], Parsed | None]

    def check(self, text: str) -> None:
        """Raises InvalidInput for a text that the property may not be."""
        self._parsed(text)

    def of(self, properties: Mapping[str, str]) -> Parsed:
        """The value for a table with these properties; the default for a text that means nothing."""
        try:
            return self.require(properties)
        except InvalidInput as error:
            _log.warning("%s; using the default, %s", error.message, self.default)
            return self.default

    def require(self, properties: Mapping[str, str]) -> Parsed:
        """As `of`. Raises InvalidInput for a text that means nothing."""
        text = properties.get(self.name)
        return self.default if text is None else self._parsed(text)

    def _parsed(self, text: str) -> Parsed:
        value = self.parse(text)
        if value is None:
            raise InvalidInput(
                f"Table property {self.name} must be {self.values}, but is {shown(text)}",
                next_step=f"set another value; without the property, {self.default} holds",
            )
        return value


def _number(name: str, default: int, low: int, high: int) -> TableProperty[int]:
    def parse(text: str) -> int | None:
        value = int(text) if _NUMBER.fullmatch(text) else None
        return value if value is not None and low <= value <= high else None

    return TableProperty(name, default, f"a whole number from {low} to {high}", parse)


def _choice(name: str, choices: Sequence[str], *, folds_case: bool = False) -> TableProperty[str]:
    """The first of the choices is the default."""

    def parse(text: str) -> str | None:
        value = text.lower() if folds_case else text
        return value if value in choices else None

    return TableProperty(name, choices[0], " or ".join(choices), parse)


def _flag(name: str, default: str) -> TableProperty[str]:
    return _choice(name, (default, "false" if default == "true" else "true"), folds_case=True)


def is_true(flag: TableProperty[str], properties: Mapping[str, str]) -> bool:
    """The value of a flag; as in Java, each text but `true` is false."""
    return properties.get(flag.name, flag.default).lower() == "true"


def metrics_mode(text: str) -> tuple[str, int | None] | None:
    """The name of a metrics mode (Java: MetricsModes), and the length of `truncate`; None for a text that is none."""
    found = _METRICS_MODE.fullmatch(text.strip().lower())
    if found is None:
        return None
    plain, truncate, length = found.groups()
    return (plain, None) if plain else (truncate, int(length))


def _metrics_mode_text(text: str) -> str | None:
    return None if metrics_mode(text) is None else text


#: What appends merge (Java: TableProperties).
MANIFEST_MERGE_ENABLED: Final = _flag("commit.manifest-merge.enabled", "true")
MANIFEST_MIN_COUNT: Final = _number("commit.manifest.min-count-to-merge", 100, 1, MAX_INT)
#: A manifest that reaches this size, in bytes, is closed and a new one started.
MANIFEST_TARGET_SIZE: Final = _number("commit.manifest.target-size-bytes", 8 * 1024 * 1024, 1, MAX_LONG)
#: What an expiration keeps; ages in milliseconds.
MAX_SNAPSHOT_AGE: Final = _number("history.expire.max-snapshot-age-ms", 5 * 24 * 3_600_000, MIN_LONG, MAX_LONG)
MIN_SNAPSHOTS: Final = _number("history.expire.min-snapshots-to-keep", 1, MIN_INT, MAX_INT)
MAX_REF_AGE: Final = _number("history.expire.max-ref-age-ms", MAX_LONG, MIN_LONG, MAX_LONG)
#: Whether files of the table may be deleted; false where another table names them too.
GC_ENABLED: Final = _flag("gc.enabled", "true")
#: How many entries the metadata log has, and whether files that fall out of it are deleted.
PREVIOUS_VERSIONS_MAX: Final = _number("write.metadata.previous-versions-max", 100, 0, MAX_INT)
DELETE_AFTER_COMMIT: Final = _flag("write.metadata.delete-after-commit.enabled", "false")
METADATA_COMPRESSION: Final = _choice("write.metadata.compression-codec", ("none", "gzip"), folds_case=True)
#: Which lock a table takes: these are read from its row, before its metadata.
LOCK: Final = _choice("iceberg-hms.lock", ("hms", "zookeeper"))
#: The operator declares that only one process, of ours, writes to the table.
EXCLUSIVE: Final = _flag("iceberg-hms.exclusive", "false")
#: Java's: false says that writers take no lock, and rely on compare-and-swap alone.
HIVE_LOCK_ENABLED: Final = _flag("engine.hive.lock-enabled", "true")
#: Which clients' appends may be rebased; a namespace may have it, too.
REBASE_APPENDS: Final = _choice("iceberg-hms.rebase-appends", ("plain", "all", "none"))
#: Before the name of a column: which metrics of it manifests have.
METRICS_COLUMN_PREFIX: Final = "write.metadata.metrics.column."
METRICS_DEFAULT: Final = TableProperty(
    "write.metadata.metrics.default", "truncate(16)", "none, counts, full or truncate(length)", _metrics_mode_text
)
METRICS_MAX_INFERRED: Final = _number("write.metadata.metrics.max-inferred-column-defaults", 100, 0, MAX_INT)
#: How scans pack files into tasks: the size of a task in bytes, what a file costs at least, and between how many open
#: tasks it chooses.
SPLIT_SIZE: Final = _number("read.split.target-size", 128 * 1024 * 1024, 1, MAX_LONG)
SPLIT_OPEN_FILE_COST: Final = _number("read.split.open-file-cost", 4 * 1024 * 1024, 0, MAX_LONG)
SPLIT_LOOKBACK: Final = _number("read.split.planning-lookback", 10, 1, MAX_INT)

_KNOWN: Final[Mapping[str, TableProperty[int] | TableProperty[str]]] = {
    each.name: each
    for each in (
        MANIFEST_MERGE_ENABLED,
        MANIFEST_MIN_COUNT,
        MANIFEST_TARGET_SIZE,
        MAX_SNAPSHOT_AGE,
        MIN_SNAPSHOTS,
        MAX_REF_AGE,
        GC_ENABLED,
        PREVIOUS_VERSIONS_MAX,
        DELETE_AFTER_COMMIT,
        METADATA_COMPRESSION,
        LOCK,
        EXCLUSIVE,
        HIVE_LOCK_ENABLED,
        REBASE_APPENDS,
        METRICS_DEFAULT,
        METRICS_MAX_INFERRED,
        SPLIT_SIZE,
        SPLIT_OPEN_FILE_COST,
        SPLIT_LOOKBACK,
        # Java's clients obey these, and fail to scan metadata tables, or to commit, with others.
        _number("read.split.metadata-target-size", 32 * 1024 * 1024, 1, MAX_LONG),
        _number("commit.retry.num-retries", 4, 0, MAX_INT),
        _number("commit.retry.min-wait-ms", 100, 0, MAX_INT),
        _number("commit.retry.max-wait-ms", 60_000, 0, MAX_INT),
        _number("commit.retry.total-timeout-ms", 1_800_000, 0, MAX_INT),
    )
}


def check(properties: Mapping[str, str]) -> None:
    """Raises InvalidInput for a property that is to be set to what it may not be."""
    for name, text in properties.items():
        if name in _KNOWN:
            _KNOWN[name].check(text)
        elif name == NAME_MAPPING:
            parse_mapping(text)
        elif name.startswith(METRICS_COLUMN_PREFIX) and metrics_mode(text) is None:
            raise InvalidInput(f"Table property {name} must be {METRICS_DEFAULT.values}, but is {shown(text)}")
