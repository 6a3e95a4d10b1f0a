"""A DuckDB database with the REST catalog attached as `ice`."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from labs.clients.lab import Lab, Place

EXTENSIONS: Final = ("avro", "httpfs", "icu", "json", "parquet", "iceberg")


def version() -> str:
    import duckdb

    return str(duckdb.__version__)


class Session:
    """One database in memory, for one thread. options: of ATTACH, such as `PURGE_REQUESTED true`."""

    def __init__(self, lab: Lab, *options: str) -> None:
        import duckdb
        from duckdb_extensions import import_extension

        self._connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for name in EXTENSIONS:
            import_extension(name, con=self._connection)
            self(f"LOAD {name}")
        self("SET TimeZone = 'UTC'")
        self(f"CREATE SECRET s (TYPE iceberg, TOKEN '{lab.token}')")
        given = ", ".join(("TYPE iceberg", f"ENDPOINT '{lab.uri}'", "SECRET s", *options))
        self(f"ATTACH '' AS ice ({given})")

    def __call__(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; all rows of its result."""
        return list(self._connection.execute(sql).fetchall())

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN and COMMIT; ROLLBACK after an error."""
        self("BEGIN")
        try:
            yield
        except BaseException:
            self("ROLLBACK")
            raise
        self("COMMIT")


@contextmanager
def opened(place: Place, *options: str) -> Iterator[Session]:
    with closing(Session(place.lab, *options)) as session:
        yield session


def refuses(session: Session, sql: str, words: str) -> None:
    """Check that a statement fails with these words, which are a pattern."""
    import duckdb

    with pytest.raises(duckdb.Error, match=words):
        session(sql)
