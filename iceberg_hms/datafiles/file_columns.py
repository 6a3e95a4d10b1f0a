"""Matches the columns of a data file with a table's, and checks their types.

By field ids, if the file has them; else by name, through the table's `schema.name-mapping.default` or the names of its
current schema (spec: Column Projection). Readers then find the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from iceberg_hms.datafiles.metrics_config import MetricsConfig
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING, name_mapping, parse_mapping
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type

#: Other: it has fields, and Iceberg has no type for it, such as ORC's unions.
Shape = Literal["struct", "list", "map", "leaf", "other"]


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file, or a field in one.

    index: its number in the file. children: fields of a struct, the element of a list (called "element"), the "key" and
    "value" of a map. shown: its type, for messages. reads: whether every reader reads a leaf as a type. known: whether
    PyIceberg has a type for it. stored: how the file has it, for the reader of its format. advice: how to write it so
    that readers read it.
    """

    name: str
    field_id: int | None
    index: int
    shape: Shape
    shown: str
    reads: Callable[[PrimitiveType], bool] = lambda _: False
    known: bool = True
    children: tuple[FileColumn, ...] = ()
    stored: Any = None
    advice: Callable[[Type], str] = lambda _: ""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column of a file that is a column of the table, or a metadata column of row lineage: its field id and type."""

    stored: FileColumn
    field_id: int
    type: Type
    repeated: bool


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """has_field_ids: the file's columns carry ids. columns: those that the table has, nested ones too, and the metadata
    columns of row lineage.
    extra: names of columns that keep PyIceberg from reading the file, or whose ids the table never assigned. It reads a
    file only if it can give each column an id and an Iceberg type, also those outside of the projection
    (pyiceberg.io.pyarrow.pyarrow_to_schema).
    other_names: columns that have the field id of a column with another name in the table, or the name of one with
    another field id: it was renamed, or the ids are another table's.
    spellings: field id and name of each column that was found in another case than readers would find it."""

    has_field_ids: bool
    columns: tuple[FoundColumn, ...]
    extra: tuple[str, ...]
    other_names: tuple[str, ...] = ()
    spellings: tuple[tuple[int, str], ...] = ()
    #: Ids of all these columns.
    present: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "present", frozenset([each.field_id for each in self.columns]))


#: How many different schemas of files a table's description remembers.
_SCHEMAS_MAX: Final = 64


class TableOfFiles:
    """A table as what describes its files sees it: its columns, by which names and ids files have them, and its metrics
    modes. One serves many files, which mostly have equal columns: those are matched once. Safe to share between
    threads.

    folds_case: whether a name that the table lacks is that of a column whose name differs by case alone, if there is
    one such column. Readers tell cases apart, so the table's name mapping must get these names
    (`FoundColumns.spellings`)."""

    def __init__(self, metadata: TableMetadata, *, folds_case: bool = False) -> None:
        self.metadata = metadata
        self._folds_case = folds_case
        self._known: dict[Hashable, FoundColumns] = {}

    @cached_property
    def metrics(self) -> MetricsConfig:
        """The modes of its columns."""
        return MetricsConfig(self.metadata)

    def find(self, location: str, columns: Sequence[FileColumn]) -> FoundColumns:
        """The columns of a file. Raises InvalidInput: nothing in the file belongs to the table, or a column cannot be
        read as the table's type."""
        by_id = _has_ids(columns)
        finder = _Finder(location, self.metadata.schema, self.metadata.last_column_id, self._folds_case)
        finder.visit_all(columns, None if by_id else self._mapping, _Place())
        if finder.columns.keys() <= LINEAGE_COLUMNS.keys():
            how = "field ids" if by_id else "column names"
            columns_of_file = f"; its columns are {', '.join(finder.extra)}" if finder.extra else ""
            raise InvalidInput(
                f"{location} has no column of the table (matched by {how}){columns_of_file}",
                next_step="write the file with columns of the table",
            )
        return FoundColumns(
            by_id,
            tuple(finder.columns.values()),
            tuple(finder.extra),
            tuple(finder.other_names),
            tuple(finder.spellings),
        )

    def find_once(self, location: str, schema: Hashable, columns: Callable[[], Sequence[FileColumn]]) -> FoundColumns:
        """As `find`, and once for files of equal schemas. columns: of the file; called for a schema that is new."""
        found = self._known.get(schema)
        if found is None:
            found = self.find(location, columns())
            if len(self._known) >= _SCHEMAS_MAX:
                self._known.clear()
            self._known[schema] = found
        return found

    @cached_property
    def _mapping(self) -> Sequence[Mapping[str, Any]]:
        """The names by which readers find the columns of files without field ids. Raises InvalidInput for a property
        that is no mapping."""
        text = self.metadata.properties.get(NAME_MAPPING)
        return name_mapping(self.metadata.schema) if text is None else parse_mapping(text)


def _has_ids(columns: Iterable[FileColumn]) -> bool:
    return any(each.field_id is not None or _has_ids(each.children) for each in columns)


