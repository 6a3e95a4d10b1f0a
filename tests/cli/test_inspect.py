"""`iceberg-hms inspect`."""

from __future__ import annotations

from iceberg_hms.cli.inspect import CONSISTENT_READS_MAX, Part, read_together
from iceberg_hms.errors import CorruptFile
from tests.cli.fakes import MemoryCatalog, answer, run
from tests.inspect import samples


def test_inspect_prints_all_parts_as_json() -> None:
    whole = answer("inspect", "logging.events")
    assert whole["table"] == "logging.events"
    assert whole["snapshot_id"] == samples.SECOND
    assert set(whole) == {"table", "snapshot_id", *(part.value for part in Part)}
    assert {row["parameter"]: row["value"] for row in whole["pointer"]["parameters"]} == samples.PARAMETERS
    assert whole["metadata"]["facts"]["uuid"] == samples.RAW["table-uuid"]
    assert whole["metadata"]["properties"] == samples.RAW["properties"]
    assert len(whole["snapshots"]["snapshots"]) == 3
    assert [row["name"] for row in whole["refs"]["refs"]] == ["main", "audit"]
    assert len(whole["history"]["history"]) == 5
    assert whole["manifests"]["manifest_list"].endswith("snap-22.avro")
    assert whole["manifests"]["manifests"][0]["partitions"][0]["lower"] == "2021-04-01"
    first = whole["files"]["files"][0]
    assert first["partition"]["event_time_day"] == "2021-04-01"
    assert first["columns"][0]["lower"] == "ERROR"
    assert whole["files"]["more"] is False


def test_parts_can_be_chosen_and_come_in_the_order_asked_for() -> None:
    assert list(answer("inspect", "logging.events", "-p", "files", "--part", "refs", "-p", "files")) == [
        "table",
        "snapshot_id",
        "files",
        "refs",
    ]


def test_manifests_and_files_are_those_of_the_chosen_snapshot() -> None:
    by_id = answer("inspect", "logging.events", "-p", "manifests", "--snapshot", str(samples.FIRST))
    by_ref = answer("inspect", "logging.events", "-p", "manifests", "--ref", "audit")
    assert by_id == by_ref
    assert (by_id["snapshot_id"], len(by_id["manifests"]["manifests"])) == (samples.FIRST, 1)


def test_a_snapshot_that_is_not_there_is_wrong_usage() -> None:
    result = run("inspect", "logging.events", "--snapshot", "12345")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: snapshot 12345 is not in the table\nnext: ")


def test_the_limit_says_that_there_are_more_files() -> None:
    cut = answer("inspect", "logging.events", "-p", "files", "--limit", "1")["files"]
    assert (len(cut["files"]), cut["more"]) == (1, True)
    exact = answer("inspect", "logging.events", "-p", "files", "--limit", "2")["files"]
    assert (len(exact["files"]), exact["more"]) == (2, False)
    whole = answer("inspect", "logging.events", "-p", "files", "--limit", "0")["files"]
    assert (len(whole["files"]), whole["more"]) == (2, False)


def test_an_empty_table_has_all_parts_and_no_files() -> None:
    empty = MemoryCatalog({samples.NAME: samples.metadata(**samples.EMPTY)})
    whole = answer("inspect", "logging.events", catalog=empty)
    assert whole["snapshot_id"] is None
    assert whole["manifests"] == {"manifest_list": None, "manifests": []}
    assert whole["files"]["files"] == []
    assert run("inspect", "logging.events", catalog=empty).exit_code == 0


def test_people_get_tables_from_the_row_down_to_the_bounds() -> None:
    result = run("inspect", "logging.events")
    assert result.exit_code == 0
    for text in (
        "metadata_location",
        "set by another tool",
        "event_time_day: 2021-04-01 .. 2021-04-02",
        "data/event_time_day=2021-04-01/a b.parquet",
        "ERROR",
        "WARN\\x1b[2J",
        "2021-04-01T00:00:00",
    ):
        assert text in result.stdout, text
    assert "\x1b" not in result.stdout


def test_row_and_metadata_are_read_until_they_belong_together() -> None:
    stale = samples.pointer(metadata_location="file:/wh/old.metadata.json")
    pointer, _ = read_together(MemoryCatalog(pointers=[stale]), "logging.events")
    assert pointer.metadata_location == samples.METADATA_LOCATION


def test_a_table_that_never_stands_still_is_shown_all_the_same() -> None:
    stale = samples.pointer(metadata_location="file:/wh/old.metadata.json")
    catalog = MemoryCatalog(pointers=[stale] * (CONSISTENT_READS_MAX + 1))
    pointer, loaded = read_together(catalog, "logging.events")
    assert (pointer, loaded.metadata_location) == (stale, samples.METADATA_LOCATION)
    assert len(catalog.pointers) == 1


def test_damaged_metadata_is_two_lines_and_exit_code_1() -> None:
    catalog = MemoryCatalog(broken={samples.NAME: CorruptFile("file:/m.json", "it is not JSON")})
    result = run("inspect", "logging.events", catalog=catalog)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: file:/m.json is damaged: it is not JSON\nnext: ")
