"""Java's namespaces and tables."""

from __future__ import annotations

from functools import partial
from typing import Final

from labs.clients import contention, others
from labs.clients.contention import Creator
from labs.clients.java.catalog import REST, Catalog, check_ids, fails, thrown
from labs.clients.lab import Place, files_below
from labs.clients.results import Verdict

#: As SchemaParser has them.
_TYPES: Final = (
    *("boolean", "int", "long", "float", "double", "decimal(20, 3)", "string", "binary", "date", "time"),
    *("timestamp", "timestamptz", "uuid", "fixed[7]"),
)


def namespaces(catalog: Catalog, place: Place) -> Verdict | None:
    name = f"{place.namespace}_more"
    namespace, java = catalog.namespace(name), catalog.java
    properties = catalog.jvm.java.util.HashMap()
    properties.put("mine", "1")
    java.createNamespace(namespace, properties)
    assert "AlreadyExistsException" in fails(lambda: java.createNamespace(namespace, properties))
    assert namespace in list(java.listNamespaces())
    java.setProperties(namespace, catalog.jvm.java.util.Collections.singletonMap("other", "2"))
    java.removeProperties(namespace, catalog.set_of("mine"))
    found = place.lab.catalog.load_namespace_properties(name)
    assert found["other"] == "2"
    assert "mine" not in found
    java.buildTable(catalog.name(f"{name}.t"), catalog.schema()).create()
    assert [str(each) for each in java.listTables(namespace)] == [f"{name}.t"]
    assert "NamespaceNotEmptyException" in fails(lambda: java.dropNamespace(namespace))
    java.dropTable(catalog.name(f"{name}.t"), True)
    assert java.dropNamespace(namespace)
    assert not place.lab.catalog.namespace_exists(name)
    return None


def create(catalog: Catalog, place: Place) -> Verdict | None:
    fields = tuple((f"c{number}", kind, None) for number, kind in enumerate(_TYPES))
    for version in ("1", "2", "3"):
        name = f"v{version}"
        catalog.builder(place, name, fields=fields).withProperty("format-version", version).create()
        loaded = place.lab.new_pyiceberg().load_table(place.table(name))
        assert [str(field.field_type) for field in loaded.schema().fields] == list(_TYPES)
        assert str(loaded.format_version) == version
        ours = place.lab.catalog.load_table(place.table(name))
        assert [str(field.type) for field in ours.schema().fields] == list(_TYPES)
    return None


def create_if_taken(catalog: Catalog, place: Place) -> Verdict | None:
    catalog.append(place, catalog.make(place), 1)
    assert "AlreadyExistsException" in fails(lambda: catalog.make(place))
    assert "AlreadyExistsException" in fails(lambda: catalog.builder(place).createTransaction().commitTransaction())
    check_ids(catalog, place, [1])
    return None


def create_race(catalog: Catalog, place: Place) -> Verdict | None:
    """Eight times two plain creations and two create transactions of Java, PyIceberg and the Python API."""
    catalogs = [catalog.again() for _ in range(4)]
    for number in range(8):
        name = f"t{number}"
        makers = [Creator("Java", partial(each.make, place, name), _is_taken) for each in catalogs[:2]]
        makers += [Creator("Java", partial(_create_staged, each, place, name), _is_taken) for each in catalogs[2:]]
        contention.create([*makers, *others.creators(place.lab, place.table(name))])
        catalog.append(place, catalog.load(place, name), 1)
        check_ids(catalog, place, [1], name)
    return None


def _create_staged(catalog: Catalog, place: Place, name: str) -> None:
    catalog.builder(place, name).createTransaction().commitTransaction()


def _is_taken(error: Exception) -> bool:
    return hasattr(error, "java_exception") and "AlreadyExistsException" in thrown(error)


def create_as_select(catalog: Catalog, place: Place) -> Verdict | None:
    """A create transaction that appends, as engines' CREATE TABLE AS."""
    transaction = catalog.builder(place).createTransaction()
    file = catalog.file(place, transaction.table(), (1, "row 1"), (2, "row 2"))
    transaction.newAppend().appendFile(file).commit()
    assert not place.lab.catalog.table_exists(place.table())
    transaction.commitTransaction()
    check_ids(catalog, place, [1, 2])
    return None


def replace(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1, 2)
    old = table.currentSnapshot().snapshotId()
    transaction = catalog.builder(place, by="name").replaceTransaction()
    file = catalog.file(place, transaction.table(), (7, "row 7"), partition="name=row 7")
    transaction.newAppend().appendFile(file).commit()
    check_ids(catalog, place, [1, 2])
    transaction.commitTransaction()
    check_ids(catalog, place, [7])
    replaced = catalog.load(place)
    assert catalog.ids(replaced, old) == [1, 2]
    assert replaced.uuid() == table.uuid()
    catalog.builder(place).createOrReplaceTransaction().commitTransaction()
    check_ids(catalog, place, [])
    return None


