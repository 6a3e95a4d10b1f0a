from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from iceberg_hms.cli.main import app
from iceberg_hms.rest.access.tokens import parse_tokens, token_line
from tests.cli.fakes import run


def test_it_prints_the_line_on_stdout_and_the_token_on_stderr() -> None:
    result = run("token", "etl", "write[sales]", "read[*]", metastore=False)
    assert result.exit_code == 0, result.output
    token = result.stderr.strip().removeprefix("token: ")
    assert len(token) >= 43
    assert result.stdout == token_line("etl", "write[sales] read[*]", token) + "\n"
    assert token not in result.stdout
    assert parse_tokens(result.stdout, Path("tokens"))


def test_it_hashes_a_token_of_standard_input_and_does_not_repeat_it() -> None:
    given = "g" * 43
    result = CliRunner().invoke(app, ["token", "etl", "read[*]", "--from-stdin"], input=given + "\n")
    assert (result.exit_code, result.stdout) == (0, token_line("etl", "read[*]", given) + "\n")
    assert given not in result.output


@pytest.mark.parametrize("arguments", [("etl", "write"), ("e t l", "read[*]"), ("etl",), ("etl", "read[a.b]")])
def test_a_wrong_name_or_scope_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = run("token", *arguments, metastore=False)
    assert (result.exit_code, result.stdout) == (2, "")


def test_the_refusal_of_a_level_alone_shows_scopes() -> None:
    result = run("token", "adm", "admin", metastore=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "next: name the namespaces in brackets: read[*], write[sales marketing_*] or admin[dev]" in result.stderr


def test_the_help_shows_scopes_that_the_command_takes() -> None:
    shown = " ".join(run("token", "-h", metastore=False).stdout.replace("│", " ").split())
    assert "'read[*]', 'write[sales dev_*]' or 'admin[dev]'" in shown
    assert run("token", "adm", "read[*]", "write[sales dev_*]", "admin[dev]", metastore=False).exit_code == 0


def test_a_short_token_of_standard_input_is_refused() -> None:
    result = CliRunner().invoke(app, ["token", "etl", "read[*]", "--from-stdin"], input="short")
    assert (result.exit_code, result.stdout) == (2, "")
