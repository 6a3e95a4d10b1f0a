"""`iceberg-hms doctor`, over probes and folders that answer what the test says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.cli.doctor import (
    SWAP_MEANINGS,
    CheckState,
    lock_findings,
    metadata_findings,
    server_findings,
    servers_findings,
    warehouse_finding,
)
from iceberg_hms.clock import SYSTEM_CLOCK, SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AccessDenied, MetastoreUnavailable, MissingFile
from iceberg_hms.metastore.capabilities import Capabilities, CompareAndSwap
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.cli.fakes import METASTORE, MemoryCatalog, answer, run
from tests.inspect import samples

GOOD = Capabilities(
    uri=METASTORE,
    version="4.1.0",
    lock_api=True,
    lock_seconds=0.01,
    lease_seconds=300.0,
    transaction_tables=True,
    compare_and_swap=CompareAndSwap.ATOMIC,
    disallow_incompatible_col_type_changes=False,
    cached=False,
    problems=(),
)


def found(server: Capabilities) -> dict[str, tuple[str, str]]:
    return {finding.check: (finding.state.value, finding.found) for finding in server_findings(server)}


def probing(server: Capabilities) -> dict[str, Any]:
    return {"probe": lambda uri, settings: server}


def test_a_good_server_has_nothing_but_good_findings() -> None:
    assert found(GOOD) == {
        "version": ("ok", "4.1.0"),
        "lock API": ("ok", "works"),
        "lease of locks": ("ok", "300 s"),
        "transaction tables": ("ok", "there"),
        "compare-and-swap": ("ok", "atomic"),
        "hive.metastore.disallow.incompatible.col.type.changes": ("ok", "false"),
    }


@pytest.mark.parametrize("verdict", list(CompareAndSwap))
def test_every_verdict_on_compare_and_swap_is_explained(verdict: CompareAndSwap) -> None:
    state, text = found(replace(GOOD, compare_and_swap=verdict))["compare-and-swap"]
    assert (state, text) == ("ok" if verdict is CompareAndSwap.ATOMIC else "warning", verdict.value)


@pytest.mark.parametrize("verdict", [CompareAndSwap.IGNORED, CompareAndSwap.BROKEN])
def test_where_the_lock_alone_protects_the_pause_is_named_that_no_client_can_cure(verdict: CompareAndSwap) -> None:
    (meaning,) = (
        finding.meaning
        for finding in server_findings(replace(GOOD, compare_and_swap=verdict))
        if finding.check == "compare-and-swap"
    )
    assert "the lock alone protects commits" in meaning
    assert "pauses for longer than its lease, between its last check of the lock and its alter" in meaning
    assert "no client can prevent that" in meaning


@pytest.mark.parametrize("verdict", list(CompareAndSwap))
def test_no_lock_is_a_failure_wherever_compare_and_swap_is_not_atomic(verdict: CompareAndSwap) -> None:
    server = replace(GOOD, compare_and_swap=verdict)
    states = [finding.state for finding in lock_findings(Settings(lock="none"), server)]
    assert states == ([] if verdict is CompareAndSwap.ATOMIC else [CheckState.FAILED])
    assert list(lock_findings(Settings(), server)) == []


def test_no_lock_where_it_is_refused_is_exit_code_1() -> None:
    ignoring = replace(GOOD, compare_and_swap=CompareAndSwap.IGNORED)
    assert run("doctor", "--lock", "none", **probing(ignoring)).exit_code == 1
    assert run("doctor", **probing(ignoring)).exit_code == 0


def test_no_verdict_is_explained_that_does_not_exist() -> None:
    assert set(SWAP_MEANINGS) == {verdict.value for verdict in CompareAndSwap}


def test_what_does_not_work_is_said_with_its_weight() -> None:
    bad = replace(
        GOOD,
        lock_api=False,
        lease_seconds=None,
        transaction_tables=False,
        disallow_incompatible_col_type_changes=True,
        problems=("There are no transaction tables",),
    )
    states = {check: state for check, (state, _) in found(bad).items()}
    assert states["lock API"] == "failed"
    assert states["lease of locks"] == states["transaction tables"] == "warning"
    assert states["hive.metastore.disallow.incompatible.col.type.changes"] == "warning"
    assert found(bad)["problem"] == ("warning", "There are no transaction tables")
    untold = found(replace(GOOD, disallow_incompatible_col_type_changes=None))
    assert untold["hive.metastore.disallow.incompatible.col.type.changes"] == ("ok", "not told")


def test_a_lock_call_that_takes_long_is_a_warning_that_names_the_connection_pool() -> None:
    (lock,) = [each for each in server_findings(replace(GOOD, lock_seconds=31.4)) if each.check == "lock API"]
    assert (lock.state.value, lock.found) == ("warning", "works, after 31 s")
    assert "datanucleus.connectionPool.maxPoolSize" in lock.meaning


def test_a_server_that_reads_through_a_cache_is_not_for_commits() -> None:
    (store,) = [each for each in server_findings(replace(GOOD, cached=True)) if each.check == "store"]
    assert (store.state.value, store.found) == ("failed", "CachedStore")
    assert "org.apache.hadoop.hive.metastore.ObjectStore" in store.meaning


def test_each_server_of_the_list_is_probed_and_one_out_of_reach_is_a_warning() -> None:
    def probe(uri: str, settings: Settings) -> Capabilities:
        if uri.endswith(":1"):
            raise MetastoreUnavailable("refused")
        return replace(GOOD, uri=uri)

    findings = servers_findings(Settings(metastore_uri="thrift://a:1,thrift://b:2"), probe)
    assert (findings[0].subject, findings[0].state, findings[0].found) == ("thrift://a:1", CheckState.WARNING, "no")
    assert {finding.subject for finding in findings[1:]} == {"thrift://b:2"}
    with pytest.raises(MetastoreUnavailable):
        servers_findings(Settings(metastore_uri="thrift://a:1,thrift://b:1"), probe)


def test_the_warehouse_is_tried_with_a_file_that_is_gone_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "ware house"
    folder.mkdir()
    assert warehouse_finding(f"file:{folder}/", RoutedFiles()).state is CheckState.OK
    assert list(folder.iterdir()) == []


def test_a_warehouse_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    finding = warehouse_finding(f"file:{tmp_path}/file", RoutedFiles())
    assert (finding.state, finding.found) == (CheckState.FAILED, "no")


def test_a_warehouse_that_gives_back_something_else_is_a_failure() -> None:
    class Forgetful:
        def write(self, location: str, data: bytes) -> None: ...

        def read(self, location: str) -> bytes:
            return b""

        def length(self, location: str) -> int:
            return 0

        def delete(self, location: str) -> bool:
            return True

    assert warehouse_finding("file:/w", Forgetful()).state is CheckState.FAILED


def test_no_warehouse_is_a_warning() -> None:
    assert warehouse_finding("", RoutedFiles()).state is CheckState.WARNING


def test_all_good_is_exit_code_0_and_doctor_shows_the_settings_in_force(tmp_path: Path) -> None:
    told = answer(
        "doctor", "--warehouse", f"file:{tmp_path}", "--set", "clients=7", "--set", "rest.port=9", **probing(GOOD)
    )
    assert told["healthy"] is True
    assert (told["settings"]["clients"], told["settings"]["rest.port"]) == (7, 9)
    assert {finding["state"] for finding in told["findings"]} == {"ok"}


def test_a_failure_is_exit_code_1_and_doctor_still_shows_all_it_found() -> None:
    result = run("doctor", **probing(replace(GOOD, lock_api=False)))
    assert result.exit_code == 1
    assert "does not work" in result.stdout
    assert "Settings in force" in result.stdout
    assert "commit.retry.num-retries" in result.stdout
    assert result.stderr == ""


def test_no_server_in_reach_is_exit_code_3() -> None:
    def probe(uri: str, settings: Settings) -> Capabilities:
        raise MetastoreUnavailable("refused")

    result = run("doctor", probe=probe)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: refused\nnext: ")


def test_no_metastore_named_is_exit_code_2() -> None:
    assert run("doctor", metastore=False).exit_code == 2


class Metadata(MemoryFiles):
    """Metadata files of these lengths, by the name of their table."""

    def __init__(self, lengths: dict[str, int]) -> None:
        super().__init__()
        self.lengths = lengths

    def length(self, location: str) -> int:
        if location not in self.lengths:
            raise MissingFile(location)
        return self.lengths[location]


def looked_at(lengths: dict[str, int], clock: Any = SYSTEM_CLOCK, **tables: Any) -> list[tuple[str, str, str]]:
    pointers = [samples.pointer(metadata_location=name) for name in lengths]
    names = {TableName("db", name): samples.metadata() for name in lengths}
    catalog = MemoryCatalog(tables=names, pointers=pointers, **tables)
    findings = metadata_findings(100, catalog, Metadata(lengths), clock)
    return [(finding.check, finding.state.value, finding.found) for finding in findings]


def test_tables_with_large_metadata_are_named() -> None:
    assert looked_at({"a": 50, "b": 51, "c": 101}) == [
        ("db.b", "warning", "51 bytes of 100"),
        ("db.c", "warning", "101 bytes, more than 100: it is refused"),
    ]
    assert looked_at({"a": 50, "b": 7}) == [("metadata files", "ok", "all 2 have at most 50 bytes")]


def test_the_look_at_metadata_ends_when_its_time_is_over_or_the_metastore_fails() -> None:
    class Leaping(SystemClock):
        seconds = 0.0

        def monotonic(self) -> float:
            self.seconds += 11
            return self.seconds

    [(_, state, said)] = looked_at({"a": 1, "b": 1}, Leaping())
    assert (state, said.startswith("looked at 1, not at all: ")) == ("warning", True)


def test_a_metastore_that_refuses_the_list_of_tables_ends_the_look_alone() -> None:
    class Refusing(MemoryCatalog):
        def list_tables(self, namespace: str) -> list[TableName]:
            raise AccessDenied("you may not list")

    [finding] = metadata_findings(100, Refusing(), Metadata({}))
    assert (finding.state, "you may not list" in finding.found) == (CheckState.WARNING, True)
