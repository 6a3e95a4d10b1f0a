"""A store on loopback that gives the answers of a script: for what no real store answers when a test wants it."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

#: A hanging answer ends after so many seconds, even if the test forgot it.
_HANG_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """status: 0 closes the connection without an answer. missing: how many bytes of the body are not sent, although
    the header counts them. hang: sends nothing before `ScriptedStore.released` is set."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    hang: bool = False


CLOSED = Answer(0)


def refusal(status: int, code: str, message: str = "because", more: str = "") -> Answer:
    """An error as S3 spells it."""
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})


@dataclass(frozen=True)
class Request:
    """What a client sent. client: the port of its connection."""

    client: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedStore:
    """answers: for the requests in their order; the last one for all that follow. requests: what came."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.released = threading.Event()
        self._mutex = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:
                    self.close_connection = True

            def __getattr__(self, name: str) -> object:
                if name.startswith("do_"):
                    return self._answer
                raise AttributeError(name)

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = store.next_answer(Request(self.client_address[1], self.command, self.path, headers, body))
                if answer.hang:
                    store.released.wait(_HANG_SECONDS)
                if answer.hang or not answer.status:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body[: len(answer.body) - answer.missing])
                if answer.missing:
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def next_answer(self, request: Request) -> Answer:
        with self._mutex:
            self.requests.append(request)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def methods(self) -> list[str]:
        """Of the requests that came."""
        return [request.method for request in self.requests]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
