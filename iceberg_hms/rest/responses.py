"""Responses to clients: JSON, table metadata spliced in as bytes, ETags, compression."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response
from starlette.types import Send

from iceberg_hms.memory_budget import HeldMemory, MemoryBudget
from iceberg_hms.rest.response_bodies import KEPT_BODIES, ResponseBody, ResponseBodyCache, RunOnThread

if TYPE_CHECKING:
    from iceberg_hms.format.metadata.gzip_parts import CompressedPart
    from iceberg_hms.format.metadata.table_metadata import TableMetadata

JSON: Final = "application/json"
#: Smaller bodies are sent uncompressed: compressing them saves no packet.
COMPRESS_FROM_BYTES: Final = 1_400
#: Bytes of a body that may wait for a client when the response has ended.
PART_BYTES: Final = 128 * 1024
#: Peers whose addresses stay parsed: parsing one takes longer than all other checks before compression.
_PEERS: Final = 1_024


class _AsJavaSpellsIt(bytes):
    """The name of the header ETag. uvicorn writes the lower case of all names, but Java's client of Iceberg 1.11
    remembers a table, and from then on asks whether it has changed instead of for all of it, only after a header of
    this very spelling (HTTPClient.java: names in a map that knows cases)."""

    def lower(self) -> bytes:
        return b"ETag"


@dataclass(frozen=True, slots=True)
class TableConfig:
    """What clients get with a table. config: a JSON object. credentials: a JSON list, or nothing. version: tells it
    from others, in the ETag; without secrets."""

    config: bytes = field(default=b"{}", repr=False)
    credentials: bytes = field(default=b"", repr=False)
    version: bytes = b"{}"

    @property
    def tail(self) -> bytes:
        """The end of a LoadTableResult."""
        credentials = b',"storage-credentials":' + self.credentials if self.credentials else b""
        return b',"config":' + self.config + credentials + b"}"


#: If no setting has one.
NO_CONFIG: Final = TableConfig()

_ETAG: Final = _AsJavaSpellsIt(b"etag")
_JSON_TYPE: Final = (b"content-type", JSON.encode())
_GZIP: Final = (b"content-encoding", b"gzip")
_VARY: Final = (b"vary", b"Accept-Encoding")


def json_response(value: Any, *, status: int = 200) -> Response:
    """A small JSON body."""
    return Response(orjson.dumps(value), status, media_type=JSON)


def counted_response(value: Any, memory: MemoryBudget, *, must: bool = False, tag: str | None = None) -> Response:
    """A JSON body of any size. memory: counts it until the client has it. must: whatever the budget has left, as for a
    body of one part. tag: the ETag, if it has one. Raises ResourceExhausted."""
    data = orjson.dumps(value)
    return SharedResponse(ResponseBody([data], memory.share(), must=must or len(data) <= PART_BYTES), tag)


def no_content() -> Response:
    """204."""
    return Response(status_code=204)


class SharedResponse(Response):
    """A response that shares its body with others. tag: the ETag, if it has one."""

    def __init__(self, body: ResponseBody, tag: str | None) -> None:
        # The base class makes its headers of text, which takes longer than all else of a response.
        self.status_code = 200
        self.background = None
        self.body = body.data
        self.shared = body
        self.raw_headers = [(b"content-length", b"%d" % len(body.data)), _JSON_TYPE]
        if tag is not None:
            self.raw_headers.append((_ETAG, tag.encode()))


def table_response(
    data: bytes,
    metadata_location: str | None,
    memory: MemoryBudget,
    *,
    tag: str | None = None,
    config: TableConfig = NO_CONFIG,
) -> Response:
    """A LoadTableResult. `data` is the metadata's JSON, which is sent as it is.

    metadata_location: None for a staged table, which has none yet. memory: counts the body. tag: the ETag, if clients
    may cache the response.
    """
    body: dict[str, Any] = {} if metadata_location is None else {"metadata-location": metadata_location}
    body |= {"metadata": orjson.Fragment(data), "config": orjson.Fragment(config.config)}
    if not config.credentials:
        return counted_response(body, memory, must=True, tag=tag)
    body["storage-credentials"] = orjson.Fragment(config.credentials)
    return never_stored(counted_response(body, memory, must=True, tag=tag))


def commit_response(
    metadata: TableMetadata, metadata_location: str, bodies: ResponseBodyCache, config: TableConfig = NO_CONFIG
) -> Response:
    """A CommitTableResponse. bodies: commits of one group share its body. config: what a load would return."""
    version = version_of(metadata, metadata_location)
    body = bodies.get(version, lambda: _parts(metadata_location, metadata.json_parts(), b"}"))
    return SharedResponse(body, entity_tag(version, "all", config.version))


def loaded_response(
    metadata: TableMetadata,
    metadata_location: str,
    snapshots: str,
    bodies: ResponseBodyCache,
    config: TableConfig = NO_CONFIG,
) -> Response:
    """A LoadTableResult of a table that exists. snapshots: "all", or "refs" for those of branches and tags alone.
    A metadata file never changes, so later loads of the same version share the body. Raises ResourceExhausted."""

    def render() -> Iterator[bytes | CompressedPart]:
        data = metadata.json_parts() if snapshots == "all" else [referenced_only(metadata)]
        return _parts(metadata_location, data, config.tail)

    version = version_of(metadata, metadata_location)
    tag = entity_tag(version, snapshots, config.version)
    response = SharedResponse(bodies.get(f"load {tag}", render, must=False), tag)
    return never_stored(response) if config.credentials else response


def _parts(
    metadata_location: str, metadata: Iterable[bytes | CompressedPart], tail: bytes
) -> Iterator[bytes | CompressedPart]:
    yield b'{"metadata-location":' + orjson.dumps(metadata_location) + b',"metadata":'
    yield from metadata
    yield tail


def never_stored(response: Response) -> Response:
    """The same response for the client alone: it holds credentials."""
    response.raw_headers.append((b"cache-control", b"no-store"))
    return response


def not_modified(tag: str) -> Response:
    """304: the client already has this version."""
    response = Response(status_code=304)
    response.raw_headers.append((_ETAG, tag.encode()))
    return response


def version_of(metadata: TableMetadata, metadata_location: str) -> str:
    """Identifies a version of a table. The location is not enough: a registered metadata file may have the name of a
    deleted one (`v1.metadata.json`), of another table or of an earlier time."""
    return f"{metadata_location} {metadata.fields.get('table-uuid')} {metadata.fields.get('last-updated-ms')}"


@lru_cache(maxsize=KEPT_BODIES)
def entity_tag(version: str, snapshots: str, config: bytes = NO_CONFIG.version) -> str:
    """The ETag of a table's version (`version_of`) with this `snapshots` parameter and this `TableConfig.version`.
    Weak, because the same response may be sent compressed or not (RFC 9110, 8.8.1)."""
    digest = hashlib.blake2b(f"{snapshots} {version}".encode() + config, digest_size=16).hexdigest()
    return f'W/"{digest}"'


def tag_matches(header: str | None, tag: str) -> bool:
    """Whether an If-None-Match header names this tag (weak comparison, RFC 9110, 13.1.2)."""
    if header is None:
        return False
    candidates = {candidate.strip().removeprefix("W/") for candidate in header.split(",")}
    return "*" in candidates or tag.removeprefix("W/") in candidates


def referenced_only(metadata: TableMetadata) -> bytes:
    """The metadata's JSON with only the snapshots that branches and tags point to (REST spec: snapshots=refs).
    Logs stay complete, as with Java's TableMetadata.Builder.suppressHistoricalSnapshots."""
    wanted = {ref.snapshot_id for ref in metadata.refs.values()}
    kept = [snapshot.raw for snapshot in metadata.snapshots if snapshot.snapshot_id in wanted]
    return orjson.dumps({**metadata.raw, "snapshots": kept})


