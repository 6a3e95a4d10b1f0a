"""The servers of a process: one for each set of settings, ended with their last user."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest

from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.rest.settings import load
from iceberg_hms.rest.tls import certificates
from iceberg_hms.spark.embedded import Embedding, without_tls


class FakeServer:
    def __init__(self, number: int, token: str) -> None:
        self.uri = f"http://127.0.0.1:{number}"
        self.token = token
        self.stops = 0
        self.broken = False

    def stop(self) -> None:
        self.stops += 1
        if self.broken:
            raise OSError("broken")


class Fakes:
    """Starts fake servers and remembers them."""

    def __init__(self) -> None:
        self.started: list[FakeServer] = []

    def __call__(self, settings: Mapping[str, object], token: str) -> tuple[str, Callable[[], None]]:
        if settings.get("metastore_uri") == "thrift://nobody:1":
            raise MetastoreUnavailable("no server answers")
        server = FakeServer(len(self.started) + 1, token)
        self.started.append(server)
        return server.uri, server.stop


A = {"metastore_uri": "thrift://a:1", "warehouse": "file:/wh"}
B = {"metastore_uri": "thrift://b:1", "warehouse": "file:/wh"}


def test_the_same_settings_share_a_server_until_the_last_user_leaves() -> None:
    fakes = Fakes()
    embedding = Embedding(fakes)
    first, second = embedding.acquire(A), embedding.acquire(dict(A))
    assert first is second
    embedding.release(first)
    assert fakes.started[0].stops == 0
    embedding.release(second)
    assert fakes.started[0].stops == 1


def test_other_settings_get_a_server_and_a_token_of_their_own() -> None:
    embedding = Embedding(Fakes())
    a, b = embedding.acquire(A), embedding.acquire(B)
    assert a.uri != b.uri
    assert a.token != b.token


def test_after_its_end_a_new_server_is_started() -> None:
    fakes = Fakes()
    embedding = Embedding(fakes)
    embedding.release(embedding.acquire(A))
    again = embedding.acquire(A)
    assert [server.uri for server in fakes.started][-1] == again.uri
    assert len(fakes.started) == 2


def test_a_token_is_long_and_is_not_in_the_repr() -> None:
    server = Embedding(Fakes()).acquire(A)
    assert len(server.token) >= 43
    assert server.token not in repr(server)


def test_a_server_that_does_not_start_leaves_nothing_behind() -> None:
    fakes = Fakes()
    embedding = Embedding(fakes)
    with pytest.raises(MetastoreUnavailable):
        embedding.acquire({"metastore_uri": "thrift://nobody:1"})
    embedding.release_all()
    assert fakes.started == []


def test_the_end_of_the_process_ends_all_servers_even_those_in_use() -> None:
    fakes = Fakes()
    embedding = Embedding(fakes)
    held = embedding.acquire(A)
    embedding.acquire(B)
    embedding.release_all()
    embedding.release(held)
    assert [server.stops for server in fakes.started] == [1, 1]


def test_a_server_that_cannot_stop_does_not_keep_the_others_from_it() -> None:
    fakes = Fakes()
    embedding = Embedding(fakes)
    embedding.acquire(A)
    embedding.acquire(B)
    fakes.started[0].broken = True
    embedding.release_all()
    assert [server.stops for server in fakes.started] == [1, 1]


def test_a_forked_child_leaves_its_parents_servers_alone() -> None:
    fakes = Fakes()
    embedding = Embedding(fakes)
    parents = embedding.acquire(A)
    child = os.fork()
    if child == 0:
        embedding.release_all()
        embedding.release(parents)
        own = embedding.acquire(A)
        os._exit(10 * sum(server.stops for server in fakes.started) + (own is parents))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert embedding.acquire(A) is parents


def test_the_certificate_of_a_public_server_is_not_for_an_embedded_one() -> None:
    environ = {
        "ICEBERG_HMS_REST_SSL_CERTFILE": "/nowhere/server.pem",
        "ICEBERG_HMS_REST_SSL_CA_CERTS": "/nowhere/ca.pem",
    }
    _, settings = load({"clients": 3}, environ=environ)
    assert settings.rest_ssl_certfile == "/nowhere/server.pem"
    assert certificates(without_tls(settings)) is None
