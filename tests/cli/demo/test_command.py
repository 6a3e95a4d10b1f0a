"""The command: its options, its errors, and what an interrupt looks like from inside."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from iceberg_hms.cli.demo import command
from iceberg_hms.cli.main import app
from iceberg_hms.errors import EngineError


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_somebody_elses_folder_is_refused_in_two_lines(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    done = CliRunner().invoke(app, ["demo", "--dir", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty" in done.output
    assert "name another with --dir" in done.output
    assert "Traceback" not in done.output


def test_the_scenes_run_in_the_folder_and_the_noise_goes_to_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def run(stage: command.Stage) -> None:
        seen.append(stage.folder.path)
        logging.getLogger("a library").warning("a lot of noise")

    monkeypatch.setattr(command, "run", run)
    done = CliRunner().invoke(app, ["demo", "--dir", str(tmp_path / "a b")])
    assert done.exit_code == 0
    assert seen == [tmp_path / "a b"]
    assert "noise" not in done.output
    assert "a lot of noise" in (tmp_path / "a b" / "logs" / "demo.log").read_text()


@pytest.mark.parametrize(("interrupted", "code"), [(True, 130), (False, 1)])
def test_an_error_that_an_interrupt_caused_is_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: bool, code: int
) -> None:
    def run(stage: command.Stage) -> None:
        error = EngineError("broken in the middle of a call")
        # As py4j leaves it: what came first is the context alone.
        error.__context__ = KeyboardInterrupt() if interrupted else ValueError()
        raise error

    monkeypatch.setattr(command, "run", run)
    done = CliRunner().invoke(app, ["demo", "--dir", str(tmp_path)])
    assert done.exit_code == code
