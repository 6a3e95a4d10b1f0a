"""The program as a whole: commands, errors, versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text
from typer.main import get_command

import iceberg_hms
from iceberg_hms.cli.common import ExitCode
from iceberg_hms.cli.main import app
from iceberg_hms.errors import CommitStateUnknown, MetastoreUnavailable
from tests.cli.fakes import MemoryCatalog, run
from tests.inspect import samples

COMMANDS = ("local", "serve", "tables", "inspect", "history", "locks", "spark-conf", "doctor", "demo", "token")


def test_help_names_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f" {command} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = run(command, "-h")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_brackets_that_its_source_has(command: str) -> None:
    found = get_command(app).commands[command]
    helps = [parameter.help for parameter in found.params if getattr(parameter, "help", None)]
    assert [Text.from_markup(text).plain for text in helps] == [text.replace("\\[", "[") for text in helps]


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"iceberg-hms {iceberg_hms.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("tables", "--nonsense"),
        ("history",),
        ("inspect", "a.b", "--part", "nonsense"),
        ("inspect", "a.b", "--snapshot", "x"),
        ("local", "--metastore-port", "70000"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_no_trace(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            MetastoreUnavailable("No metastore answers at thrift://h:1"),
            3,
            "error: No metastore answers at thrift://h:1\nnext: ",
        ),
        (CommitStateUnknown("no answer"), 4, "error: no answer\nnext: delete nothing"),
        (
            ZeroDivisionError("division by zero"),
            1,
            "error: unexpected ZeroDivisionError: division by zero\nnext: run it",
        ),
    ],
)
def test_no_error_leaves_as_a_trace(error: Exception, code: int, said: str) -> None:
    result = run("history", "logging.events", catalog=MemoryCatalog(broken={samples.NAME: error}))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == 2


def test_debug_shows_the_trace_before_the_error() -> None:
    catalog = MemoryCatalog(broken={samples.NAME: ZeroDivisionError("division by zero")})
    result = run("--debug", "history", "logging.events", catalog=catalog)
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "error: unexpected ZeroDivisionError" in result.stderr


def test_an_interrupt_is_exit_code_130() -> None:
    result = run("history", "logging.events", catalog=InterruptedCatalog())
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


class InterruptedCatalog(MemoryCatalog):
    def load(self, identifier: object) -> None:  # type: ignore[override]
        raise KeyboardInterrupt


def test_the_catalog_is_closed_after_success_and_after_failure() -> None:
    catalog = MemoryCatalog(broken={samples.NAME: MetastoreUnavailable("down")})
    run("tables", catalog=catalog)
    run("history", "logging.events", catalog=catalog)
    assert catalog.closed == 2


def python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ICEBERG_HMS_")}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60, env=clean | environ
    )


def test_the_program_itself_ends_with_the_exit_code_and_two_lines() -> None:
    result = python("-c", "from iceberg_hms.cli.main import run; run()", "tables", ICEBERG_HMS_CLIENTS="many")
    assert result.returncode == 2
    assert result.stderr.splitlines()[0].startswith("error: `ICEBERG_HMS_CLIENTS` in the environment is 'many'")
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error", "next"]


def test_help_starts_without_any_heavy_library() -> None:
    heavy = "{'pyspark', 'py4j', 'pyarrow', 'thrift', 'starlette', 'uvicorn', 'kazoo', 'pyiceberg'}"
    result = python("-c", f"import sys, iceberg_hms.cli.main; print(sorted({heavy} & set(sys.modules)))")
    assert result.stdout.strip() == "[]", result.stderr


def test_the_commands_and_exit_codes_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"| `{command}` |" in text
    for code in ExitCode:
        assert f"\n| {code.value} |" in text
