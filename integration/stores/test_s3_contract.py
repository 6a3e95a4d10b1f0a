"""The S3 driver keeps the contract of the Files port at a real endpoint, under each spelling of its scheme."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.stores import open_files
from iceberg_hms.testing.contracts.files import CHECKS, one_of_many_concurrent_writers_wins
from integration.stores.minio import ObjectStore

pytestmark = pytest.mark.slow

Check = Callable[[Files, str], None]
#: moto looks and then writes, so that all writers of a race may win.
_ON_MINIO = {one_of_many_concurrent_writers_wins: pytest.mark.minio}


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
@pytest.mark.parametrize(
    "check",
    [pytest.param(check, marks=_ON_MINIO.get(check, ()), id=check.__name__) for check in CHECKS],
)
def test_files_on_s3_keep_the_contract(check: Check, scheme: str, object_store: ObjectStore, bucket: str) -> None:
    check(open_files(Settings.load(object_store.settings(), environ={})), f"{scheme}://{bucket}/with a space")
