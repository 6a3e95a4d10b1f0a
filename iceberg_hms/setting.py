"""One setting's name, type, bounds and help text; and how values are read, converted and checked.

`config.py` lists the library's settings, `rest/settings.py` the server's. docs/decisions.md says why pydantic-settings
is not used.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from iceberg_hms.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "ICEBERG_HMS_"
#: The environment variable that names the TOML file; the only one with our prefix that is not a setting.
CONFIG_FILE_VARIABLE: Final = "ICEBERG_HMS_CONFIG"

MIB: Final = 1024 * 1024
DAY_MS: Final = 24 * 60 * 60 * 1000

#: What the names of the REST server's settings begin with: keys, attributes, variables.
_OF_SERVER: Final = ("rest.", "rest_", f"{ENVIRONMENT_PREFIX}REST_")

#: The table of a TOML file with settings of further warehouses, by their names.
WAREHOUSES: Final = "warehouses"

#: How many pairs one setting may have, and how long a value may be, in characters.
PROPERTIES_MAX: Final = 64
PROPERTY_MAX: Final = 2_048

_PROPERTY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_SECTION: Final = "write [warehouses.NAME], and below it the settings of that warehouse"
_BOOLEANS: Final = {"true": True, "false": False}

Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `low` and `high` are inclusive; `choices` is empty if any text is valid. is_properties: it
    has pairs whose values nothing may print. is_secret: the same of the whole value."""

    attribute: str
    key: str
    type: type
    default: Value
    doc: str
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    is_properties: bool = False
    is_secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that holds it."""
        return variable(self.key)


def number(key: str, default: int, low: int, high: int, doc: str) -> Any:
    """A field of a dataclass that is a whole number."""
    return dataclasses.field(default=default, metadata={"key": key, "low": low, "high": high, "doc": doc})


def text(key: str, doc: str, default: str = "", choices: tuple[str, ...] = ()) -> Any:
    """A field of a dataclass that is text, one of `choices` if there are any."""
    return dataclasses.field(default=default, metadata={"key": key, "choices": choices, "doc": doc})


def properties(key: str, doc: str) -> Any:
    """A field of a dataclass that is text with `key=value` pairs (`parsed_properties`), which may be secrets."""
    return dataclasses.field(default="", repr=False, metadata={"key": key, "doc": doc, "is_properties": True})


def secret(key: str, doc: str) -> Any:
    """A field of a dataclass that is text which nothing may print."""
    return dataclasses.field(default="", repr=False, metadata={"key": key, "doc": doc, "is_secret": True})


def found_text(key: str, find: Callable[[], str], doc: str) -> Any:
    """A field of a dataclass that is text, with a default that depends on this machine."""
    return dataclasses.field(default_factory=find, metadata={"key": key, "doc": doc})


def flag(key: str, doc: str, default: bool = False) -> Any:
    """A field of a dataclass that is true or false."""
    return dataclasses.field(default=default, metadata={"key": key, "doc": doc})


def described(group: type[Any]) -> tuple[Setting, ...]:
    """The settings that are the fields of a dataclass, in their order."""
    return _described(dataclasses.fields(group))


@cache
def _described(fields: tuple[dataclasses.Field[Any], ...]) -> tuple[Setting, ...]:
    return tuple(map(_describe, fields))


def _describe(field: dataclasses.Field[Any]) -> Setting:
    known = field.metadata
    types: dict[str, type] = {"str": str, "int": int, "bool": bool}
    default = "" if field.default is dataclasses.MISSING else field.default
    return Setting(
        attribute=field.name,
        key=known["key"],
        type=types[str(field.type)],
        default=default,
        doc=known["doc"],
        low=known.get("low", 0),
        high=known.get("high", 0),
        choices=known.get("choices", ()),
        is_properties=known.get("is_properties", False),
        is_secret=known.get("is_secret", False),
    )


class SettingsGroup:
    """The base of a dataclass whose fields are settings. Raises ConfigError for a value that `check` refuses, also when
    built directly."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for setting in described(type(self)):
            check(setting, getattr(self, setting.attribute), f"`{setting.key}`")

    def as_dict(self) -> dict[str, Value]:
        """Every key with its value."""
        return {setting.key: getattr(self, setting.attribute) for setting in described(type(self))}

    def shown(self) -> dict[str, Value]:
        """Every key with its value, as it may be printed: of pairs only the names, of a secret only that it is set."""
        values = self.as_dict()
        for setting in described(type(self)):
            if setting.is_secret and values[setting.key]:
                values[setting.key] = "..."
            if setting.is_properties:
                names = parsed_properties(setting.key, str(values[setting.key]))
                values[setting.key] = ",".join(f"{name}=..." for name in names)
        return values


def variable(name: str) -> str:
    """The environment variable for a key or an attribute."""
    return ENVIRONMENT_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def is_of_server(name: str) -> bool:
    """Whether a key, an attribute or a variable is for a setting of the REST server, if it is one at all."""
    return name.startswith(_OF_SERVER)


def gathered(
    settings: Sequence[Setting],
    keywords: Mapping[str, object],
    environ: Mapping[str, str],
    file: Path | None,
    ignored: Callable[[str], bool] = lambda _: False,
) -> dict[str, Value]:
    """Values by attribute from keywords, over the environment, over a TOML file; settings without a value are left out.

    keywords: a value of None counts as not given. file: when None, ICEBERG_HMS_CONFIG names it, if set.
    ignored: names in the environment and in the file that are not for the caller.
    Raises ConfigError that names the key, where it came from, and the nearest known key.
    """
    by_name = {name: setting for setting in settings for name in (setting.attribute, setting.key)}
    by_variable = {variable(name): setting for name, setting in by_name.items()}
    values: dict[str, Value] = {}
    path = _file(file, environ)
    if path is not None:
        top = {name: value for name, value in _read_toml(path).items() if name != WAREHOUSES}
        values |= _parse(((name, value) for name, value in _flatten(top) if not ignored(name)), by_name, f" in {path}")
    variables = [
        (name, value)
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name != CONFIG_FILE_VARIABLE and not ignored(name)
    ]
    values |= _parse(variables, by_variable, " in the environment")
    return values | _parse(((name, value) for name, value in keywords.items() if value is not None), by_name, "")


