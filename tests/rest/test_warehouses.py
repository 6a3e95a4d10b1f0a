"""Sections of the configuration file, one for each further warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest import settings
from iceberg_hms.rest.settings import OF_ONE_WAREHOUSE, RestSettings, all_settings
from iceberg_hms.rest.warehouses import WAREHOUSES_MAX, load_warehouses, of_one_warehouse
from tests.test_setting import toml

FILE = """
uri = "thrift://a:9083"
warehouse = "file:/a"
clients = 3
rest.port = 9000
rest.purge = "keep"

[warehouses.sales]
uri = "thrift://b:9083"
warehouse = "file:/b"
lock = "zookeeper"
zookeeper.hosts = "z:2181"
rest.allowed-locations = "file:/more"

[warehouses.lab.rest]
purge = "refuse"
"""


def load(folder: Path, text: str, **environ: str) -> dict[str, tuple[Settings, RestSettings]]:
    file = toml(folder, text)
    return load_warehouses(settings.load({}, environ=environ, file=file), environ=environ, file=file)


def test_a_section_inherits_the_top_level_and_wins_over_it(tmp_path: Path) -> None:
    found = load(tmp_path, FILE)
    assert list(found) == ["sales", "lab"]
    (sales, sales_server), (lab, lab_server) = found["sales"], found["lab"]
    assert (sales.metastore_uri, sales.warehouse, sales.clients) == ("thrift://b:9083", "file:/b", 3)
    assert (sales.lock, sales.zookeeper, sales_server.rest_purge) == ("zookeeper", "z:2181", "keep")
    assert (sales_server.rest_allowed_locations, sales_server.rest_port) == ("file:/more", 9000)
    assert (lab.metastore_uri, lab.lock, lab_server.rest_purge) == ("thrift://a:9083", "hms", "refuse")


def test_the_environment_is_for_the_default_warehouse_and_inherited(tmp_path: Path) -> None:
    found = load(tmp_path, FILE, ICEBERG_HMS_CLIENTS="7", ICEBERG_HMS_URI="thrift://c:9083")
    assert (found["sales"][0].clients, found["sales"][0].metastore_uri) == (7, "thrift://b:9083")
    assert found["lab"][0].metastore_uri == "thrift://c:9083"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    environ = {"ICEBERG_HMS_CONFIG": str(toml(tmp_path, FILE))}
    assert list(load_warehouses(settings.load({}, environ=environ), environ=environ)) == ["sales", "lab"]
    assert load_warehouses((Settings(), RestSettings()), environ={}) == {}
    assert load_warehouses((Settings(), RestSettings()), environ={}, file=toml(tmp_path, "")) == {}


def test_sections_are_nothing_to_who_wants_the_default_warehouse(tmp_path: Path) -> None:
    assert Settings.load({}, environ={}, file=toml(tmp_path, FILE)).metastore_uri == "thrift://a:9083"


@pytest.mark.parametrize(
    "name", ["default", "namespaces", "config", "A", "a b", "a/b", "a.b", "..", "%2e", "*", "x" * 64]
)
def test_a_name_that_no_path_or_scope_can_carry_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        load(tmp_path, f'[warehouses."{name}"]')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("warehouses = 5", "something else than sections"),
        ("[warehouses]\na = 1", "something else than sections"),
        ('[warehouses.a]\nuri = "h:1"', "warehouse 'a'.*thrift://host:port"),
        ("[warehouses.a]\nclients = 0", "warehouse 'a'.*is not between"),
        ("[warehouses.a]\nclents = 1", "warehouse 'a'.*is not a setting"),
        ('[warehouses.a]\nlock = "zookeeper"', r"warehouse 'a'.*zookeeper\.hosts"),
    ],
)
def test_a_mistake_in_a_section_names_the_warehouse(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, text)


def test_a_setting_that_the_server_has_only_once_is_refused(tmp_path: Path) -> None:
    assert {each.key for each in all_settings()} >= OF_ONE_WAREHOUSE
    for setting in (each for each in all_settings() if not of_one_warehouse(each)):
        value = {int: str(setting.high), bool: "true"}.get(setting.type, f'"{(setting.choices or ("x",))[-1]}"')
        with pytest.raises(ConfigError, match="only once"):
            load(tmp_path, f'[warehouses.a]\n"{setting.key}" = {value}')


def test_the_number_of_warehouses_is_bounded(tmp_path: Path) -> None:
    names = [f"[warehouses.w{number}]" for number in range(WAREHOUSES_MAX)]
    assert len(load(tmp_path, "\n".join(names[1:]))) == WAREHOUSES_MAX - 1
    with pytest.raises(ConfigError, match="more than"):
        load(tmp_path, "\n".join(names))