def columns(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    types = catalog.iceberg.types.Types
    change = table.updateSchema().addColumn("more", types.IntegerType.get()).renameColumn("name", "title")
    change.moveFirst("more").commit()
    table.updateSchema().deleteColumn("title").commit()
    table.updateSchema().addColumn("title", types.StringType.get()).commit()
    rows = place.lab.rows(place.table())
    assert rows == [{"more": None, "id": 1, "title": None}], rows
    check_ids(catalog, place, [1])
    return None


def change_type(catalog: Catalog, place: Place) -> Verdict | None:
    fields = (("id", "int", None), ("f", "float", None), ("d", "decimal(5, 2)", None))
    table = catalog.builder(place, fields=fields).create()
    types = catalog.iceberg.types.Types
    change = table.updateSchema().updateColumn("id", types.LongType.get()).updateColumn("f", types.DoubleType.get())
    change.updateColumn("d", types.DecimalType.of(9, 2)).commit()
    found = [str(field.field_type) for field in place.lab.new_pyiceberg().load_table(place.table()).schema().fields]
    assert found == ["long", "double", "decimal(9, 2)"], found
    words = fails(lambda: table.updateSchema().updateColumn("id", types.IntegerType.get()).commit())
    assert "Cannot change column type" in words, words
    return None


def partition_evolution(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, by="name")
    table.newAppend().appendFile(catalog.file(place, table, (1, "row 1"), partition="name=row 1")).commit()
    bucket = catalog.iceberg.expressions.Expressions.bucket("id", 4)
    table.updateSpec().addField(bucket).removeField("name").commit()
    table.newAppend().appendFile(catalog.file(place, table, (2, "row 2"), partition="id_bucket_4=0")).commit()
    table.updateSpec().removeField(bucket).commit()
    catalog.append(place, table, 3)
    check_ids(catalog, place, [1, 2, 3])
    assert len(place.lab.new_pyiceberg().load_table(place.table()).specs()) == 3
    return None


def sort_order(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    first, last = (catalog.iceberg.NullOrder.valueOf(order) for order in ("NULLS_FIRST", "NULLS_LAST"))
    ref = catalog.iceberg.expressions.Expressions.ref
    table.replaceSortOrder().desc(ref("name"), last).asc(ref("id"), first).commit()
    fields = place.lab.new_pyiceberg().load_table(place.table()).sort_order().fields
    assert [str(field.direction) for field in fields] == ["DESC", "ASC"], fields
    return None


def properties(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, properties={"format-version": "1", "mine": "1"})
    table.updateProperties().set("format-version", "2").set("comment", "about").remove("mine").commit()
    loaded = place.lab.new_pyiceberg().load_table(place.table())
    assert loaded.format_version == 2
    assert loaded.properties["comment"] == "about"
    assert "mine" not in loaded.properties
    table.updateLocation().setLocation(f"{place.lab.warehouse}/{place.namespace}.db/elsewhere").commit()
    catalog.append(place, table, 1)
    check_ids(catalog, place, [1])
    return None


def rename(catalog: Catalog, place: Place) -> Verdict | None:
    catalog.append(place, catalog.make(place), 1)
    catalog.make(place, "taken")
    other = f"{place.namespace}_other"
    place.lab.catalog.create_namespace(other)

    def move(old: str, new: str) -> None:
        catalog.java.renameTable(catalog.name(old), catalog.name(new))

    assert "AlreadyExistsException" in fails(lambda: move(place.table(), place.table("taken")))
    assert "NoSuchTableException" in fails(lambda: move(place.table("none"), place.table("new")))
    move(place.table(), place.table("new"))
    check_ids(catalog, place, [1], "new")
    move(place.table("new"), f"{other}.moved")
    assert catalog.ids(catalog.java.loadTable(catalog.name(f"{other}.moved"))) == [1]
    assert not catalog.java.tableExists(catalog.name(place.table()))
    return None


def drop(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    files = files_below(table.location())
    assert catalog.java.dropTable(catalog.name(place.table()), False)
    assert not place.lab.catalog.table_exists(place.table())
    assert files
    assert all(file.exists() for file in files)
    assert not catalog.java.dropTable(catalog.name(place.table()), False)
    return None


def drop_and_purge(catalog: Catalog, place: Place) -> Verdict | None:
    catalog.make(place)
    place.lab.new_pyiceberg().load_table(place.table()).append(others.rows(1))
    table = catalog.load(place)
    assert catalog.java.dropTable(catalog.name(place.table()), True)
    assert not place.lab.catalog.table_exists(place.table())
    left = {file for file in files_below(table.location()) if not file.name.startswith(".")}
    # HiveCatalog deletes what the last metadata names, and that file itself; the older ones stay (CatalogUtil).
    needed = {file for file in left if catalog.kind == REST or not file.name.endswith(".metadata.json")}
    assert not needed, f"left: {needed}"
    return None


CHECKS: Final = {
    "namespaces": namespaces,
    "create": create,
    "create if taken": create_if_taken,
    "create race": create_race,
    "create as select": create_as_select,
    "replace": replace,
    "add, rename, drop column": columns,
    "change type": change_type,
    "partition evolution": partition_evolution,
    "sort order": sort_order,
    "properties": properties,
    "rename": rename,
    "drop": drop,
    "drop and purge": drop_and_purge,
}