def warehouse_sections(
    settings: Sequence[Setting], environ: Mapping[str, str], file: Path | None
) -> dict[str, dict[str, Value]]:
    """What the sections `[warehouses.NAME]` of the TOML file say, by the name of the warehouse and by attribute.

    file, environ: as for `gathered`. Raises ConfigError as `gathered`.
    """
    path = _file(file, environ)
    sections = {} if path is None else _read_toml(path).get(WAREHOUSES, {})
    if not isinstance(sections, dict) or not all(isinstance(section, dict) for section in sections.values()):
        raise ConfigError(f"`{WAREHOUSES}` in {path} has something else than sections", next_step=_SECTION)
    by_name = {name: setting for setting in settings for name in (setting.attribute, setting.key)}
    return {
        name: _parse(_flatten(section), by_name, f" of warehouse {name!r} in {path}")
        for name, section in sections.items()
    }


def _file(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    return file or (Path(environ[CONFIG_FILE_VARIABLE]) if environ.get(CONFIG_FILE_VARIABLE) else None)


def _read_toml(path: Path) -> dict[str, Any]:
    step = "correct the file, or name another with --config or ICEBERG_HMS_CONFIG"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}", next_step=step) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} is not TOML: {error}", next_step=step) from error


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _parse(items: Iterable[tuple[str, object]], names: Mapping[str, Setting], where: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, value in items:
        setting = names.get(name)
        if setting is None:
            raise _unknown(name, names, where)
        if setting.attribute in values:
            raise ConfigError(f"`{setting.key}` is given twice{where}", next_step="keep one of the two")
        parsed = _convert(setting, value, f"`{name}`{where}")
        check(setting, parsed, f"`{name}`{where}")
        values[setting.attribute] = parsed
    return values


def _unknown(name: str, names: Mapping[str, Setting], where: str) -> ConfigError:
    if is_of_server(name) and not any(map(is_of_server, names)):
        return ConfigError(f"`{name}`{where} is not a setting of the library", next_step="give it to the REST server")
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
    return ConfigError(f"`{name}`{where} is not a setting", next_step=f"did you mean `{nearest}`?")


def _convert(setting: Setting, value: object, called: str) -> Value:
    """Text converted to the setting's type; a value of that type stays."""
    if isinstance(value, str):
        stripped = value.strip()
        if setting.type is str:
            return stripped
        if setting.type is int and _WHOLE_NUMBER.fullmatch(stripped):
            return int(stripped)
        if setting.type is bool and stripped.lower() in _BOOLEANS:
            return _BOOLEANS[stripped.lower()]
    elif type(value) is setting.type and isinstance(value, int):
        return value
    expected = {int: "a whole number", bool: "true or false", str: "text"}[setting.type]
    raise ConfigError(f"{called} is {_shown(setting, value)}, which is not {expected}")


def _shown(setting: Setting, value: object) -> str:
    """A value that is wrong, for an error."""
    return "a secret" if setting.is_secret or setting.is_properties else repr(value)


@lru_cache(maxsize=256)
def parsed_properties(key: str, text: str) -> Mapping[str, str]:
    """Pairs `name=value`, separated by line breaks or, in a text of one line, by commas. key: the setting's.

    Raises ConfigError, which shows names and never values, for a malformed or repeated pair and for too many."""
    found: dict[str, str] = {}
    for number, pair in enumerate((text.splitlines() if "\n" in text else text.split(",")), 1):
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not name and not sign:
            continue
        if not sign or not _PROPERTY.fullmatch(name) or len(value) > PROPERTY_MAX or not value.isprintable():
            raise ConfigError(
                f"pair {number} of `{key}` is malformed",
                next_step=f"write name=value, of at most {PROPERTY_MAX} printable characters; one a line where a value "
                "has commas",
            )
        if name in found:
            raise ConfigError(f"`{key}` has {name} twice", next_step="keep one of the two")
        found[name] = value
    if len(found) > PROPERTIES_MAX:
        raise ConfigError(f"`{key}` has {len(found)} pairs, more than {PROPERTIES_MAX}")
    return found


def check(setting: Setting, value: object, called: str) -> None:
    """Raises ConfigError for a value of another type, or out of bounds. called: its name in errors."""
    if type(value) is not setting.type:
        raise ConfigError(f"{called} is {_shown(setting, value)}, which is not of type {setting.type.__name__}")
    if setting.type is int and isinstance(value, int) and not setting.low <= value <= setting.high:
        raise ConfigError(f"{called} is {value}, which is not between {setting.low} and {setting.high}")
    if setting.is_properties:
        parsed_properties(setting.key, str(value))
    if setting.choices and value not in setting.choices:
        raise ConfigError(f"{called} is {value!r}, which is not one of {', '.join(setting.choices)}")


def check_metastore(uri: str) -> None:
    """Raises ConfigError for anything but thrift://host:port."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme == "thrift" and bool(parts.hostname) and bool(parts.port) and parts.path in ("", "/")
    except ValueError:
        good = False
    if not good:
        raise ConfigError(
            f"`uri` names {uri!r}, which is not thrift://host:port", next_step="write it as thrift://host:9083"
        )