def worth_compressing(response: Response, accepted: str, peer: str | None, *, on_loopback: bool) -> bool:
    """Whether the client accepts gzip (`accepted`: its Accept-Encoding), does not have it anyway, and is on another
    machine: on this one compressing costs more than sending. on_loopback: compress for clients on this machine too."""
    if len(response.body) < COMPRESS_FROM_BYTES or (is_loopback(peer) and not on_loopback):
        return False
    return accepts_gzip(accepted) and _GZIP not in response.raw_headers


async def compressed(response: Response, run: RunOnThread) -> Response:
    """Change the response to gzip and return it. run: calls a function on a thread. Raises what `run` raises, with the
    response unchanged."""
    if isinstance(response, SharedResponse):
        shared = response.shared
    else:
        # Small: an error, for one.
        shared = ResponseBody([bytes(response.body)], MemoryBudget().share())
    await shared.pack(run)
    response.body = shared.packed()
    response.headers["Content-Length"] = str(len(response.body))
    response.raw_headers += (_GZIP, _VARY)
    return response


def packed_response(data: bytes, memory: HeldMemory) -> Response:
    """A JSON body that is gzip already. memory: counts it. Raises ResourceExhausted."""
    response = SharedResponse(ResponseBody([data], memory, must=False), None)
    response.raw_headers += (_GZIP, _VARY)
    return response


async def send_in_parts(response: Response, send: Send) -> None:
    """Send a response as its client takes it. `send` waits until the client has taken what was sent before, so the
    last part leaves when it has all the others: until then the response has its body. The event loop (uvloop) keeps a
    view of what waits, and copies nothing."""
    head = {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
    await send(head)
    body = memoryview(response.body)
    if len(body) > PART_BYTES:
        await send({"type": "http.response.body", "body": body[:-PART_BYTES], "more_body": True})
    await send({"type": "http.response.body", "body": body[-PART_BYTES:], "more_body": False})


def accepts_gzip(accepted: str) -> bool:
    """Whether a client does. accepted: its Accept-Encoding."""
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@lru_cache(maxsize=_PEERS)
def is_loopback(host: str | None) -> bool:
    """Whether an address is a loopback address. None, a client without a network, counts as one."""
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
