"""One of Trino's catalogs, and what the checks of Trino share."""

from __future__ import annotations

from typing import Any, Final

from labs.clients.lab import Place
from labs.matrix.sessions import StatementFailed, Trino

REST: Final = "rest"
HMS: Final = "hms"
#: As REST, through a server in between that can lose answers.
LOSING: Final = "losing"


class Catalog:
    """A session of Trino that works in one catalog. coordinator: its address. name: REST or HMS."""

    def __init__(self, coordinator: str, name: str) -> None:
        self.name = name
        self._coordinator = coordinator
        self._session = Trino(coordinator)
        self.version = self._session.version

    def again(self, name: str | None = None) -> Catalog:
        """A second session, of this or another catalog. A session serves one thread."""
        return Catalog(self._coordinator, name or self.name)

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows. Raises StatementFailed."""
        return self._session.run(statement)

    def fails(self, statement: str) -> str:
        """Why a statement fails, which it must."""
        try:
            self.sql(statement)
        except StatementFailed as failure:
            return str(failure)
        raise AssertionError(f"it did not fail: {statement}")

    def table(self, place: Place, name: str = "t") -> str:
        """As SQL has it: `catalog.namespace.name`."""
        return f"{self.name}.{place.table(name)}"

    def metadata(self, place: Place, kind: str, name: str = "t") -> str:
        """A metadata table, such as `files`."""
        return f'{self.name}.{place.namespace}."{name}${kind}"'

    def make(self, place: Place, name: str = "t", properties: str = "") -> str:
        """A table with `id` and `name`; as SQL has it. properties: inside of WITH (...)."""
        table = self.table(place, name)
        self.sql(f"CREATE TABLE {table} (id bigint, name varchar)" + (f" WITH ({properties})" if properties else ""))
        return table

    def insert(self, table: str, *ids: int) -> None:
        self.sql(f"INSERT INTO {table} VALUES {', '.join(f'({id_}, $$row {id_}$$)' for id_ in ids)}".replace("$$", "'"))

    def ids(self, table: str) -> list[int]:
        return [row[0] for row in self.sql(f"SELECT id FROM {table} ORDER BY id")]

    def snapshot(self, place: Place, name: str = "t") -> int:
        """The id of the table's current snapshot."""
        rows = self.sql(f"SELECT snapshot_id FROM {self.metadata(place, 'refs', name)} WHERE name = 'main'")
        return int(rows[0][0])


def check_ids(catalog: Catalog, place: Place, expected: list[int], name: str = "t") -> None:
    """Trino and PyIceberg read the same rows."""
    found = catalog.ids(catalog.table(place, name))
    assert found == expected, f"Trino reads {found} and not {expected}"
    theirs = sorted(row["id"] for row in place.lab.rows(place.table(name)))
    assert theirs == expected, f"PyIceberg reads {theirs} and not {expected}"
