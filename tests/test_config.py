"""Settings, the library's and the server's: names, defaults, bounds, what must agree with each other, and that every
source takes each of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.settings import RestSettings, all_settings
from iceberg_hms.rest.settings import load as load_all
from iceberg_hms.setting import (
    CONFIG_FILE_VARIABLE,
    Setting,
    SettingsGroup,
    described,
    is_of_server,
    variable,
)
from tests.test_setting import toml

DOCUMENT = Path(__file__).parents[1] / "docs" / "configuration.md"

# As Java's MetastoreLock, HiveOperationsBase, HiveTableOperations, TableProperties and CatalogProperties have them.
JAVA_DEFAULTS = {
    "clients": 2,
    "list-all-tables": False,
    "unique-table-location": False,
    "iceberg.hive.lock-creation-timeout-ms": 180_000,
    "iceberg.hive.lock-creation-min-wait-ms": 50,
    "iceberg.hive.lock-creation-max-wait-ms": 5_000,
    "iceberg.hive.lock-check-min-wait-ms": 50,
    "iceberg.hive.lock-check-max-wait-ms": 500,
    "iceberg.hive.lock-heartbeat-interval-ms": 240_000,
    "iceberg.hive.table-property-max-size": 32_672,
    "iceberg.hive.metadata-refresh-max-retries": 2,
    "commit.retry.num-retries": 4,
    "commit.retry.min-wait-ms": 100,
    "commit.retry.max-wait-ms": 60_000,
    "commit.retry.total-timeout-ms": 1_800_000,
    "commit.status-check.num-retries": 3,
    "commit.status-check.min-wait-ms": 1_000,
    "commit.status-check.max-wait-ms": 60_000,
    "commit.status-check.total-timeout-ms": 1_800_000,
}

ALL = all_settings()
NUMBERS = [setting for setting in ALL if setting.type is int]


def load(
    keywords: dict[str, object] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> Settings:
    return Settings.load(keywords or {}, environ=environ or {}, file=file)


def group_of(setting: Setting) -> type[SettingsGroup]:
    return RestSettings if is_of_server(setting.key) else Settings


def value_of(
    setting: Setting, keywords: dict[str, object], environ: dict[str, str] | None = None, file: Path | None = None
) -> object:
    groups = load_all(keywords, environ=environ or {}, file=file)
    return next(getattr(each, setting.attribute) for each in groups if isinstance(each, group_of(setting)))


def test_settings_that_java_has_keep_its_names_and_defaults() -> None:
    assert {key: value for key, value in Settings().as_dict().items() if key in JAVA_DEFAULTS} == JAVA_DEFAULTS


@pytest.mark.parametrize(
    ("given", "lease_ms", "lock_seconds", "commit_seconds"),
    [
        (None, 300_000, 180, 310),
        (None, 60_000, 180, 180),
        (0, 300_000, 180, 310),
        (5_000, 300_000, 5, 5),
        (180_000, 300_000, 180, 180),
        (900_000, 300_000, 900, 900),
    ],
)
def test_a_given_lock_timeout_holds_and_the_default_outlives_a_lease(
    given: int | None, lease_ms: int, lock_seconds: float, commit_seconds: float
) -> None:
    settings = load({"iceberg.hive.lock-timeout-ms": given, "lock.lease-default-ms": lease_ms})
    assert (settings.lock_timeout_seconds, settings.commit_wait_seconds) == (lock_seconds, commit_seconds)


def test_every_field_is_described_and_no_key_or_variable_means_two_settings() -> None:
    fields = (*dataclasses.fields(Settings), *dataclasses.fields(RestSettings))
    assert [setting.attribute for setting in ALL] == [field.name for field in fields]
    for setting in ALL:
        assert setting.doc.endswith("."), setting.key
    names = [name for setting in ALL for name in {setting.key, setting.attribute}]
    assert len(names) == len(set(names))
    variables = {(variable(name), setting.key) for setting in ALL for name in (setting.key, setting.attribute)}
    assert len({variable for variable, _ in variables}) == len(variables)
    assert CONFIG_FILE_VARIABLE not in {variable for variable, _ in variables}


def test_every_number_has_bounds_and_its_default_is_within() -> None:
    for setting in NUMBERS:
        assert setting.low < setting.high, setting.key
        assert setting.low <= int(setting.default) <= setting.high, setting.key


#: Neither works without the other.
_PAIR = {"s3_access_key_id", "s3_secret_access_key"}


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.key)
def test_a_number_out_of_its_bounds_is_refused_from_every_source(setting: Setting, tmp_path: Path) -> None:
    for value in (setting.low - 1, setting.high + 1):
        file = toml(tmp_path, f'"{setting.key}" = {value}')
        for attempt in (
            lambda value=value: value_of(setting, {setting.key: value}),
            lambda value=value: value_of(setting, {}, {setting.variable: str(value)}),
            lambda file=file: value_of(setting, {}, file=file),
            lambda value=value: group_of(setting)(**{setting.attribute: value}),
        ):
            with pytest.raises(ConfigError, match="is not between") as caught:
                attempt()
            assert str(value) in str(caught.value)


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.key)
def test_every_setting_can_be_given_by_key_attribute_variable_and_file(setting: Setting, tmp_path: Path) -> None:
    value: object
    if setting.choices:
        value = setting.choices[-1]
    elif setting.is_properties:
        value = "s3.region=here,a=b"
    elif setting.attribute == "metastore_uri":
        value = "thrift://h:9083"
    else:
        value = {int: setting.high, bool: not setting.default, str: "some text"}[setting.type]
    base: dict[str, object] = {}
    if setting.attribute.endswith("_min_wait_ms"):
        base[setting.attribute.replace("min", "max")] = setting.high
    if setting.attribute in _PAIR:
        base = dict.fromkeys(_PAIR - {setting.attribute}, "the other")
    written = f'"{value}"' if setting.type is str else str(value).lower()
    by_file = toml(tmp_path, f"{setting.key} = {written}")
    taken = [
        value_of(setting, {**base, setting.key: value}),
        value_of(setting, {**base, setting.attribute: value}),
        value_of(setting, {**base, setting.key: str(value)}),
        value_of(setting, base, {setting.variable: str(value)}),
        value_of(setting, base, file=by_file),
    ]
    assert taken == [value] * len(taken)


def test_the_library_leaves_the_servers_settings_to_the_server(tmp_path: Path) -> None:
    file = toml(tmp_path, 'clients = 3\nrest_host = "h"\n[rest]\nport = 1\nbogus = "x"')
    environ = {"ICEBERG_HMS_REST_PORT": "many", "ICEBERG_HMS_IO_THREADS": "4"}
    found = load({}, environ, file)
    assert (found.clients, found.io_threads) == (3, 4)
    for name in ("rest.port", "rest_port", "rest.bogus"):
        with pytest.raises(ConfigError, match="not a setting of the library") as caught:
            load({name: 1})
        assert "server" in caught.value.next_step


@pytest.mark.parametrize(
    "uri", ["h:9083", "http://h:9083", "thrift://", "thrift://h", "thrift://h:99999", "thrift://h:x", "thrift://h:1,x"]
)
def test_a_malformed_metastore_uri_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="thrift://host:port"):
        load({"uri": uri})


def test_a_list_of_metastores_keeps_its_order() -> None:
    settings = load({"uri": "thrift://b:9083, thrift://a:9084,thrift://[::1]:9083"})
    assert settings.metastore_uris == ("thrift://b:9083", "thrift://a:9084", "thrift://[::1]:9083")
    assert Settings().metastore_uris == ()


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"is larger than `commit\.retry\.max-wait-ms`"):
        load({"commit.retry.min-wait-ms": 70_000})
    with pytest.raises(ConfigError, match=r"zookeeper\.hosts"):
        load({"lock": "zookeeper"})
    assert load({"lock": "zookeeper", "zookeeper": "z:2181"}).zookeeper == "z:2181"


def test_the_user_is_the_os_user_even_if_that_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    assert load().user
    monkeypatch.setattr("getpass.getuser", nobody)
    assert load().user.startswith("uid-")
    assert load({"user": "etl"}).user == "etl"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().clients = 3  # type: ignore[misc]


@given(
    st.dictionaries(
        st.sampled_from([s.key for s in ALL]) | st.text(max_size=20),
        st.text(max_size=12) | st.integers() | st.booleans(),
    )
)
def test_any_input_gives_valid_settings_or_a_config_error(keywords: dict[str, object]) -> None:
    try:
        groups = load_all(keywords, environ={})
    except ConfigError:
        return
    for group in groups:
        for setting in described(type(group)):
            if setting.type is int:
                assert setting.low <= getattr(group, setting.attribute) <= setting.high


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    for setting in ALL:
        default = (
            ""
            if setting.default == ""
            else f"`{str(setting.default).lower() if setting.type is bool else setting.default}`"
        )
        row = f"| `{setting.key}` | `{setting.attribute}` | {default} |"
        assert any(line.startswith(row) for line in lines), row
    rows = [line for line in lines if line.startswith("| `") and line.count("|") == 6]
    assert len(rows) == len(ALL), "a row of docs/configuration.md is not a setting"
