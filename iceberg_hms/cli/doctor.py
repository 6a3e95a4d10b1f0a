"""`iceberg-hms doctor`: what the metastore can do, and which settings are in force."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import typer

from iceberg_hms.cli import common, output
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import IcebergHmsError, MetastoreUnavailable, NoSuchNamespace
from iceberg_hms.setting import SettingsGroup

if TYPE_CHECKING:
    from iceberg_hms.assembly import Capabilities
    from iceberg_hms.catalog.catalog import Catalog
    from iceberg_hms.coordinator.ports import Files, TableName


class CheckState(StrEnum):
    """How bad it is: `failed` means that commits do not work, `warning` that something is weaker than it could be."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. subject: the server or folder; found: the result; meaning: what follows from it."""

    subject: str
    check: str
    state: CheckState
    found: str
    meaning: str = ""


#: What no lock can prevent by itself.
_THE_PAUSE = (
    "a writer that pauses for longer than its lease, between its last check of the lock and its alter, overwrites "
    "commits of others; no client can prevent that, but a metastore with HIVE-26882 and HIVE-28121 refuses the alter"
)

#: How long to look at the metadata files of tables, and how many large ones to name.
_LOOK_SECONDS = 10.0
_LARGE_MAX = 20
_TRIM = (
    "expire snapshots, and keep few and short properties, or raise `storage.max-metadata-bytes`; a compressed file "
    "counts by what it inflates to"
)

#: A lock call that waits for no other takes about ten milliseconds.
_SLOW_LOCK_SECONDS = 5.0
# No metastore reveals this setting: get_config_value refuses names with this prefix.
_SLOW_LOCKS = (
    "lock calls block each other when clients send more at once than the metastore has database connections: raise "
    "datanucleus.connectionPool.maxPoolSize on the metastore (10 by default) to twice the number of writers, or look "
    "at what keeps its database busy"
)

#: What each verdict on compare-and-swap means for commits.
SWAP_MEANINGS = {
    "atomic": (CheckState.OK, "a swap is refused if the table moved: lock and compare-and-swap both guard a commit"),
    "checked": (CheckState.WARNING, "checked, but not atomically (HIVE-28121 is missing): the lock is the guard"),
    "ignored": (
        CheckState.WARNING,
        f"the expected value is ignored (HIVE-26882 is missing): the lock alone protects commits; {_THE_PAUSE}",
    ),
    "broken": (
        CheckState.WARNING,
        "it fails on this server's database, so swaps are sent without it: the lock alone protects commits; "
        f"{_THE_PAUSE}",
    ),
    "unknown": (CheckState.WARNING, "the probe could not find out: the lock alone protects commits"),
}

_COLUMNS = "hive.metastore.disallow.incompatible.col.type.changes"
_MOVED_COLUMNS = (
    "after columns move or are dropped, the metastore keeps the old ones; Iceberg's own schema is right; set it to "
    "false on the server"
)
_CACHED = (
    "its answers are up to a minute old: Hive 4 refuses every commit with it, and on Hive 3 a commit through "
    "one such server overwrites what was committed through another. Set "
    "metastore.rawstore.impl=org.apache.hadoop.hive.metastore.ObjectStore on the servers that commits go to"
)


