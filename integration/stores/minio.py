"""An S3 endpoint for tests: MinIO on loopback, in a folder of its own, gone with this process.

Where MinIO is not built (`make minio`), moto's server takes its place. It proves less: it checks no signatures, has no
policies, and answers requests that race for a name one after the other. Tests that need more are marked `minio`; they
are not collected without it, and pytest's header says so.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import create_loader

from iceberg_hms.errors import EngineError
from integration.faults import LIMIT, until

#: What `make minio` builds.
PROGRAM = Path(__file__).parent.parent.parent / "build" / "stores" / "minio"
REGION = "us-east-1"
#: Several connections, since checks list and read in parallel. A failure shows at once: what waits, waits in the test.
_CLIENT = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"total_max_attempts": 1},
    s3={"addressing_style": "path"},
    max_pool_connections=16,
)
#: For all sessions: reading the description of a service takes longer than a test.
_LOADER = create_loader()
#: How many keys one request may delete.
_DELETE_MAX = 1000
#: Another process may take a free port before the server does.
_STARTS_MAX = 3


@dataclass(frozen=True)
class ObjectStore:
    """A running endpoint, and the account that may do everything there.

    kind: "MinIO" or "moto". endpoint: `http://host:port`. pid: of the server; None for a container.
    """

    kind: str
    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    region: str = REGION
    pid: int | None = None

    def settings(self, *, endpoint: str = "", **others: Any) -> dict[str, Any]:
        """Keywords for `iceberg_hms.connect` and `Settings.load`. endpoint: of a proxy before the store. others: more
        keywords, which go before these."""
        return {
            "s3_endpoint": endpoint or self.endpoint,
            "s3_region": self.region,
            "s3_access_key_id": self.access_key,
            "s3_secret_access_key": self.secret_key,
            **others,
        }

    def client(self, service: str = "s3", *, endpoint: str = "") -> Any:
        """A botocore client that looks at the store from outside; the caller closes it. service: "s3" or "sts".
        endpoint: of a proxy before the store."""
        session = botocore.session.Session()
        session.register_component("data_loader", _LOADER)
        return session.create_client(
            service,
            region_name=self.region,
            endpoint_url=endpoint or self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=_CLIENT,
        )

    def make_bucket(self, name: str) -> None:
        client = self.client()
        client.create_bucket(Bucket=name)
        client.close()

    def delete_bucket(self, name: str) -> None:
        """With all that is in it, unfinished uploads too."""
        client = self.client()
        for page in client.get_paginator("list_objects_v2").paginate(
            Bucket=name, PaginationConfig={"PageSize": _DELETE_MAX}
        ):
            if keys := [{"Key": each["Key"]} for each in page.get("Contents", ())]:
                client.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=name):
            for each in page.get("Uploads", ()):
                client.abort_multipart_upload(Bucket=name, Key=each["Key"], UploadId=each["UploadId"])
        client.delete_bucket(Bucket=name)
        client.close()


def is_built() -> bool:
    """Whether MinIO itself is there."""
    return PROGRAM.is_file()


@contextmanager
def local_object_store(folder: Path, key: str = "tests", secret: str = "") -> Iterator[ObjectStore]:
    """Run an empty one until the block ends. folder: for its data and its log. key, secret: of its account; without a
    secret, a random one. Raises EngineError if it does not answer."""
    secret = secret or secrets.token_urlsafe(24)
    for left in reversed(range(_STARTS_MAX)):
        try:
            process, store = _start(folder, key, secret)
            break
        except EngineError:
            if not left:
                raise
    try:
        yield store
    finally:
        process.terminate()
        process.wait(LIMIT)


def _start(folder: Path, key: str, secret: str) -> tuple[subprocess.Popen[bytes], ObjectStore]:
    port = _free_port()
    kind, command, environ = _minio(folder, port, key, secret) if is_built() else _moto(port)
    log = folder / f"{kind}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*_ends_with_parent(), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, **environ},
            # Ctrl-C at a terminal goes to the group: tests that end in order still read and delete.
            process_group=0,
        )
    store = ObjectStore(kind, f"http://127.0.0.1:{port}", key, secret, pid=process.pid)
    try:
        until(lambda: process.poll() is not None or answers(store), f"{kind} answers")
    except BaseException:
        process.kill()
        process.wait(LIMIT)
        raise
    if process.poll() is not None:
        raise EngineError(f"{kind} ended while starting: {log.read_text(errors='replace')[-2000:]}")
    return process, store


def _minio(folder: Path, port: int, key: str, secret: str) -> tuple[str, Sequence[str], Mapping[str, str]]:
    command = [str(PROGRAM), "server", str(folder / "data"), "--address", f"127.0.0.1:{port}", "--quiet"]
    settings = {
        "MINIO_ROOT_USER": key,
        "MINIO_ROOT_PASSWORD": secret,
        "MINIO_REGION": REGION,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        # Without it, MinIO refuses to start on the disk of the operating system.
        "MINIO_CI_CD": "1",
    }
    return "MinIO", command, settings


def _moto(port: int) -> tuple[str, Sequence[str], Mapping[str, str]]:
    return "moto", [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], {}


def answers(store: ObjectStore) -> bool:
    """Whether the endpoint answers a signed request."""
    client = store.client()
    try:
        client.list_buckets()
    except (BotoCoreError, ClientError):
        return False
    finally:
        client.close()
    return True


def _ends_with_parent() -> list[str]:
    # Where it is there (Linux), setpriv ends the server when this process is killed.
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
