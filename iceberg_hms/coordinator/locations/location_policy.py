"""Which locations a REST client may name.

A server has rights that its clients lack: on its disk, in its stores, with its metastore. So what a client names must
lie below a *root*:

    configured roots    the warehouse, and the folders of `rest.allowed-locations`
    the metastore's     the folder that a database or a table has in the metastore, and the folder of the table's
                        metadata file; not with `rest.locations=strict`

`LocationPolicy` holds the first; `guard` adds the second, for one database or one table. A location is below a root if
scheme, authority and the parts of the path say so, and if the same holds once symbolic links are resolved. `..` and `.`
are refused rather than resolved, and so is whatever a store, a client or a log might take for something else than a
name.

Where among these a caller may *put* something is another rule (`placement.py`).

The policy does not restrict callers of the Python API: they have the process's rights anyway.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NoReturn

from iceberg_hms.coordinator.locations.placement import (
    Folders,
    Grant,
    Placement,
    is_granted,
    overlaps_another,
    spellings,
    without_links,
)
from iceberg_hms.coordinator.ports import Files, Pointer
from iceberg_hms.errors import ConfigError, IcebergHmsError, InvalidInput, LocationNotAllowed
from iceberg_hms.format.locations import Location, contains, parse
from iceberg_hms.format.metadata.metadata_file import folder
from iceberg_hms.format.metadata.named_locations import LOCATION_PROPERTIES, new_locations
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.name_pattern import NamePattern

logger = logging.getLogger(__name__)

#: What a location of a client must not have: control characters, a backslash, the start of a query, a fragment or a
#: parameter; a part that is `.` or `..`; and what decodes to such a thing, to a slash, or to another percent sign.
_ODD: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\\?#;]|(?:^|[/:])\.\.?(?:/|$)|%(?:2[eEfF5]|3[bBfF]|23|5[cC]|[01][0-9a-fA-F]|7[fF])"
)
#: An entry of `rest.allowed-locations` that is for some namespaces alone, and a pattern of their names.
_GRANT: Final = re.compile(r"(?P<folder>[^\[\]]*)\[(?P<names>[^\[\]]*)\]")
_NAMES: Final = re.compile(r"[a-z0-9_*]{1,128}")
#: What names a folder; everything else names a file.
_FOLDERS: Final = frozenset({"location", *LOCATION_PROPERTIES})
#: How much of a refused location is logged.
_LOGGED_MAX: Final = 300

#: The rule of places, for who breaks it.
_PLACES: Final = (
    "must lie below the folder of its own namespace and in that of no other, in one of `rest.allowed-locations`, or in "
    "the folder of a namespace in which you may write"
)


@dataclass(frozen=True, slots=True)
class _Root:
    """text: as it was configured or is in the metastore, with a slash at its end. namespaces: as `Grant` has them."""

    location: Location
    text: str
    is_warehouse: bool = False
    namespaces: Sequence[NamePattern] = ()


class LocationPolicy:
    """What all clients of a server share. Safe for threads.

    warehouse: the root folder; empty: none. allowed: `rest.allowed-locations`. strict: only these roots count, and none
    that the metastore has. namespaces: the folders of all namespaces (`NamespaceFolders.all`).
    Raises ConfigError for a warehouse or a folder of `rest.allowed-locations` that no location can be below.
    """

    def __init__(
        self,
        files: Files,
        *,
        warehouse: str,
        allowed: str = "",
        strict: bool = False,
        namespaces: Callable[[], Folders] = dict,
    ) -> None:
        self.strict = strict
        self._files = files
        self._namespaces = namespaces
        self.configured = tuple(_configured(warehouse, allowed))
        self._real_roots = self._resolved()
        self._granted = tuple(
            Grant(spelling, each.namespaces)
            for each in self.configured
            if not each.is_warehouse
            for spelling in self._spellings(each.location)
        )
        self._warehouse = tuple(
            root for each in self.configured if each.is_warehouse for root in self._spellings(each.location)
        )

    def guard(self, *folders: str | None, base: TableMetadata | None = None) -> LocationGuard:
        """The guard of what a client names in one request.

        folders: those that the metastore has for the database or the table. base: the table's metadata, if there is a
        table: files beside those that it names may be read."""
        return LocationGuard(self, () if self.strict else folders, base)

    def table_guard(self, row: Pointer, base: TableMetadata) -> LocationGuard:
        """The guard of what a client names for an existing table."""
        return self.guard(row.location, row.metadata_location.rpartition("/")[0], base=base)

    def placement(self, namespace: str, may_write: Callable[[str], bool], kept: str | None) -> Placement:
        """Where a caller may put a table or view of a namespace. kept: the folder that it has already."""

        def there() -> Iterable[Location]:
            # Resolving links takes calls of the system, and few commits name a place.
            return () if kept is None or self.strict else self._spellings(_parsed(kept))

        return Placement(self._namespaces, self._granted, namespace, may_write, there)

    def check_namespace(self, namespace: str, location: str) -> None:
        """Check the folder that a caller names for a namespace. Raises LocationNotAllowed, MetastoreError."""
        what = "the namespace's location"
        self.guard().check_folder(location, what)
        folders = self._namespaces()
        for each in self._spellings(_parsed(location)):
            if overlaps_another(folders, namespace, each, self._warehouse):
                raise LocationNotAllowed(what, "must be, contain and lie in no folder of another namespace")
            in_warehouse = any(contains(root, each) for root in self._warehouse)
            if not in_warehouse and not is_granted(self._granted, namespace, each):
                raise LocationNotAllowed(what, "lies in a folder of `rest.allowed-locations` that is for others")

    def _spellings(self, location: Location | None) -> Iterable[Location]:
        """A location, and what it is without symbolic links if that is another one."""
        return () if location is None else spellings(self._files, location)

    def stays_below(self, location: Location, folder: Location | None = None) -> bool:
        """Whether a location is below a configured root, or below a folder, once symbolic links are resolved."""
        if not location.is_local:
            return True
        real = self.real(location)
        if real is None:
            return False
        if any(contains(root, real) for root in self._real_roots):
            return True
        if folder is not None and (target := self.real(folder)) is not None and contains(target, real):
            return True
        # A root itself may be a link, to which an operator gives another target.
        self._real_roots = self._resolved()
        return any(contains(root, real) for root in self._real_roots)

    def real(self, location: Location) -> Location | None:
        """A location without symbolic links; None if nothing resolves it."""
        return without_links(self._files, location)

    def may_lead_elsewhere(self, text: str) -> bool:
        """Whether a file is a symbolic link, or nobody can say so. Costs a twentieth of `real`."""
        try:
            return self._files.is_link(text)
        except IcebergHmsError:
            return True

    def _resolved(self) -> tuple[Location, ...]:
        found = (self.real(root.location) for root in self.configured)
        return tuple(root for root in found if root is not None)


@dataclass(frozen=True, slots=True)
class ClientLocations:
    """What one caller may name for the tables and views of one namespace. may_write: as `Placement`."""

    policy: LocationPolicy
    namespace: str
    may_write: Callable[[str], bool]

    def guard(self, folder: str | None) -> LocationGuard:
        """The guard of a request for a new table or view. folder: that of the namespace."""
        return self.policy.guard(folder).placing(partial(self._placement, None))

    def of_view(self, row: Pointer) -> LocationGuard:
        """The guard of a commit to a view."""
        guard = self.policy.guard(row.location, row.metadata_location.rpartition("/")[0])
        return guard.placing(partial(self._placement, row))

    def of_table(self, guard: LocationGuard, row: Pointer | None) -> LocationGuard:
        """The guard of a commit to a table. guard: the policy's, which the commits of one attempt share."""
        return guard.placing(partial(self._placement, row))

    def _placement(self, row: Pointer | None) -> Placement:
        return self.policy.placement(self.namespace, self.may_write, None if row is None else row.location)