def doctor(
    context: typer.Context,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    zookeeper: common.ZooKeeper = None,
    lock: common.Lock = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Find out what the metastore can do: version, locks, compare-and-swap, warehouse; and which tables have metadata
    files near the size at which this package refuses them.

    Makes a scratch view in the database `default` and a scratch file in the warehouse, and removes both. The exit code
    is 1 if commits cannot work.
    """
    settings, server = common.load_all_settings(
        config, overrides, metastore_uri=metastore_uri, warehouse=warehouse, zookeeper=zookeeper, lock=lock
    )
    common.require_metastore(settings)
    env = common.environment(context)
    files = env.files(settings)
    findings = [*servers_findings(settings, env.probe), warehouse_finding(settings.warehouse, files)]
    with env.connect(settings) as catalog:
        findings += metadata_findings(settings.max_metadata_bytes, catalog, files)
    healthy = all(finding.state is not CheckState.FAILED for finding in findings)
    if as_json:
        shown = settings.shown() | server.shown()
        output.print_json({"healthy": healthy, "findings": findings, "settings": shown})
    else:
        print_findings(findings, settings, server)
    if not healthy:
        raise typer.Exit(common.ExitCode.FAILED)


def print_findings(findings: Sequence[CheckResult], *settings: SettingsGroup) -> None:
    """Print findings and settings as tables."""
    shown = output.console()
    for subject in dict.fromkeys(finding.subject for finding in findings):
        rows = [
            (each.check, each.state.value, each.found, each.meaning) for each in findings if each.subject == subject
        ]
        shown.print(output.table(subject, ("check", "state", "found", "meaning"), rows))
        shown.print()
    keys = [row for group in settings for row in settings_rows(group)]
    shown.print(output.table("Settings in force", ("key", "value", "default, if it differs"), keys))


def settings_rows(settings: SettingsGroup) -> list[tuple[str, str, str]]:
    """Every key, its value, and its default if that differs."""
    defaults = type(settings)().as_dict()
    return [
        (key, output.cell(value), "" if value == defaults[key] else output.cell(defaults[key]))
        for key, value in settings.shown().items()
    ]


def servers_findings(settings: Settings, probe: Callable[[str, Settings], Capabilities]) -> list[CheckResult]:
    """Probe each server of the list. Raises MetastoreUnavailable if none can be reached."""
    findings: list[CheckResult] = []
    unreachable: MetastoreUnavailable | None = None
    for uri in settings.metastore_uris:
        try:
            server = probe(uri, settings)
            findings += server_findings(server)
            findings += lock_findings(settings, server)
        except MetastoreUnavailable as error:
            unreachable = error
            meaning = f"{error.message}; clients use the other servers of the list"
            findings.append(CheckResult(uri, "reachable", CheckState.WARNING, "no", meaning))
    if unreachable is not None and all(finding.check == "reachable" for finding in findings):
        raise unreachable
    return findings


def server_findings(server: Capabilities) -> Iterator[CheckResult]:
    """The checks of one server."""
    check = partial(CheckResult, server.uri)
    yield check("version", CheckState.OK, server.version)
    seconds = server.lock_seconds or 0.0
    if not server.lock_api:
        meaning = "commits need it: create its tables with schematool"
        yield check("lock API", CheckState.FAILED, "does not work", meaning)
    elif seconds < _SLOW_LOCK_SECONDS:
        yield check("lock API", CheckState.OK, "works")
    else:
        yield check("lock API", CheckState.WARNING, f"works, after {seconds:.0f} s", _SLOW_LOCKS)
    if server.cached:
        yield check("store", CheckState.FAILED, "CachedStore", _CACHED)
    if server.lease_seconds is None:
        meaning = "`lock.lease-default-ms` must not be longer than it"
        yield check("lease of locks", CheckState.WARNING, "not told", meaning)
    else:
        yield check("lease of locks", CheckState.OK, f"{server.lease_seconds:g} s")
    if server.transaction_tables:
        yield check("transaction tables", CheckState.OK, "there")
    else:
        meaning = "the lock API keeps its locks in them: create them with schematool"
        yield check("transaction tables", CheckState.WARNING, "missing", meaning)
    verdict = str(server.compare_and_swap)
    state, meaning = SWAP_MEANINGS[verdict]
    yield check("compare-and-swap", state, verdict, meaning)
    if server.disallow_incompatible_col_type_changes:
        yield check(_COLUMNS, CheckState.WARNING, "true", _MOVED_COLUMNS)
    else:
        told = "not told" if server.disallow_incompatible_col_type_changes is None else "false"
        yield check(_COLUMNS, CheckState.OK, told)
    for problem in server.problems:
        yield check("problem", CheckState.WARNING, problem)


def lock_findings(settings: Settings, server: Capabilities) -> Iterator[CheckResult]:
    """What the setting `lock` means on one server."""
    if settings.lock == "none" and str(server.compare_and_swap) != "atomic":
        meaning = "without a lock only atomic compare-and-swap protects a commit, so all are refused; set `lock` to hms"
        yield CheckResult(server.uri, "lock", CheckState.FAILED, "none, which is refused", meaning)


def warehouse_finding(warehouse: str, files: Files) -> CheckResult:
    """Whether the warehouse accepts files: writes, reads and deletes one."""
    check = partial(CheckResult, f"warehouse {warehouse}".rstrip())
    if not warehouse:
        meaning = "the metastore chooses the location of new namespaces; set `warehouse` to choose it yourself"
        return check("is set", CheckState.WARNING, "no", meaning)
    location = f"{warehouse.rstrip('/')}/iceberg-hms-doctor-{SYSTEM_CLOCK.uuid()}"
    content = b"written by iceberg-hms doctor; safe to delete"
    try:
        files.write(location, content)
        read = files.read(location)
        files.delete(location)
    except IcebergHmsError as error:
        return check("writable", CheckState.FAILED, "no", str(error))
    if read != content:
        return check("writable", CheckState.FAILED, "no", f"{location} does not hold the bytes that were written")
    return check("writable", CheckState.OK, "yes")


def metadata_findings(limit: int, catalog: Catalog, files: Files, clock: Clock = SYSTEM_CLOCK) -> Iterator[CheckResult]:
    """Which tables have a metadata file of more than half of `limit` bytes. Two calls for each table, until
    `_LOOK_SECONDS` are over or `_LARGE_MAX` were found."""
    until, looked, large, why = clock.monotonic() + _LOOK_SECONDS, 0, 0, ""
    try:
        for table in _tables(catalog):
            looked += 1
            size = _metadata_bytes(catalog, files, table)
            if size > limit // 2:
                large += 1
                found = f"{size} bytes of {limit}"
                if size > limit:
                    found = f"{size} bytes, more than {limit}: it is refused"
                yield CheckResult("tables", str(table), CheckState.WARNING, found, _TRIM)
            if clock.monotonic() >= until or large == _LARGE_MAX:
                why = f"{_LOOK_SECONDS:g} s were over, or {_LARGE_MAX} large ones were found"
                break
    except IcebergHmsError as error:
        why = error.message
    if why:
        yield CheckResult("tables", "metadata files", CheckState.WARNING, f"looked at {looked}, not at all: {why}")
    elif not large:
        yield CheckResult("tables", "metadata files", CheckState.OK, f"all {looked} have at most {limit // 2} bytes")


def _tables(catalog: Catalog) -> Iterator[TableName]:
    for namespace in catalog.list_namespaces():
        with contextlib.suppress(NoSuchNamespace):
            yield from catalog.list_tables(namespace)


def _metadata_bytes(catalog: Catalog, files: Files, table: TableName) -> int:
    """0 for a table that is gone meanwhile, or of which another command tells what is wrong."""
    try:
        return files.length(catalog.pointer(table).metadata_location)
    except IcebergHmsError:
        return 0
