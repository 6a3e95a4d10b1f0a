from iceberg_hms.catalog.maintenance.reports import DeletedFiles, FileKind, FoundFile


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
