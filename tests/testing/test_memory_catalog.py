import pytest

from iceberg_hms.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


def test_it_behaves_as_a_catalog_on_a_metastore():
    with memory_catalog() as catalog:
        catalog.create_namespace("db")
        with pytest.raises(AlreadyExists):
            catalog.create_namespace("db")
        catalog.create_table("db.t", SCHEMA)
        with pytest.raises(NamespaceNotEmpty):
            catalog.drop_namespace("db")
        catalog.drop_table("db.t")
        catalog.drop_namespace("db")
        with pytest.raises(NoSuchNamespace):
            catalog.load_namespace_properties("db")
        assert catalog.list_namespaces() == []


def test_two_catalogs_share_nothing():
    with memory_catalog() as one, memory_catalog() as other:
        one.create_namespace("db")
        assert not other.namespace_exists("db")
