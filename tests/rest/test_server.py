from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import pytest

from iceberg_hms.errors import ConfigError, EngineError, QueueFull
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.access.tokens import Everyone
from iceberg_hms.rest.server import RestServer
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.forking import said_by
from tests.polling import eventually
from tests.rest.fakes import SCHEMA, ScriptedCatalog, error_of

TOKEN = "correct-horse-battery"


@pytest.fixture
def server(catalog: ScriptedCatalog) -> Iterator[RestServer]:
    with RestServer(catalog, "127.0.0.1", 0, TOKEN) as running:
        yield running


@pytest.fixture
def http(server: RestServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.uri, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client


def test_the_server_answers_as_soon_as_start_returns(catalog: ScriptedCatalog) -> None:
    server = RestServer(catalog, "127.0.0.1", 0, None)
    assert server.start() == server.uri
    assert server.port != 0
    assert httpx.get(f"{server.uri}/health/ready").status_code == 200
    server.stop()
    server.stop()
    assert server.wait(0)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.uri}/health/live")


def test_the_server_requires_its_token(server: RestServer, http: httpx.Client) -> None:
    assert http.get("/v1/config").status_code == 200
    response = httpx.get(f"{server.uri}/v1/config")
    assert error_of(response)[:2] == (401, "NotAuthorizedException")


def test_a_table_is_created_loaded_and_dropped_over_a_real_connection(
    http: httpx.Client, catalog: ScriptedCatalog
) -> None:
    assert http.post("/v1/namespaces", json={"namespace": ["nyc"]}).status_code == 200
    assert http.post("/v1/namespaces/nyc/tables", json={"name": "t", "schema": SCHEMA}).status_code == 200
    loaded = http.get("/v1/namespaces/nyc/tables/t")
    tag = loaded.headers["etag"]
    assert http.get("/v1/namespaces/nyc/tables/t", headers={"If-None-Match": tag}).status_code == 304
    assert http.head("/v1/namespaces/nyc/tables/t").status_code == 204
    assert http.head("/v1/namespaces/nyc/tables/none").status_code == 404
    assert error_of(http.get("/v1/namespaces/nyc%1Ft/tables/files"))[:2] == (404, "NoSuchTableException")
    assert http.delete("/v1/namespaces/nyc/tables/t").status_code == 204


def test_a_connection_stays_usable_after_every_kind_of_response(server: RestServer, catalog: ScriptedCatalog) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        reader = connection.makefile("rb")
        for method, path, status in (
            ("GET", "/v1/config", b"200"),
            ("HEAD", "/v1/namespaces/none", b"404"),
            ("GET", "/v1/namespaces/none", b"404"),
            ("HEAD", "/v1/namespaces/default", b"204"),
            ("GET", "/nowhere", b"404"),
            ("GET", "/health/live", b"200"),
        ):
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            connection.sendall(head.encode())
            assert reader.readline().split()[1] == status
            length = 0
            while (line := reader.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if method != "HEAD":
                reader.read(length)
        reader.close()


def test_a_body_over_the_limit_is_refused_before_it_is_sent() -> None:
    catalog = ScriptedCatalog(rest_max_body_bytes=1_024)
    with (
        RestServer(catalog, "127.0.0.1", 0, None, settings=catalog.rest_settings) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection,
        connection.makefile("rb") as reader,
    ):
        connection.sendall(
            b"POST /v1/namespaces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000000000000\r\n\r\n"
        )
        assert reader.readline().split()[1] == b"413"
        # The server closes: what the client would go on sending is not read.
        assert reader.read().endswith(b"}")


def test_a_port_that_is_taken_is_an_engine_error(server: RestServer, catalog: ScriptedCatalog) -> None:
    with pytest.raises(EngineError, match=f"cannot listen on http://127.0.0.1:{server.port}"):
        RestServer(catalog, "127.0.0.1", server.port, None).start()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 65_536), ("127.0.0.1", -1), ("999.999.999.999", 0)])