class LocationGuard:
    """Refuses what lies outside of its roots, with LocationNotAllowed. For one request or one attempt of a group."""

    def __init__(self, policy: LocationPolicy, folders: Iterable[str | None], base: TableMetadata | None) -> None:
        self._policy = policy
        self._known = tuple(root for root in map(_root, folders) if root is not None)
        self._base = base
        #: Folders that were checked, with their symbolic links.
        self._folders: dict[str, bool] = {}
        #: Files that were checked so.
        self._files: set[str] = set()
        self._placement: Callable[[], Placement] | None = None

    def placing(self, placement: Callable[[], Placement]) -> LocationGuard:
        """The same guard for one caller, who may put things only where `placement` says, which few requests ask. It
        shares what was found."""
        one = LocationGuard.__new__(LocationGuard)
        vars(one).update(vars(self), _placement=placement)
        return one

    def with_table(self, row: Pointer) -> LocationGuard:
        """The same for a request that may also name what belongs to this table."""
        folders = (*(root.text for root in self._known), row.location, row.metadata_location.rpartition("/")[0])
        guard = self._policy.guard(*folders, base=self._base)
        return guard if self._placement is None else guard.placing(self._placement)

    def check_folder(self, location: str, what: str) -> None:
        """Check a folder in which something is to be put. what: the name of the field or property that names it.
        Raises LocationNotAllowed, MetastoreError."""
        self.check_written_folder(location, what)
        if self._placement is not None and not self._is_placed(self._placement(), location):
            logger.info("a caller may not put %s into %.*r", what, _LOGGED_MAX, location)
            raise LocationNotAllowed(what, _PLACES)

    def _is_placed(self, placement: Placement, location: str) -> bool:
        found = _parsed(location.rstrip("/"))
        real = None if found is None else self._policy.real(found)
        if found is None or real is None:
            return False
        return placement.allows(found) and (real == found or placement.allows(real))

    def check_written_folder(self, location: str, what: str) -> None:
        """Check a folder to which the server writes next, which may be where the table or view has its files already.
        Raises LocationNotAllowed."""
        if not self._allows_folder(location.rstrip("/")):
            self._refuse(location, what)

    def check_file(self, location: str, what: str) -> None:
        """Check a file that is only named: that its folder is allowed."""
        if not self._allows_folder(self._folder_of(location, what)):
            self._refuse(location, what)

    def check_read(self, location: str, what: str) -> None:
        """Check a file that is about to be read: not even the file itself may be a link that leads outside."""
        if location in self._files:
            return
        above = self._folder_of(location, what)
        if self._allows_folder(above):
            # The links of its folder are resolved, so only the file itself can be one more.
            if self._policy.may_lead_elsewhere(location) and not self._allows_folder(location):
                self._refuse(location, what)
        elif not self._is_of_the_base(above):
            self._refuse(location, what)
        self._files.add(location)

    def made(self, location: str) -> None:
        """A file that this process makes, under a new name in a folder that was checked, needs no check."""
        self._files.add(location)

    def check_metadata(
        self, base: TableMetadata | None, new: TableMetadata, added: Sequence[Mapping[str, Any]]
    ) -> None:
        """Check what `new` names and `base` does not (`new_locations`), and the folder of the next files."""
        for what, location in new_locations(base, new, added):
            if what in _FOLDERS:
                self.check_folder(location, what)
            else:
                self.check_file(location, what)
        self.check_metadata_folder(new)

    def check_metadata_folder(self, metadata: TableMetadata) -> None:
        """Check the folder to which the table's next metadata file and manifest lists are written."""
        self.check_written_folder(folder(metadata), "the folder of the table's metadata")

    def _folder_of(self, location: str, what: str) -> str:
        """The folder of a file whose name is plain; any other is refused."""
        above, _, name = location.rpartition("/")
        if not name or _ODD.search(name):
            self._refuse(location, what)
        return above

    def _allows_folder(self, location: str) -> bool:
        allowed = self._folders.get(location)
        if allowed is None:
            allowed = self._folders[location] = self._judge(location)
        return allowed

    def _judge(self, text: str) -> bool:
        location = _parsed(text)
        if location is None:
            return False
        plain = not _ODD.search(text)
        if plain and any(contains(root.location, location) for root in self._policy.configured):
            return self._policy.stays_below(location)
        for root in self._known:
            rest = f"{text}/".removeprefix(root.text)
            # What the metastore has may be odd, as long as what the client adds to it is not.
            below = not _ODD.search(rest) if len(rest) <= len(text) else plain and contains(root.location, location)
            if below:
                return self._policy.stays_below(location, root.location)
        return False

    def _is_of_the_base(self, above: str) -> bool:
        """Whether the table already has files in this folder: it may have been elsewhere before."""
        if self._policy.strict or self._base is None or not above:
            return False
        lists = (row.get("manifest-list") or "" for row in self._base.snapshot_rows)
        return any(each.rpartition("/")[0] == above for each in lists)

    def _refuse(self, location: str, what: str) -> NoReturn:
        logger.info("a client may not name %s %.*r", what, _LOGGED_MAX, location)
        raise LocationNotAllowed(what)


