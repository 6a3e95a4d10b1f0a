"""What clients are sent: JSON, table metadata spliced in as bytes, ETags, compression."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from iceberg_hms.rest.bodies import KEPT, Bodies, Body, Run

if TYPE_CHECKING:
    from iceberg_hms.format.metadata.gzip_parts import Packed
    from iceberg_hms.format.metadata.table_metadata import TableMetadata

JSON: Final = "application/json"
#: Smaller bodies are sent as they are: compressing them saves no packet.
COMPRESS_FROM_BYTES: Final = 1_400
#: Of so many peers it is remembered whether they are this machine: to parse an address takes longer than all else that
#: decides about compression.
_PEERS: Final = 1_024


def json_response(value: Any, *, headers: Mapping[str, str] | None = None, status: int = 200) -> Response:
    """A JSON body."""
    return Response(orjson.dumps(value), status, dict(headers or {}), JSON)


def no_content() -> Response:
    """204."""
    return Response(status_code=204)


def table_response(data: bytes, metadata_location: str | None, *, tag: str | None = None) -> Response:
    """A LoadTableResult. `data` is the metadata's JSON and goes out without being parsed again.

    metadata_location: None for a staged table, which has none yet. tag: the ETag, if the answer may be cached.
    """
    body: dict[str, Any] = {} if metadata_location is None else {"metadata-location": metadata_location}
    body |= {"metadata": orjson.Fragment(data), "config": {}}
    return json_response(body, headers={"ETag": tag} if tag else None)


class SharedResponse(Response):
    """An answer whose body others send as well."""

    def __init__(self, body: Body, headers: Mapping[str, str]) -> None:
        super().__init__(body.data, 200, dict(headers), JSON)
        self.shared = body


def commit_response(metadata: TableMetadata, metadata_location: str, bodies: Bodies) -> Response:
    """A CommitTableResponse. bodies: those of the same group have this one too."""
    version = version_of(metadata, metadata_location)
    body = bodies.get(version, lambda: _parts(metadata_location, metadata.json_parts(), b"}"))
    return SharedResponse(body, {"ETag": entity_tag(version, "all")})


def loaded_response(metadata: TableMetadata, metadata_location: str, snapshots: str, bodies: Bodies) -> Response:
    """A LoadTableResult of a table that is there. snapshots: "all", or "refs" for those of branches and tags alone.
    A metadata file never changes, so neither does this: who loads the table next is sent the same bytes."""

    def render() -> Iterator[bytes | Packed]:
        data = metadata.json_parts() if snapshots == "all" else [referenced_only(metadata)]
        return _parts(metadata_location, data, b',"config":{}}')

    version = version_of(metadata, metadata_location)
    body = bodies.get(f"load {snapshots} {version}", render)
    return SharedResponse(body, {"ETag": entity_tag(version, snapshots)})


def _parts(metadata_location: str, metadata: Iterable[bytes | Packed], tail: bytes) -> Iterator[bytes | Packed]:
    yield b'{"metadata-location":' + orjson.dumps(metadata_location) + b',"metadata":'
    yield from metadata
    yield tail


def not_modified(tag: str) -> Response:
    """304: what the client has is what it would get."""
    return Response(status_code=304, headers={"ETag": tag})


def version_of(metadata: TableMetadata, metadata_location: str) -> str:
    """What tells a table's answer from all others: a metadata file never changes. But one that was registered may have
    the name of one that is gone (`v1.metadata.json`), of another table or of an earlier time."""
    return f"{metadata_location} {metadata.fields.get('table-uuid')} {metadata.fields.get('last-updated-ms')}"


@lru_cache(maxsize=KEPT)
def entity_tag(version: str, snapshots: str) -> str:
    """The ETag of a table, by `version_of` it and the `snapshots` parameter. Weak, because the same answer may be sent
    compressed or not (RFC 9110, 8.8.1)."""
    digest = hashlib.blake2b(f"{snapshots} {version}".encode(), digest_size=16).hexdigest()
    return f'W/"{digest}"'


def tag_matches(header: str | None, tag: str) -> bool:
    """Whether an If-None-Match header names this tag (weak comparison, RFC 9110, 13.1.2)."""
    if header is None:
        return False
    candidates = {candidate.strip().removeprefix("W/") for candidate in header.split(",")}
    return "*" in candidates or tag.removeprefix("W/") in candidates


def referenced_only(metadata: TableMetadata) -> bytes:
    """The metadata's JSON with those snapshots only that branches and tags point to (REST spec: snapshots=refs).
    Logs stay whole, as Java's TableMetadata.Builder.suppressHistoricalSnapshots leaves them."""
    wanted = {ref.snapshot_id for ref in metadata.refs.values()}
    kept = [snapshot.raw for snapshot in metadata.snapshots if snapshot.snapshot_id in wanted]
    return orjson.dumps({**metadata.raw, "snapshots": kept})


def worth_compressing(response: Response, accepted: str, peer: str | None, *, on_loopback: bool) -> bool:
    """Whether the client accepts gzip (`accepted`: its Accept-Encoding) and is not on this machine, where compressing
    costs more than sending; unless `on_loopback` says that it is done there too."""
    if len(response.body) < COMPRESS_FROM_BYTES or not _accepts_gzip(accepted):
        return False
    return on_loopback or not is_loopback(peer)


async def compressed(response: Response, run: Run) -> Response:
    """The response as gzip. Changes the response and returns it. run: calls a function on a thread. Raises what `run`
    raises; the response is as it was then."""
    shared = response.shared if isinstance(response, SharedResponse) else Body([bytes(response.body)])
    await shared.pack(run)
    response.body = shared.packed()
    response.headers["Content-Length"] = str(len(response.body))
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response


def _accepts_gzip(accepted: str) -> bool:
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@lru_cache(maxsize=_PEERS)
def is_loopback(host: str | None) -> bool:
    """Whether an address is this machine's own; None (no network at all) is."""
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
