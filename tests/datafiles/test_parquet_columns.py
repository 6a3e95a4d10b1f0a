"""Columns of a file and columns of a table."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.datafiles.file_columns import FoundColumn, FoundColumns, TableOfFiles
from iceberg_hms.datafiles.parquet_columns import parquet_columns
from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.manifests.lineage_columns import LAST_UPDATED, ROW_ID
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.catalog.parquet import table_for, with_ids

NAME_MAPPING = "schema.name-mapping.default"


def footer_of(rows: pa.Table, **options: Any) -> pq.FileMetaData:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **options)
    return pq.read_metadata(buffer)


def match(rows: pa.Table, metadata: TableMetadata) -> FoundColumns:
    return matched(footer_of(rows), metadata)


def matched(footer: pq.FileMetaData, metadata: TableMetadata) -> FoundColumns:
    location = "file:/data/a.parquet"
    return TableOfFiles(metadata).find(location, parquet_columns(location, footer, metadata.format_version))


def leaves(found: FoundColumns) -> list[FoundColumn]:
    return [each for each in found.columns if each.stored.shape == "leaf"]


def table_with(type_: str, version: int = 3) -> TableMetadata:
    field = {"id": 1, "name": "c", "required": False, "type": type_}
    return table_for({"type": "struct", "fields": [field]}, version=version)


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.struct([("z", pa.float64())]))),
        ("last", pa.string()),
    ]
)


@pytest.mark.parametrize("ids", [True, False], ids=["by field id", "by name"])
def test_nested_columns_are_found_at_their_place(ids: bool) -> None:
    metadata = table_for(NESTED)
    found = match((with_ids(NESTED, metadata) if ids else NESTED).empty_table(), metadata)
    places = {metadata.schema.name_of(each.field_id): (each.stored.index, each.repeated) for each in leaves(found)}
    assert places == {
        "id": (0, False),
        "s.x": (1, False),
        "s.y.element": (2, True),
        "m.key": (3, True),
        "m.value.z": (4, True),
        "last": (5, False),
    }
    assert found.has_field_ids is ids
    assert len(found.present) == 10


def test_columns_that_the_table_lacks_do_not_shift_the_others() -> None:
    rows = pa.table({"extra": [{"a": 1, "b": [2]}], "last": ["x"], "more": [1], "id": [5]})
    assert {column.stored.index for column in match(rows, table_for(NESTED)).columns} == {2, 4}


LONGS = pa.int64()
TWO = pa.struct([("x", LONGS), ("y", LONGS)])


class Pair(pa.ExtensionType):
    """An extension type whose storage is nested twice, as Arrow restores it for who registered it."""

    def __init__(self) -> None:
        super().__init__(pa.struct([("p", pa.int64()), ("q", pa.list_view(TWO))]), "iceberg_hms.tests.pair")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Pair:
        return cls()


@pytest.fixture(params=[False, True], ids=["unregistered", "registered"])
def pair(request: pytest.FixtureRequest) -> Iterator[pa.DataType]:
    kind = Pair()
    if request.param:
        pa.register_extension_type(kind)
    yield kind
    if request.param:
        pa.unregister_extension_type(kind.extension_name)


def check_places_behind(extra: pa.Array) -> None:
    """b, its neighbours on both sides of the extra column, and what is nested behind it are found at their paths."""
    rows = pa.table({"a": [1], "extra": extra, "b": [5], "s": [{"x": 3}], "extra2": extra, "c": ["z"]})
    metadata = table_for(
        pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.struct([("x", pa.int64())])), ("c", pa.string())])
    )
    footer = footer_of(rows)
    found = leaves(matched(footer, metadata))
    paths = {metadata.schema.name_of(each.field_id): footer.schema.column(each.stored.index).path for each in found}
    assert paths == {"a": "a", "b": "b", "s.x": "s.x", "c": "c"}


NESTINGS = {
    "list": pa.array([[1, 2]], pa.list_(LONGS)),
    "large_list": pa.array([[1, 2]], pa.large_list(LONGS)),
    "fixed_size_list": pa.array([[1, 2]], pa.list_(LONGS, 2)),
    "list_view": pa.array([[1, 2]], pa.list_view(LONGS)),
    "large_list_view": pa.array([[1, 2]], pa.large_list_view(LONGS)),
    "list_view of structs": pa.array([[{"x": 1, "y": 2}]], pa.list_view(TWO)),
    "large_list_view of structs": pa.array([[{"x": 1, "y": 2}]], pa.large_list_view(TWO)),
    "list_view of list_view": pa.array([[[{"x": 1}]]], pa.list_view(pa.list_view(TWO))),
    "struct with list_view": pa.array([{"p": 1, "q": [{"x": 1}]}], pa.struct([("p", LONGS), ("q", pa.list_view(TWO))])),
    "map to list_view": pa.array([[("k", [{"x": 1}])]], pa.map_(pa.string(), pa.list_view(TWO))),
    "list_view of maps": pa.array([[[("k", 1)]]], pa.list_view(pa.map_(pa.string(), LONGS))),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), LONGS)),
    "dictionary": pa.array(["x"]).dictionary_encode(),
    "uuid": pa.array([b"0" * 16], pa.uuid()),
    "json": pa.array(["{}"], pa.json_()),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2]], pa.list_(pa.int32(), 2))
    ),
    "null": pa.array([None], pa.null()),
    "duration": pa.array([1], pa.duration("us")),
}


@pytest.mark.parametrize("kind", NESTINGS)
def test_no_kind_of_column_shifts_later_ones(kind: str) -> None:
    check_places_behind(NESTINGS[kind])


def test_no_extension_type_shifts_later_columns(pair: pa.DataType) -> None:
    rows = pa.array([{"p": 1, "q": [{"x": 1}]}], pair.storage_type)
    check_places_behind(pa.ExtensionArray.from_storage(pair, rows))


def test_dots_in_names_are_no_paths() -> None:
    rows = pa.table({"a.b": [1], "a": [{"b": 2, "b.c": 3}], "a.b.c": [4]})
    metadata = table_for(pa.schema([("a.b.c", pa.int64())]))
    assert [column.stored.index for column in match(rows, metadata).columns] == [3]


class Misleading:
    """A footer whose Arrow schema is not that of its leaf columns, as a type of a later pyarrow could be read by us."""

    def __init__(self, footer: pq.FileMetaData, arrow: pa.Schema) -> None:
        self.num_columns = footer.num_columns
        self.schema = self
        self.column = footer.schema.column
        self.to_arrow_schema = lambda: arrow


@pytest.mark.parametrize(
    "claimed",
    [
        pa.schema([("a", pa.int64()), ("e", pa.struct([("x", pa.int64())])), ("b", pa.int64())]),
        pa.schema([("a", pa.int64()), ("e", pa.int64()), ("b", pa.int64())]),
        pa.schema([("a", pa.int64()), ("b", pa.int64())]),
        pa.schema([("a", pa.int64())]),
        pa.schema([("a", pa.int64()), ("e", pa.list_(pa.int64())), ("b", pa.int64()), ("c", pa.int64())]),
    ],
    ids=["another struct", "no struct", "a column less", "an end", "a column more"],
)
def test_a_schema_that_does_not_fit_the_leaf_columns_is_refused(claimed: pa.Schema) -> None:
    rows = pa.table({"a": [1], "e": [{"y": 1, "z": 2}], "b": [2]})
    footer: Any = Misleading(footer_of(rows), claimed)
    with pytest.raises(UnsupportedFormat, match="cannot tell which column"):
        matched(footer, table_for(pa.schema([("a", pa.int64()), ("b", pa.int64())])))


def id_field(name: str, arrow: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, arrow, metadata={"PARQUET:field_id": str(field_id)})


def dropped_and_current(**properties: str) -> TableMetadata:
    """A table that had columns of id 2 and 5, and has id (1) and s (3) with s.x (4)."""
    inner = {"type": "struct", "fields": [{"id": 4, "name": "x", "required": False, "type": "long"}]}
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 3, "name": "s", "required": False, "type": inner},
    ]
    made = table_for({"type": "struct", "fields": fields}, properties=properties)
    schemas = [{"schema-id": 0, "type": "struct", "fields": fields}]
    return TableMetadata.parse({**made.raw, "schemas": schemas, "last-column-id": 5})


X = id_field("x", pa.int64(), 4)


@pytest.mark.parametrize(
    ("columns", "extra"),
    [
        ([id_field("id", pa.int64(), 1)], ()),
        ([id_field("id", pa.int64(), 1), id_field("gone", pa.string(), 2)], ()),
        ([id_field("id", pa.int64(), 1), id_field("gone", pa.list_(id_field("element", pa.int64(), 5)), 2)], ()),
        ([id_field("id", pa.int64(), 1), id_field("gone", pa.duration("us"), 2)], ("gone",)),
        ([id_field("id", pa.int64(), 1), id_field("gone", pa.decimal256(50, 2), 2)], ("gone",)),
        ([id_field("id", pa.int64(), 1), id_field("gone", pa.list_view(pa.int64()), 2)], ("gone",)),
        ([id_field("id", pa.int64(), 1), id_field("other", pa.string(), 9)], ("other",)),
        ([id_field("id", pa.int64(), 1), pa.field("bare", pa.struct([("u", pa.int64())]))], ("bare",)),
        ([id_field("s", pa.struct([X, pa.field("y", pa.int64()), pa.field("z", pa.int64())]), 3)], ("s.y", "s.z")),
    ],
)
def test_columns_that_pyiceberg_cannot_read_are_named(columns: list[pa.Field], extra: tuple[str, ...]) -> None:
    assert match(pa.schema(columns).empty_table(), dropped_and_current()).extra == extra


MAPPED = {NAME_MAPPING: '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["gone"]}, {"names": ["bare"]}]'}


@pytest.mark.parametrize(
    ("columns", "properties", "extra"),
    [
        ([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))], {}, ()),
        ([("id", pa.int64()), ("e", pa.int64())], {}, ("e",)),
        ([("id", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))], {}, ("s.y",)),
        ([("id", pa.int64()), ("gone", pa.int64())], MAPPED, ()),
        ([("id", pa.int64()), ("bare", pa.int64())], MAPPED, ("bare",)),
        ([("id", pa.int64()), ("gone", pa.list_(pa.int64()))], MAPPED, ("gone.element",)),
        ([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))], MAPPED, (f"s (not in {NAME_MAPPING})",)),
    ],
)
def test_columns_without_ids_need_the_name_mapping(
    columns: list[tuple[str, pa.DataType]], properties: dict[str, str], extra: tuple[str, ...]
) -> None:
    assert match(pa.schema(columns).empty_table(), dropped_and_current(**properties)).extra == extra


@pytest.mark.parametrize("ids", [True, False], ids=["by id", "by name"])
def test_two_columns_of_a_file_never_match_one_of_the_table(ids: bool) -> None:
    """Else the table has the bounds of one of them, and readers the rows of the other."""
    fields = [pa.field("old", pa.int64()), pa.field("new", pa.int64())]
    if ids:
        fields = [id_field(each.name, each.type, 1) for each in fields]
    schema = {"type": "struct", "fields": [{"id": 1, "name": "new", "required": False, "type": "long"}]}
    metadata = table_for(schema, properties={NAME_MAPPING: '[{"field-id": 1, "names": ["old", "new"]}]'})
    with pytest.raises(InvalidInput, match="new is column new of the table, and so is another column of the file"):
        match(pa.schema(fields).empty_table(), metadata)


def test_names_are_compared_as_written() -> None:
    with pytest.raises(InvalidInput, match="no column of the table"):
        match(pa.table({"ID": [1]}), table_for(NESTED))


def test_a_file_of_another_table_is_refused() -> None:
    other = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "99"})])
    with pytest.raises(InvalidInput, match="matched by field ids"):
        match(other.empty_table(), table_for(NESTED))


def test_an_id_of_minus_one_is_none() -> None:
    arrow = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "-1"})])
    assert not match(arrow.empty_table(), table_for(NESTED)).has_field_ids


@pytest.mark.parametrize(
    "mapping", ["not json", "{}", "[1]", '[{"field-id": 1, "names": "id"}]', '[{"names": ["s"], "fields": {}}]']
)
def test_a_damaged_name_mapping_is_named(mapping: str) -> None:
    metadata = table_for(NESTED).replace(properties={NAME_MAPPING: mapping})
    with pytest.raises(InvalidInput, match=NAME_MAPPING):
        match(pa.table({"id": [1]}), metadata)


def test_a_mapping_may_leave_fields_out() -> None:
    metadata = table_for(NESTED, properties={NAME_MAPPING: '[{"field-id": 1, "names": ["id"]}, {"names": ["last"]}]'})
    assert match(pa.table({"id": [1], "last": ["x"]}), metadata).present == {1}


def test_a_variant_has_no_leaf_of_its_own() -> None:
    variant = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    metadata = table_for(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "v", "required": False, "type": "variant"},
                {"id": 2, "name": "x", "required": False, "type": "long"},
            ],
        },
        version=3,
    )
    rows = pa.table({"v": pa.array([None], variant), "x": [1]})
    found = match(rows, metadata)
    assert found.present == {1, 2}
    assert [(column.field_id, column.stored.index) for column in leaves(found)] == [(2, 2)]


@pytest.mark.parametrize("kind", ["int", "list", "struct"])
def test_a_column_must_be_nested_as_the_tables_is(kind: str) -> None:
    arrow = {"int": pa.int64(), "list": pa.list_(pa.int64()), "struct": pa.struct([("x", pa.int64())])}
    for other, type_ in arrow.items():
        rows = pa.schema([("id", pa.int64()), ("c", type_)]).empty_table()
        metadata = table_for(pa.schema([("id", pa.int64()), ("c", arrow[kind])]))
        if other == kind:
            assert len(leaves(match(rows, metadata))) == 2
        else:
            with pytest.raises(InvalidInput, match="column c is"):
                match(rows, metadata)


def test_the_columns_of_row_lineage_are_at_the_top_level() -> None:
    nested = pa.struct([marked("u", LAST_UPDATED.id)])
    arrow = pa.schema([marked("c", 1), marked("r", ROW_ID.id), pa.field("n", nested)])
    rows = pa.Table.from_pylist([{"c": 1, "r": 2, "n": {"u": 3}}], schema=arrow)
    found = match(rows, table_with("long"))
    assert (found.present, found.extra) == ({1, ROW_ID.id}, ("n",))
    assert [(each.field_id, str(each.type)) for each in found.columns] == [(1, "long"), (ROW_ID.id, "long")]


def marked(name: str, field_id: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
