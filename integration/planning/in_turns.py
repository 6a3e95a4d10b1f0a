"""An HTTP proxy before REST servers that answer in turns, and a log of what passed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx

#: Of one connection, not of the whole message.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"})
_REQUEST_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Passed:
    """A request, and the status of its answer. server: who answered."""

    method: str
    path: str
    body: bytes
    server: str
    status: int

    @property
    def is_plan(self) -> bool:
        return self.method == "POST" and self.path.endswith("/plan")

    @property
    def is_tasks(self) -> bool:
        return self.method == "POST" and self.path.endswith("/tasks")


class InTurns:
    """Listens on 127.0.0.1, on a free port, until `close`.

    servers: their uris; each request goes to the next one, and gets 502 if that is not there. They may be changed while
    it runs.

    then: is called with each request that a server has answered, before its client gets the answer.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = list(servers)
        self.then: Callable[[Passed], None] = lambda _passed: None
        self._turns = itertools.count()
        self._lock = threading.Lock()
        self._log: list[Passed] = []
        self._client = httpx.Client(timeout=_REQUEST_SECONDS, trust_env=False)
        self._listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._listener.daemon_threads = True
        self._thread = threading.Thread(target=self._listener.serve_forever, name="in turns", daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._listener.server_port}"

    @property
    def log(self) -> list[Passed]:
        with self._lock:
            return list(self._log)

    def clear(self) -> None:
        with self._lock:
            self._log.clear()

    def plans(self) -> list[Passed]:
        """The plans that the servers made since `clear`."""
        return [each for each in self.log if each.is_plan]

    def tasks(self) -> list[Passed]:
        return [each for each in self.log if each.is_tasks]

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> httpx.Response:
        """Send a request to the next server; its answer is not decoded."""
        with self._lock:
            server = self.servers[next(self._turns) % len(self.servers)]
        kept = {key: value for key, value in headers.items() if key.lower() not in _HOP_BY_HOP}
        try:
            request = self._client.build_request(method, server + path, headers=kept, content=body)
            answer = self._client.send(request, stream=True)
            raw = b"".join(answer.iter_raw())
            answer.close()
        except httpx.TransportError as error:
            answer, raw = httpx.Response(502), repr(error).encode()
        passed = Passed(method, path, body, server, answer.status_code)
        with self._lock:
            self._log.append(passed)
        self.then(passed)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(raw))


def _handler_of(proxy: InTurns) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = proxy.pass_on(self.command, self.path, dict(self.headers), body)
            raw = b"".join(answer.iter_raw())
            self.send_response(answer.status_code)
            for key, value in answer.headers.items():
                if key.lower() not in _HOP_BY_HOP:
                    self.send_header(key, value)
            if answer.status_code not in (204, 304):
                self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _pass  # noqa: N815 - named by the standard library

        def log_message(self, *_arguments: Any) -> None:
            """Nothing: the proxy keeps a log of its own."""

    return Handler
