"""Spark's settings that the user made outside the program: spark-defaults.conf, PYSPARK_SUBMIT_ARGS, hive-site.xml.

They are read here as spark-submit reads them, because the JVM's packages and the metastore must be known before it
starts. What conf/spark-env.sh sets is not seen.
"""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from iceberg_hms.errors import ConfigError
from iceberg_hms.spark.configuration import JARS, PACKAGES, WAREHOUSE, metastore_of

SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"

_HIVE_WAREHOUSE: Final = "hive.metastore.warehouse.dir"
_DRIVER_CLASS_PATH: Final = "spark.driver.extraClassPath"
#: Options of spark-submit that are settings which matter here.
_OPTIONS: Final = {"--packages": PACKAGES, "--jars": JARS, "--driver-class-path": _DRIVER_CLASS_PATH}
#: All others take a value.
_SWITCHES: Final = frozenset(
    ("--help", "-h", "--load-spark-defaults", "--supervise", "--usage-error", "--verbose", "-v", "--version")
)
#: Settings of the JVM's start: there spark-submit's arguments come before what the builder says, in all others after.
_OF_THE_START: Final = frozenset(_OPTIONS.values())


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """spark-submit's arguments, as PYSPARK_SUBMIT_ARGS has them. end: where in `words` its options end."""

    words: tuple[str, ...] = ()
    end: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    properties_file: str | None = None
    load_defaults: bool = False

    @classmethod
    def parse(cls, text: str) -> SubmitArguments:
        """Raises ConfigError for quotes that do not match."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise ConfigError(f"{SUBMIT_ARGS} cannot be parsed: {error}", next_step="correct it") from error
        settings: dict[str, str] = {}
        properties_file, load_defaults, at = None, False, 0
        while at < len(words) and words[at].startswith("-"):
            option, equals, value = words[at].partition("=") if words[at].startswith("--") else (words[at], "", "")
            at += 1
            if option in _SWITCHES:
                load_defaults |= option == "--load-spark-defaults"
                continue
            if not equals and at < len(words):
                value = words[at]
                at += 1
            if option in ("--conf", "-c"):
                key, _, value = value.partition("=")
                settings[key] = value
            elif option in _OPTIONS:
                settings[_OPTIONS[option]] = value
            elif option == "--properties-file":
                properties_file = value
        return cls(words, at, settings, properties_file, load_defaults)

    def with_packages(self, packages: str) -> str:
        """These arguments with other packages: of an option that is given twice, the last one counts."""
        return shlex.join([*self.words[: self.end], "--packages", packages, *self.words[self.end :]])


@dataclass(frozen=True, slots=True)
class UserSettings:
    """settings: by Spark's keys, as they hold without ours. origins: where those are set that the builder does not
    set. arguments: of spark-submit."""

    settings: Mapping[str, object]
    origins: Mapping[str, str]
    arguments: SubmitArguments = field(default_factory=SubmitArguments)

    def origin(self, key: str) -> str:
        """Where a setting is set, for messages."""
        return self.origins.get(key, "the builder")


class SparkFiles:
    """The files that Spark reads in this environment. environ: the variables of the process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._home = _spark_home(environ)

    def user_settings(self, options: Mapping[str, object]) -> UserSettings:
        """What holds for a driver whose builder has these options. Raises ConfigError for a file or arguments that
        cannot be parsed."""
        arguments = SubmitArguments.parse(self._environ.get(SUBMIT_ARGS, ""))
        settings: dict[str, object] = {}
        origins: dict[str, str] = {}
        for file in self._properties_files(arguments):
            found = read_properties(file)
            settings |= found
            origins |= dict.fromkeys(found, str(file))
        settings |= arguments.settings
        origins |= dict.fromkeys(arguments.settings, SUBMIT_ARGS)
        for key, value in options.items():
            if key not in _OF_THE_START or key not in arguments.settings:
                settings[key] = value
                origins.pop(key, None)
        return UserSettings(settings, origins, arguments)

    def metastore(self, settings: Mapping[str, object]) -> str | None:
        """The metastore that Spark finds by itself with these settings: in them, or else in the first hive-site.xml of
        its class path. None: it would make one in a folder. Raises ConfigError for a hive-site.xml that cannot be
        parsed."""
        return metastore_of(settings) or self._hive_site(settings).get("hive.metastore.uris") or None

    def warehouse(self, settings: Mapping[str, object]) -> str | None:
        """The root folder of new databases that Spark finds by itself with these settings. None: it would take a folder
        where it starts. Raises ConfigError as `metastore`."""
        named = settings.get(WAREHOUSE) or settings.get(f"spark.hadoop.{_HIVE_WAREHOUSE}")
        return str(named) if named else self._hive_site(settings).get(_HIVE_WAREHOUSE) or None

    def lacking(self, settings: Mapping[str, object], packages: Iterable[str]) -> list[str]:
        """Those of these Maven packages that are neither on the driver's class path nor, in any version, among its
        packages, by the names."""
        places = [*_listed(settings, JARS, ","), *_listed(settings, _DRIVER_CLASS_PATH, ":")]
        if self._home is not None:
            places.append(str(self._home / "jars" / "*"))
        names = [*_listed(settings, PACKAGES, ","), *(name for place in places for name in _names(place))]
        return [package for package in packages if not any(_stem(package) in name for name in names)]

    @property
    def _conf_folder(self) -> Path | None:
        if folder := self._environ.get("SPARK_CONF_DIR"):
            return Path(folder)
        return None if self._home is None else self._home / "conf"

    def _properties_files(self, arguments: SubmitArguments) -> Iterator[Path]:
        """Later ones win."""
        given = arguments.properties_file
        if (given is None or arguments.load_defaults) and self._conf_folder is not None:
            yield self._conf_folder / "spark-defaults.conf"
        if given is not None:
            yield Path(given)

    def _hive_site(self, settings: Mapping[str, object]) -> Mapping[str, str]:
        """The properties of the hive-site.xml on Spark's class path; none if there is no such file."""
        folders = [Path(place) for place in _listed(settings, _DRIVER_CLASS_PATH, ":")]
        folders += [self._conf_folder] if self._conf_folder is not None else []
        folders += [
            Path(self._environ[name]) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if self._environ.get(name)
        ]
        file = next((folder / "hive-site.xml" for folder in folders if (folder / "hive-site.xml").is_file()), None)
        if file is None:
            return {}
        try:
            properties = ElementTree.parse(file).getroot().iter("property")  # noqa: S314 - the user's own file
        except (ElementTree.ParseError, OSError) as error:
            raise ConfigError(f"{file} cannot be read: {error}", next_step="correct it") from error
        return {(item.findtext("name") or "").strip(): (item.findtext("value") or "").strip() for item in properties}


