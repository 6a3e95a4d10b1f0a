"""Locations: the text by which a table names a file, and the file that the text means.

A table's metadata keeps locations byte for byte; only code that opens or compares files parses one, with this module.
As in Hadoop's Path, `file:/x`, `file:///x` and `/x` are one file, and nothing is percent-decoded: a `%20` in a
location is three characters of the name.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from iceberg_hms.errors import InvalidInput

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
#: Different schemes of one store: they only name the Hadoop connector that the writer used.
_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}
#: Stores whose paths are trees, so that `a//b`, `a/./b` and `a/b` are one file. Elsewhere a key is just text.
_TREES: Final = frozenset({"file", "hdfs", "viewfs"})
#: Stores whose authority may be left out or be an alias.
_CLUSTERS: Final = frozenset({"hdfs", "viewfs"})
_NOT_IN_URLS: Final = re.compile(r"[#?\t\n\r]")
#: Bytes of UTF-8: what a metastore holds (SDS.LOCATION). S3 takes 1,024, and Linux a path of 4,095 with a file's name.
LONGEST_BYTES: Final = 4_000


@dataclass(frozen=True, slots=True)
class Location:
    """The parts of a location. Equal ones mean the same file.

    scheme: lower case, one name for each kind of store ("file", "s3", "hdfs"). authority: bucket or host, may be empty.
    path: starts with a slash.
    """

    scheme: str
    authority: str
    path: str

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)


@lru_cache(maxsize=4_096)
def parse(location: str) -> Location:
    """Parse a location. Raises InvalidInput for an empty or relative one, and for a `file:` on another host."""
    if "\x00" in location:
        raise InvalidInput(f"Location contains a NUL character: {location!r}")
    match = _SCHEME.fullmatch(location)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", location)
    scheme = _SAME_STORE.get(scheme, scheme)
    authority = ""
    if match and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if not rest.startswith("/"):
        raise InvalidInput(f"Location is not absolute: {location!r}")
    if scheme == "file" and authority not in ("", "localhost"):
        raise InvalidInput(
            f"Location is on another host: {location!r}; files of this host begin with file:/ or file:///"
        )
    # Without these a path is what it would be made to.
    if scheme in _TREES and ("//" in rest or "/." in rest or rest.endswith("/")):
        # posixpath keeps two leading slashes; no Hadoop path does.
        rest = posixpath.normpath("/" + rest.lstrip("/"))
    return Location(scheme, "" if scheme == "file" else authority, rest)


def check_length(location: str) -> None:
    """Raises InvalidInput for a location that no metastore holds."""
    if len(location) > LONGEST_BYTES or len(location.encode(errors="replace")) > LONGEST_BYTES:
        raise InvalidInput(
            f"Location is too long: {location[:100]!r}...", next_step=f"use at most {LONGEST_BYTES} bytes of UTF-8"
        )


def check_readers_open(location: str) -> None:
    """Raises InvalidInput for the location of a file that some reader does not open.

    PyIceberg takes a location with a scheme for a URL: it leaves out tabs and ends of lines, and what follows # or ?
    (urllib.parse.urlsplit). Hadoop makes no path of the name of a local file's checksum with a colon
    (ChecksumFileSystem), so that neither Java's HadoopFileIO nor Spark reads the file."""
    match = _SCHEME.fullmatch(location)
    is_local = match is None or match[1].lower() == "file"
    found = ":" if is_local and ":" in location.rpartition("/")[2] else ""
    if match and (unread := _NOT_IN_URLS.search(location)):
        found = unread[0]
    if found:
        raise InvalidInput(
            f"{location!r} has {found!r} in its path, and not every reader opens it",
            next_step="write the file to a path without #, ?, tabs and ends of lines, and with a name without :",
        )


def file_key(location: str) -> str:
    """The same key for all locations that mean one file, for sets and look-ups. A location that `parse` refuses is its
    own key."""
    try:
        found = parse.__wrapped__(location)
    except InvalidInput:
        return location
    return f"{found.scheme}://{found.authority}{found.path}"


def same_folder(one: str | None, other: str | None) -> bool:
    """Whether two locations mean one folder; None is none. A metastore may spell a row's location anew."""
    return file_key(one or "") == file_key(other or "")


def contains(folder: Location, location: Location) -> bool:
    """Whether a location is a folder or below it, by their texts: `/w/db` contains `/w/db/t` and not `/w/db2`. Symbolic
    links are not followed, and in a store of keys `..` is a name."""
    if folder.scheme != location.scheme or folder.authority != location.authority:
        return False
    return f"{location.path.rstrip('/')}/".startswith(f"{folder.path.rstrip('/')}/")


def may_contain(folder: Location, location: Location) -> bool:
    """`contains`, if one of the two may be on the store that the other names in another way."""
    if {folder.scheme, location.scheme} <= _CLUSTERS:
        location = replace(location, scheme=folder.scheme, authority=folder.authority)
    return contains(folder, location)


def join(base: str, *parts: str) -> str:
    """A location below another one: join("file:/w/", "metadata") is file:/w/metadata."""
    return "/".join((base.rstrip("/"), *parts))