def _configured(warehouse: str, allowed: str) -> Iterable[_Root]:
    named = [("rest.allowed-locations", each.strip()) for each in allowed.split(",")]
    for key, entry in [("warehouse", warehouse), *named]:
        if not entry:
            continue
        text, namespaces = (entry, ()) if key == "warehouse" else _granted(entry)
        root = _root(text)
        if root is None or _ODD.search(text) or _has_credentials(root.location):
            raise ConfigError(
                f"`{key}` names {text!r}, which is no plain absolute location",
                next_step="write it as a scheme and a path without `..`, query and credentials, such as s3://bucket/lake",
            )
        yield replace(root, is_warehouse=key == "warehouse", namespaces=namespaces)


def _granted(entry: str) -> tuple[str, Sequence[NamePattern]]:
    """The folder of an entry of `rest.allowed-locations`, and whom it is for: `s3://lake/sales[sales marketing_*]`."""
    if not set("[]") & set(entry):
        return entry, ()
    found = _GRANT.fullmatch(entry)
    names = [] if found is None else found["names"].lower().split()
    if found is None or not names or not all(_NAMES.fullmatch(each) for each in names):
        raise ConfigError(
            f"`rest.allowed-locations` names no namespaces in {entry!r}",
            next_step="write them as s3://lake/sales[sales marketing_*], or leave out the brackets for all",
        )
    return found["folder"].rstrip(), tuple(NamePattern(each) for each in names)


def _has_credentials(location: Location) -> bool:
    # In Azure's stores it is the container that stands there.
    return "@" in location.authority and location.scheme not in ("abfs", "wasb", "wasbs")


def _root(text: str | None) -> _Root | None:
    location = _parsed(text.rstrip("/")) if text else None
    return None if location is None else _Root(location, f"{(text or '').rstrip('/')}/")


def _parsed(text: str) -> Location | None:
    """A folder's location; None for what is none. A bucket alone, or nothing, is the root of its store."""
    try:
        return parse(text)
    except InvalidInput:
        pass
    try:
        return parse(f"{text}/")
    except InvalidInput:
        return None
