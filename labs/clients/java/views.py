"""Views by Java's ViewCatalog, of its REST catalog and of HiveCatalog."""

from __future__ import annotations

from typing import Any, Final

from labs.clients.java.catalog import HIVE, REST, Catalog, each, fails
from labs.clients.lab import Place
from labs.clients.results import Verdict
from labs.clients.views import SPARK, spark_view


def _built(catalog: Catalog, place: Place, name: str, sql: str) -> Any:
    builder = catalog.java.buildView(catalog.name(place.table(name))).withSchema(catalog.schema())
    return builder.withDefaultNamespace(catalog.namespace(place.namespace)).withQuery(SPARK, sql)


def _sql(catalog: Catalog, place: Place, name: str) -> str:
    return str(catalog.java.loadView(catalog.name(place.table(name))).sqlFor(SPARK).sql())


def view(catalog: Catalog, place: Place) -> Verdict | None:
    catalog.make(place)
    other = catalog.again(HIVE if catalog.kind == REST else REST)
    try:
        _built(catalog, place, "v", "SELECT 1").create()
        assert "already exists" in fails(lambda: _built(catalog, place, "v", "SELECT 2").create())
        assert "already exists" in fails(lambda: _built(catalog, place, "t", "SELECT 2").create())
        assert "already exists" in fails(lambda: catalog.make(place, "v"))
        _built(other, place, "v", "SELECT 2").replace()
        assert _sql(catalog, place, "v") == "SELECT 2"
        _built(catalog, place, "v", "SELECT 3").createOrReplace()
        changed = catalog.java.loadView(catalog.name(place.table("v")))
        changed.updateProperties().set("comment", "words").commit()
        assert _sql(other, place, "v") == "SELECT 3"
        assert other.java.loadView(other.name(place.table("v"))).properties()["comment"] == "words"
        assert changed.history().size() == 3
        catalog.java.renameView(catalog.name(place.table("v")), catalog.name(place.table("w")))
        found = [str(each_.name()) for each_ in each(catalog.java.listViews(catalog.namespace(place.namespace)))]
        assert found == ["w"], found
        assert [each_.name for each_ in place.lab.catalog.views.list(place.namespace)] == ["w"]
        assert catalog.java.dropView(catalog.name(place.table("w")))
        assert not other.java.viewExists(other.name(place.table("w")))
        assert catalog.java.tableExists(catalog.name(place.table()))
    finally:
        other.close()
    return None


def foreign_view(catalog: Catalog, place: Place) -> Verdict | None:
    catalog.make(place)
    made = spark_view(place, "v")
    loaded = catalog.java.loadView(catalog.name(place.table("v")))
    assert loaded.uuid().toString() == made.metadata.uuid
    assert loaded.schema().columns().size() == 2
    return None


CHECKS: Final = {"view": view, "foreign view": foreign_view}
