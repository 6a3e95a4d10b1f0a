"""Namespaces of a catalog: the metastore's databases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from iceberg_hms.catalog.locations import NAMESPACE_LOCATION, refuse_shared_namespace
from iceberg_hms.catalog.services import Services
from iceberg_hms.coordinator.locations.location_policy import LocationPolicy
from iceberg_hms.coordinator.locations.placement import NamespaceFolders
from iceberg_hms.errors import AlreadyExists, InvalidInput, NoSuchNamespace
from iceberg_hms.identifiers import namespace_name, new_name

#: Characters of a namespace's properties at most. Each load returns them all.
NAMESPACE_SIZE_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NamespaceUpdate:
    """The properties that an update set and removed, and those to remove that were missing."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, present: Mapping[str, str], removals: Collection[str], updates: Mapping[str, str]) -> NamespaceUpdate:
        """What an update of these properties does. Raises InvalidInput for a key in both, and as `create_namespace`."""
        both = sorted(set(updates) & set(removals))
        if both:
            raise InvalidInput(f"set and removed at once: {', '.join(both)}")
        gone = set(removals)
        kept = {key: each for key, each in present.items() if key not in gone}
        _check_texts(present, {**kept, **updates})
        removed = tuple(sorted(key for key in gone if key in present))
        return cls(tuple(sorted(updates)), removed, tuple(sorted(gone.difference(removed))))


class NamespaceOperations(ABC):
    """The verbs of a catalog for its namespaces; base of `Catalog`."""

    #: What callers may name, and the cached folders of all namespaces; None for those who may name everything.
    _locations: LocationPolicy | None
    _namespace_folders: NamespaceFolders | None

    @property
    @abstractmethod
    def services(self) -> Services:
        """The services of this process."""

    def list_namespaces(self) -> list[str]:
        """Names of all databases, Hive's own among them."""
        return self.services.namespaces.list()

    def namespace_exists(self, namespace: str) -> bool:
        """Whether there is a database of this name."""
        try:
            return self.services.namespaces.exists(namespace_name(namespace))
        except NoSuchNamespace:
            return False

    def create_namespace(self, namespace: str, properties: Mapping[str, str] | None = None) -> None:
        """Create a database. Its default `location` is `<warehouse>/<namespace>.db`, as in Hive.
        Raises AlreadyExists, InvalidInput (also for values that are no texts, and beyond `NAMESPACE_SIZE_MAX`)."""
        name = new_name(namespace, "namespace")
        wanted = dict(properties or {})
        if NAMESPACE_LOCATION not in wanted and self.services.settings.warehouse:
            wanted[NAMESPACE_LOCATION] = f"{self.services.settings.warehouse.rstrip('/')}/{name}.db"
        _check_texts({}, wanted)
        self._check_namespace_location(name, wanted)
        self.services.namespaces.create(name, wanted)

    def create_namespace_if_not_exists(self, namespace: str, properties: Mapping[str, str] | None = None) -> None:
        """`create_namespace`, which changes nothing if there is one of this name. Raises InvalidInput."""
        with suppress(AlreadyExists):
            self.create_namespace(namespace, properties)

    def load_namespace_properties(self, namespace: str) -> dict[str, str]:
        """A database's properties. Raises NoSuchNamespace."""
        return self.services.namespaces.load(namespace_name(namespace))

    def update_namespace_properties(
        self, namespace: str, removals: Collection[str] | None = None, updates: Mapping[str, str] | None = None
    ) -> NamespaceUpdate:
        """Set and remove properties. Raises NoSuchNamespace, InvalidInput (a key in both; as `create_namespace`)."""
        name, updates = namespace_name(namespace), updates or {}
        present = self.services.namespaces.load(name)
        change = NamespaceUpdate.of(present, removals or (), updates)
        if updates.get(NAMESPACE_LOCATION) != present.get(NAMESPACE_LOCATION):
            self._check_namespace_location(name, updates)
        if updates or change.removed:
            self.services.namespaces.update(name, updates, change.removed)
            if self._namespace_folders is not None and NAMESPACE_LOCATION in (*updates, *change.removed):
                self._namespace_folders.forget()
        return change

    def drop_namespace(self, namespace: str) -> None:
        """Drop an empty database. Raises NoSuchNamespace, NamespaceNotEmpty."""
        self.services.namespaces.drop(namespace_name(namespace))

    def _check_namespace_location(self, name: str, properties: Mapping[str, str]) -> None:
        location = properties.get(NAMESPACE_LOCATION)
        if self._locations is not None and location is not None:
            self._locations.check_namespace(name, location)
            # The folder of `default` holds the warehouse: there its tables' folders are as good as a namespace's.
            refuse_shared_namespace(self.services, name, location)


def _check_texts(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises InvalidInput for a property that is no text, and if the properties of a namespace grow beyond
    `NAMESPACE_SIZE_MAX`."""
    for name, value in after.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"A property of a namespace is text, found {value!r} for {name!r}")
    size, bound = _size(after), max(NAMESPACE_SIZE_MAX, _size(before))
    if size > bound:
        raise InvalidInput(
            f"The namespace's properties would have {size:,} characters, and {bound:,} is the most",
            next_step="keep large texts elsewhere",
        )


def _size(properties: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in properties.items())