def test_an_invalid_address_is_an_engine_error(catalog: ScriptedCatalog, host: str, port: int) -> None:
    with pytest.raises(EngineError, match="cannot listen"):
        RestServer(catalog, host, port, TOKEN).start()


def test_a_blank_token_is_refused(catalog: ScriptedCatalog) -> None:
    with pytest.raises(ConfigError):
        RestServer(catalog, "127.0.0.1", 0, "")


def test_a_server_cannot_be_started_twice(catalog: ScriptedCatalog) -> None:
    with RestServer(catalog, "127.0.0.1", 0, None) as server, pytest.raises(EngineError, match="before"):
        server.start()


def test_a_server_that_never_started_stops_at_once(catalog: ScriptedCatalog) -> None:
    server = RestServer(catalog, "127.0.0.1", 0, None)
    server.stop()
    assert server.wait(0)


def test_signals_stay_with_the_caller(catalog: ScriptedCatalog) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with RestServer(catalog, "127.0.0.1", 0, None):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_serving_other_machines_needs_a_token_or_a_word_and_warns_without_tls(
    catalog: ScriptedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match="other machines reach"):
        RestServer(catalog, "0.0.0.0", 0, None)
    RestServer(catalog, "127.0.0.1", 0, None)
    assert caplog.text == ""
    RestServer(catalog, "0.0.0.0", 0, TOKEN)
    assert "without TLS" in caplog.text
    assert "without a token" not in caplog.text
    RestServer(catalog, "0.0.0.0", 0, access=Everyone())
    assert "without a token" in caplog.text


def test_running_requests_finish_before_the_server_stops(catalog: ScriptedCatalog) -> None:
    catalog.gate = threading.Event()
    answers: list[int] = []
    with RestServer(catalog, "127.0.0.1", 0, None) as server:
        url = f"{server.uri}/v1/namespaces"
        asker = threading.Thread(target=lambda: answers.append(httpx.get(url, timeout=30).status_code))
        asker.start()
        assert catalog.waiting.acquire(timeout=10)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        stopper.join(0.5)
        assert stopper.is_alive()
        catalog.gate.set()
        stopper.join(30)
        asker.join(30)
    assert answers == [200]


