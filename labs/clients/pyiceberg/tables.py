"""What PyIceberg does with namespaces and tables."""

from __future__ import annotations

from threading import Barrier
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from labs.clients import contention, others
from labs.clients.contention import Creator
from labs.clients.results import Verdict, differs

if TYPE_CHECKING:
    from collections.abc import Callable

    from labs.clients.lab import Place

TYPES: Final = {
    "boo": (pa.bool_(), True, "boolean"),
    "int": (pa.int32(), -1, "int"),
    "lon": (pa.int64(), 2**63 - 1, "long"),
    "flo": (pa.float32(), 1.5, "float"),
    "dou": (pa.float64(), 2.5, "double"),
    "dec": (pa.decimal128(18, 4), None, "decimal(18, 4)"),
    "dat": (pa.date32(), None, "date"),
    "tim": (pa.time64("us"), None, "time"),
    "tis": (pa.timestamp("us"), None, "timestamp"),
    "tiz": (pa.timestamp("us", tz="UTC"), None, "timestamptz"),
    "str": (pa.string(), "žluť", "string"),
    "bin": (pa.binary(), b"\x00\xff", "binary"),
    "fix": (pa.binary(4), b"abcd", "fixed[4]"),
    "sct": (pa.struct([("a", pa.int32())]), {"a": 1}, "struct"),
    "lis": (pa.list_(pa.int32()), [1, None], "list"),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)], "map"),
}


