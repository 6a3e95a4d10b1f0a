"""An ASGI layer that notes what every commit request says, and passes the request on unchanged.

It keeps no data: of a request it takes the two headers that name the client, the requirements and the updates; of the
snapshot's manifest list it takes the counts of the manifests that the snapshot itself added.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from iceberg_hms.format.manifests.manifest_list import ManifestContent, ManifestFile, decode_list

_ONE_TABLE: Final = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/[^/]+")
_SEVERAL: Final = re.compile(r"/v1/(?:[^/]+/)?transactions/commit")


class Capture:
    """Wraps an ASGI application.

    commits: what was sent so far and how it was answered, one entry for each table of a request, in order.
    overtake: called once, on a thread, when the next commit has arrived and before the server gets it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.commits: list[dict[str, Any]] = []
        self.overtake: Callable[[], object] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not _commits(scope["path"]):
            await self._app(scope, receive, send)
            return
        body = await _read(receive)
        noted = self._note(scope, orjson.loads(body))
        if self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            await asyncio.to_thread(overtake)

        async def answer(message: Message) -> None:
            for entry in noted if message["type"] == "http.response.start" else ():
                entry["status"] = message["status"]
            await send(message)

        await self._app(scope, _replay(body, receive), answer)

    def _note(self, scope: Scope, request: dict[str, Any]) -> list[dict[str, Any]]:
        begin = len(self.commits)
        headers = Headers(scope=scope)
        for change in request.get("table-changes", [request]):
            updates = change.get("updates", [])
            self.commits.append(
                {
                    "headers": {
                        "User-Agent": headers.get("user-agent", ""),
                        "X-Client-Version": headers.get("x-client-version", ""),
                    },
                    "request": {"requirements": change.get("requirements", []), "updates": updates},
                    "own_manifests": [
                        _shape(manifest)
                        for update in updates
                        if update["action"] == "add-snapshot"
                        for manifest in _own_manifests(update["snapshot"])
                    ],
                }
            )
        return self.commits[begin:]


def _commits(path: str) -> bool:
    return bool(_ONE_TABLE.fullmatch(path) or _SEVERAL.fullmatch(path))


async def _read(receive: Receive) -> bytes:
    chunks = []
    more = True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


def _own_manifests(snapshot: dict[str, Any]) -> list[ManifestFile]:
    """The manifests that a snapshot added, read from its list in a local file."""
    location = snapshot["manifest-list"]
    listed = decode_list(Path(unquote(urlsplit(location).path)).read_bytes(), location)
    return [manifest for manifest in listed if manifest.added_snapshot_id == snapshot["snapshot-id"]]


def _shape(manifest: ManifestFile) -> dict[str, Any]:
    return {
        "content": "deletes" if manifest.content == ManifestContent.DELETES else "data",
        "added_files_count": manifest.added_files_count,
        "existing_files_count": manifest.existing_files_count,
        "deleted_files_count": manifest.deleted_files_count,
    }
