"""Two real metastores behind one server, for stock PyIceberg clients that know nothing but a warehouse's name."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, RESTError

import iceberg_hms
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.rest.access.tokens import TokenFile
from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from tests.security.callers import write_tokens

SCOPES = {"default": "admin[*]", "sales": "admin[sales/*]", "all": "admin[*/*]"}
SALES_SETTINGS = RestSettings(
    rest_table_config="client.region=here", rest_max_page_size=2, rest_namespace_separator="%2E"
)
SCHEMA = pa.schema([("a", pa.int64())])

Connect = Callable[..., RestCatalog]


@pytest.fixture(scope="module")
def connect(metastore: Any, stock_metastore: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """A client of the server: connect(who, property=value...)."""
    tokens = tmp_path_factory.mktemp("warehouses") / "tokens"
    of = write_tokens(tokens, SCOPES)
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as default,
        iceberg_hms.connect(metastore_uri=stock_metastore.uri, warehouse=stock_metastore.warehouse) as sales,
        RestServer(
            default,
            "127.0.0.1",
            0,
            access=TokenFile(Path(tokens), SYSTEM_CLOCK),
            warehouses={"sales": (sales, SALES_SETTINGS)},
        ) as server,
    ):

        def client(who: str, **properties: str) -> RestCatalog:
            return RestCatalog("client", uri=server.uri, token=of[who], **properties)

        yield client


def test_a_client_works_in_the_warehouse_that_it_names(connect: Connect) -> None:
    plain, sales = connect("all"), connect("all", warehouse="sales")
    namespace = f"w{uuid.uuid4().hex}"
    for client in (plain, sales):
        client.create_namespace(namespace)
    table = sales.create_table((namespace, "t"), SCHEMA)
    for number in range(3):
        table.append(pa.table({"a": [number]}))
    assert table.io.properties["client.region"] == "here"
    assert sales.load_table((namespace, "t")).scan().to_arrow().num_rows == 3
    assert not plain.table_exists((namespace, "t"))
    assert not plain.table_exists((namespace, "t", "files"))
    assert not sales.table_exists((namespace, "t", "files"))
    refs = connect("all", warehouse="sales", **{"snapshot-loading-mode": "refs"}).load_table((namespace, "t"))
    assert (len(refs.metadata.snapshots), len(table.refresh().metadata.snapshots)) == (1, 3)
    for name in ("c", "b", "a"):
        sales.create_table((namespace, name), SCHEMA)
    paged = connect("all", warehouse="sales", **{"rest-page-size": "1"})
    for client in (sales, paged):
        assert client.list_tables(namespace) == [(namespace, name) for name in ("a", "b", "c", "t")]
    assert plain.list_tables(namespace) == []


def test_rights_in_one_warehouse_are_none_in_the_other(connect: Connect) -> None:
    namespace = f"w{uuid.uuid4().hex}"
    default, sales = connect("default"), connect("sales", warehouse="sales")
    for client in (default, sales):
        client.create_namespace(namespace)
        client.create_table((namespace, "t"), SCHEMA)
    with pytest.raises(ForbiddenError):
        connect("default", warehouse="sales")
    for stranger in (connect("sales"), connect("default", prefix="sales")):
        with pytest.raises(ForbiddenError):
            stranger.load_table((namespace, "t"))
    assert (namespace,) not in connect("sales").list_namespaces()
    with pytest.raises(ForbiddenError):
        connect("default", prefix="sales").list_namespaces()
    with pytest.raises(RESTError, match="NoSuchWarehouseException"):
        connect("all", warehouse="lab")
