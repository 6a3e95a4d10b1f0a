"""Random operations of several writers in any interleaving: their rows are those of one after the other."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.outcomes.plans import OPERATIONS, Plans
from tests.outcomes.site import STATES, WRITERS, Planned, Site

WRITER = st.integers(0, WRITERS - 1)
STATE = st.integers(0, STATES - 1)
#: An operation, and a number that decides on which files.
STEP = st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 500))
Step = tuple[str, int]


class Writers(RuleBasedStateMachine):
    """The site has one table of format version 2 or 3."""

    site: Site

    @initialize(version=st.sampled_from([2, 3]), first=st.lists(st.integers(0, 500), min_size=2, max_size=4))
    def create(self, version: int, first: list[int]) -> None:
        self.site = Site(version)
        for choose in first:
            self.alone(0, 0, ("append", choose * 7 + 7))
            self.site.verify()

    @rule(writer=WRITER, state=STATE, step=STEP)
    def alone(self, writer: int, state: int, step: Step) -> None:
        self.site.run(self._plan(state, step), self.site.table(writer, state))

    @rule(writer=WRITER, state=STATE, step=STEP, other=STEP, others=STATE)
    def overtaken(self, writer: int, state: int, step: Step, other: Step, others: int) -> None:
        overtaker = self.site.table((writer + 1) % WRITERS, others)
        self.site.run_overtaken(
            self._plan(state, step), self.site.table(writer, state), self._plan(others, other), overtaker
        )

    @rule(writer=WRITER, state=STATE, step=STEP, group=st.lists(st.tuples(STATE, STEP), min_size=2, max_size=4))
    def in_one_group(self, writer: int, state: int, step: Step, group: list[tuple[int, Step]]) -> None:
        members = [(self._plan(at, each), self.site.table(writer, at, queues=True)) for at, each in group]
        self.site.run_group(self._plan(state, step), self.site.table(writer, state), members)

    @invariant()
    def the_rows_are_those_of_one_after_the_other(self) -> None:
        if hasattr(self, "site"):
            self.site.verify()

    def teardown(self) -> None:
        if hasattr(self, "site"):
            self.site.close()

    def _plan(self, state: int, step: Step) -> Planned:
        operation, choose = step
        return Plans(self.site, self.site.table(0, state), choose).make(operation)


class TestWriters(Writers.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        max_examples=30,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
