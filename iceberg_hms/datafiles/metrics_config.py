"""Which metrics of which columns go into manifests: Java's MetricsConfig over the same table properties.

write.metadata.metrics.default                       none | counts | truncate(n) | full; default truncate(16)
write.metadata.metrics.column.<name>                 the same for one column
write.metadata.metrics.max-inferred-column-defaults  100: wider tables have metrics of their first columns only,
                                                     unless a default is set
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import (
    METRICS_COLUMN_PREFIX,
    METRICS_DEFAULT,
    METRICS_MAX_INFERRED,
    metrics_mode,
)
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import PrimitiveType, Type, nested_fields

_log = logging.getLogger(__name__)
_ORDER_PRESERVING = re.compile(r"identity|year|month|day|hour|truncate\[\d+\]")


@dataclass(frozen=True, slots=True)
class Mode:
    """counts: keep sizes and counts. bounds: keep lower and upper bounds too. length: the length to truncate bounds of
    strings (code points) and binary (bytes) to; None: no truncation."""

    counts: bool
    bounds: bool
    length: int | None = None


NONE = Mode(counts=False, bounds=False)
COUNTS = Mode(counts=True, bounds=False)
FULL = Mode(counts=True, bounds=True)
TRUNCATE_16 = Mode(counts=True, bounds=True, length=16)


class MetricsConfig:
    """The mode of each column of a table's current schema."""

    def __init__(self, metadata: TableMetadata) -> None:
        schema, properties = metadata.schema, metadata.properties
        configured = properties.get(METRICS_DEFAULT.name)
        self._default = TRUNCATE_16 if configured is None else _parse(configured, TRUNCATE_16, METRICS_DEFAULT.name)
        self._modes: dict[int, Mode] = {}
        if configured is None:
            self._infer(schema, properties)
        self._promote_sorted(metadata)
        for key, text in properties.items():
            if key.startswith(METRICS_COLUMN_PREFIX):
                field = schema.find(key.removeprefix(METRICS_COLUMN_PREFIX))
                if field is not None:
                    self._modes[field.id] = _parse(text, self._default, key)

    def mode(self, field_id: int) -> Mode:
        return self._modes.get(field_id, self._default)

    def _infer(self, schema: Schema, properties: Mapping[str, str]) -> None:
        limit = METRICS_MAX_INFERRED.of(properties)
        ids = list(_eligible(schema.as_struct()))
        if len(ids) > limit:
            self._modes = dict.fromkeys(ids[:limit], TRUNCATE_16)
            self._default = NONE

    def _promote_sorted(self, metadata: TableMetadata) -> None:
        # Readers skip files by the columns of the sort order, so those always have bounds.
        mode = self._default if self._default.bounds else TRUNCATE_16
        for field in metadata.sort_order.fields:
            if _ORDER_PRESERVING.fullmatch(str(field.transform)):
                self._modes[field.source_id] = mode


def _eligible(of: Type) -> Iterator[int]:
    """Ids of the columns that can have metrics, level by level."""
    fields = nested_fields(of)
    yield from (field.id for field in fields if isinstance(field.type, PrimitiveType))
    for field in fields:
        yield from _eligible(field.type)


def _parse(text: str, fallback: Mode, key: str) -> Mode:
    found = metrics_mode(text)
    if found is None:
        _log.warning("Ignoring invalid metrics mode (%s): %s", key, text)
        return fallback
    name, length = found
    return {"none": NONE, "counts": COUNTS, "full": FULL}.get(name) or Mode(counts=True, bounds=True, length=length)
