from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import ConfigError, CredentialsUnavailable, LocationNotAllowed
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.rest.fakes import SCHEMA, Web, error_of
from tests.security.callers import callers

ASKS = {"X-Iceberg-Access-Delegation": "remote-signing, Vended-Credentials"}
SCOPES = {"writer": "write[a]", "reader": "read[a]", "other": "write[b]", "all": "admin[*]"}
TABLE = "/v1/namespaces/a/tables/t"
VENDS = RestSettings(rest_vended_credentials="sts")


class Vending:
    """Implements CredentialVending: names what was asked for. round: changes what it makes."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], bool]] = []
        self.error: Exception | None = None
        self.round = 0

    client_properties: Mapping[str, str] = {"s3.endpoint": "http://store", "client.region": "r"}

    def serves(self, location: str) -> bool:
        return location.startswith("s3")

    def vend(self, folders: Sequence[str], *, write: bool) -> Mapping[str, str]:
        self.asked.append((tuple(folders), write))
        if self.error is not None:
            raise self.error
        return {"s3.access-key-id": f"{'w' if write else 'r'}{self.round}", "s3.secret-access-key": "hush"}


@pytest.fixture
def vending() -> Vending:
    return Vending()


@pytest.fixture
def catalog(vending: Vending) -> Catalog:
    """With a table in each of the namespaces a and b, which lie in S3."""
    inner = memory_catalog(warehouse="s3://lake/wh")
    made = Catalog(lambda: replace(inner.services, make_vending=lambda **_: vending))
    for name in ("a", "b"):
        made.create_namespace(name)
        made.create_table((name, "t"), SCHEMA)
    return made


@pytest.fixture
def by(catalog: Catalog, tmp_path: Path) -> Callable[[str], Web]:
    return callers(catalog, tmp_path, SCOPES, VENDS)


def keys(body: Mapping[str, Any]) -> set[str]:
    """Of all credentials in a LoadTableResult."""
    found = {each["config"]["s3.access-key-id"] for each in body.get("storage-credentials", ())}
    return found | {value for key, value in body["config"].items() if key == "s3.access-key-id"}


def test_a_plan_comes_with_credentials_that_say_where_the_store_is(by: Any, vending: Vending) -> None:
    """Java reads the files of a plan by the catalog's properties and these alone."""
    for caller, made in (("writer", "w0"), ("reader", "r0")):
        response = by(caller)("POST", f"{TABLE}/plan", {}, headers=ASKS)
        (credentials,) = response.json()["storage-credentials"]
        assert credentials == {
            "prefix": "s3://lake/wh/a.db/t/",
            "config": {
                "s3.access-key-id": made,
                "s3.secret-access-key": "hush",
                "s3.endpoint": "http://store",
                "client.region": "r",
                "client.refresh-credentials-endpoint": "v1/namespaces/a/tables/t/credentials",
            },
        }
        assert response.headers["cache-control"] == "no-store"
        again = by(caller)("GET", f"{TABLE}/plan/{response.json()['plan-id']}", headers=ASKS)
        assert again.json()["storage-credentials"] == [credentials]
    assert "storage-credentials" not in by("writer")("POST", f"{TABLE}/plan", {}).json()


def test_who_may_not_load_a_table_may_not_plan_it(by: Any) -> None:
    for method, path in (("POST", "plan"), ("GET", "plan/x"), ("DELETE", "plan/x"), ("POST", "tasks")):
        assert error_of(by("other")(method, f"{TABLE}/{path}", {}))[:2] == (403, "ForbiddenException")


def test_a_client_that_asks_gets_credentials_for_the_tables_folder(by: Any, vending: Vending) -> None:
    response = by("writer")("GET", TABLE, headers=ASKS)
    body = response.json()
    assert vending.asked == [(("s3://lake/wh/a.db/t",), True)]
    made = {"s3.access-key-id": "w0", "s3.secret-access-key": "hush"}
    assert body["storage-credentials"] == [{"prefix": "s3://lake/wh/a.db/t/", "config": made}]
    assert body["config"] == {
        **made,
        "s3.endpoint": "http://store",
        "client.region": "r",
        "client.refresh-credentials-endpoint": "v1/namespaces/a/tables/t/credentials",
    }
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("headers", [{}, {"X-Iceberg-Access-Delegation": "remote-signing"}])
def test_a_client_that_does_not_ask_gets_none(by: Any, vending: Vending, headers: dict[str, str]) -> None:
    response = by("writer")("GET", TABLE, headers=headers)
    assert response.json()["config"] == {}
    assert "storage-credentials" not in response.json()
    assert "cache-control" not in response.headers
    assert vending.asked == []


