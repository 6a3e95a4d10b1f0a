"""Commits of stock clients that are under way while the table's format version is upgraded: each lands once, and Java,
Spark and PyIceberg read what it means, or its client hears that it failed. No answer calls it malformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from iceberg_hms.rest.errors import rule_for
from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.rest_clients import TOKEN, BeforeCommits, Delayed
from integration.rest_clients import catalog as catalog
from integration.upgrade_verbs import VERBS, Hands

#: The row of the commit in between.
OTHER = 50
UPGRADES = ((1, 2), (2, 3), (1, 3))
#: Whether another append comes between, and which appends may be rebased then.
CIRCUMSTANCES = (("alone", "plain"), ("moved", "plain"), ("moved", "all"), ("moved", "none"))
#: What a client says whose commit was refused; and what it says instead of sending it again: Java of a manifest of
#: version 1 that it would merge, and of position deletes that it wrote for version 2; PyIceberg of version 3.
REFUSALS = (
    "CommitFailedException",
    "ValidationException",
    "Only entries with status ADDED can have null sequence number",
    "Must use DVs for position deletes in V3",
    "Cannot write manifest for table version: 3",
)


class Overtaken(BeforeCommits):
    """A catalog that lets others go before the next commit of a client that is about data.

    overtake: what they do; None: nobody is to go before it. statuses: of the clients' commits since it was set."""

    def __init__(self, catalog: Any) -> None:
        super().__init__(catalog, lambda: None)
        self.overtake: Callable[[], object] | None = None
        self.statuses: list[int] = []

    def commit(self, *arguments: Any, **options: Any) -> Any:
        return self.submit(*arguments, **options).result()

    def submit(self, table: Any, requirements: Any, updates: Any, **options: Any) -> Delayed:
        def happens() -> None:
            overtake = self.overtake
            if overtake is not None and any(each["action"] == "add-snapshot" for each in updates):
                self.overtake = None
                overtake()

        return Noted(happens, lambda: self._catalog.submit(table, requirements, updates, **options), self.statuses)


class Noted(Delayed):
    """A commit whose answer's status is noted."""

    def __init__(self, happens: Callable[[], object], submit: Callable[[], Any], statuses: list[int]) -> None:
        self._statuses = statuses
        super().__init__(happens, submit)

    def result(self) -> Any:
        try:
            report = super().result()
        except Exception as error:
            self._statuses.append(rule_for(error, commit=True).status)
            raise
        self._statuses.append(200)
        return report


@dataclass
class Scene:
    catalog: Any
    overtaken: Overtaken
    hands: Hands
    namespace: str
    tables: int = 0

    def play(self, name: str, before: int, after: int, moved: bool, mode: str) -> str | None:
        """What is wrong when an upgrade overtakes the verb; None if nothing is."""
        verb = VERBS[name]
        self.tables += 1
        table = f"{self.namespace}.t{self.tables}"
        properties = {"format-version": str(before), "iceberg-hms.rebase-appends": mode, **verb.properties}
        self.catalog.create_table(table, SCHEMA, properties={**properties, "commit.retry.min-wait-ms": "1"})
        for group in (1, 2), (3,):
            self.catalog.load_table(table).append([self.hands.file(*group)])
        if verb.prepare is not None:
            verb.prepare(self.hands, table)
        ids = frozenset(self._spark_ids(table))

        def overtake() -> None:
            self.catalog.load_table(table).upgrade_table_version(after)
            if moved:
                self.catalog.load_table(table).append([self.hands.file(OTHER)])

        self.overtaken.overtake, self.overtaken.statuses[:] = overtake, []
        error = self._run(lambda: verb.run(self.hands, table))
        assert self.overtaken.overtake is None, f"{name} sent no snapshot: {error}"
        statuses = [*self.overtaken.statuses]
        if set(statuses) - {200, 409}:
            return f"answers {statuses}: {error}"
        if error is not None and not any(each in error for each in REFUSALS):
            return f"its client says: {error[:300]}"
        ids |= {OTHER} if moved else set()
        wrong = self._read(table, verb.leaves(ids) if error is None else ids)
        return None if wrong is None else f"{wrong}; answers {statuses}, error {error and error[:200]}"

    def _run(self, run: Callable[[], object]) -> str | None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - the error is the result
            return f"{type(error).__name__}: {error}"
        return None

    def _spark_ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.hands.spark.sql(f"SELECT id FROM {self.hands.place}.{table}").collect())

    def _read(self, table: str, expected: frozenset[int]) -> str | None:
        """Java, Spark and PyIceberg read these rows, and an append and a rewrite of manifests by Java find nothing
        wrong."""
        loaded = self.hands.load(table)
        for step in range(2):
            if step:
                loaded.refresh()
                loaded.newAppend().appendFile(self.hands.new(loaded, 99)).commit()
                loaded.rewriteManifests().clusterBy(
                    self.hands.spark._jvm.java.util.function.Function.identity()
                ).commit()
                expected |= {99}
            version = self.catalog.load_table(table).metadata.format_version
            columns = "id, _row_id" if version > 2 else "id"
            rows = self.hands.spark.sql(f"SELECT {columns} FROM {self.hands.place}.{table}").collect()
            if sorted(row["id"] for row in rows) != sorted(expected):
                return f"step {step}: Spark reads {sorted(row['id'] for row in rows)} instead of {sorted(expected)}"
            if version > 2:
                row_ids = [row["_row_id"] for row in rows]
                if None in row_ids or len(set(row_ids)) < len(row_ids):
                    return f"step {step}: row ids are {row_ids}"
            read = self.hands.pyiceberg.load_table(table).scan().to_arrow().column("id").to_pylist()
            if sorted(read) != sorted(expected):
                return f"step {step}: PyIceberg reads {sorted(read)} instead of {sorted(expected)}"
        return None


@pytest.fixture
def scene(spark: Any, catalog: Any, namespace: str, tmp_path: Path) -> Iterator[Scene]:
    overtaken = Overtaken(catalog)
    with RestServer(overtaken, host="127.0.0.1", port=0, token=TOKEN) as server:  # type: ignore[arg-type]
        place = interop.add_spark_catalog(spark, f"of_{namespace}", type="rest", uri=server.uri, token=TOKEN)
        java = interop.java_catalog(spark, interop.REST_CATALOG, namespace, uri=server.uri, token=TOKEN)
        pyiceberg = load_catalog(namespace, type="rest", uri=server.uri, token=TOKEN)
        yield Scene(catalog, overtaken, Hands(spark, place, java, pyiceberg, tmp_path), namespace)
        java.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
@pytest.mark.parametrize("upgrade", UPGRADES, ids=lambda each: f"{each[0]}_to_{each[1]}")
@pytest.mark.parametrize("name", VERBS)
def test_a_commit_that_an_upgrade_overtakes_lands_once_or_fails(scene: Scene, name: str, upgrade: Any) -> None:
    before, after = upgrade
    if before < VERBS[name].from_version:
        before = VERBS[name].from_version
        after = 3
    wrong = {
        f"{how}, {mode}": found
        for how, mode in CIRCUMSTANCES
        if (found := scene.play(name, before, after, how == "moved", mode)) is not None
    }
    assert wrong == {}
