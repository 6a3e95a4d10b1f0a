"""A table of one shape in a catalog without servers, with real files, on which random operations are made; and whether
it is what the model says, as the independent reader and PyIceberg read it."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.outcomes.stage import join_commits
from tests.random_operations.comparison import Comparison
from tests.random_operations.file_writer import FileWriter
from tests.random_operations.independent_reader import Broken, IndependentReader, Missing, TableState, require
from tests.random_operations.independent_rows import RowReader
from tests.random_operations.model import Model
from tests.random_operations.operations import OPERATIONS
from tests.random_operations.places import Place
from tests.random_operations.plans import Bench, Plan, Planner
from tests.random_operations.pyiceberg_reader import PyIcebergReader
from tests.random_operations.shapes import COLUMNS, Shape
from tests.random_operations.state_checks import StateChecks

NAME: Final = TableName("logging", "events")
#: How many of the last states of the table a caller may have seen.
STATES: Final = 5
#: How often a step is made through a table object that is not of the last state.
_STALE: Final = 0.35
#: Merges manifests often.
_PROPERTIES: Final = {"commit.manifest.min-count-to-merge": "3"}


@dataclass(frozen=True)
class Seen:
    """A state as a table object has it, and as the independent reader reads it."""

    metadata: TableMetadata
    location: str
    state: TableState


class TestedTable:
    """place: an empty one, for all files; closed with this. seed: decides everything. log: what was done, for
    messages. counts: of operations, by what came of them. pyiceberg: what PyIceberg read."""

    __test__ = False

    def __init__(self, shape: Shape, seed: int, place: Place) -> None:
        self.shape, self.choose = shape, random.Random(f"{seed} {shape.name}")
        self.catalog = memory_catalog(files=place.files, warehouse=place.warehouse)  # type: ignore[arg-type]
        self.place = place
        self.catalog.create_namespace(NAME.namespace)
        properties = {"format-version": str(shape.version), **_PROPERTIES}
        schema = {"type": "struct", "schema-id": 0, "fields": list(COLUMNS)}
        table = self.catalog.create_table(NAME, schema, partition_spec=shape.partition_spec(), properties=properties)
        self._folder = table.metadata.location
        self._reader, rows = IndependentReader(place.file_of), RowReader(place.file_of)
        writer = FileWriter(place, f"{self._folder}/data", shape, self.choose)
        self.bench = Bench(shape, self.choose, writer, rows, Model.of(shape))
        self._checks, self._comparison = StateChecks(place, rows), Comparison(rows)
        self.pyiceberg = PyIcebergReader(place.pyiceberg)
        self._access = TableAccess(lambda: self.catalog.services)
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        self._states: deque[Seen] = deque(maxlen=STATES)
        self._states.append(self._load())

    @property
    def model(self) -> Model:
        """What the table must be."""
        return self.bench.model

    def close(self) -> None:
        """End the catalog, and leave the place."""
        join_commits()
        self.catalog.close()
        self.place.close()

    @property
    def now(self) -> Seen:
        """The last state."""
        return self._states[-1]

    def step(self) -> None:
        """One random operation, at times on a state that is not the last. Raises Broken."""
        depth = self.choose.randint(1, STATES) if self.choose.random() < _STALE else 0
        seen = self._states[max(-1 - depth, -len(self._states))]
        self.run(self.plan(seen, is_stale=seen is not self.now), seen)

    def plan(self, seen: Seen, *, is_stale: bool) -> Plan:
        """Any operation that the state allows. is_stale: whether others may commit before it."""
        while True:
            (make,) = self.choose.choices(list(OPERATIONS), list(OPERATIONS.values()))
            try:
                plan = make(Planner(self.bench, seen.state, is_stale=is_stale))
            except Missing:
                # An expiration deleted what this operation would read of the older state.
                require(seen is not self.now, "a file of the last state is gone")
                continue
            if plan is not None:
                return plan

    def table(self, seen: Seen) -> Table:
        """A table object of a state."""
        return Table(self._access, NAME, seen.metadata, seen.location)

    def run(self, plan: Plan, seen: Seen) -> None:
        """Make an operation and look at what it left. Raises Broken."""
        is_stale, files = seen is not self.now, self._metadata_files()
        self.log.append(f"{'stale: ' if is_stale else ''}{plan.what}")
        try:
            report = plan.submit(self.table(seen))
        except RequirementFailed as error:
            self._check_refusal(plan, error, is_stale=is_stale)
            join_commits()
            require(self._load_location() == self.now.location, "a refused operation changed the table")
            left = self._metadata_files() - files
            require(not left, f"a refused operation left {sorted(left)}")
        else:
            self.counts["replayed" if is_stale else "acknowledged"] += 1
            plan.apply(self.model, report.snapshot_ids)
            self.verify(self.model)

    def _check_refusal(self, plan: Plan, error: RequirementFailed, *, is_stale: bool) -> None:
        self.log[-1] += f" -> refused: {error.name}"
        self.counts["refused"] += 1
        may_be = is_stale or error.name in plan.may_be_refused
        require(may_be, f"refused although nobody changed the table: {error}")
        require(error.proved_failed, f"{error.name} leaves the outcome open")

    def verify(self, model: Model) -> None:
        """Read the table as it is, and compare it with a model. Raises Broken."""
        before, seen = self.now, self._load()
        self._checks.check(seen.state, before.state)
        self._comparison.compare(seen.state, model)
        self.pyiceberg.compare(seen.state, model)
        if seen.location != before.location:
            self._states.append(seen)

    def verify_outcome(self, models: Sequence[Callable[[], Model]]) -> Model:
        """Read the table as it is, which must be what one of several models says. Raises Broken."""
        state, why = self._load().state, list[str]()
        for make in models:
            try:
                model = make()
                self._comparison.compare(state, model)
            except Broken as error:
                why.append(str(error))
            else:
                self.verify(model)
                return model
        raise Broken("the rows are those of no order:\n" + "\n".join(why))

    def verify_from_scratch(self) -> None:
        """Read all snapshots again, with nothing kept of earlier reads. Raises Broken."""
        rows = RowReader(self.place.file_of)
        state = IndependentReader(self.place.file_of).state(self.now.location)
        StateChecks(self.place, rows).check(state, None)
        Comparison(rows).compare(state, self.model)

    def _load(self) -> Seen:
        table = self.catalog.load_table(NAME)
        self.place.look_again()
        return Seen(table.metadata, table.metadata_location, self._reader.state(table.metadata_location))

    def _load_location(self) -> str:
        return str(self.catalog.load_table(NAME).metadata_location)

    def _metadata_files(self) -> set[str]:
        return self.place.names_in(f"{self._folder}/metadata")


def steps_of(table: TestedTable) -> str:
    """What was done, in a message."""
    return "\n".join(f"{at:4} {each}" for at, each in enumerate(table.log, 1))


def counted(counts: Counter[str]) -> str:
    """In a message."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
