"""Every setting of iceberg-hms: one place, with its name, default, bounds and meaning.

Where Java's HiveCatalog has the knob, name and default are Java's, except where a setting says why not. Properties of
a table (`write.*`, `commit.manifest.*`, `engine.hive.lock-enabled`) are not settings: they live in the table.

    Settings.load({"metastore_uri": "thrift://h:9083", "commit.retry.num-retries": 10})

Keyword arguments win over the environment, the environment over a TOML file. Every source takes a setting by its key
(`commit.retry.num-retries`) or by its attribute name (`commit_retry_num_retries`); the environment spells it
ICEBERG_HMS_COMMIT_RETRY_NUM_RETRIES. ICEBERG_HMS_CONFIG names the TOML file when none is given.
"""

from __future__ import annotations

import dataclasses
import difflib
import getpass
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from iceberg_hms.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "ICEBERG_HMS_"
#: The environment variable that names the TOML file; the only one with our prefix that is not a setting.
CONFIG_FILE_VARIABLE: Final = "ICEBERG_HMS_CONFIG"

_MIB: Final = 1024 * 1024
_DAY_MS: Final = 24 * 60 * 60 * 1000
_MANY: Final = 1_000_000
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLEANS: Final = {"true": True, "false": False}

Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting. `low` and `high` are inclusive; `choices` is empty when any text will do."""

    attribute: str
    key: str
    type: type
    default: Value
    doc: str
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that holds it."""
        return _variable(self.key)


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Containers often run under a number that has no name.
        return f"uid-{os.getuid()}"


def _number(key: str, default: int, low: int, high: int, doc: str) -> Any:
    return dataclasses.field(default=default, metadata={"key": key, "low": low, "high": high, "doc": doc})


def _text(key: str, doc: str, default: str = "", choices: tuple[str, ...] = ()) -> Any:
    return dataclasses.field(default=default, metadata={"key": key, "choices": choices, "doc": doc})


def _user(key: str, factory: Callable[[], str], doc: str) -> Any:
    return dataclasses.field(default_factory=factory, metadata={"key": key, "doc": doc})


