"""The wheel and the sdist: what is in them, and that a clean environment of each supported Python runs the wheel.

Building and installing need the package index. Each Python of VERSIONS must be on PATH as `python3.x`, or in pyenv.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
#: What is in a checkout and not in the repository.
UNTRACKED = (".git", ".venv", ".tox", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info")
#: What users need to test their own drivers and programs.
FOR_TESTS = (
    "iceberg_hms/testing/contracts/table_lock.py",
    "iceberg_hms/testing/faults/proxy.py",
    "iceberg_hms/testing/history.py",
    "iceberg_hms/testing/memory_catalog.py",
)
IMPORT_ALL = """
import importlib, pkgutil, iceberg_hms
assert iceberg_hms.connect
for module in pkgutil.walk_packages(iceberg_hms.__path__, "iceberg_hms."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        print(error.name)
"""
#: Libraries of extras that modules may import at once. What else is missing belongs to install_requires.
OF_EXTRAS = {
    "botocore",
    "datafusion",
    "hdfs_native",
    "httptools",
    "jwt",
    "obstore",
    "pyiceberg",
    "pyspark",
    "starlette",
    "uvicorn",
}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one wheel and one sdist, built from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("distributions")
    shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*UNTRACKED))
    run(sys.executable, "-m", "build", "--outdir", folder, folder / "checkout")
    return folder


def run(*command: str | Path) -> str:
    """The command's output. It does not see this checkout."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "PYENV_VERSION")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    ended = subprocess.run(command, cwd="/", env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, f"{command}: {ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def wheel_names(distributions: Path) -> set[str]:
    with zipfile.ZipFile(only(distributions, "*.whl")) as wheel:
        return set(wheel.namelist())


def sdist_names(distributions: Path) -> set[str]:
    """Paths below the sdist's one folder."""
    with tarfile.open(only(distributions, "*.tar.gz")) as sdist:
        return {
            PurePosixPath(member.name).relative_to(sdist.getnames()[0]).as_posix()
            for member in sdist
            if member.isfile()
        }


def package_files() -> set[str]:
    """The package as the checkout has it."""
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "iceberg_hms").rglob("*.py")}
    return files | {"iceberg_hms/py.typed"}


def metadata(distributions: Path) -> Message:
    with zipfile.ZipFile(only(distributions, "*.whl")) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(wheel.read(name))


def test_the_wheel_holds_the_package_and_nothing_else(distributions: Path) -> None:
    names = wheel_names(distributions)
    assert {name for name in names if ".dist-info/" not in name} == package_files()
    assert names >= set(FOR_TESTS)


def test_the_sdist_holds_the_package_and_its_documents_without_tests_simulation_benchmarks_and_labs(
    distributions: Path,
) -> None:
    names = sdist_names(distributions)
    assert {name for name in names if name.startswith("iceberg_hms/")} == package_files()
    assert names >= {"LICENSE", "NOTICE", "README.md", "setup.cfg", "pyproject.toml", "docs/metastore.md"}
    folders = {PurePosixPath(name).parts[0] for name in names}
    assert not folders & {"tests", "integration", "simulation", "benchmarks", "labs"}


def test_the_wheel_states_its_license_its_pythons_and_its_description(distributions: Path) -> None:
    stated = metadata(distributions)
    assert stated["License-Expression"] == "Apache-2.0"
    assert stated.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names(distributions))
    assert stated["Requires-Python"] == ">=3.11"
    assert {f"Programming Language :: Python :: {version}" for version in VERSIONS} <= set(stated.get_all("Classifier"))
    assert stated["Description-Content-Type"] == "text/markdown"
    assert stated.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=() if version == RUNNING else pytest.mark.slow)
        for version in sorted({*VERSIONS, RUNNING})
    ],
)
def test_a_clean_environment_imports_the_wheel_and_runs_the_command(
    distributions: Path, tmp_path: Path, version: str
) -> None:
    run(interpreter(version), "-m", "venv", tmp_path)
    run(tmp_path / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile", only(distributions, "*.whl"))
    assert "doctor" in run(tmp_path / "bin" / "iceberg-hms", "--help")
    assert set(run(tmp_path / "bin" / "python", "-I", "-c", IMPORT_ALL).split()) <= OF_EXTRAS


def interpreter(version: str) -> str | Path:
    """A Python of that version: the running one, `python3.x` on PATH, or pyenv's newest."""
    if version == RUNNING:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    candidates = [
        *([on_path] if on_path else []),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True),
    ]
    for candidate in candidates:
        # A shim of pyenv is on PATH also where no Python of that version is active.
        probe = f"import sys, ensurepip, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
        if subprocess.run([candidate, "-c", probe], capture_output=True, timeout=60, check=False).returncode == 0:
            return candidate
    pytest.fail(f"Python {version} is needed: put python{version} on PATH, or run `pyenv install {version}`")
