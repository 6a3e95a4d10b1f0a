"""Columns of ORC and Avro files beside those of a table."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from iceberg_hms.datafiles.file_columns import FileColumn, TableOfFiles
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.lineage_columns import LAST_UPDATED, ROW_ID
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.catalog.parquet import table_for, table_of

TABLE = table_for(
    pa.schema(
        [("id", pa.int64()), ("n", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.struct([("b", pa.int64())])))]
    )
)


def leaf(name: str, field_id: int | None = None, **more: Any) -> FileColumn:
    return FileColumn(name, field_id, 0, "leaf", "a number", reads=lambda wanted: wanted.kind == "long", **more)


def group(shape: Any, name: str, *children: FileColumn, field_id: int | None = None, **more: Any) -> FileColumn:
    return FileColumn(name, field_id, 0, shape, f"a {shape}", children=children, **more)


def id_of(path: str) -> int:
    found = TABLE.schema.find(path)
    assert found is not None
    return found.id


def find(*columns: FileColumn, metadata: TableMetadata = TABLE, folds_case: bool = False) -> Any:
    return TableOfFiles(metadata, folds_case=folds_case).find("file:/a", columns)


def test_columns_are_found_by_name_at_all_depths() -> None:
    found = find(leaf("id"), group("struct", "n", leaf("a")), group("list", "l", group("struct", "element", leaf("b"))))
    assert {TABLE.schema.name_of(each.field_id): each.repeated for each in found.columns} == {
        "id": False,
        "n": False,
        "n.a": False,
        "l": False,
        "l.element": True,
        "l.element.b": True,
    }
    assert (found.has_field_ids, found.extra) == (False, ())
    assert found.present == {each.field_id for each in found.columns}


def test_ids_win_over_names_as_soon_as_one_column_has_one() -> None:
    found = find(leaf("n", id_of("id")), leaf("id"))
    assert (found.has_field_ids, found.present, found.extra) == (True, {id_of("id")}, ("id",))


def test_the_name_mapping_of_the_table_names_columns() -> None:
    mapping = [{"field-id": id_of("id"), "names": ["old"]}, {"field-id": 77, "names": ["gone"]}]
    metadata = TableMetadata.parse(
        {**TABLE.raw, "properties": {"schema.name-mapping.default": orjson.dumps(mapping).decode()}}
    )
    found = find(leaf("old"), leaf("gone"), leaf("id"), metadata=metadata)
    assert found.present == {id_of("id")}
    assert found.extra == ("id (not in schema.name-mapping.default)",)


def test_names_that_differ_by_case_are_found_at_all_depths_and_told_if_the_caller_wants_that() -> None:
    columns = [leaf("id"), group("struct", "N", leaf("A")), group("list", "L", group("struct", "element", leaf("b")))]
    found = find(*columns, folds_case=True)
    assert {TABLE.schema.name_of(each.field_id) for each in found.columns} == set(TABLE.schema.names())
    assert found.spellings == ((id_of("n"), "N"), (id_of("n.a"), "A"), (id_of("l"), "L"))
    assert (found.extra, found.other_names) == ((), ())
    exact = find(*columns)
    assert (exact.spellings, len(exact.columns), len(exact.extra)) == ((), 1, 2)


def test_a_name_that_differs_by_case_from_two_columns_is_that_of_none() -> None:
    metadata = table_for(pa.schema([("id", pa.int64()), ("Id", pa.int64()), ("x", pa.int64())]))
    found = find(leaf("x"), leaf("Id"), leaf("ID"), metadata=metadata, folds_case=True)
    assert (found.present, found.spellings) == ({2, 3}, ())
    assert found.extra == ("ID (readers do not take it for id, since they tell cases apart)",)


def test_two_columns_that_differ_by_case_alone_are_refused() -> None:
    for columns in ([leaf("id"), leaf("Id")], [leaf("Id"), leaf("id")], [leaf("Id"), leaf("ID")]):
        with pytest.raises(InvalidInput, match="is column id of the table, and so is another column"):
            find(*columns, folds_case=True)


def test_a_name_without_an_id_in_the_mapping_is_no_column_in_any_case() -> None:
    mapping = [{"field-id": id_of("id"), "names": ["id"]}, {"names": ["gone"]}]
    text = orjson.dumps(mapping).decode()
    metadata = TableMetadata.parse({**TABLE.raw, "properties": {"schema.name-mapping.default": text}})
    found = find(leaf("ID"), leaf("GONE"), metadata=metadata, folds_case=True)
    assert (found.present, found.spellings, found.extra) == ({id_of("id")}, ((id_of("id"), "ID"),), ("GONE",))


def test_the_case_of_names_says_nothing_in_a_file_with_ids() -> None:
    found = find(leaf("ID", id_of("id")), leaf("N"), folds_case=True)
    assert (found.present, found.spellings, found.extra) == ({id_of("id")}, (), ("N",))


def test_a_dropped_column_is_no_extra_one_but_another_tables_is() -> None:
    metadata = TableMetadata.parse({**TABLE.raw, "last-column-id": 20})
    found = find(leaf("id", id_of("id")), leaf("dropped", 20), leaf("foreign", 21), metadata=metadata)
    assert found.extra == ("foreign",)
    odd = find(leaf("id", id_of("id")), leaf("odd", 20, known=False), metadata=metadata)
    assert odd.extra == ("odd",)


def test_what_is_in_an_extra_column_is_not_named_again() -> None:
    assert find(leaf("id"), group("struct", "x", leaf("a"), leaf("b"))).extra == ("x",)
    assert find(leaf("id"), group("struct", "n", leaf("a"), leaf("b"))).extra == ("n.b",)


def test_a_file_of_another_table_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no column of the table \(matched by column names\)"):
        find(leaf("x"))
    with pytest.raises(InvalidInput, match=r"no column of the table \(matched by field ids\)"):
        find(leaf("id", 99))


def test_two_columns_with_one_id_are_refused() -> None:
    with pytest.raises(InvalidInput, match="b is column id of the table, and so is another column"):
        find(leaf("a", id_of("id")), leaf("b", id_of("id")))


@pytest.mark.parametrize(
    "column", [leaf("n"), group("struct", "id", leaf("a")), group("map", "l"), leaf("l")], ids=lambda each: each.shown
)
def test_a_column_must_have_the_tables_shape(column: FileColumn) -> None:
    with pytest.raises(InvalidInput, match=r"in the file and .* in the table"):
        find(column)


def test_a_variant_is_a_struct_that_readers_take_for_one_and_whose_fields_are_no_columns() -> None:
    metadata = table_of({"v": "variant"})
    parts = leaf("metadata"), leaf("value")
    found = find(group("struct", "v", *parts, reads=lambda wanted: wanted.kind == "variant"), metadata=metadata)
    assert (found.present, found.extra) == ({1}, ())
    with pytest.raises(InvalidInput, match="column v is a struct in the file and variant in the table"):
        find(group("struct", "v", *parts), metadata=metadata)


def test_the_columns_of_row_lineage_are_at_the_top_level() -> None:
    found = find(leaf("id", id_of("id")), leaf("r", ROW_ID.id), group("struct", "n", leaf("u", LAST_UPDATED.id)))
    assert (found.present, found.extra) == ({id_of("id"), ROW_ID.id}, ("n",))
    deeper = find(leaf("id", id_of("id")), group("struct", "n", leaf("r", ROW_ID.id), field_id=id_of("n")))
    assert (ROW_ID.id in deeper.present, deeper.extra) == (False, ("n.r",))


def test_columns_of_equal_schemas_are_matched_once_and_of_others_again() -> None:
    table = TableOfFiles(table_for(pa.schema([("id", pa.int64())])))
    asked: list[str] = []

    def columns(name: str) -> list[FileColumn]:
        asked.append(name)
        return [leaf("id"), leaf(name)]

    for _ in range(2):
        assert table.find_once("file:/a", "one", lambda: columns("x")).extra == ("x",)
        assert table.find_once("file:/b", "other", lambda: columns("y")).extra == ("y",)
    assert asked == ["x", "y"]
    for number in range(1_000):
        table.find_once("file:/a", number, lambda: columns("z"))
    assert table.find_once("file:/a", "one", lambda: columns("x")).extra == ("x",)
    assert asked.count("x") == 2
