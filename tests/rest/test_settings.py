"""The server's settings, and that they come from the same sources as the library's. tests/test_config.py tries each."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.settings import RestSettings, load
from iceberg_hms.setting import Setting, described, is_of_server
from tests.test_setting import toml


def loaded(keywords: dict[str, object]) -> RestSettings:
    _, server = load(keywords, environ={})
    return server


def test_names_tell_whose_a_setting_is() -> None:
    for group, of_server in ((Settings, False), (RestSettings, True)):
        for one in described(group):
            assert {is_of_server(name) for name in (one.key, one.attribute, one.variable)} == {of_server}, one.key


def test_one_source_has_both_kinds(tmp_path: Path) -> None:
    file = toml(tmp_path, "clients = 3\nrest.port = 9000\nrest.threads = 9")
    environ = {"ICEBERG_HMS_REST_THREADS": "5", "ICEBERG_HMS_IO_THREADS": "4"}
    library, server = load({"rest_purge": "keep", "warehouse": "file:/w"}, environ=environ, file=file)
    assert (library.clients, library.io_threads, library.warehouse) == (3, 4, "file:/w")
    assert (server.rest_port, server.rest_threads, server.rest_purge) == (9000, 5, "keep")


@pytest.mark.parametrize(
    ("keywords", "environ", "text", "nearest"),
    [
        ({"rest.prot": 1}, {}, "", "rest.port"),
        ({"rset.port": 1}, {}, "", "rest.port"),
        ({"clents": 1}, {}, "", "clients"),
        ({}, {"ICEBERG_HMS_REST_PROT": "1"}, "", "ICEBERG_HMS_REST_PORT"),
        ({}, {}, "[rest]\nprot = 1", "rest.port"),
    ],
)
def test_a_name_of_neither_kind_is_refused_with_the_nearest_of_both(
    keywords: dict[str, object], environ: dict[str, str], text: str, nearest: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is not a setting") as caught:
        load(keywords, environ=environ, file=toml(tmp_path, text))
    assert f"did you mean `{nearest}`" in caught.value.next_step


@pytest.mark.parametrize("text", [None, "", "k" * 31 + "\n"])
def test_a_key_that_is_no_secret_is_refused(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "key").write_text(text)
    settings = RestSettings(rest_signing_key_file=str(tmp_path / "key"))
    with pytest.raises(ConfigError, match=r"rest\.signing-key-file"):
        settings.signing_key()


def test_the_key_is_what_the_file_has_without_blanks(tmp_path: Path) -> None:
    assert RestSettings().signing_key() is None
    (tmp_path / "key").write_text("k" * 32 + "\n")
    assert RestSettings(rest_signing_key_file=str(tmp_path / "key")).signing_key() == b"k" * 32


PROPERTIES = [setting for setting in described(RestSettings) if setting.is_properties]


@pytest.mark.parametrize("setting", PROPERTIES, ids=lambda setting: setting.key)
def test_properties_for_clients_are_never_printed(setting: Setting) -> None:
    settings = loaded({setting.key: "s3.secret-access-key=hush, s3.region = here"})
    assert settings.as_dict()[setting.key] == "s3.secret-access-key=hush, s3.region = here"
    assert settings.shown()[setting.key] == "s3.secret-access-key=...,s3.region=..."
    assert "hush" not in repr(settings)
    for wrong in (
        "a=1,hush",
        "a=1,a=hush",
        "a b=hush",
        "=hush",
        "a=hush\x00",
        "a=" + "hush" * 600,
        "x" * 200 + "=hush",
    ):
        with pytest.raises(ConfigError) as caught:
            loaded({setting.key: wrong})
        assert "hush" not in str(caught.value)
        assert setting.key in str(caught.value)
    with pytest.raises(ConfigError, match="more than 64"):
        loaded({setting.key: ",".join(f"p{number}=1" for number in range(65))})


def test_pairs_are_separated_by_commas_or_by_lines_which_may_have_commas() -> None:
    assert loaded({"rest.table-config": "a=1, b=2=3,"}).table_config == {"a": "1", "b": "2=3"}
    assert loaded({"rest.table-config": "a=1,2\n\n b = 3\n"}).table_config == {"a": "1,2", "b": "3"}
    assert RestSettings().table_config == {}


@pytest.mark.parametrize("setting", PROPERTIES, ids=lambda setting: setting.key)
@pytest.mark.parametrize("pair", ["prefix=x", "namespace-separator=."])
def test_a_property_that_the_server_decides_cannot_be_set(setting: Setting, pair: str) -> None:
    with pytest.raises(ConfigError, match="the server"):
        loaded({setting.key: pair})


@pytest.mark.parametrize("setting", PROPERTIES, ids=lambda setting: setting.key)
def test_clients_are_sent_to_a_server_for_plans_only_if_it_plans(setting: Setting) -> None:
    loaded({setting.key: "scan-planning-mode=server"})
    with pytest.raises(ConfigError, match="plans no scans"):
        loaded({setting.key: "scan-planning-mode=server", "rest.scan-planning": "off"})
    loaded({setting.key: "scan-planning-mode=client", "rest.scan-planning": "off"})
