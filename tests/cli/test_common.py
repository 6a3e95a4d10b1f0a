"""Options, exit codes, and how commands print errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from iceberg_hms import errors
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.cli import common
from iceberg_hms.cli.common import ExitCode
from iceberg_hms.config import Settings
from iceberg_hms.errors import CommitStateUnknown, ConfigError, EngineError, IcebergHmsError
from tests.cli.fakes import METASTORE, Asked, run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NoSuchTable("a.b"), 1),
        (errors.NotAnIcebergTable("a.b", "a view"), 1),
        (errors.CorruptFile("f", "short"), 1),
        (errors.AccessDenied("no"), 1),
        (errors.UnsupportedFormat("v4"), 1),
        (errors.EngineError("no java"), 1),
        (errors.ConfigError("bad"), 2),
        (errors.InvalidInput("bad"), 2),
        (errors.MetastoreUnavailable("down"), 3),
        (errors.CommitStateUnknown("lost"), 4),
    ],
)
def test_the_exit_code_tells_what_went_wrong(error: IcebergHmsError, code: int) -> None:
    assert common.exit_code_of(error) == code


def test_the_exit_codes_are_these() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "METASTORE_UNREACHABLE": 3,
        "UNKNOWN_OUTCOME": 4,
        "INTERRUPTED": 130,
    }


def test_an_error_is_one_line_and_the_next_step_another(capsys: pytest.CaptureFixture[str]) -> None:
    common.tell_error(IcebergHmsError("it\nbroke \x1b[2J", next_step="look\there"))
    assert capsys.readouterr() == ("", "error: it broke  [2J\nnext: look here\n")
    common.tell_error(IcebergHmsError("it broke"))
    assert capsys.readouterr().err == "error: it broke\n"


def test_options_win_over_the_file_and_set_takes_any_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICEBERG_HMS_URI", raising=False)
    file = tmp_path / "a b.toml"
    file.write_text(f'uri = "{METASTORE}"\nclients = 3\n[io]\nthreads = 3\n')
    settings = common.load_settings(file, ["clients=5", "warehouse = file:/a=b"], metastore_uri=None, io_threads=4)
    assert (settings.metastore_uri, settings.clients, settings.io_threads) == (METASTORE, 5, 4)
    assert settings.warehouse == "file:/a=b"


@pytest.mark.parametrize("wrong", [["clients"], ["clients=1", "clients=2"], ["nonsense=1"], ["clients=many"]])
def test_a_wrong_set_is_refused(wrong: list[str]) -> None:
    with pytest.raises(ConfigError):
        common.load_settings(None, wrong)


def test_a_setting_that_is_given_by_option_and_by_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        common.load_settings(None, ["uri=thrift://b:1"], metastore_uri=METASTORE)


def test_a_missing_extra_is_named_with_what_to_install() -> None:
    common.require_extra("server", "sys")
    with pytest.raises(EngineError, match=r"no_such_module is not installed.*pip install 'iceberg-hms\[server\]'"):
        common.require_extra("server", "sys", "no_such_module")


def test_a_command_without_a_metastore_says_how_to_name_one() -> None:
    result = run("tables", metastore=False)
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("error: no metastore is named\nnext: give --metastore-uri")


def test_the_options_reach_the_catalog() -> None:
    asked = Asked()
    assert run("tables", "--metastore-uri", "thrift://h:1", "--set", "clients=7", asked=asked).exit_code == 0
    assert [(each.metastore_uri, each.clients) for each in asked.settings] == [("thrift://h:1", 7)]


def test_a_context_without_an_environment_opens_real_catalogs() -> None:
    command = typer.main.get_command(typer.Typer(callback=lambda: None))
    context = typer.Context(command)
    with common.environment(context).connect(Settings(metastore_uri=METASTORE, clients=7)) as catalog:
        assert isinstance(catalog, Catalog)
        assert catalog.settings.clients == 7


def test_only_a_keyboard_interrupt_is_one() -> None:
    error = ValueError()
    error.__cause__ = OSError()
    error.__cause__.__context__ = error
    assert not common.interrupted(error)
    error.__cause__.__context__ = KeyboardInterrupt()
    assert common.interrupted(error)
    unknown = CommitStateUnknown("perhaps")
    unknown.__cause__ = KeyboardInterrupt()
    assert not common.interrupted(unknown), "the user must hear of it"


@pytest.mark.parametrize("name", ["s3.secret-access-key", "s3_secret_access_key", " s3.session-token "])
def test_a_secret_is_refused_on_the_command_line_which_all_users_can_read(name: str) -> None:
    with pytest.raises(ConfigError, match="can read its command lines") as caught:
        common.load_settings(None, [f"{name}=hush"])
    assert "hush" not in str(caught.value)
    assert "ICEBERG_HMS_S3_SE" in caught.value.next_step
