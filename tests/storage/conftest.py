"""Stores of S3's protocol on this machine: moto's server, and one that answers what a test says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
from moto.server import ThreadedMotoServer

from tests.storage.scripted_store import ScriptedStore

KEY, SECRET = "AKIDEXAMPLE", "hush-secret"
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """Address of moto's server."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="session")
def moto_client(moto: str) -> Callable[[str], Any]:
    """botocore's client of a service there; one for all tests, since making it takes longer than a test."""

    @cache
    def client(service: str) -> Any:
        return botocore.session.Session().create_client(
            service,
            endpoint_url=moto,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    return client


@pytest.fixture
def bucket(moto_client: Callable[[str], Any]) -> str:
    """A new bucket there."""
    name = f"bucket-{next(_NUMBERS)}"
    moto_client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture
def scripted() -> Iterator[ScriptedStore]:
    with ScriptedStore() as store:
        yield store
