from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.errors import StorageError
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.coordinator.harness import Harness, append


class StubbornFiles(MemoryFiles):
    def delete(self, location):
        if location == "file:/b":
            raise StorageError("denied")
        return super().delete(location)


def test_a_file_that_cannot_be_deleted_is_logged_and_passed_over(caplog):
    files = StubbornFiles()
    for name in "abc":
        files.write(f"file:/{name}", b"")
    delete_files(files, ["file:/a", "file:/gone", "file:/b", "file:/c"])
    assert files.locations() == ("file:/b",)
    assert "file:/b could not be deleted: denied" in caplog.text
    assert "gone" not in caplog.text


def test_what_a_refused_swap_carried_stays_and_what_was_never_sent_does_not():
    """mine is built | another swaps: built anew | swap: refused, another was faster | built anew: made"""
    harness = Harness()
    harness.create()
    before = harness.metadata_files()
    acquire = harness.lock.acquire

    def overtaken(*arguments, **options):
        harness.foreign_commit(theirs="1")
        return acquire(*arguments, **options)

    harness.lock.acquire = overtaken
    harness.pointer.before_moves.append(lambda: harness.foreign_commit(theirs="2"))
    theirs_and_mine = 3
    report = harness.commit(append("file:/a"))
    assert report.replays == 2
    assert len(harness.metadata_files() - before) == theirs_and_mine + 1, (
        "the refused one stays, the unsent one is gone"
    )
