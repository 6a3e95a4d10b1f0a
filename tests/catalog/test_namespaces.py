"""The properties of namespaces, as callers set and remove them."""

import pytest

from iceberg_hms.catalog.namespaces import NAMESPACE_SIZE_MAX
from iceberg_hms.errors import InvalidInput, NoSuchNamespace
from tests.format.missing_values import MISSING


def test_properties_are_set_and_removed_and_missing_ones_are_named(catalog):
    catalog.update_namespace_properties("logging", updates={"a": "1", "b": "2"})
    change = catalog.update_namespace_properties("logging", updates={"a": "3"}, removals=["b", "never"])
    assert (change.updated, change.removed, change.missing) == (("a",), ("b",), ("never",))
    assert catalog.load_namespace_properties("logging")["a"] == "3"
    assert "b" not in catalog.load_namespace_properties("logging")
    with pytest.raises(InvalidInput, match="set and removed at once: a"):
        catalog.update_namespace_properties("logging", updates={"a": "1"}, removals=["a"])
    with pytest.raises(NoSuchNamespace):
        catalog.update_namespace_properties("nowhere", updates={"a": "1"})


def test_a_namespaces_properties_have_a_bound(catalog):
    """Everyone who loads the namespace gets them all."""
    large = {"comment": "c" * (NAMESPACE_SIZE_MAX - 1_000)}
    with pytest.raises(InvalidInput, match="the most"):
        catalog.create_namespace("large", {**large, "more": "m" * 1_000})
    catalog.create_namespace("large", large)
    with pytest.raises(InvalidInput, match="the most"):
        catalog.update_namespace_properties("large", updates={"more": "m" * 1_000})
    assert "more" not in catalog.load_namespace_properties("large")
    catalog.update_namespace_properties("large", updates={"more": "m" * 1_000}, removals=["comment"])
    assert "comment" not in catalog.load_namespace_properties("large")


def test_a_property_is_a_text(catalog):
    for value in (None, 5, *MISSING.values()):
        with pytest.raises(InvalidInput, match="A property of a namespace is text"):
            catalog.create_namespace("new", {"owner": value})
        with pytest.raises(InvalidInput, match="A property of a namespace is text"):
            catalog.update_namespace_properties("logging", updates={"owner": value})
    assert not catalog.namespace_exists("new")
