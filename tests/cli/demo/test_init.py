"""The command `demo`: its folder, its log file, its errors and an interrupt."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from iceberg_hms.cli.demo.stage import Stage
from iceberg_hms.errors import EngineError
from tests.cli.fakes import run


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_folder_with_other_data_is_refused_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    done = run("demo", "--dir", str(tmp_path))
    assert done.exit_code == 2
    assert "is not empty" in done.output
    assert "name another with --dir" in done.output
    assert "Traceback" not in done.output


def test_the_scenes_run_in_the_folder_and_library_logs_go_to_a_file(tmp_path: Path) -> None:
    seen: list[Path] = []

    def play(stage: Stage) -> None:
        seen.append(stage.folder.path)
        logging.getLogger("a library").warning("a lot of noise")

    done = run("demo", "--dir", str(tmp_path / "a b"), play_scenes=play)
    assert done.exit_code == 0
    assert seen == [tmp_path / "a b"]
    assert "noise" not in done.output
    assert "a lot of noise" in (tmp_path / "a b" / "logs" / "demo.log").read_text()


@pytest.mark.parametrize(("interrupted", "code"), [(True, 130), (False, 1)])
def test_an_error_that_an_interrupt_caused_is_an_interrupt(tmp_path: Path, interrupted: bool, code: int) -> None:
    def play(stage: Stage) -> None:
        error = EngineError("broken in the middle of a call")
        # As py4j leaves it: the interrupt is the context alone.
        error.__context__ = KeyboardInterrupt() if interrupted else ValueError()
        raise error

    assert run("demo", "--dir", str(tmp_path), play_scenes=play).exit_code == code