def read_properties(file: Path) -> dict[str, str]:
    """The settings of a spark-defaults.conf; none if there is no such file. Raises ConfigError if it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", next_step="correct it") from error
    return {key: value.strip() for key, value in parse_properties(text).items() if key.startswith("spark.")}


def parse_properties(text: str) -> dict[str, str]:
    """The entries of a file of java.util.Properties."""
    values = {}
    for line in _logical_lines(text):
        if found := _ENTRY.fullmatch(line):
            values[_unescaped(found["key"])] = _unescaped(found["value"])
    return values


_ENTRY: Final = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments; a line that a backslash ends goes on in the next one."""
    begun: str | None = None
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if begun is None and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun = (begun or "") + line[:-1]
        else:
            yield (begun or "") + line
            begun = None
    if begun is not None:
        yield begun


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2])

    return _ESCAPE.sub(character, text)


def _spark_home(environ: Mapping[str, str]) -> Path | None:
    """As PySpark finds it; None where there is no Spark."""
    if home := environ.get("SPARK_HOME"):
        return Path(home)
    package = find_spec("pyspark")
    return Path(package.origin).parent if package is not None and package.origin is not None else None


def _stem(package: str) -> str:
    """What the names of an artifact and its jars have in common, for whichever Spark they are."""
    return re.sub(r"-[0-9].*", "", package.split(":")[1])


def _listed(settings: Mapping[str, object], key: str, separator: str) -> list[str]:
    return [part.strip() for part in str(settings.get(key) or "").split(separator) if part.strip()]


def _names(place: str) -> list[str]:
    """The names of the files at a place of a class path, which may have wildcards."""
    path = Path(re.sub(r"^(?:file|local):(?://)?", "", place))
    return [found.name for found in path.parent.glob(path.name)] if "*" in path.name else [path.name]