def test_nobody_gets_any_unless_the_operator_says_so(catalog: Catalog, vending: Vending) -> None:
    web = Web(create_app(catalog))
    assert keys(web("GET", TABLE, headers=ASKS).json()) == set()
    assert web("GET", f"{TABLE}/credentials").status_code == 404
    assert not any("credentials" in each for each in web("GET", "/v1/config").json()["endpoints"])
    assert vending.asked == []


def test_a_reader_gets_those_of_a_reader(by: Any, vending: Vending) -> None:
    assert keys(by("reader")("GET", TABLE, headers=ASKS).json()) == {"r0"}
    assert vending.asked == [(("s3://lake/wh/a.db/t",), False)]


def test_a_caller_of_another_namespace_gets_none(by: Any, vending: Vending) -> None:
    for path in (TABLE, f"{TABLE}/credentials"):
        assert by("other")("GET", path, headers=ASKS).status_code == 403
    assert vending.asked == []


def test_a_server_that_changes_nothing_lets_nobody_write(catalog: Catalog, tmp_path: Path) -> None:
    by = callers(catalog, tmp_path, SCOPES, replace(VENDS, rest_read_only=True))
    assert keys(by("all")("GET", TABLE, headers=ASKS).json()) == {"r0"}


def test_one_callers_answer_is_never_anothers(by: Any, vending: Vending) -> None:
    tags = {}
    for name in ("writer", "reader", "writer"):
        response = by(name)("GET", TABLE, headers=ASKS)
        assert keys(response.json()) == {f"{name[0]}0"}
        tags[name] = response.headers["etag"]
    plain = by("writer")("GET", TABLE).headers["etag"]
    assert len({*tags.values(), plain}) == 3
    for tag in (tags["writer"], plain):
        response = by("reader")("GET", TABLE, headers={**ASKS, "If-None-Match": tag})
        assert (response.status_code, keys(response.json())) == (200, {"r0"})
    assert by("writer")("GET", TABLE, headers={"If-None-Match": tags["writer"]}).status_code == 200


def test_a_client_keeps_a_table_as_long_as_its_credentials_are_those_of_now(by: Any, vending: Vending) -> None:
    tag = by("writer")("GET", TABLE, headers=ASKS).headers["etag"]
    assert by("writer")("GET", TABLE, headers={**ASKS, "If-None-Match": tag}).status_code == 304
    vending.round = 1
    again = by("writer")("GET", TABLE, headers={**ASKS, "If-None-Match": tag})
    assert (again.status_code, keys(again.json())) == (200, {"w1"})


def test_new_credentials_come_from_the_endpoint_that_is_advertised(by: Any, vending: Vending) -> None:
    assert (
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
        in (by("reader")("GET", "/v1/config").json()["endpoints"])
    )
    for name in ("writer", "reader"):
        response = by(name)("GET", f"{TABLE}/credentials")
        made = {"s3.access-key-id": f"{name[0]}0", "s3.secret-access-key": "hush"}
        assert response.json() == {"storage-credentials": [{"prefix": "s3://lake/wh/a.db/t/", "config": made}]}
        assert response.headers["cache-control"] == "no-store"
    assert error_of(by("reader")("GET", "/v1/namespaces/a/tables/no/credentials"))[:2] == (404, "NoSuchTableException")


def test_a_created_a_staged_and_a_registered_table_come_with_credentials(by: Any, catalog: Catalog) -> None:
    asked = {"name": "new", "schema": SCHEMA}
    for body in ({**asked, "stage-create": True}, asked):
        response = by("writer")("POST", "/v1/namespaces/a/tables", body, headers=ASKS)
        assert response.json()["storage-credentials"][0]["prefix"] == "s3://lake/wh/a.db/new/"
        assert (keys(response.json()), response.headers["cache-control"]) == ({"w0"}, "no-store")
    file = catalog.load(("a", "new")).metadata_location
    catalog.drop_table(("a", "new"))
    registered = by("all")(
        "POST", "/v1/namespaces/a/register", {"name": "new", "metadata-location": file}, headers=ASKS
    )
    assert keys(registered.json()) == {"w0"}


@pytest.mark.parametrize("staged", [True, False])
def test_where_the_store_makes_none_no_table_is_made(by: Any, vending: Vending, catalog: Catalog, staged: bool) -> None:
    vending.error = CredentialsUnavailable("STS said hush")
    body = {"name": "new", "schema": SCHEMA, "stage-create": staged}
    response = by("writer")("POST", "/v1/namespaces/a/tables", body, headers=ASKS)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "hush" not in response.text
    assert not catalog.table_exists(("a", "new"))


