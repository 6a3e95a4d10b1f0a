"""Clients without a token that take connections, memory or time: each is bounded, and others are served meanwhile."""

from __future__ import annotations

import json
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from iceberg_hms.rest.server import RestServer
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.polling import eventually
from tests.rest.fakes import SCHEMA
from tests.security.raw import TABLE, Raw, closed_for, metric, request, serving

MB = 1_000_000
POST = b"POST /v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HEAD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


# -- headers


@pytest.mark.parametrize(
    "piece", [b"X-A: " + b"a" * 1_000 + b"\r\n", b"a" * 10_000, b"a" * 100_000], ids=["lines", "one line", "packets"]
)
def test_a_header_without_an_end_is_refused_at_64_kib(piece: bytes) -> None:
    with serving() as (server, _), Raw(server) as attacker:
        attacker.send(HEAD + b"X-Begin: ")
        assert attacker.send_until_closed(piece, 200 * MB) < 20 * MB
        assert eventually(lambda: closed_for(server, "header too large") == 1)


@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (66_000, 431)])
def test_a_header_in_one_piece_is_measured_too(size: int, status: int) -> None:
    with serving() as (server, _), Raw(server) as client:
        assert client.send(HEAD + b"X-A: " + b"a" * size + b"\r\n\r\n").answer().status == status
        assert status == 200 or client.ended()


def test_a_long_url_counts_as_header() -> None:
    with serving() as (server, _), Raw(server) as client:
        assert client.ask("GET", "/v1/" + "a" * 66_000).status == 431


def test_many_short_header_fields_are_refused() -> None:
    with serving() as (server, _), Raw(server) as client:
        assert client.send(HEAD + b"A: b\r\n" * 300 + b"\r\n").answer().status == 431


def test_half_a_header_gets_ten_seconds() -> None:
    assert RestSettings().rest_header_timeout_ms == 10_000
    with serving(rest_header_timeout_ms=100) as (server, _), Raw(server) as attacker:
        answer = attacker.send(HEAD).answer()
        assert (answer.status, json.loads(answer.body)["error"]["type"]) == (408, "RequestTimeoutException")
        assert attacker.ended()


def test_a_header_that_drips_gets_no_more_time_with_each_byte() -> None:
    with serving(rest_header_timeout_ms=300) as (server, _), Raw(server) as attacker:
        attacker.send(HEAD)
        assert attacker.send_until_closed(b"a", 100 * MB) < 64_000_000
        assert eventually(lambda: metric(server, "rest_connections") == 1)


def test_a_connection_without_a_request_is_closed() -> None:
    with serving(rest_header_timeout_ms=100) as (server, _), Raw(server) as attacker:
        assert attacker.ended()
        assert closed_for(server, "no request in time") == 1


def test_an_idle_connection_is_closed_and_an_honest_one_has_two_minutes() -> None:
    assert RestSettings().rest_keep_alive_seconds >= 120
    with serving(rest_keep_alive_seconds=1, rest_header_timeout_ms=50) as (server, _), Raw(server) as client:
        for _ in range(3):
            assert client.ask("GET", "/v1/config").status == 200
        assert client.ended()
        assert closed_for(server, "idle") == 1


# -- numbers of connections


def test_at_the_total_the_connection_that_is_idle_for_longest_gives_way() -> None:
    with serving(rest_max_connections=3) as (server, _), ExitStack() as stack:
        first, second, third = (stack.enter_context(Raw(server, f"127.0.0.{n}")) for n in (2, 3, 4))
        for each in (second, first, third):
            assert each.ask("GET", "/health/live").status == 200
        honest = stack.enter_context(Raw(server))
        assert honest.ask("GET", "/health/live").status == 200
        assert second.ended()
        assert first.ask("GET", "/health/live").status == 200


def test_where_none_is_idle_a_new_connection_gets_503_and_running_requests_their_answers() -> None:
    with serving(rest_max_connections=2) as (server, catalog), ExitStack() as stack:
        catalog.gate = threading.Event()
        running = [stack.enter_context(Raw(server)).send(request("GET", "/v1/namespaces")) for _ in range(2)]
        for _ in running:
            assert catalog.waiting.acquire(timeout=30)
        refused = stack.enter_context(Raw(server, "127.0.0.2"))
        answer = refused.answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert refused.ended()
        catalog.gate.set()
        assert [each.answer().status for each in running] == [200, 200]
        assert closed_for(server, "connections in all") >= 1


def test_an_attacker_holds_its_own_share_and_others_are_served() -> None:
    with serving(rest_max_connections=8, rest_max_connections_per_peer=4) as (server, _), ExitStack() as stack:
        held = [stack.enter_context(Raw(server, "127.0.0.2")) for _ in range(4)]
        for each in held:
            each.send(HEAD)
        assert eventually(lambda: metric(server, "rest_connections") == 5)
        for _ in range(20):
            with Raw(server, "127.0.0.2") as more:
                assert more.answer().status == 503
        honest = [stack.enter_context(Raw(server)) for _ in range(3)]
        assert [each.ask("GET", TABLE).status for each in honest] == [200] * 3
        assert closed_for(server, "connections of its peer") == 20


