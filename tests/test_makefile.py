"""The Makefile's promises that need no network: help, clear words when Python or Java is missing, paths with spaces,
a quick second set-up, and one set of commands for make and tox."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: A Python that can make a .venv whose pip notes that it ran; nothing is installed.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install"*) echo "$*" >> installed.log ;;
  --version) echo "Python 3.11.0" ;;
esac
"""
OLD_PYTHON = "#!/bin/sh\nexit 1\n"
JAVA = """#!/bin/sh
echo "    java.specification.version = {version}" >&2
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of what set-up needs, under a path with a space, beside an empty `bin`."""
    folder = tmp_path / "my checkouts" / "iceberg hms"
    folder.mkdir(parents=True)
    for name in ("Makefile", "setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "conf" / "locks", folder / "conf" / "locks")
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "sed", "cat", "cp", "rm", "mkdir", "awk", "true", "printf", "make", "touch"):
        (tmp_path / "bin" / tool).symlink_to(found(tool))
    return folder


def found(tool: str) -> str:
    path = shutil.which(tool)
    assert path is not None, f"{tool} is needed by the Makefile"
    return path


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make(checkout: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run make with nothing on PATH but the checkout's own `bin`."""
    path = str(checkout.parent.parent / "bin")
    return subprocess.run(
        ["make", *arguments],
        cwd=checkout,
        env={"PATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_make_alone_lists_every_target_that_a_person_calls(checkout: Path) -> None:
    result = make(checkout)
    assert result.returncode == 0
    listed = re.findall(r"^  make ([a-z-]+)", result.stdout, re.MULTILINE)
    assert {"setup", "demo", "test", "test-all", "lint", "types", "layers", "format", "clean"} <= set(listed)


def test_a_missing_python_is_said_with_what_to_do(checkout: Path) -> None:
    program(checkout.parent.parent / "bin", "python3", OLD_PYTHON)
    result = make(checkout, "setup")
    assert result.returncode != 0
    assert "error: Python 3.11 or later, with venv, is needed" in result.stderr
    assert "next:  install it" in result.stderr


def test_a_named_python_is_taken_even_from_a_path_with_a_space(checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "my pythons", "python", FAKE_PYTHON)
    result = make(checkout, "setup", f"PYTHON={tmp_path}/my pythons/python")
    assert result.returncode == 0, result.stderr
    assert (checkout / ".venv" / ".stamp").read_text().strip() == str(checkout)


def test_the_second_set_up_installs_nothing_and_a_changed_setup_cfg_does(checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "python3.11", FAKE_PYTHON)
    log = checkout / "installed.log"
    assert make(checkout, "setup").returncode == 0
    once = len(log.read_text().splitlines())
    assert make(checkout, "setup").returncode == 0
    assert len(log.read_text().splitlines()) == once > 0
    later = (checkout / ".venv" / ".stamp").stat().st_mtime_ns + 2_000_000_000
    os.utime(checkout / "setup.cfg", ns=(later, later))
    assert make(checkout, "setup").returncode == 0
    assert len(log.read_text().splitlines()) == 2 * once


def test_a_copied_checkout_is_set_up_anew(checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "python3.11", FAKE_PYTHON)
    assert make(checkout, "setup").returncode == 0
    once = len((checkout / "installed.log").read_text().splitlines())
    copy = checkout.parent / "copy of it"
    shutil.copytree(checkout, copy)
    (copy / ".venv" / "old").touch()
    assert make(copy, "setup").returncode == 0
    assert len((copy / "installed.log").read_text().splitlines()) == 2 * once
    assert not (copy / ".venv" / "old").exists()


def test_a_failed_install_leaves_no_stamp(checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "python3.11", FAKE_PYTHON.replace('echo "$*" >> installed.log', "exit 1"))
    result = make(checkout, "setup")
    assert result.returncode != 0
    assert "error: the packages could not be installed" in result.stderr
    assert not (checkout / ".venv" / ".stamp").exists()


def test_a_missing_java_is_said_with_what_to_do(checkout: Path) -> None:
    result = make(checkout, "java")
    assert result.returncode != 0
    assert "error: Java 17 is needed, and 'java' does not run." in result.stderr
    assert "next:  install it" in result.stderr


@pytest.mark.parametrize(
    ("version", "accepted"), [("1.8", False), ("11", False), ("17", True), ("21", True), ("25", False)]
)
def test_java_17_to_21_is_accepted(checkout: Path, tmp_path: Path, version: str, accepted: bool) -> None:
    program(tmp_path / "bin", "java", JAVA.format(version=version))
    result = make(checkout, "java")
    assert (result.returncode == 0) is accepted
    if not accepted:
        assert f"'java' is Java {version.partition('.')[0]}" in result.stderr


def test_java_home_is_honoured_before_path(checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "java", JAVA.format(version="11"))
    program(tmp_path / "my jdk" / "bin", "java", JAVA.format(version="17"))
    assert make(checkout, "java").returncode != 0
    assert make(checkout, "java", JAVA_HOME=f"{tmp_path}/my jdk").returncode == 0


def commands(checkout: Path, target: str) -> set[str]:
    """The commands that a target runs once set-up is done, without make's own wrapping."""
    lines = make(checkout, "--dry-run", target).stdout.splitlines()
    return {re.sub(r"^(setpriv --pdeathsig TERM )?\.venv/bin/", "", line) for line in lines}


@pytest.mark.parametrize("name", ["lint", "types", "layers", "tests", "integration"])
def test_tox_and_make_run_the_same_commands(checkout: Path, name: str) -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    section = f"testenv:{name}" if f"testenv:{name}" in tox else "testenv"
    wanted = {line.replace(" {posargs}", "") for line in tox[section]["commands"].splitlines() if line}
    assert name in tox["tox"]["env_list"]
    assert wanted <= commands(checkout, name)


def test_make_test_runs_every_check_and_pytest_last(checkout: Path) -> None:
    lines = make(checkout, "--dry-run", "test").stdout.splitlines()
    ran = commands(checkout, "test")
    for name in ("lint", "types", "layers"):
        assert commands(checkout, name) <= ran
    options = '-m "not slow" -n 3 --dist loadfile --no-loadscope-reorder'
    assert lines[-1].endswith(f"-m pytest tests integration labs {options}")


def test_make_test_all_leaves_nothing_out_but_the_pairs_that_make_matrix_runs(checkout: Path) -> None:
    pairs = "labs/matrix/test_pairs.py::test_a_pair_leaves_the_rows_of_an_order_that_its_clients_promise"
    command, left_out = make(checkout, "--dry-run", "test-all").stdout.splitlines()[-2:]
    assert command.endswith("-m pytest tests integration labs \\")
    assert left_out.split() == ["--deselect", pairs]
    file, _, name = pairs.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
    assert "pytest labs/matrix -v" in make(checkout, "--dry-run", "matrix").stdout


def test_make_clients_installs_what_it_needs_and_runs_one_engine_or_all(checkout: Path) -> None:
    lines = make(checkout, "--dry-run", "clients", "ENGINE=trino").stdout.splitlines()
    assert lines[-1].endswith("-m labs.clients trino")
    assert any(line.endswith("--editable '.[clients]'") for line in lines)
    assert "labs.clients" not in make(checkout, "--dry-run", "test-all").stdout


def test_continuous_integration_calls_make_test_with_the_same_examples_each_time() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert text.splitlines()[-1] == "HYPOTHESIS_PROFILE=reproducible exec make --no-print-directory test"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
