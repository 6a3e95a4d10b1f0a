"""TLS: a listener on the network reads nothing, and the server refuses clients that its authority did not certify."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from iceberg_hms.rest.tls import Certificates
from tests.polling import eventually
from tests.security.certificates import Authority
from tests.security.raw import TABLE, Raw, serving


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("tls") / "own")


@pytest.fixture(scope="module")
def server_file(authority: Authority) -> Path:
    return authority.issue("server")


def trusting(authority: Authority, client: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if client is not None:
        context.load_cert_chain(client)
    return context


def connected(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 30), server_hostname="localhost")


def test_requests_over_tls_are_served_and_kept_alive(authority: Authority, server_file: Path) -> None:
    with serving("s3cret", rest_ssl_certfile=str(server_file)) as (server, _):
        assert server.uri == f"https://127.0.0.1:{server.port}"
        headers = {"Authorization": "Bearer s3cret"}
        with httpx.Client(base_url=server.uri, verify=trusting(authority), headers=headers) as client:
            assert [client.get(TABLE).status_code for _ in range(5)] == [200] * 5
            body = {"updates": [{"action": "set-properties", "updates": {"a": "x" * 500_000}}]}
            assert client.post(TABLE, json=body).status_code == 200
            assert len(client.get(TABLE).content) > 500_000
            metrics = client.get("/metrics").text
            assert "iceberg_hms_rest_connections 1" in metrics


def test_plain_http_and_old_tls_get_nothing(authority: Authority, server_file: Path) -> None:
    with serving(rest_ssl_certfile=str(server_file)) as (server, _), Raw(server) as plain:
        plain.send(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises((EOFError, IndexError, ValueError)):
            plain.answer()
        old = trusting(authority)
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            connected(server.port, old)


def test_a_handshake_counts_as_part_of_the_header(authority: Authority, server_file: Path) -> None:
    settings = {"rest_header_timeout_ms": 200, "rest_max_connections_per_peer": 5}
    with serving(rest_ssl_certfile=str(server_file), **settings) as (server, _), ExitStack() as stack:
        half = [stack.enter_context(Raw(server, "127.0.0.2")) for _ in range(20)]
        for each in half[-5:]:
            each.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert all(each.ended() for each in half)
        with httpx.Client(base_url=server.uri, verify=trusting(authority)) as client:
            assert client.get(TABLE).status_code == 200
            counted = client.get("/metrics").text
            assert 'closed_total{reason="connections of its peer"} 15' in counted


def test_without_a_certificate_of_the_client_authority_nobody_is_served(
    authority: Authority, server_file: Path, tmp_path: Path
) -> None:
    stranger = Authority.make(tmp_path / "stranger").issue("client")
    files = {"rest_ssl_certfile": str(server_file), "rest_ssl_ca_certs": str(authority.certificate)}
    with serving(**files) as (server, catalog):
        before = len(catalog.calls)
        for client_file in (None, stranger):
            with pytest.raises(httpx.TransportError):
                httpx.get(server.uri + TABLE, verify=trusting(authority, client_file))
        assert len(catalog.calls) == before
        with httpx.Client(base_url=server.uri, verify=trusting(authority, authority.issue("client"))) as client:
            assert client.get(TABLE).status_code == 200


def test_a_new_certificate_is_used_without_a_restart(
    authority: Authority, server_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iceberg_hms.rest.tls.LOOK_SECONDS", 0.0)
    file = tmp_path / "server.pem"
    file.write_bytes(server_file.read_bytes())
    other = Authority.make(tmp_path / "next")
    with serving(rest_ssl_certfile=str(file)) as (server, _), connected(server.port, trusting(authority)) as kept:
        file.write_text("half a certif")
        connected(server.port, trusting(authority)).close()
        file.write_bytes(other.issue("renewed").read_bytes())
        connected(server.port, trusting(other)).close()
        with pytest.raises(ssl.SSLError):
            connected(server.port, trusting(authority))
        kept.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(100).startswith(b"HTTP/1.1 200")


def test_failed_handshakes_are_counted(authority: Authority, server_file: Path) -> None:
    with serving(rest_ssl_certfile=str(server_file)) as (server, _):
        for _ in range(3):
            with Raw(server) as plain:
                plain.send(b"GET / HTTP/1.1\r\n\r\n")
                assert plain.ended() in (True, False)
        with httpx.Client(base_url=server.uri, verify=trusting(authority)) as client:
            assert eventually(lambda: 'reason="failed TLS handshake"} 3' in client.get("/metrics").text)


class OutOfMemory(ssl.SSLContext):
    """A context that no connection can use, for a reason of its own."""

    def wrap_bio(self, *_arguments: Any, **_others: Any) -> ssl.SSLObject:
        raise MemoryError("no room for another connection")


def test_a_handshake_that_fails_for_any_reason_leaves_no_connection(
    authority: Authority, server_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(rest_ssl_certfile=str(server_file)) as (server, _):
        with monkeypatch.context() as patch:
            patch.setattr(Certificates, "context", lambda *_: OutOfMemory(ssl.PROTOCOL_TLS_SERVER))
            for _ in range(3):
                with Raw(server) as client:
                    assert client.ended()
        with httpx.Client(base_url=server.uri, verify=trusting(authority)) as client:
            assert "iceberg_hms_rest_connections 1\n" in client.get("/metrics").text
    assert "no room for another connection" in caplog.text
