"""Views: PyIceberg lists and drops those of others."""

from __future__ import annotations

from typing import Final

from labs.clients import others
from labs.clients.lab import Place
from labs.clients.results import Verdict, differs
from labs.clients.views import spark_view


def view(place: Place) -> Verdict | None:
    client = place.lab.new_pyiceberg()
    client.create_table(place.table(), others.SCHEMA)
    spark_view(place, "v")
    name = (place.namespace, "v")
    assert client.list_views(place.namespace) == [name]
    assert client.list_tables(place.namespace) == [(place.namespace, "t")]
    assert client.view_exists(name)
    client.drop_view(name)
    assert not client.view_exists(name)
    assert place.lab.catalog.views.list(place.namespace) == []
    return differs("it lists and drops views; it makes and reads none (catalog/rest)")


CHECKS: Final = {"view": view}
