"""The columns of a Parquet file, for `file_columns` to match with a table's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_hms.datafiles.arrow_schemas import is_list
from iceberg_hms.datafiles.file_columns import FileColumn, Shape
from iceberg_hms.datafiles.parquet_types import can_read, cast_to, file_type, form_advice, pyiceberg_knows
from iceberg_hms.errors import UnsupportedFormat
from iceberg_hms.format.schema import types

_FIELD_ID = b"PARQUET:field_id"


def parquet_columns(
    location: str, footer: pq.FileMetaData, format_version: int, old_maps: frozenset[str] = frozenset()
) -> list[FileColumn]:
    """The columns at the top level; the index of a leaf is its position in the footer's row groups. format_version: of
    the table whose readers are to read them. old_maps: names of maps that Java does not take for such
    (`parquet_footer`). Raises UnsupportedFormat: the file's schema does not identify its leaf columns."""
    return _Walk(location, footer, format_version, old_maps).columns()


@dataclass
class _Walk:
    """Parquet lists leaf columns in the order of this walk, and each leaf's path in the footer proves that the walk is
    at the right leaf."""

    location: str
    footer: pq.FileMetaData
    format_version: int
    old_maps: frozenset[str]
    _next: int = 0
    #: Whether a leaf of the list or map that is visited is not at the level where it is in Parquet's present form.
    _has_old_form: bool = False

    def columns(self) -> list[FileColumn]:
        arrow = self.footer.schema.to_arrow_schema()
        found = [self._column(each, each.name, each.name, each.name, each.name.count(".")) for each in arrow]
        if self._next != self.footer.num_columns:
            self._lost(self.footer.schema.column(self._next).path)
        return found

    def _column(
        self, each: pa.Field, name: str, shown: str, path: str, dots: int, *, in_repeated: bool = False
    ) -> FileColumn:
        """shown: the field's path, for messages. path: the beginning of its leaves' paths in the footer; it ends at a
        list or map, whose inner levels every writer names differently. dots: of the field's path in the footer, if each
        list and map has two levels below it. in_repeated: in a list or map."""
        stored, field_id = _storage(each.type), _id_of(each)
        if not pa.types.is_nested(stored):
            index, column = self._next, self._leaf(shown, path)
            leaf = file_type(column, each.type)
            self._has_old_form = self._has_old_form or column.path.count(".") != dots
            return FileColumn(
                name,
                field_id,
                index,
                "leaf",
                leaf.shown,
                partial(can_read, leaf, self.format_version),
                pyiceberg_knows(each.type, self.format_version),
                stored=leaf,
                advice=cast_to,
            )
        shape, fields = _fields(stored)
        stays = in_repeated or shape != "struct"
        levels = 1 if shape == "struct" else 2
        children = tuple(
            self._column(
                child,
                inner,
                f"{shown}.{inner}",
                path if stays else f"{path}.{inner}",
                dots + levels + child.name.count("."),
                in_repeated=stays,
            )
            for inner, child in fields
        )
        known = shape != "other" and not isinstance(each.type, pa.BaseExtensionType)
        if shape == "map" and each.name in self.old_maps:
            self._has_old_form = True
        if self._has_old_form and shape != "struct":
            # Java reads no list in two levels, and no repeated field that is not in one.
            shape, self._has_old_form = "other", in_repeated
        reads = types.VARIANT.__eq__
        return FileColumn(
            name, field_id, -1, shape, str(each.type), reads, known, children=children, advice=form_advice
        )

    def _leaf(self, shown: str, path: str) -> pq.ColumnSchema:
        if self._next >= self.footer.num_columns:
            self._lost(shown)
        column = self.footer.schema.column(self._next)
        self._next += 1
        if column.path != path and not column.path.startswith(path + "."):
            self._lost(column.path)
        return column

    def _lost(self, path: str) -> NoReturn:
        raise UnsupportedFormat(f"{self.location}: cannot tell which column {path} is by the schema in the footer")


def _storage(arrow: pa.DataType) -> pa.DataType:
    while True:
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        elif pa.types.is_dictionary(arrow):
            arrow = arrow.value_type
        else:
            return arrow


def _fields(arrow: pa.DataType) -> tuple[Shape, list[tuple[str, pa.Field]]]:
    """The shape of a nested pyarrow type, and its fields, with Iceberg's names. Types that Iceberg lacks, such as
    list_view, have fields too: Parquet has a column for each of their leaves."""
    if pa.types.is_struct(arrow):
        return "struct", [(child.name, child) for child in arrow]
    if is_list(arrow):
        return "list", [("element", arrow.value_field)]
    if pa.types.is_map(arrow):
        return "map", [("key", arrow.key_field), ("value", arrow.item_field)]
    return "other", [(child.name, child) for child in (arrow.field(at) for at in range(arrow.num_fields))]


def _id_of(each: pa.Field) -> int | None:
    text = (each.metadata or {}).get(_FIELD_ID)
    # Some Parquet writers write -1 for a field without an id.
    return None if text is None or int(text) < 0 else int(text)
