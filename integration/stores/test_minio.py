"""The object store of the tests is what its name says, and ends with the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from integration.faults import LIMIT, until
from integration.stores.minio import ObjectStore

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
#: Starts a store, says its process id, and waits to be killed.
OWNER = """
import pathlib, sys
from integration.stores.minio import local_object_store
with local_object_store(pathlib.Path(sys.argv[1])) as store:
    print(store.pid, flush=True)
    sys.stdin.read()
"""


def test_a_bucket_keeps_objects_and_goes_with_them(object_store: ObjectStore) -> None:
    object_store.make_bucket("kept")
    with_client = object_store.client()
    with_client.put_object(Bucket="kept", Key="a b/ä%20", Body=b"12")
    upload = with_client.create_multipart_upload(Bucket="kept", Key="unfinished")
    with_client.upload_part(Bucket="kept", Key="unfinished", UploadId=upload["UploadId"], PartNumber=1, Body=b"1")
    assert with_client.get_object(Bucket="kept", Key="a b/ä%20")["Body"].read() == b"12"
    object_store.delete_bucket("kept")
    assert "kept" not in [each["Name"] for each in with_client.list_buckets()["Buckets"]]
    with_client.close()


def test_the_secret_is_on_no_command_line_and_in_no_printed_form(object_store: ObjectStore) -> None:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert object_store.secret_key not in listed + repr(object_store)


@pytest.mark.minio
def test_a_wrong_secret_is_refused(object_store: ObjectStore, bucket: str) -> None:
    stranger = ObjectStore(object_store.kind, object_store.endpoint, object_store.access_key, "wrong").client()
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        stranger.put_object(Bucket=bucket, Key="x", Body=b"")
    stranger.close()


def test_a_store_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        os.kill(pid, 0)
        owner.send_signal(signal.SIGKILL)
        owner.wait(LIMIT)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the store has ended")