def test_an_outage_of_the_stores_token_service_is_said_by_a_load_and_by_the_endpoint(by: Any, vending: Vending) -> None:
    vending.error = CredentialsUnavailable("STS said hush")
    for path in (TABLE, f"{TABLE}/credentials"):
        response = by("reader")("GET", path, headers=ASKS)
        assert error_of(response)[:2] == (503, "ServiceUnavailableException")
        assert "rest.vended-role-arn" in response.text
    assert by("reader")("GET", TABLE).status_code == 200


def test_a_folder_to_which_the_store_narrows_none_is_loaded_without(by: Any, vending: Vending) -> None:
    vending.error = LocationNotAllowed("the table's folder", "has odd characters")
    assert keys(by("reader")("GET", TABLE, headers=ASKS).json()) == set()
    assert error_of(by("reader")("GET", f"{TABLE}/credentials"))[:2] == (403, "ForbiddenException")


def test_the_folders_that_properties_name_count_if_the_caller_may_have_a_table_there(
    by: Any, catalog: Catalog, vending: Vending
) -> None:
    paths = {
        "write.data.path": "s3://lake/wh/a.db/files",
        "write.metadata.path": "s3://lake/wh/a.db/wide/metadata",
        "write.object-storage.path": "s3://lake/wh/b.db/free",
        "write.folder-storage.path": "hdfs://else/x",
    }
    catalog.create_table(("a", "wide"), SCHEMA, properties=paths)
    body = by("writer")("GET", "/v1/namespaces/a/tables/wide", headers=ASKS).json()
    assert vending.asked == [(("s3://lake/wh/a.db/wide", "s3://lake/wh/a.db/files"), True)]
    assert [each["prefix"] for each in body["storage-credentials"]] == ["s3://lake/wh/a.db/"]
    by("all")("GET", "/v1/namespaces/a/tables/wide", headers=ASKS)
    assert vending.asked[1][0][-1] == "s3://lake/wh/b.db/free"


def test_a_table_around_the_folder_of_a_namespace_gets_none(by: Any, catalog: Catalog, vending: Vending) -> None:
    catalog.create_namespace("c", {"location": "s3://lake/wh/a.db/around/inner"})
    catalog.create_table(("a", "around"), SCHEMA, location="s3://lake/wh/a.db/around")
    assert keys(by("writer")("GET", "/v1/namespaces/a/tables/around", headers=ASKS).json()) == set()
    assert vending.asked == []


def test_a_table_of_another_store_comes_as_without_vending(by: Any, catalog: Catalog, vending: Vending) -> None:
    catalog.create_table(("a", "far"), SCHEMA, location="hdfs://lake/a.db/far")
    assert by("writer")("GET", "/v1/namespaces/a/tables/far", headers=ASKS).json()["config"] == {}
    assert by("writer")("GET", "/v1/namespaces/a/tables/far/credentials").json() == {"storage-credentials": []}
    assert vending.asked == []


def test_what_the_operator_says_of_the_store_wins(catalog: Catalog) -> None:
    settings = replace(VENDS, rest_table_config="s3.endpoint=https://outside")
    config = Web(create_app(catalog, settings=settings))("GET", TABLE, headers=ASKS).json()["config"]
    assert (config["s3.endpoint"], config["client.region"]) == ("https://outside", "r")


def test_a_warehouse_vends_for_itself_under_its_prefix(catalog: Catalog) -> None:
    web = Web(create_app(memory_catalog(), warehouses={"sales": (catalog, VENDS)}))
    config = web("GET", "/v1/sales/namespaces/a/tables/t", headers=ASKS).json()["config"]
    refresh = f"/{config['client.refresh-credentials-endpoint']}"
    assert web("GET", refresh).json()["storage-credentials"][0]["config"]["s3.access-key-id"] == "w0"
    assert any("credentials" in each for each in web("GET", "/v1/config?warehouse=sales").json()["endpoints"])
    assert not any("credentials" in each for each in web("GET", "/v1/config").json()["endpoints"])


def test_no_log_has_a_secret(by: Any, caplog: pytest.LogCaptureFixture, catalog: Catalog, tmp_path: Path) -> None:
    settings = replace(VENDS, rest_access_log=True)
    with caplog.at_level(logging.DEBUG):
        web = callers(catalog, tmp_path, SCOPES, settings)("all")
        web("GET", TABLE, headers=ASKS)
        web("GET", f"{TABLE}/credentials")
        web("POST", "/v1/namespaces/a/tables", {"name": "new", "schema": SCHEMA}, headers=ASKS)
    assert caplog.records
    assert "hush" not in caplog.text


def test_a_catalog_that_cannot_vend_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"rest\.vended-credentials"):
        create_app(memory_catalog(), settings=VENDS)