@dataclass(frozen=True, slots=True)
class _Place:
    """path: of the field that this is in, for messages. repeated: in anything but structs. in_extra: in a column that
    counts as extra already."""

    path: str = ""
    repeated: bool = False
    in_extra: bool = False


@dataclass
class _Finder:
    location: str
    schema: Schema
    last_column_id: int
    folds_case: bool
    columns: dict[int, FoundColumn] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    other_names: list[str] = field(default_factory=list)
    spellings: list[tuple[int, str]] = field(default_factory=list)

    def visit_all(
        self, columns: Iterable[FileColumn], mapping: Sequence[Mapping[str, Any]] | None, place: _Place
    ) -> None:
        """mapping: the names of these columns; None = go by ids."""
        for each in columns:
            if mapping is None:
                self._visit(each, each.field_id, None, place)
            else:
                entry = self._entry(mapping, each.name)
                self._visit(each, entry.get("field-id"), entry.get("fields") or [], place)

    def _entry(self, mapping: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
        """Of a column with this name; empty if there is none."""
        exact = next((item for item in mapping if name in item.get("names", ())), None)
        if exact is not None or not self.folds_case:
            return exact or {}
        alike = [item for item in mapping if name.lower() in map(str.lower, item.get("names", ()))]
        if len(alike) != 1 or "field-id" not in alike[0]:
            return {}
        self.spellings.append((alike[0]["field-id"], name))
        return alike[0]

    def _visit(
        self,
        each: FileColumn,
        field_id: int | None,
        mapping: Sequence[Mapping[str, Any]] | None,
        place: _Place,
    ) -> None:
        shown = f"{place.path}.{each.name}" if place.path else each.name
        found = None if field_id is None else self.schema.field(field_id)
        if found is None and field_id is not None and shown == each.name:
            found = LINEAGE_COLUMNS.get(field_id)
        in_extra = place.in_extra
        if mapping is None and field_id is not None:
            self._compare_names(field_id, shown, found)
        if found is not None:
            self._take(each, found, shown, place)
            # What is in a variant are columns of no table.
            in_extra = in_extra or found.type == types.VARIANT
        elif not in_extra and not self._readers_skip(each, field_id, by_id=mapping is None):
            self.extra.append(shown if mapping is None else f"{shown}{self._why_not_by_name(shown)}")
            in_extra = True
        below = _Place(shown, place.repeated or each.shape != "struct", in_extra)
        self.visit_all(each.children, mapping, below)

    def _compare_names(self, field_id: int, shown: str, found: NestedField | None) -> None:
        name = None if found is None else self.schema.name_of(field_id)
        if name is not None and name != shown:
            self.other_names.append(f"{shown} as {name}")
        elif found is None and self.schema.find(shown) is not None:
            self.other_names.append(f"{shown} as another column")

    def _why_not_by_name(self, shown: str) -> str:
        if self.schema.find(shown) is not None:
            return f" (not in {NAME_MAPPING})"
        alike = next((name for name in self.schema.names() if name.lower() == shown.lower()), None)
        return "" if alike is None else f" (readers do not take it for {alike}, since they tell cases apart)"

    def _take(self, each: FileColumn, found: NestedField, shown: str, place: _Place) -> None:
        name = self.schema.name_of(found.id) or found.name
        if found.id in self.columns:
            raise InvalidInput(
                f"{self.location}: {shown} is column {name} of the table, and so is another column of the file",
                next_step="write the file with one of them; field ids, or without them the table's "
                f"{NAME_MAPPING}, say which column of the table each is",
            )
        if not _fits(each, found):
            by_id = "" if name == shown else f" (by its field id, and called {shown})"
            raise InvalidInput(
                f"{self.location}: column {name} is {each.shown} in the file{by_id} and {found.type} in the table",
                next_step=each.advice(found.type) or "write the file with the table's types",
            )
        self.columns[found.id] = FoundColumn(each, found.id, found.type, place.repeated)

    def _readers_skip(self, each: FileColumn, field_id: int | None, *, by_id: bool) -> bool:
        """Whether readers skip a column that is not in the table's schema: it was dropped, or is in the name mapping.
        An id that the table never assigned belongs to another table's column."""
        return field_id is not None and not (by_id and field_id > self.last_column_id) and _known(each)


def _known(each: FileColumn) -> bool:
    return each.known and all(_known(child) for child in each.children)


def _fits(each: FileColumn, found: NestedField) -> bool:
    wanted = found.type
    if found.id in LINEAGE_COLUMNS and each.reads(types.INT):
        # Readers promote the columns of a schema only.
        return False
    match wanted:
        case StructType():
            return each.shape == "struct"
        case ListType():
            return each.shape == "list"
        case MapType():
            return each.shape == "map"
        case _ if wanted == types.VARIANT and each.shape == "struct":
            return each.reads(wanted)
        case _:
            return each.shape == "leaf" and each.reads(wanted)
