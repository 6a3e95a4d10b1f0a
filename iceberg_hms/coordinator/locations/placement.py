"""Where a REST caller may put a table, a view, and what they write: in the folder of its own namespace.

A caller who may write in one namespace must not put anything into the folder of another's, where it would keep tables
from being made and files from being deleted. Whose place a location is, the innermost folder decides in which it lies:
that of a namespace (the folder of `default` often holds all others), or one of `rest.allowed-locations`.

    the caller's own namespace      below its folder
    another namespace               if the caller may write there as well
    `rest.allowed-locations`        for everyone, or for the namespaces that the setting names
    nobody's                        not at all

Nothing lies at or around the folder of any namespace: it would share the folder of every table in that.

A caller who may write in all namespaces may name whatever the server's settings allow (`location_policy.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from iceberg_hms.coordinator.ports import CommitPorts, Files
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import Location, contains, may_contain, parse
from iceberg_hms.name_pattern import NamePattern

#: All namespaces of a warehouse at once. Only a scope for `*` covers it, since no namespace can have this name.
EVERYWHERE: Final = "*"
#: How long the folders of all namespaces are known; a new namespace is seen at once.
_REMEMBERED_SECONDS: Final = 60.0
#: How long to ask for them.
_SEARCH_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Grant:
    """A folder of `rest.allowed-locations`. namespaces: patterns of those that it is for; none: for all."""

    folder: Location
    namespaces: Sequence[NamePattern] = ()

    def is_for(self, namespace: str) -> bool:
        return not self.namespaces or any(each.matches(namespace) for each in self.namespaces)


def is_granted(grants: Iterable[Grant], namespace: str, location: Location, depth: int = -1) -> bool:
    """Whether the innermost of the granted folders in which a location lies is for a namespace. depth: as deep it must
    be at least."""
    around = [each for each in grants if contains(each.folder, location) and _depth(each.folder) >= depth]
    innermost = max((_depth(each.folder) for each in around), default=-1)
    return any(_depth(each.folder) == innermost and each.is_for(namespace) for each in around)


#: Where a namespace's folders are, as they are spelled and without symbolic links.
Folders = Mapping[str, Sequence[Location]]


class NamespaceFolders:
    """The folders of all namespaces. Safe for threads: two that ask at once both get an answer."""

    def __init__(self, ports: CommitPorts) -> None:
        self._ports = ports
        self._known: tuple[float, Folders] | None = None

    def all(self) -> Folders:
        """One metastore call, and one for each namespace after a while. Raises MetastoreError."""
        pointer, now = self._ports.pointer, self._ports.runtime.now()
        names, known = set(pointer.databases()), self._known
        if known is None or names != known[1].keys() or now - known[0] > _REMEMBERED_SECONDS:
            found = pointer.database_folders(timeout_seconds=_SEARCH_SECONDS)
            known = self._known = now, {name: tuple(self._locations(folders)) for name, folders in found.items()}
        return known[1]

    def forget(self) -> None:
        """Ask again: a namespace of this server has another folder now."""
        self._known = None

    def _locations(self, folders: Iterable[str]) -> Iterator[Location]:
        for folder in folders:
            with suppress(InvalidInput):
                yield from spellings(self._ports.files, parse(folder))


def spellings(files: Files, location: Location) -> Iterator[Location]:
    """A location, and what it is without symbolic links if that is another one."""
    yield location
    real = without_links(files, location)
    if real is not None and real != location:
        yield real


def without_links(files: Files, location: Location) -> Location | None:
    """A location without symbolic links; None if nothing resolves it."""
    if not location.is_local:
        return location
    try:
        return parse(files.real_path(location.path))
    except IcebergHmsError:
        return None


@dataclass(frozen=True, slots=True)
class Placement:
    """What one caller may name for a table or view of `namespace`.

    folders: of all namespaces. granted: by `rest.allowed-locations`. may_write: whether the caller may
    write in a namespace, `EVERYWHERE` among them. kept: folders that the table has already, where it stays.
    """

    folders: Callable[[], Folders]
    granted: Sequence[Grant]
    namespace: str
    may_write: Callable[[str], bool]
    kept: Callable[[], Iterable[Location]] = tuple

    def allows(self, location: Location) -> bool:
        """Whether the caller may name a folder. Raises MetastoreError."""
        if self.may_write(EVERYWHERE):
            return True
        folders = self.folders()
        if any(may_contain(location, folder) for each in folders.values() for folder in each):
            return False
        depth, owners = _innermost(folders, location)
        # A namespace may have been made in the folder that the table has already.
        if any(contains(each, location) and depth < _depth(each) for each in self.kept()):
            return True
        if is_granted(self.granted, self.namespace, location, depth):
            return True
        return any(owner == self.namespace or self.may_write(owner) for owner in owners)


def _innermost(folders: Folders, location: Location) -> tuple[int, Sequence[str]]:
    """How deep the innermost folder is in which a location lies, and the namespaces that have it."""
    around = [
        (_depth(folder), name) for name, each in folders.items() for folder in each if may_contain(folder, location)
    ]
    depth = max((each for each, _ in around), default=-1)
    return depth, [name for each, name in around if each == depth]


def _depth(folder: Location) -> int:
    return len(folder.path.rstrip("/"))


def overlaps_another(folders: Folders, namespace: str, location: Location, warehouse: Sequence[Location]) -> bool:
    """Whether the folder of a namespace would be, contain or lie in another namespace's. One that contains the whole
    warehouse, as that of `default` often does, does not count. warehouse: its spellings."""
    return any(
        name != namespace
        and not any(contains(folder, each) for each in warehouse)
        and (may_contain(folder, location) or may_contain(location, folder))
        for name, each in folders.items()
        for folder in each
    )