def check_namespaces(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, NamespaceNotEmptyError

    catalog, name = place.lab.new_pyiceberg(), f"{place.namespace}_more"
    catalog.create_namespace(name, {"a": "1", "b": "2"})
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(name)
    catalog.create_namespace_if_not_exists(name)
    assert (name,) in catalog.list_namespaces()
    found = catalog.update_namespace_properties(name, removals={"b", "c"}, updates={"a": "3"})
    assert (found.updated, found.removed, found.missing) == (["a"], ["b"], ["c"])
    assert catalog.load_namespace_properties(name)["a"] == "3"
    catalog.create_table(f"{name}.t", others.SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(name)
    catalog.drop_table(f"{name}.t")
    catalog.drop_namespace(name)
    assert not catalog.namespace_exists(name)
    return None


def check_create(place: Place) -> Verdict | None:
    schema = pa.schema([pa.field(name, each[0]) for name, each in TYPES.items()])
    for version in (1, 2, 3):
        name = place.table(f"t{version}")
        table = place.lab.pyiceberg.create_table(name, schema, properties={"format-version": str(version)})
        rows = pa.table({key: [each[1], None] for key, each in TYPES.items()}, schema=schema)
        if version < 3:
            table.append(rows)
            assert [row["str"] for row in place.lab.rows(name)] == ["žluť", None]
        else:
            with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
                table.append(rows)
        metadata = place.lab.catalog.load_table(name).metadata
        found = {field.name: str(field.type) for field in metadata.schema.fields}
        assert all(found[key].startswith(each[2]) for key, each in TYPES.items()), found
        assert metadata.format_version == version
    return differs(
        "creates tables of format version 3 and cannot append to them: pyiceberg/manifest.py, write_manifest"
    )


def check_create_taken(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import TableAlreadyExistsError

    catalog, table = place.lab.pyiceberg, place.table()
    catalog.create_table(table, others.SCHEMA)
    for attempt in (catalog.create_table, catalog.create_table_transaction):
        with pytest.raises(TableAlreadyExistsError):
            attempt(table, others.SCHEMA)
    assert catalog.create_table_if_not_exists(table, others.SCHEMA).name() == tuple(table.split("."))
    return None


def check_create_race(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import CommitFailedException

    for number in range(5):
        table = place.table(f"t{number}")
        contention.create([*others.creators(place.lab, table), *others.creators(place.lab, table)])
        staged = place.table(f"staged{number}")
        ready = Barrier(3)

        def commit(name: str = staged, ready: Barrier = ready) -> None:
            transaction = place.lab.new_pyiceberg().create_table_transaction(name, others.SCHEMA)
            transaction.append(others.rows(1))
            ready.wait(60)
            transaction.commit_transaction()

        is_taken: Callable[[Exception], bool] = lambda error: isinstance(error, CommitFailedException)  # noqa: E731
        contention.create([Creator(f"staged {each}", commit, is_taken) for each in range(3)])
        assert len(place.lab.rows(staged)) == 1
    return None


def check_create_as_select(place: Place) -> Verdict | None:
    """A staged table: created and filled in one commit."""
    catalog, table = place.lab.pyiceberg, place.table()
    with catalog.create_table_transaction(table, others.SCHEMA, properties={"a": "b"}) as transaction:
        transaction.append(others.rows(1, 2))
        with transaction.update_schema() as update:
            update.add_column("more", _type("double"))
        assert not catalog.table_exists(table)
    assert sorted(row["id"] for row in place.lab.rows(table)) == [1, 2]
    with pytest.raises(ZeroDivisionError), catalog.create_table_transaction(place.table("gone"), others.SCHEMA):
        raise ZeroDivisionError
    assert not catalog.table_exists(place.table("gone"))
    return None


def _type(name: str) -> Any:
    from pyiceberg import types

    return {"double": types.DoubleType(), "long": types.LongType(), "int": types.IntegerType()}[name]


def check_columns(place: Place) -> Verdict | None:
    table = place.lab.pyiceberg.create_table(place.table(), others.SCHEMA)
    table.append(others.rows(1))
    with table.update_schema() as update:
        update.add_column("more", _type("double")).add_column("gone", _type("int"))
    with table.update_schema() as update:
        update.rename_column("name", "label").delete_column("gone").move_first("more").make_column_optional("id")
    table.append(pa.table({"more": [2.5], "id": pa.array([2], pa.int64()), "label": ["x"]}))
    expected = [(1, None, "row 1"), (2, 2.5, "x")]
    assert sorted((row["id"], row["more"], row["label"]) for row in place.lab.rows(place.table())) == expected
    return None


def check_type(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import ValidationError

    schema = pa.schema([("id", pa.int32()), ("f", pa.float32())])
    table = place.lab.pyiceberg.create_table(place.table(), schema)
    table.append(pa.table({"id": [1], "f": [1.5]}, schema=schema))
    with table.update_schema() as update:
        update.update_column("id", _type("long")).update_column("f", _type("double"))
    table.append(pa.table({"id": [5_000_000_000], "f": [2.5]}))
    assert sorted(row["id"] for row in place.lab.rows(place.table())) == [1, 5_000_000_000]
    with pytest.raises(ValidationError), table.update_schema() as update:
        update.update_column("id", _type("int"))
    return None


def check_partitions(place: Place) -> Verdict | None:
    from pyiceberg.transforms import BucketTransform, IdentityTransform

    table = place.lab.pyiceberg.create_table(place.table(), others.SCHEMA)
    table.append(others.rows(1))
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    table.append(others.rows(2))
    with table.update_spec() as update:
        update.remove_field("id_bucket").add_field("name", IdentityTransform(), "by_name")
    table.append(others.rows(3))
    assert sorted(row["id"] for row in place.lab.rows(place.table())) == [1, 2, 3]
    return None


def check_order(place: Place) -> Verdict | None:
    from pyiceberg.transforms import IdentityTransform

    table = place.lab.pyiceberg.create_table(place.table(), others.SCHEMA)
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform())
    table.append(others.rows(2, 1))
    order = place.lab.catalog.load_table(place.table()).metadata.sort_order
    assert [field.source_id for field in order.fields] == [1]
    return differs("does not sort what it writes: pyiceberg/io/pyarrow.py")


def check_properties(place: Place) -> Verdict | None:
    table = place.lab.pyiceberg.create_table(place.table(), others.SCHEMA, properties={"format-version": "1"})
    with table.transaction() as transaction:
        transaction.set_properties(a="1", b="2", comment="words")
        transaction.upgrade_table_version(2)
    with table.transaction() as transaction:
        transaction.remove_properties("b")
    metadata = place.lab.catalog.load_table(place.table()).metadata
    assert (metadata.properties["a"], metadata.properties.get("b"), metadata.format_version) == ("1", None, 2)
    return None


def check_rename(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

    catalog = place.lab.pyiceberg
    catalog.create_table(place.table(), others.SCHEMA).append(others.rows(1))
    catalog.create_table(place.table("taken"), others.SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table(place.table(), place.table("taken"))
    catalog.rename_table(place.table(), place.table("moved"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table(place.table())
    assert len(place.lab.rows(place.table("moved"))) == 1
    return None


def check_drop(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import NoSuchTableError

    catalog = place.lab.pyiceberg
    catalog.create_table(place.table(), others.SCHEMA).append(others.rows(1))
    files = place.files_of(place.table())
    catalog.drop_table(place.table())
    assert not catalog.table_exists(place.table())
    assert all(path.exists() for path in files)
    with pytest.raises(NoSuchTableError):
        catalog.drop_table(place.table())
    return None


def check_purge(place: Place) -> Verdict | None:
    catalog = place.lab.pyiceberg
    table = catalog.create_table(place.table(), others.SCHEMA)
    table.append(others.rows(1))
    table.append(others.rows(2))
    files = place.files_of(place.table())
    assert files
    catalog.purge_table(place.table())
    assert not catalog.table_exists(place.table())
    assert not [path for path in files if path.exists()]
    return None


def check_register(place: Place) -> Verdict | None:
    catalog = place.lab.pyiceberg
    table = catalog.create_table(place.table(), others.SCHEMA)
    table.append(others.rows(1))
    location = table.metadata_location
    catalog.drop_table(place.table())
    catalog.register_table(place.table("again"), location)
    assert len(place.lab.rows(place.table("again"))) == 1
    return None


CHECKS: Final[dict[str, Callable[[Place], Verdict | None]]] = {
    "namespaces": check_namespaces,
    "create": check_create,
    "create if taken": check_create_taken,
    "create race": check_create_race,
    "create as select": check_create_as_select,
    "add, rename, drop column": check_columns,
    "change type": check_type,
    "partition evolution": check_partitions,
    "sort order": check_order,
    "properties": check_properties,
    "rename": check_rename,
    "drop": check_drop,
    "drop and purge": check_purge,
    "register": check_register,
}