def _flag(key: str, doc: str, default: bool = False) -> Any:
    return dataclasses.field(default=default, metadata={"key": key, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked: types, bounds, and those that must agree with each other.

    Raises ConfigError, also when built directly. Durations are milliseconds where the name ends in `_ms`.
    """

    metastore_uri: str = _text(
        "uri", "Metastore servers, thrift://host:port, a comma between them; tried in this order."
    )
    warehouse: str = _text("warehouse", "Root folder of databases that name no location of their own.")
    zookeeper: str = _text(
        "zookeeper.hosts", "ZooKeeper servers, host:port with commas, and an optional /path at the end."
    )
    zookeeper_session_timeout_ms: int = _number(
        "zookeeper.session-timeout-ms",
        30_000,
        1_000,
        _DAY_MS,
        "For how long ZooKeeper keeps the lock of a silent process; servers have bounds of their own.",
    )
    lock: str = _text("lock", "Which lock guards a swap.", "hms", ("hms", "zookeeper", "none"))
    clients: int = _number("clients", 2, 1, 1024, "Connections to the metastore that are kept open.")
    user: str = _user("user", _os_user, "Who we are for the metastore: the owner of new tables. Default: the OS user.")
    list_all_tables: bool = _flag("list-all-tables", "List every table of a namespace, Iceberg or not.")
    unique_table_location: bool = _flag("unique-table-location", "Add a random suffix to the location of new tables.")

    connect_timeout_ms: int = _number(
        "metastore.connect-timeout-ms", 10_000, 1, _DAY_MS, "How long opening a connection to one metastore may take."
    )
    socket_timeout_ms: int = _number(
        "metastore.socket-timeout-ms", 60_000, 1, _DAY_MS, "How long one metastore call may stay without an answer."
    )

    lock_creation_timeout_ms: int = _number(
        "iceberg.hive.lock-creation-timeout-ms", 180_000, 1, _DAY_MS, "How long asking for a lock is tried in all."
    )
    lock_creation_min_wait_ms: int = _number(
        "iceberg.hive.lock-creation-min-wait-ms", 50, 1, _DAY_MS, "First wait between attempts to ask for a lock."
    )
    lock_creation_max_wait_ms: int = _number(
        "iceberg.hive.lock-creation-max-wait-ms", 5_000, 1, _DAY_MS, "Longest wait between attempts to ask for a lock."
    )
    lock_timeout_ms: int = _number(
        "iceberg.hive.lock-timeout-ms", 180_000, 1, _DAY_MS, "How long a lock that another holds is waited for."
    )
    lock_check_min_wait_ms: int = _number(
        "iceberg.hive.lock-check-min-wait-ms", 50, 1, _DAY_MS, "First wait between looks at a lock that is waited for."
    )
    # Java: 5,000. The metastore grants a waiting lock when its owner asks, so whoever is next and sleeps keeps all
    # others waiting; this bounds how long, where the queue cannot be seen or turns take longer than they used to.
    lock_check_max_wait_ms: int = _number(
        "iceberg.hive.lock-check-max-wait-ms", 500, 1, _DAY_MS, "Longest wait between looks at a lock (Java: 5000)."
    )
    lock_heartbeat_interval_ms: int = _number(
        "iceberg.hive.lock-heartbeat-interval-ms",
        240_000,
        1,
        _DAY_MS,
        "Longest time between heartbeats of a held lock; a tenth of the server's lease if that is shorter.",
    )
    lock_lease_default_ms: int = _number(
        "lock.lease-default-ms", 300_000, 1_000, _DAY_MS, "The lease to assume when the server does not tell its own."
    )
    lock_stale_check_interval_ms: int = _number(
        "lock.stale-check-interval-ms",
        2_000,
        0,
        _DAY_MS,
        "How often a writer that waits for a lock looks for dead writers' locks and removes them; 0 never does.",
    )

    commit_retry_num_retries: int = _number(
        "commit.retry.num-retries", 4, 0, _MANY, "How often a commit is replayed on a table that moved."
    )
    commit_retry_min_wait_ms: int = _number(
        "commit.retry.min-wait-ms", 100, 1, _DAY_MS, "First wait between replays where nothing is locked."
    )
    commit_retry_max_wait_ms: int = _number(
        "commit.retry.max-wait-ms", 60_000, 1, _DAY_MS, "Longest wait between replays where nothing is locked."
    )
    commit_retry_total_timeout_ms: int = _number(
        "commit.retry.total-timeout-ms",
        1_800_000,
        1,
        _DAY_MS,
        "After this time no further replay begins where nothing is locked.",
    )
    status_check_num_retries: int = _number(
        "commit.status-check.num-retries",
        3,
        0,
        _MANY,
        "How often the outcome of an unanswered swap is looked up again.",
    )
    status_check_min_wait_ms: int = _number(
        "commit.status-check.min-wait-ms", 1_000, 1, _DAY_MS, "First wait between look-ups of an outcome."
    )
    status_check_max_wait_ms: int = _number(
        "commit.status-check.max-wait-ms", 60_000, 1, _DAY_MS, "Longest wait between look-ups of an outcome."
    )
    status_check_total_timeout_ms: int = _number(
        "commit.status-check.total-timeout-ms",
        1_800_000,
        1,
        _DAY_MS,
        "After this time the outcome is reported as unknown.",
    )
    queue_max_changes: int = _number(
        "commit.queue.max-changes", 1_024, 1, _MANY, "Changes that may wait for one table; more are refused at once."
    )
    queue_max_bytes: int = _number(
        "commit.queue.max-bytes", 64 * _MIB, 1, 2**40, "Bytes of changes that may wait for one table."
    )
    group_max_changes: int = _number(
        "commit.group.max-changes", 64, 1, _MANY, "Changes that share one lock, one metadata file and one swap."
    )
    group_gather_ms: int = _number(
        "commit.group.gather-ms", 20, 0, 1_000, "How long callers that were answered together are waited for."
    )

    table_property_max_size: int = _number(
        "iceberg.hive.table-property-max-size",
        32_672,
        0,
        2**31 - 1,
        "Longest HMS parameter (characters) that we make of table metadata; longer ones are left out, 0 writes none.",
    )
    metadata_refresh_max_retries: int = _number(
        "iceberg.hive.metadata-refresh-max-retries", 2, 0, _MANY, "How often reading a metadata file is tried again."
    )
    metadata_cache_max_bytes: int = _number(
        "cache.metadata.max-bytes",
        256 * _MIB,
        0,
        2**40,
        "Memory for table metadata that was read or written, in bytes, about five times the files; 0 keeps none.",
    )
    manifest_cache_max_bytes: int = _number(
        "cache.manifest-list.max-bytes",
        64 * _MIB,
        0,
        2**40,
        "Bytes of manifest lists that are kept in memory; 0 keeps none.",
    )
    io_threads: int = _number("io.threads", 16, 1, 1_024, "Files that are read or written at the same time.")
    storage_fsync: bool = _flag(
        "storage.fsync",
        "Flush local files and their folders to the disk before a commit names them, so that it survives a power cut.",
        default=True,
    )

    rest_host: str = _text("rest.host", "Address that `serve` listens on.", "127.0.0.1")
    replaced_list_age_ms: int = _number(
        "commit.replaced-list-age-ms",
        600_000,
        0,
        _DAY_MS,
        "After this time a manifest list is deleted that a client wrote and another replaced; 0: never.",
    )
    turn_max_wait_ms: int = _number(
        "commit.turn.max-wait-ms",
        1_000,
        0,
        _DAY_MS,
        "How long others wait for a commit that lost its branch's place to them; 0: not at all.",
    )
    turn_max_share_percent: int = _number(
        "commit.turn.max-share-percent", 50, 1, 90, "Share of all time that others may be kept waiting so."
    )
    pause_look_interval_ms: int = _number(
        "commit.pause.look-interval-ms",
        200,
        1,
        _DAY_MS,
        "How often it is looked whether a writer that is not ours waits for the lock of a busy table.",
    )
    pause_max_wait_ms: int = _number(
        "commit.pause.max-wait-ms",
        1_000,
        0,
        _DAY_MS,
        "How long a table rests at most for such a writer; 0: not at all.",
    )
    pause_max_share_percent: int = _number(
        "commit.pause.max-share-percent", 50, 1, 90, "Share of all time that a table may rest so."
    )
    rest_port: int = _number("rest.port", 8_181, 0, 65_535, "Port that `serve` listens on; 0 takes any free one.")
    rest_threads: int = _number("rest.threads", 16, 1, 4_096, "REST reads that are worked on at the same time.")
    rest_commit_threads: int = _number(
        "rest.commit-threads",
        128,
        1,
        4_096,
        "REST requests that move tables and are worked on at once. Commits that wait in a queue take no thread.",
    )
    rest_commit_wait_ms: int = _number(
        "rest.commit-wait-ms", 30_000, 1, _DAY_MS, "How long a REST commit waits for its turn and its lock."
    )
    rest_keep_alive_seconds: int = _number(
        "rest.keep-alive-seconds", 120, 1, 86_400, "How long an idle REST connection is kept open, in seconds."
    )
    rest_max_body_bytes: int = _number(
        "rest.max-body-bytes", 64 * _MIB, 1_024, 2**40, "Largest REST request body that is read."
    )

    def __post_init__(self) -> None:
        for setting in settings():
            _check(setting, getattr(self, setting.attribute), f"`{setting.key}`")
        for uri in self.metastore_uris:
            _check_uri(uri)
        for low, high in _ORDERED:
            if getattr(self, low) > getattr(self, high):
                smaller, larger = _BY_ATTRIBUTE[low].key, _BY_ATTRIBUTE[high].key
                raise ConfigError(
                    f"`{smaller}` ({getattr(self, low)}) is larger than `{larger}` ({getattr(self, high)})"
                )
        if self.lock == "zookeeper" and not self.zookeeper:
            raise ConfigError(
                "`lock` is zookeeper, but `zookeeper.hosts` is not set", next_step="set `zookeeper.hosts`"
            )

    @property
    def metastore_uris(self) -> tuple[str, ...]:
        """The servers of `metastore_uri`, one by one; empty when it is unset."""
        return tuple(part.strip() for part in self.metastore_uri.split(",") if part.strip())

    @classmethod
    def load(
        cls, keywords: Mapping[str, object], *, environ: Mapping[str, str] | None = None, file: Path | None = None
    ) -> Settings:
        """Settings from keywords, over the environment, over a TOML file.

        keywords: keys or attribute names; a value of None counts as not given.
        environ: `os.environ` when None. file: the TOML file; when None, ICEBERG_HMS_CONFIG names it, if set.
        Raises ConfigError that names the key, where it came from, and the nearest known key.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Value] = {}
        path = file or (Path(environ[CONFIG_FILE_VARIABLE]) if environ.get(CONFIG_FILE_VARIABLE) else None)
        if path is not None:
            values |= _parse(_flatten(_read_toml(path)), _BY_NAME, f" in {path}")
        variables = {
            name: text
            for name, text in environ.items()
            if name.startswith(ENVIRONMENT_PREFIX) and name != CONFIG_FILE_VARIABLE
        }
        values |= _parse(variables.items(), _BY_VARIABLE, " in the environment")
        values |= _parse(((name, value) for name, value in keywords.items() if value is not None), _BY_NAME, "")
        chosen: dict[str, Any] = values
        return cls(**chosen)

    def as_dict(self) -> dict[str, Value]:
        """Every key with the value that is in force."""
        return {setting.key: getattr(self, setting.attribute) for setting in settings()}


#: Pairs of attributes of which the first must not be larger than the second.
_ORDERED: Final = (
    ("lock_creation_min_wait_ms", "lock_creation_max_wait_ms"),
    ("lock_check_min_wait_ms", "lock_check_max_wait_ms"),
    ("commit_retry_min_wait_ms", "commit_retry_max_wait_ms"),
    ("status_check_min_wait_ms", "status_check_max_wait_ms"),
)


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


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
    )


