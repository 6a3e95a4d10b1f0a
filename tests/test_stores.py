from __future__ import annotations

import errno

import pytest

from iceberg_hms.assembly import assemble
from iceberg_hms.config import Settings
from iceberg_hms.errors import StorageError
from iceberg_hms.storage import local_files
from iceberg_hms.stores import open_files, open_stores


@pytest.mark.parametrize(
    "files_of",
    [
        lambda settings: assemble(settings).services.ports.files,
        open_files,
        lambda settings: open_stores(settings).files,
    ],
)
def test_a_store_s_transient_error_is_retried_as_the_setting_says(files_of, tmp_path, monkeypatch):
    errors, read = [], local_files.read

    def flaky(*arguments):
        if errors:
            raise errors.pop()
        return read(*arguments)

    monkeypatch.setattr(local_files, "read", flaky)
    (tmp_path / "x").write_bytes(b"abc")
    errors.append(OSError(errno.EIO, "Input/output error"))
    assert files_of(Settings(metastore_uri="thrift://h:1")).read(f"{tmp_path}/x") == b"abc"
    errors.append(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError, match="Input/output error"):
        files_of(Settings(metastore_uri="thrift://h:1", metadata_refresh_max_retries=0)).read(f"{tmp_path}/x")
