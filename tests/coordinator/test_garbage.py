from iceberg_hms.coordinator.garbage import delete_files
from iceberg_hms.errors import StorageError
from iceberg_hms.testing.memory_files import MemoryFiles


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
