"""The clusters of HDFS that tests share, started once a session, when first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.stores.hdfs import LocalHdfs


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHdfs]:
    """HDFS with one name node."""
    with LocalHdfs(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHdfs]:
    """HDFS with a pair of name nodes. A test that changes which of them is active may leave it so; both run."""
    with LocalHdfs(tmp_path_factory.mktemp("hdfs_pair"), pair=True) as server:
        yield server
