"""A PyIceberg catalog's properties as our settings, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg import io
from pyiceberg.catalog import load_catalog

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.pyiceberg import HmsCatalog
from iceberg_hms.pyiceberg.configuration import file_io_properties, merged, settings_of

URI = {"uri": "thrift://h:9083"}
KEYS = {"s3.access-key-id": "the-key", "s3.secret-access-key": "the-secret"}
#: Nothing listens there, and nothing asks.
NOWHERE = "iceberg-hms+thrift://127.0.0.1:9"

#: PyIceberg's properties for stores that change nothing of what is read and written, or that another one needs.
HARMLESS = {
    "s3.resolve-region": "PyIceberg asks AWS for the region of a bucket",
    "s3.retry-strategy-impl": "how PyIceberg retries",
    "s3.signer.uri": "of `s3.signer`",
    "s3.signer.endpoint": "of `s3.signer`",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PyIceberg finds its configuration here and nowhere else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / ".pyiceberg.yaml").write_text(text, encoding="utf-8")


def test_the_file_counts_less_than_the_environment_and_that_less_than_the_caller(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        home,
        "catalog:\n"
        "  lake:\n    uri: thrift://file:1\n    warehouse: file:/w\n    iceberg-hms.lock: none\n    s3.region: file\n"
        "  other:\n    s3.endpoint: http://other:1\n",
    )
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "thrift://environment:1")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__REGION", "environment")
    assert merged("Lake", {"uri": "thrift://caller:1", "warehouse": None}) == {
        "uri": "thrift://caller:1",
        "warehouse": "file:/w",
        "iceberg-hms.lock": "none",
        "s3.region": "environment",
    }
    assert merged("unknown", {"a": "b"}) == {"a": "b"}


def test_load_catalog_gives_ours_what_the_file_says(home: Path) -> None:
    write(home, f"catalog:\n  lake:\n    uri: {NOWHERE}\n    warehouse: file:/w\n    iceberg-hms.lock: none\n")
    with load_catalog("lake", **{"py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog"}) as catalog:
        assert isinstance(catalog, HmsCatalog)
        settings = catalog.hms.settings
        assert (settings.metastore_uri, settings.warehouse, settings.lock) == (
            "thrift://127.0.0.1:9",
            "file:/w",
            "none",
        )
        assert catalog.properties["uri"] == NOWHERE


@pytest.mark.parametrize("properties", [{"uri": NOWHERE}, {"uri": f"{NOWHERE},{NOWHERE}"}])
def test_our_scheme_fails_loudly_without_the_keyword(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Could not infer the catalog type"):
        load_catalog("lake", **properties)


def test_our_scheme_may_stand_before_each_server_and_before_none() -> None:
    for uri in ("thrift://a:1,thrift://b:2", "iceberg-hms+thrift://a:1,iceberg-hms+thrift://b:2"):
        assert settings_of({"uri": uri}).metastore_uris == ("thrift://a:1", "thrift://b:2")


def test_a_property_of_ours_is_a_setting_and_an_unknown_one_an_error() -> None:
    assert settings_of({**URI, "iceberg-hms.commit.retry.num-retries": "7"}).commit_retry_num_retries == 7
    with pytest.raises(ConfigError, match="did you mean `lock`"):
        settings_of({**URI, "iceberg-hms.lokc": "hms"})
    with pytest.raises(ConfigError, match="no metastore is named"):
        HmsCatalog("lake")


def test_a_toml_file_counts_less_than_properties(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text('lock = "none"\nclients = 7\n', encoding="utf-8")
    settings = settings_of({**URI, "iceberg-hms.config-file": str(path), "iceberg-hms.clients": "3"})
    assert (settings.lock, settings.clients) == ("none", 3)


def test_the_environment_of_ours_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_HMS_S3_ENDPOINT", "http://minio:9000")
    settings = settings_of(URI)
    assert file_io_properties(settings) == {"s3.endpoint": "http://minio:9000"}


def test_the_user_is_that_of_ugi() -> None:
    assert settings_of({**URI, "ugi": "ada:people"}).user == "ada"


def test_what_pyiceberg_says_of_stores_the_coordinator_does() -> None:
    settings = settings_of(
        {
            **URI,
            **KEYS,
            "s3.endpoint": "http://minio:9000",
            "s3.session-token": "the-token",
            "s3.anonymous": "False",
            "s3.connect-timeout": "60.0",
            "s3.request-timeout": "30",
            "client.region": "eu-west-1",
            "client.role-arn": "the-role",
            "hdfs.host": "nn",
            "hdfs.port": "9000",
            "hdfs.user": "ada",
            "s3.force-virtual-addressing": "True",
        }
    )
    assert (settings.s3_access_key_id, settings.s3_secret_access_key) == ("the-key", "the-secret")
    assert (settings.s3_endpoint, settings.s3_session_token, settings.s3_anonymous) == (
        "http://minio:9000",
        "the-token",
        False,
    )
    assert (settings.s3_connect_timeout, settings.s3_request_timeout) == (60, 30)
    assert (settings.s3_region, settings.s3_role_arn) == ("eu-west-1", "the-role")
    assert (settings.hdfs_host, settings.hdfs_port, settings.hdfs_user) == ("nn", 9000, "ada")
    assert settings.s3_uses_path_style is False


def test_what_is_said_of_s3_counts_more_than_what_is_said_of_all_of_aws() -> None:
    settings = settings_of({**URI, "client.region": "everywhere", "s3.region": "here", "iceberg-hms.s3.region": "ours"})
    assert settings.s3_region == "ours"
    assert settings_of({**URI, "client.region": "everywhere", "s3.region": "here"}).s3_region == "here"


def test_both_reach_the_stores_in_the_same_way() -> None:
    """What the coordinator learns elsewhere, PyIceberg's FileIO gets in its own words."""
    settings = Settings.load(
        {
            "s3_endpoint": "http://minio:9000",
            "s3_region": "eu-west-1",
            "s3_access_key_id": "the-key",
            "s3_secret_access_key": "the-secret",
            "s3_path_style_access": "false",
            "s3_anonymous": True,
            "hdfs_port": 9000,
            "lock": "none",
        },
        environ={},
    )
    found = file_io_properties(settings)
    assert found.pop("s3.path-style-access") == "false"
    assert found == {
        "s3.endpoint": "http://minio:9000",
        "s3.region": "eu-west-1",
        "s3.access-key-id": "the-key",
        "s3.secret-access-key": "the-secret",
        "s3.anonymous": "True",
        "s3.force-virtual-addressing": "true",
        "hdfs.port": "9000",
    }
    assert settings_of({**URI, **found}).s3_endpoint == settings.s3_endpoint
    assert file_io_properties(Settings.load({}, environ={})) == {}


