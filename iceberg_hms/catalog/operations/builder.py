"""Builders: operations of several steps, which are committed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from iceberg_hms.catalog.operations.submitter import Result
from iceberg_hms.changes.change import Change
from iceberg_hms.errors import InvalidInput

Draft = TypeVar("Draft")


class Builder(Generic[Draft, Result]):
    """Base of the builders. Each step is checked at once on the state that the caller saw: one that raises InvalidInput
    leaves the steps before it as they were.

    `with` commits at the end of the block, and nothing after an exception; a chain ends with `commit()`.

    report: what the commit returned; None before it, and in a transaction.
    new_draft: the state that the caller saw, without a step. make: the change that steps make. submit: commits a
    change, or makes it a step of a transaction.
    """

    def __init__(
        self,
        new_draft: Callable[[], Draft],
        make: Callable[[Sequence[Callable[[Draft], None]]], Change],
        submit: Callable[[Change], Result],
    ) -> None:
        self.report: Result | None = None
        self._new_draft = new_draft
        self._make = make
        self._submit_change = submit
        self._steps: list[Callable[[Draft], None]] = []
        self._draft = new_draft()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self._ended:
            self.commit()

    def commit(self) -> Result:
        """Commit the steps. Returns the commit's report; None in a transaction, where they become a step of it.
        Raises InvalidInput if they are not valid together, RequirementFailed if the table changed under them."""
        self._refuse_ended()
        change = self._make(self._steps)
        self._ended = True
        self.report = self._submit_change(change)
        return self.report

    def _add(self, step: Callable[[Draft], None]) -> Self:
        self._refuse_ended()
        try:
            step(self._draft)
        except InvalidInput:
            # The step may have done a part of its work.
            self._draft = self._new_draft()
            for earlier in self._steps:
                earlier(self._draft)
            raise
        self._steps.append(step)
        return self

    def _refuse_ended(self) -> None:
        if self._ended:
            raise InvalidInput("this update was committed already", next_step="begin another one")