def test_a_socket_that_is_handed_over_refuses_nobody(catalog: ScriptedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    a server hands its socket over: it answers meanwhile, and each answer is the last of its connection
    a client asks when no server is there
    the next server answers
    """
    monkeypatch.setattr("iceberg_hms.rest.server.HAND_OVER_SECONDS", 0.5)
    first = RestServer(catalog, "127.0.0.1", 0, None)
    url = f"{first.start()}/health/live"
    with ThreadPoolExecutor(1) as pool, httpx.Client(timeout=30) as http:
        assert "connection" not in http.get(url).headers
        handing_over = pool.submit(first.hand_over)
        assert eventually(lambda: http.get(url).headers.get("connection") == "close")
        assert httpx.get(f"{first.uri}/health/ready", timeout=30).status_code == 200
        kept = handing_over.result(30)
        assert first.wait(0)
        late = pool.submit(http.get, url)
        with RestServer(catalog, "127.0.0.1", 1, None, listener=kept) as second:
            assert second.uri == first.uri
            assert late.result(30).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_a_server_on_a_socket_that_others_have_lets_clients_leave_before_it_stops(
    catalog: ScriptedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iceberg_hms.rest.server.HAND_OVER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        with RestServer(catalog, "127.0.0.1", 0, None, listener=listener.dup()) as server:
            draining = pool.submit(server.drain)
            url = f"{server.uri}/health/live"
            assert eventually(lambda: httpx.get(url).headers.get("connection") == "close")
            draining.result(30)
        # The socket is still there.
        socket.create_connection(listener.getsockname(), timeout=30).close()


def test_the_address_of_a_handed_over_socket_says_who_reaches_it(catalog: ScriptedCatalog) -> None:
    with (
        socket.create_server(("0.0.0.0", 0)) as listener,
        pytest.raises(ConfigError, match=r"other machines reach 0\.0\.0\.0"),
    ):
        RestServer(catalog, "127.0.0.1", 0, None, listener=listener)


def test_a_connection_that_was_accepted_last_gets_its_answer(catalog: ScriptedCatalog) -> None:
    """Its request is on its way when the server stops."""
    with RestServer(catalog, "127.0.0.1", 0, None) as server, ThreadPoolExecutor(1) as pool:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            assert eventually(lambda: "iceberg_hms_rest_connections 2" in httpx.get(f"{server.uri}/metrics").text)
            stopping = pool.submit(server.stop)
            assert eventually(lambda: not is_listening(server.port))
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with connection.makefile("rb") as reader:
                assert reader.readline().split()[1] == b"200"
                reader.read()
        stopping.result(30)


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("bound", [{"queue_max_changes": 1}, {"queue_max_bytes": 1}], ids=["count", "bytes"])
def test_a_full_queue_does_nothing_of_what_it_refuses(bound: dict[str, int]) -> None:
    """
    1     commits; its swap is held
    2, 3  commit too: one waits in the queue, which is full then; the other gets 429 at once, and so does Python
    1     goes on, and so does the one that waits
    """
    swapping, gate = threading.Event(), threading.Event()
    files, pointer = MemoryFiles(), MemoryTablePointer(namespaces=())
    path = "/v1/namespaces/logging/tables/events"
    with (
        memory_catalog(files=files, pointer=pointer, **bound) as catalog,
        RestServer(catalog, "127.0.0.1", 0, None) as server,
        httpx.Client(base_url=server.uri, timeout=30) as http,
        ThreadPoolExecutor(3) as pool,
    ):
        catalog.create_namespace("logging")
        table = catalog.create_table("logging.events", SCHEMA)

        def post(name: str) -> httpx.Response:
            update = {"action": "set-properties", "updates": {name: "yes"}}
            return http.post(path, json={"requirements": [], "updates": [update]})

        try:
            pointer.before_moves.append(lambda: (swapping.set(), gate.wait(30)))
            first = pool.submit(post, "1")
            assert swapping.wait(30)
            there, calls = files.locations(), len(pointer.calls)
            others = {pool.submit(post, name): name for name in ("2", "3")}
            [early], [late] = wait(others, 30, FIRST_COMPLETED)
            refused = early.result()
            assert error_of(refused)[:2] == (429, "TooManyRequestsException")
            assert refused.headers["retry-after"] == "1"
            with pytest.raises(QueueFull, match="waiting for logging") as caught:
                table.append([DataFile("file:/a.parquet", "PARQUET", 1, 10)])
            assert caught.value.proved_failed
            assert not late.done()
            assert (files.locations(), len(pointer.calls)) == (there, calls)
        finally:
            gate.set()
        assert first.result(30).status_code == late.result(30).status_code == 200
        table.refresh()
        assert {"1", others[late]} == table.metadata.properties.keys() & {"1", "2", "3"}
        assert table.metadata.current_snapshot is None
        assert post(others[early]).status_code == 200


def test_the_entity_tag_has_the_name_that_java_looks_for() -> None:
    catalog = ScriptedCatalog()
    catalog.create_table("default.t", SCHEMA)
    with (
        RestServer(catalog, "127.0.0.1", 0, token=TOKEN) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection,
    ):
        request = f"GET /v1/namespaces/default/tables/t HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{request}Connection: close\r\n\r\n".encode())
        head = connection.makefile("rb").read().partition(b"\r\n\r\n")[0]
    assert b"\r\nETag: W/" in head


def test_pyiceberg_works_through_the_server(tmp_path: Path) -> None:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NamespaceNotEmptyError,
        NoSuchNamespaceError,
        NoSuchTableError,
        TableAlreadyExistsError,
        UnauthorizedError,
    )
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    catalog = ScriptedCatalog(warehouse=(tmp_path / "ware house").as_uri().replace("%20", " "))
    schema = Schema(NestedField(1, "level", StringType()), NestedField(2, "n", LongType()))
    with (
        RestServer(catalog, "127.0.0.1", 0, TOKEN) as server,
        contextlib.closing(RestCatalog("ours", uri=server.uri, token=TOKEN)) as rest,
    ):
        rest.create_namespace("logging", {"a": "b"})
        with pytest.raises(NamespaceAlreadyExistsError):
            rest.create_namespace("logging")
        assert rest.load_namespace_properties("logging")["a"] == "b"
        assert rest.update_namespace_properties("logging", {"a"}, {"c": "d"}).removed == ["a"]
        assert sorted(rest.list_namespaces()) == [("default",), ("logging",)]
        assert rest.namespace_exists("logging")
        assert not rest.namespace_exists("none")
        with pytest.raises(NoSuchNamespaceError):
            rest.create_table("none.t", schema)
        first = rest.create_table("logging.events", schema, properties={"p": "q"})
        with pytest.raises(TableAlreadyExistsError):
            rest.create_table("logging.events", schema)
        second = rest.load_table("logging.events")
        with first.transaction() as transaction:
            transaction.set_properties(x="1")
        with first.update_schema() as update:
            update.add_column("extra", StringType())
        with pytest.raises(CommitFailedException, match="Requirement failed"), second.update_schema() as update:
            update.add_column("other", StringType())
        assert rest.load_table("logging.events").schema().find_field("extra").field_id == 3
        with rest.create_table_transaction("logging.staged", schema) as staged:
            staged.set_properties(y="2")
        assert rest.list_tables("logging") == [("logging", "events"), ("logging", "staged")]
        rest.rename_table("logging.staged", "logging.renamed")
        assert rest.table_exists("logging.renamed")
        assert not rest.table_exists("logging.staged")
        location = rest.load_table("logging.renamed").metadata_location
        rest.drop_table("logging.renamed")
        rest.register_table("logging.back", location)
        with pytest.raises(NoSuchTableError):
            rest.load_table("logging.renamed")
        with pytest.raises(NamespaceNotEmptyError):
            rest.drop_namespace("logging")
        for name in ("events", "back"):
            rest.purge_table(f"logging.{name}")
        rest.drop_namespace("logging")
        with pytest.raises(UnauthorizedError):
            RestCatalog("theirs", uri=server.uri, token="wrong")
    assert catalog.list_namespaces() == ["default"]


AFTER_THE_MAIN_THREAD = """
import threading
import iceberg_hms

def work():
    threading.main_thread().join()
    import httpx
    from iceberg_hms.rest.server import RestServer
    from tests.rest.fakes import SCHEMA, ScriptedCatalog

    with RestServer(ScriptedCatalog(), "127.0.0.1", 0, None) as server, httpx.Client(base_url=server.uri) as client:
        created = client.post("/v1/namespaces/default/tables", json={"name": "t", "schema": SCHEMA})
        print(created.status_code, client.get("/v1/namespaces/default/tables/t").status_code)

threading.Thread(target=work).start()
"""


def test_the_server_answers_threads_that_outlive_the_main_thread_and_ends_in_order() -> None:
    assert said_by(AFTER_THE_MAIN_THREAD) == "200 200\n"


AT_THE_END_OF_THE_PROCESS = """
import atexit
from iceberg_hms.rest.server import RestServer
from tests.rest.fakes import ScriptedCatalog

server = RestServer(ScriptedCatalog(), "127.0.0.1", 0, None)
server.start()
atexit.register(server.stop)
"""


def test_the_server_ends_in_order_at_the_end_of_the_process() -> None:
    # Python writes what it logs to standard error, since nothing configures logging.
    assert said_by(AT_THE_END_OF_THE_PROCESS) == ""
