from iceberg_hms.catalog.maintenance.reports import (
    DeletedFiles,
    ExpiryReport,
    FileKind,
    FoundFile,
    OrphanReport,
    PurgeReport,
)
from iceberg_hms.errors import StorageError


def test_deleted_files_are_counted_by_kind_and_their_known_lengths_added():
    files = DeletedFiles(
        [
            FoundFile("a", FileKind.DATA, 3),
            FoundFile("b", FileKind.DATA, 4),
            FoundFile("c", FileKind.MANIFEST_LIST),
        ]
    )
    assert files.counts == {FileKind.DATA: 2, FileKind.MANIFEST_LIST: 1}
    assert (files.bytes, files.locations) == (7, ["a", "b", "c"])


def test_reports_of_many_files_print_their_numbers():
    found = [FoundFile(f"file:/t/data/{number}.parquet", FileKind.DATA, 3) for number in range(5_000)]
    files = DeletedFiles(
        [*found, FoundFile("file:/t/m.avro", FileKind.MANIFEST)],
        failed={f"file:/t/{number}": "denied" for number in range(1_000)},
        kept=[f"file:/elsewhere/{number}" for number in range(2_000)],
    )
    counted = (
        "DeletedFiles(5001 files (5000 data, 1 manifest), 15000 bytes; "
        "1000 failed, such as file:/t/0: denied; 2000 kept)"
    )
    assert str(files) == repr(files) == counted
    expiry = ExpiryReport(tuple(range(300)), ("audit",), (), (1,), files, None)
    assert repr(expiry) == f"ExpiryReport(300 snapshot_ids, 1 refs, 0 schema_ids, 1 spec_ids; {counted}; dry run)"
    orphans = OrphanReport(9_000, files, tuple(files.kept))
    assert f"{orphans}" == f"OrphanReport(9000 listed; {counted}; 2000 mismatched)"


def test_a_report_says_why_it_stopped():
    files = DeletedFiles(stopped="the caller left")
    assert repr(files) == "DeletedFiles(0 files, 0 bytes; 0 failed; 0 kept; stopped: the caller left)"


def test_a_report_of_a_purge_prints_its_numbers_and_the_first_file_that_stays():
    assert repr(PurgeReport(7)) == "PurgeReport(7 deleted; 0 failed; 0 kept)"
    left = {"file:/t/1": StorageError("denied", next_step="ask"), "file:/t/2": StorageError("denied")}
    some = PurgeReport(7, failed=2, kept=1, why="they are another's", left=left)
    assert repr(some) == (
        "PurgeReport(7 deleted; 2 failed, such as file:/t/1: denied (ask); 1 kept: they are another's)"
    )