@pytest.mark.parametrize(
    "name",
    [
        "s3.profile-name",
        "client.profile-name",
        "s3.proxy-uri",
        "s3.signer",
        "s3.server-side-encryption",
        "s3.sse-kms-key-id",
        "hdfs.kerberos_ticket",
        "hive.kerberos-authentication",
    ],
)
def test_what_the_coordinator_cannot_do_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"`{name}`") as refused:
        settings_of({**URI, name: "a-value"})
    assert "a-value" not in str(refused.value)
    assert settings_of({**URI, name: "false"}) == settings_of(URI)


@pytest.mark.parametrize(
    "name",
    sorted(
        value
        for constant, value in vars(io).items()
        if constant.isupper() and isinstance(value, str) and value.startswith(("s3.", "hdfs.", "client."))
    ),
)
def test_each_property_for_stores_means_something_or_is_refused(name: str) -> None:
    """A release that adds one fails here."""
    value = "7" if name.endswith(("timeout", "port")) else "true"
    try:
        means_nothing = settings_of({**URI, name: value}) == settings_of(URI)
    except ConfigError:
        means_nothing = False
    assert means_nothing == (name in HARMLESS)


def test_no_secret_is_shown(home: Path) -> None:
    properties = {**KEYS, "s3.session-token": "the-token"}
    with HmsCatalog("lake", uri=NOWHERE, **properties) as catalog:
        shown = repr(catalog) + repr(catalog.hms.settings) + str(catalog.hms.settings.shown())
    with pytest.raises(ConfigError) as alone:
        settings_of({**URI, "s3.secret-access-key": "the-secret"})
    with pytest.raises(ConfigError) as misspelled:
        settings_of({**URI, "iceberg-hms.s3.secret-access-keys": "the-secret"})
    shown += str(alone.value) + str(misspelled.value)
    assert "the-secret" not in shown
    assert "the-token" not in shown
