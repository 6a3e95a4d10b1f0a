"""Namespaces' policies on rebasing: how often they are read, and what counts if a read fails."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Barrier, Thread

import pytest

from iceberg_hms.catalog.rebase_policies import CACHED_MAX, RebasePolicies
from iceberg_hms.changes.clients.blind_append import ALL, NONE, PLAIN, REBASE_APPENDS
from iceberg_hms.clock import SystemClock
from iceberg_hms.errors import AccessDenied, IcebergHmsError, MetastoreUnavailable, NoSuchNamespace
from iceberg_hms.runtime import ThreadRuntime


class StoppedClock(SystemClock):
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class Namespaces:
    """properties: of every namespace. refusal: raised instead. asked: the names, in order."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.properties = properties or {}
        self.refusal: IcebergHmsError | None = None
        self.asked: list[str] = []

    def __call__(self, namespace: str) -> Mapping[str, str]:
        self.asked.append(namespace)
        if self.refusal is not None:
            raise self.refusal
        return self.properties


def policies(
    namespaces: Namespaces, setting: str = PLAIN, *, clock: StoppedClock | None = None, max_age_seconds: float = 5.0
) -> RebasePolicies:
    runtime = ThreadRuntime(clock or StoppedClock())
    return RebasePolicies(runtime, setting=setting, max_age_seconds=max_age_seconds, load=namespaces)


@pytest.mark.parametrize("setting", [PLAIN, ALL, NONE])
@pytest.mark.parametrize(
    ("text", "found"), [("plain", PLAIN), (" ALL ", ALL), ("none", NONE), ("yes", NONE), ("", NONE)]
)
def test_a_namespaces_policy_overrides_the_servers(setting: str, text: str, found: str) -> None:
    word = policies(Namespaces({REBASE_APPENDS: text}), setting).of("db")
    assert word.mode == found
    assert word.stated_by == f"the namespace db says {REBASE_APPENDS}={text}"


@pytest.mark.parametrize("setting", [PLAIN, ALL, NONE])
def test_the_servers_policy_applies_where_the_namespace_has_none(setting: str) -> None:
    word = policies(Namespaces({"owner": "etl"}), setting).of("db")
    assert (word.mode, word.stated_by) == (setting, f"the server says rebase-appends={setting}")


def test_a_namespaces_policy_is_cached_for_a_while() -> None:
    namespaces, clock = Namespaces({REBASE_APPENDS: "all"}), StoppedClock()
    found = policies(namespaces, clock=clock)
    assert [found.of("db").mode for _ in range(3)] == [ALL] * 3
    assert found.of("other").mode == ALL
    assert namespaces.asked == ["db", "other"]
    namespaces.properties = {}
    clock.seconds += 4.9
    assert found.of("db").mode == ALL
    clock.seconds += 0.1
    assert found.of("db").mode == PLAIN
    assert namespaces.asked == ["db", "other", "db"]


def test_with_age_zero_each_request_reads_the_namespace() -> None:
    namespaces = Namespaces()
    found = policies(namespaces, max_age_seconds=0.0)
    for _ in range(3):
        found.of("db")
    assert namespaces.asked == ["db"] * 3


@pytest.mark.parametrize(
    "refusal", [MetastoreUnavailable("down"), NoSuchNamespace("db"), AccessDenied("not yours")], ids=lambda e: type(e)
)
def test_an_unreadable_namespace_counts_as_none_and_is_cached_too(refusal: IcebergHmsError) -> None:
    namespaces, clock = Namespaces({REBASE_APPENDS: "all"}), StoppedClock()
    namespaces.refusal = refusal
    found = policies(namespaces, ALL, clock=clock)
    for _ in range(3):
        word = found.of("db")
        assert word.mode == NONE
        assert refusal.message in word.stated_by
        assert f"set {REBASE_APPENDS} on the table" in word.stated_by
    assert namespaces.asked == ["db"], "an outage costs one call, not one for each commit"
    namespaces.refusal = None
    clock.seconds += 5.0
    assert found.of("db").mode == ALL


def test_a_slow_read_happens_once_for_a_group() -> None:
    clock, asked = StoppedClock(), list[str]()

    def load(namespace: str) -> Mapping[str, str]:
        asked.append(namespace)
        clock.seconds += 60.0
        raise MetastoreUnavailable("no answer in 60 s")

    found = RebasePolicies(ThreadRuntime(clock), setting=ALL, max_age_seconds=5.0, load=load)
    assert [found.of("db").mode for _ in range(64)] == [NONE] * 64
    assert asked == ["db"]


def test_a_defect_does_not_count_as_an_outage() -> None:
    def load(_: str) -> Mapping[str, str]:
        raise ZeroDivisionError

    found = RebasePolicies(ThreadRuntime(StoppedClock()), setting=PLAIN, max_age_seconds=5.0, load=load)
    with pytest.raises(ZeroDivisionError):
        found.of("db")


def test_the_cache_of_namespaces_is_bounded() -> None:
    namespaces = Namespaces()
    found = policies(namespaces)
    for number in range(CACHED_MAX + 1):
        found.of(str(number))
    found.of(str(CACHED_MAX))
    assert len(namespaces.asked) == CACHED_MAX + 1
    found.of("0")
    assert namespaces.asked[-1] == "0", "the oldest was forgotten"


def test_many_threads_get_one_policy() -> None:
    found = policies(Namespaces({REBASE_APPENDS: "all"}))
    start, heard = Barrier(8), list[str]()

    def ask() -> None:
        start.wait(10)
        heard.append(found.of("db").mode)

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert heard == [ALL] * 8
