"""`iceberg-hms tables`."""

from __future__ import annotations

from iceberg_hms.cli.tables import total
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CorruptFile, MetastoreUnavailable, MissingFile
from tests.cli.fakes import MemoryCatalog, answer, run
from tests.inspect import samples

BROKEN = TableName("logging", "broken")
EMPTY = TableName("nyc", "empty")


def catalog() -> MemoryCatalog:
    tables = {samples.NAME: samples.metadata(), EMPTY: samples.metadata(**samples.EMPTY)}
    return MemoryCatalog(tables, broken={BROKEN: MissingFile("file:/wh/x.metadata.json")})


def test_the_tables_of_all_namespaces_are_listed() -> None:
    assert answer("tables", catalog=catalog()) == [
        {"namespace": "logging", "name": "broken"},
        {"namespace": "logging", "name": "events"},
        {"namespace": "nyc", "name": "empty"},
    ]
    text = run("tables", catalog=catalog()).stdout
    assert "events" in text
    assert "empty" in text


def test_one_namespace_is_listed_alone() -> None:
    assert answer("tables", "nyc", catalog=catalog()) == [{"namespace": "nyc", "name": "empty"}]
    assert answer("tables", "default", catalog=catalog()) == []


def test_a_namespace_that_is_not_there_is_an_error() -> None:
    result = run("tables", "nowhere", catalog=catalog())
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: Namespace does not exist: nowhere" in result.stderr


def test_long_reads_the_numbers_and_a_broken_table_is_a_row_with_the_reason() -> None:
    broken, events, empty = answer("tables", "--long", catalog=catalog())
    assert events == {
        "namespace": "logging",
        "name": "events",
        "format_version": 2,
        "snapshots": 3,
        "current_snapshot_id": samples.SECOND,
        "records": 4,
        "files": 3,
        "size": 3_000,
        "last_updated_ms": 1_617_280_000_009,
        "error": None,
    }
    assert broken["error"] == "Failed to open input stream for file: file:/wh/x.metadata.json"
    assert (empty["snapshots"], empty["current_snapshot_id"], empty["records"]) == (0, None, None)


def test_the_long_table_shows_errors_only_where_there_are_some() -> None:
    text = run("tables", "-l", catalog=catalog()).stdout
    assert "Failed to open" in text
    assert "2.9 KiB" in text
    assert "error" not in run("tables", "-l", "nyc", catalog=catalog()).stdout


def test_a_damaged_file_is_a_row_but_a_metastore_that_is_gone_ends_the_listing() -> None:
    damaged = MemoryCatalog({}, broken={BROKEN: CorruptFile("file:/x", "it ends early")})
    assert answer("tables", "-l", catalog=damaged)[0]["error"] == "file:/x is damaged: it ends early"
    gone = MemoryCatalog({}, broken={BROKEN: MetastoreUnavailable("down")})
    assert run("tables", "-l", catalog=gone).exit_code == 3


def test_a_number_of_a_summary_is_read_or_left_out() -> None:
    assert total({"a": "12"}, "a") == 12
    assert total({"a": "-1"}, "a") is None
    assert total({"a": "²"}, "a") is None
    assert total({}, "a") is None
