"""Scene 1 keeps the noise of what it starts off the screen, and ends a session that cannot end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iceberg_hms.cli.demo import servers


def test_what_starts_meanwhile_writes_its_errors_into_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a b.log"
    say = "import sys; sys.stderr.write('noise')"
    with servers._standard_error_to(log):
        subprocess.run([sys.executable, "-c", say], check=True)
    os.write(2, b"after")
    assert log.read_text() == "noise"
    assert capfd.readouterr().err == "after"


def test_standard_error_comes_back_after_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), servers._standard_error_to(tmp_path / "log"):
        raise ValueError
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_a_session_that_does_not_stop_does_not_stop_the_clean_up(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def stop(self) -> None:
            raise OSError("half-read connection")

    servers._stop_quietly(Broken())
    assert "did not stop in order" in caplog.text


def test_the_demo_listens_on_loopback_alone() -> None:
    assert servers._OF_THE_DEMO["spark.driver.bindAddress"] == "127.0.0.1"
    assert servers._OF_THE_DEMO["spark.ui.enabled"] == "false"
