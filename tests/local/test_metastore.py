"""What can be seen without a JVM; integration/test_local_servers.py starts the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.errors import EngineError, InvalidInput
from iceberg_hms.local.metastore import LocalMetastore, stand_in
from tests.local import fake_java


def test_its_warehouse_is_a_location_in_its_folder_unless_named(tmp_path: Path) -> None:
    assert LocalMetastore(tmp_path / "a b").warehouse == f"file:{tmp_path}/a b/warehouse"
    assert LocalMetastore(tmp_path / "c", warehouse="s3://bucket/w").warehouse == "s3://bucket/w"


def test_a_bucket_is_a_folder_of_its_own(tmp_path: Path) -> None:
    conf = stand_in("s3a://lake/wh", tmp_path / "a b")
    assert conf["fs.viewfs.mounttable.lake.linkMergeSlash"] == f"file://{tmp_path}/a%20b/lake"
    assert {key for key in conf if key.startswith("fs.s3")} == {"fs.s3.impl", "fs.s3a.impl", "fs.s3n.impl"}
    assert (tmp_path / "a b" / "lake").is_dir()


@pytest.mark.parametrize("location", ["file:/wh", "hdfs://cluster/wh", "s3:///wh"])
def test_what_is_in_no_bucket_needs_no_stand_in(location: str, tmp_path: Path) -> None:
    assert stand_in(location, tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_its_address_is_loopback(tmp_path: Path) -> None:
    server = LocalMetastore(tmp_path / "hms", port=19083)
    assert server.uri == "thrift://127.0.0.1:19083"
    assert server.log == tmp_path / "hms" / "metastore.log"
    assert server.pid is None


def test_stopping_what_was_never_started_is_harmless(tmp_path: Path) -> None:
    LocalMetastore(tmp_path / "hms").stop()


def test_a_path_that_derby_cannot_carry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        LocalMetastore(tmp_path / "a;b")


def test_start_fails_and_ends_a_java_that_is_no_gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java.install(monkeypatch, tmp_path, fake_java.ANNOUNCE + fake_java.UNTIL_THE_PIPE_BREAKS)
    server = LocalMetastore(tmp_path / "hms")
    with pytest.raises(EngineError, match=r"Hive Metastore did not start.*metastore\.log"):
        server.start()
    assert server.pid is None
