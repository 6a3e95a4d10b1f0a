"""How values for settings are read, converted and checked, shown on a few settings of the tests' own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from iceberg_hms import setting
from iceberg_hms.errors import ConfigError
from iceberg_hms.setting import Setting, Value


@dataclasses.dataclass
class Few:
    metastore_uri: str = setting.text("uri", "Servers.")
    warehouse: str = setting.text("warehouse", "Root.")
    lock: str = setting.text("lock", "Which.", "hms", ("hms", "none"))
    clients: int = setting.number("clients", 2, 1, 1_024, "Connections.")
    io_threads: int = setting.number("io.threads", 16, 1, 64, "Threads.")
    num_retries: int = setting.number("commit.retry.num-retries", 4, 0, 9, "Replays.")
    list_all: bool = setting.flag("list-all-tables", "All.")
    user: str = setting.found_text("user", lambda: "ada", "Who.")
    password: str = setting.secret("password", "Hush.")


FEW = setting.described(Few)


def toml(folder: Path, text: str) -> Path:
    path = folder / "with space" / "iceberg-hms.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def gathered(
    keywords: dict[str, object] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> dict[str, Value]:
    return setting.gathered(FEW, keywords or {}, environ or {}, file)


def test_a_field_describes_its_setting() -> None:
    assert FEW[2:4] == (
        Setting("lock", "lock", str, "hms", "Which.", choices=("hms", "none")),
        Setting("clients", "clients", int, 2, "Connections.", 1, 1_024),
    )
    assert [one.attribute for one in FEW] == [field.name for field in dataclasses.fields(Few)]
    assert (Few().user, FEW[-2].default) == ("ada", ""), "what is found out here is nobody else's default"


def test_the_variable_of_a_key_has_capitals_and_underscores_alone() -> None:
    assert setting.variable("commit.retry.num-retries") == "ICEBERG_HMS_COMMIT_RETRY_NUM_RETRIES"
    assert [one.variable for one in FEW[-3:-1]] == ["ICEBERG_HMS_LIST_ALL_TABLES", "ICEBERG_HMS_USER"]


def test_settings_without_a_value_are_left_out() -> None:
    assert gathered() == {}
    assert gathered({"warehouse": None, "clients": None}, {"ICEBERG_HMS_CLIENTS": "9"}) == {"clients": 9}


def test_keywords_win_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, "clients = 3\n[io]\nthreads = 3\n[commit.retry]\nnum-retries = 3\n")
    environ = {
        "ICEBERG_HMS_CONFIG": str(file),
        "ICEBERG_HMS_CLIENTS": "4",
        "ICEBERG_HMS_IO_THREADS": "4",
        "OTHER": "left alone",
    }
    assert gathered({"clients": 5}, environ) == {"clients": 5, "io_threads": 4, "num_retries": 3}


def test_a_given_file_wins_over_the_one_in_the_environment(tmp_path: Path) -> None:
    file = toml(tmp_path, "clients = 7")
    assert gathered({}, {"ICEBERG_HMS_CONFIG": "/nowhere.toml"}, file) == {"clients": 7}


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("clients", " +12 ", 12),
        ("clients", 12, 12),
        ("list-all-tables", " True", True),
        ("list_all", "FALSE", False),
        ("list_all", True, True),
        ("warehouse", " file:/a b ", "file:/a b"),
        ("ICEBERG_HMS_LIST_ALL", "true", True),
    ],
)
def test_text_is_converted_to_the_settings_type(key: str, value: object, taken: Value) -> None:
    by_variable = key.startswith("ICEBERG_HMS_")
    values = gathered({}, {key: str(value)}) if by_variable else gathered({key: value})
    assert list(values.values()) == [taken]
    assert type(next(iter(values.values()))) is type(taken)


@pytest.mark.parametrize(
    ("keywords", "environ", "text", "named", "nearest"),
    [
        ({"comit.retry.num-retries": 1}, {}, "", "comit.retry.num-retries", "commit.retry.num-retries"),
        ({"metastore_url": "x"}, {}, "", "metastore_url", "metastore_uri"),
        ({"": 1}, {}, "", "``", "did you mean"),
        ({}, {"ICEBERG_HMS_WAREHAUS": "x"}, "", "ICEBERG_HMS_WAREHAUS", "ICEBERG_HMS_WAREHOUSE"),
        ({}, {}, "[commit.retry]\nnum-retry = 1", "commit.retry.num-retry", "commit.retry.num-retries"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(
    keywords: dict[str, object], environ: dict[str, str], text: str, named: str, nearest: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is not a setting") as caught:
        gathered(keywords, environ, toml(tmp_path, text))
    assert named in caught.value.message
    assert nearest in caught.value.next_step


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clients", "many"),
        ("clients", ""),
        ("clients", "2.0"),
        ("clients", 2.0),
        ("clients", True),
        ("clients", "0x10"),
        ("clients", "1_0"),
        ("clients", "٣"),
        ("clients", "9" * 5_000),
        ("clients", [2]),
        ("clients", 0),
        ("clients", "1025"),
        ("list-all-tables", "yes"),
        ("list-all-tables", 1),
        ("warehouse", 3),
        ("warehouse", ["file:/a"]),
        ("lock", "HMS"),
        ("lock", "redis"),
    ],
)
def test_a_malformed_value_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        gathered({key: value})
    assert f"`{key}`" in caught.value.message


@pytest.mark.parametrize(("value", "wrong"), [("2", "type"), (True, "type"), (0, "between 1 and 1024")])
def test_values_of_direct_construction_are_checked_too(value: object, wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"`it` is .* not .*{wrong}"):
        setting.check(FEW[3], value, "`it`")
    setting.check(FEW[3], 1_024, "`it`")


def test_a_setting_that_is_given_twice_in_one_source_is_refused() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        gathered({"uri": "thrift://a:1", "metastore_uri": "thrift://b:1"})


def test_a_file_that_is_missing_or_no_toml_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        gathered(file=tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match="is not TOML"):
        gathered(file=toml(tmp_path, "clients = "))
    broken = tmp_path / "latin.toml"
    broken.write_bytes(b'warehouse = "\xff"')
    with pytest.raises(ConfigError, match="is not TOML"):
        gathered(file=broken)


@pytest.mark.parametrize("uri", ["thrift://h:1", "thrift://[::1]:9083/"])
def test_a_metastore_is_named_by_scheme_host_and_port(uri: str) -> None:
    setting.check_metastore(uri)


@pytest.mark.parametrize("uri", ["", "h:9083", "http://h:9083", "thrift://h", "thrift://h:99999", "thrift://h:1/x"])
def test_other_metastore_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="thrift://host:port"):
        setting.check_metastore(uri)


@pytest.mark.parametrize("value", [["hush"], b"hush", {"hush": 1}])
def test_no_error_quotes_a_secret(value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`password` is a secret, which is not text") as caught:
        gathered({"password": value})
    assert "hush" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        gathered(file=toml(tmp_path, 'password = ["hush"]'))
    assert "hush" not in str(caught.value)
    with pytest.raises(ConfigError, match="is a secret, which is not of type str") as caught:
        setting.check(FEW[-1], value, "`it`")
    assert "hush" not in str(caught.value)


def test_a_secret_is_not_printed_with_its_group() -> None:
    assert FEW[-1].is_secret
    assert "hush" not in repr(Few(password="hush"))
