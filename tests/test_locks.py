"""The locks in conf/locks: every package that CI and the server's image install, by version and hash."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "conf" / "locks"

#: Lock -> the extras whose packages it holds, besides the base dependencies.
EXTRAS = {"ci.txt": ("dev",), "server.txt": ("server", "oidc", "zookeeper")}

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)")


@pytest.fixture(scope="module")
def options() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def required(options: configparser.ConfigParser, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """The requirements of setup.cfg, with those of the extras and of the extras that these name."""
    lines = [options["options"]["install_requires"]] if extras else []
    lines += [options["options.extras_require"][extra] for extra in extras]
    for line in "\n".join(lines).split("\n"):
        if line.strip():
            requirement = Requirement(line)
            if requirement.name == "iceberg-hms":
                inner = set(requirement.extras)
                yield from required(options, tuple(sorted(inner)))
            else:
                yield requirement


def entries(lock: str) -> Iterator[tuple[str, str]]:
    """The name and version of each package in a lock, and the lines that belong to it."""
    text = (LOCKS / lock).read_text(encoding="utf-8")
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        if not entry.startswith("#"):
            yield entry.partition("\n")[0], entry


def pins(lock: str) -> Mapping[str, set[Version]]:
    """Package -> its versions; one may have several, for different Pythons or platforms."""
    found: dict[str, set[Version]] = {}
    for first, _ in entries(lock):
        pin = _PIN.match(first)
        assert pin is not None, first
        found.setdefault(canonicalize_name(pin["name"]), set()).add(Version(pin["version"]))
    return found


@pytest.mark.parametrize("lock", sorted(EXTRAS))
def test_a_lock_has_an_allowed_version_of_every_package_that_setup_cfg_requires(
    lock: str, options: configparser.ConfigParser
) -> None:
    locked = pins(lock)
    for requirement in required(options, EXTRAS[lock]):
        versions = locked.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in {lock}: run `make lock`"
        assert all(map(requirement.specifier.contains, versions)), f"{requirement} is not what {lock} has: `make lock`"


@pytest.mark.parametrize("path", sorted(LOCKS.iterdir()), ids=lambda path: path.name)
def test_every_package_in_a_lock_has_a_hash_and_nothing_names_a_registry(path: Path) -> None:
    for first, entry in entries(path.name):
        assert "--hash=sha256:" in entry, first
    assert not re.search(r"://|--index|--find-links|--trusted", path.read_text(encoding="utf-8"))
