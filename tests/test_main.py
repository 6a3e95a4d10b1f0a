from __future__ import annotations

import subprocess
import sys

import iceberg_hms


def test_python_runs_the_package_as_the_command_line() -> None:
    command = [sys.executable, "-m", "iceberg_hms", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout) == (0, f"iceberg-hms {iceberg_hms.__version__}\n")