def test_a_thousand_idle_connections_shut_nobody_out() -> None:
    with serving(rest_max_connections=100, rest_max_connections_per_peer=50) as (server, _), ExitStack() as stack:
        for number in range(1_000):
            stack.enter_context(Raw(server, f"127.0.0.{2 + number % 6}"))
        with Raw(server) as honest:
            assert honest.ask("GET", TABLE).status == 200
            assert 1 < metric(server, "rest_connections") <= 100


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    """This process has as many open files as it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        while True:
            file = stack.enter_context(Path(os.devnull).open())
            if file.fileno() > highest:
                break
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno(), before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_commit_without_a_file_to_open_is_asked_to_come_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    body = json.dumps(commit).encode()
    with (
        memory_catalog(files=RoutedFiles(), warehouse=tmp_path.as_uri()) as catalog,
        RestServer(catalog, "127.0.0.1", 0, None) as server,
        Raw(server) as client,
    ):
        catalog.create_namespace("logging")
        catalog.create_table("logging.events", SCHEMA)
        assert client.ask("GET", TABLE).status == 200
        with no_file_can_be_opened():
            answer = client.ask("POST", TABLE, body)
        assert (answer.status, answer.headers.get("retry-after")) == (429, "1")
        assert client.ask("POST", TABLE, body).status == 200
    # The server writes to its log after it has answered.
    assert "Too many open files" in caplog.text


# -- bodies and responses


def test_a_body_that_drips_is_given_up() -> None:
    with serving(rest_body_timeout_ms=100) as (server, catalog), Raw(server) as attacker:
        attacker.send(POST + b"Content-Length: 1000\r\n\r\n{")
        assert attacker.answer().status == 408
        assert attacker.ended()
        assert catalog.calls[-1][0] != "create_namespace"


def test_a_body_that_nobody_reads_is_not_received_for_ever() -> None:
    with serving(rest_header_timeout_ms=100) as (server, _), Raw(server) as attacker:
        attacker.send(POST.replace(b"/v1/namespaces", b"/nowhere") + b"Content-Length: 1000000000000\r\n\r\n{")
        assert attacker.answer().status == 404
        assert attacker.ended()


def test_a_body_that_nobody_reads_has_the_size_of_others() -> None:
    with serving(rest_max_body_bytes=10_000) as (server, _), Raw(server) as attacker:
        attacker.send(POST.replace(b"/v1/namespaces", b"/nowhere") + b"Content-Length: 1000000000000\r\n\r\n{")
        assert attacker.answer().status == 404
        assert attacker.send_until_closed(b"x" * 10_000, 1_000 * MB) < 20 * MB


@pytest.mark.parametrize("requests", [1, 3])
def test_a_client_that_does_not_read_its_response_is_left(requests: int) -> None:
    with serving(rest_send_timeout_ms=200) as (server, catalog):
        large = {"action": "set-properties", "updates": {"a": "x" * 15 * MB}}
        catalog.commit("logging.events", [], [large])
        with Raw(server, receive_buffer=4_096) as attacker:
            attacker.send(request("GET", TABLE) * requests)
            assert eventually(lambda: closed_for(server, "response not received in time") == 1)
            assert eventually(lambda: metric(server, "rest_connections") == 1)


# -- HTTP


def test_pipelined_requests_are_answered_in_order_up_to_a_number() -> None:
    with serving() as (server, _):
        with Raw(server) as client:
            client.send(b"".join(request("GET", path) for path in ("/v1/config", "/nowhere", "/health/live")))
            assert [client.answer().status for _ in range(3)] == [200, 404, 200]
        with Raw(server) as attacker:
            attacker.send(request("GET", "/v1/namespaces") * 200)
            assert attacker.answer().status == 200
            assert attacker.ended()
            assert closed_for(server, "too many pipelined requests") == 1


def test_pipelined_requests_have_the_header_fields_of_one_together() -> None:
    """They wait parsed as long as their client does not read, and no budget counts them."""
    many = {f"X_{number}": "" for number in range(200)}
    with serving() as (server, _), Raw(server) as attacker:
        attacker.send(request("GET", "/v1/namespaces", **many) * 4)
        assert attacker.answer().status == 200
        assert attacker.ended()
        assert closed_for(server, "too many pipelined requests") == 1


def test_http_1_0_is_answered_and_closed() -> None:
    with serving() as (server, _), Raw(server) as client:
        assert client.send(b"GET /v1/config HTTP/1.0\r\n\r\n").answer().status == 200
        assert client.ended()


def test_a_client_that_expects_100_gets_it_unless_its_body_is_too_large() -> None:
    body = json.dumps({"namespace": ["n"]}).encode()
    head = POST.decode() + f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving() as (server, _):
        with Raw(server) as client:
            assert client.send(head.encode()).answer().status == 100
            assert client.send(body).answer().status == 200
        with Raw(server) as client:
            assert client.send(head.replace(str(len(body)), "99999999999").encode()).answer().status == 413
            assert client.ended()


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}   ",
        b"Content-Length: -1\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Content-Length : 5\r\n\r\n{}   ",
    ],
)
def test_a_body_with_two_lengths_is_malformed(head: bytes) -> None:
    with serving() as (server, catalog), Raw(server) as attacker:
        before = len(catalog.calls)
        attacker.send(POST + head)
        assert attacker.answer().status == 400
        assert attacker.ended()
        assert len(catalog.calls) == before


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("begin", [b"1;", b'{}\r\n0\r\nX: "', b"0\r\nX: "], ids=["extension", "trailer", "first"])
def test_what_frames_a_chunked_body_is_bounded(begin: bytes) -> None:
    first = b"2\r\n" if begin.startswith(b"{") else b""
    with serving(rest_max_body_bytes=10_000) as (server, catalog), Raw(server) as attacker:
        before = len(catalog.calls)
        attacker.send(CHUNKED + first + begin)
        assert attacker.send_until_closed(b"a" * 100_000, 100 * MB) < 20 * MB
        assert eventually(lambda: closed_for(server, "body too large") == 1)
        assert len(catalog.calls) == before


def test_a_chunked_body_with_extensions_and_trailers_is_read() -> None:
    body = json.dumps({"namespace": ["n"]}).encode()
    chunk = b"%x;name=value\r\n%s\r\n" % (len(body), body)
    with serving() as (server, _), Raw(server) as client:
        assert client.send(CHUNKED + chunk + b"0\r\nX-Trailer: yes\r\n\r\n").answer().status == 200
        assert client.ask("GET", "/v1/namespaces/n").status == 200


def test_a_commit_gets_its_own_answer_whatever_follows_it() -> None:
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    with serving() as (server, catalog), Raw(server) as client:
        client.send(request("POST", TABLE, json.dumps(commit).encode()) + b"not HTTP at all\r\n\r\n")
        answer = client.answer()
        assert answer.status == 200
        assert client.ended()
        assert catalog.load("logging.events").metadata.properties["a"] == "b"


@pytest.mark.parametrize(
    "what", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"x\r\n\r\n"]
)
def test_other_protocols_get_400_and_few_log_lines(what: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with serving() as (server, _):
        for _ in range(50):
            with Raw(server) as attacker:
                assert attacker.send(what).answer().status == 400
                assert attacker.ended()
        assert closed_for(server, "malformed HTTP") == 50
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_an_offer_of_another_protocol_is_answered_in_this_one() -> None:
    with serving() as (server, _), Raw(server) as client:
        for _ in range(3):
            assert client.ask("GET", TABLE, Upgrade="TLS/1.2", Connection="Upgrade").status == 200


COMMIT = json.dumps({"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}).encode()
OFFER = {"Upgrade": "h2c", "Connection": "Upgrade"}


def test_the_body_of_a_request_that_offers_another_protocol_is_read() -> None:
    with serving() as (server, catalog), Raw(server) as client:
        for _ in range(2):
            assert client.ask("POST", TABLE, COMMIT, **OFFER).status == 200
        assert catalog.load("logging.events").metadata.properties["a"] == "b"


def test_a_chunked_body_of_such_a_request_is_read_too() -> None:
    head = request("POST", TABLE, Transfer_Encoding="chunked", **OFFER)
    with serving() as (server, _), Raw(server) as client:
        assert client.send(head + b"%x\r\n" % len(COMMIT) + COMMIT + b"\r\n0\r\n\r\n").answer().status == 200


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
@pytest.mark.parametrize("first", [1, 30, 130, 180, 400], ids=lambda first: f"after {first} bytes")
def test_a_request_behind_an_offer_of_another_protocol_is_answered(method: str, first: int) -> None:
    body = COMMIT if method == "POST" else b""
    sent = request(method, TABLE, body, **OFFER) + request("GET", "/health/live")
    with serving() as (server, _), Raw(server) as client:
        client.send(sent[:first])
        answered = client.send(sent[first:]).answer()
        assert answered.status == (405 if method == "CONNECT" else 200), answered
        assert client.answer().status == 200


def test_such_a_header_counts_once_and_its_body_is_bounded() -> None:
    sent = request("POST", TABLE, **OFFER)[:-2] + b"X-A: " + b"a" * 60_000 + b"\r\nContent-Length: 17000000\r\n\r\n"
    with serving() as (server, _), Raw(server) as client:
        assert client.send(sent).answer().status == 413