_ALL: Final = tuple(_describe(field) for field in dataclasses.fields(Settings))
_BY_ATTRIBUTE: Final = {setting.attribute: setting for setting in _ALL}
_BY_NAME: Final = _BY_ATTRIBUTE | {setting.key: setting for setting in _ALL}
_BY_VARIABLE: Final = {_variable(name): setting for name, setting in _BY_NAME.items()}


def settings() -> tuple[Setting, ...]:
    """Every setting, in the order of `Settings`."""
    return _ALL


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


def _parse(items: Any, names: Mapping[str, Setting], where: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, value in items:
        setting = names.get(name)
        if setting is None:
            raise _unknown(name, names, where)
        if setting.attribute in values:
            raise ConfigError(f"`{setting.key}` is given twice{where}", next_step="keep one of the two")
        parsed = _convert(setting, value, f"`{name}`{where}")
        _check(setting, parsed, f"`{name}`{where}")
        values[setting.attribute] = parsed
    return values


def _unknown(name: str, names: Mapping[str, Setting], where: str) -> ConfigError:
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
    return ConfigError(f"`{name}`{where} is not a setting", next_step=f"did you mean `{nearest}`?")


def _convert(setting: Setting, value: object, called: str) -> Value:
    """Text becomes what the setting is; a value of the right type stays."""
    if isinstance(value, str):
        text = value.strip()
        if setting.type is str:
            return text
        if setting.type is int and _WHOLE_NUMBER.fullmatch(text):
            return int(text)
        if setting.type is bool and text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
    elif type(value) is setting.type and isinstance(value, int):
        return value
    expected = {int: "a whole number", bool: "true or false", str: "text"}[setting.type]
    raise ConfigError(f"{called} is {value!r}, which is not {expected}")


def _check(setting: Setting, value: object, called: str) -> None:
    if type(value) is not setting.type:
        raise ConfigError(f"{called} is {value!r}, which is not of type {setting.type.__name__}")
    if setting.type is int and isinstance(value, int) and not setting.low <= value <= setting.high:
        raise ConfigError(f"{called} is {value}, which is not between {setting.low} and {setting.high}")
    if setting.choices and value not in setting.choices:
        raise ConfigError(f"{called} is {value!r}, which is not one of {', '.join(setting.choices)}")


def _check_uri(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        good = parts.scheme == "thrift" and bool(parts.hostname) and bool(parts.port) and parts.path in ("", "/")
    except ValueError:
        good = False
    if not good:
        raise ConfigError(
            f"`uri` names {uri!r}, which is not thrift://host:port", next_step="write it as thrift://host:9083"
        )
