"""A server in between that loses answers: for what an engine does when it cannot know whether its commit was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx

from labs.clients.lab import Lab

#: Headers of one connection.
_HOP = {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "date", "server"}


@dataclass
class Between:
    """lab: the same servers, reached through this one. losing: whether answers to commits are lost. statuses: those of
    the answers that were lost."""

    lab: Lab
    losing: bool = False
    statuses: list[int] = field(default_factory=list)


@contextmanager
def between(lab: Lab) -> Iterator[Between]:
    """Forwards every request. While `losing`, the server gets a commit to a table and its client no answer."""
    found = Between(lab)

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
            answer = httpx.request(self.command, lab.uri + self.path, content=body, headers=headers, timeout=120)
            if found.losing and self.command == "POST" and "/tables/" in self.path and "metrics" not in self.path:
                found.statuses.append(answer.status_code)
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            for key, value in answer.headers.items():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self._forward
            raise AttributeError(name)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        found.lab = replace(lab, uri=f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
