"""Builders: operations of several steps, which are committed together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import ClassVar, Generic, ParamSpec, Self, TypeVar

from iceberg_hms.catalog.operations.submitter import Result
from iceberg_hms.changes.change import Change
from iceberg_hms.errors import InvalidInput

logger = logging.getLogger(__name__)

Draft = TypeVar("Draft")
_Found = TypeVar("_Found")
_Given = ParamSpec("_Given")


class Builder(Generic[Draft, Result]):
    """Base of the builders. Each step is checked at once on the state that the caller saw: one that raises InvalidInput
    leaves the steps before it as they were.

    `with` commits at the end of the block, and nothing after an exception; a chain ends with `commit()`. Steps that are
    dropped without either leave a warning in the log, unless an exception told the caller.

    made_by: the call that makes the builder, for messages.
    report: what the commit returned; None before it, and in a transaction.
    new_draft: the state that the caller saw, without a step. make: the change that steps make. submit: commits a
    change, or makes it a step of a transaction.
    """

    made_by: ClassVar[str]

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
        self._ended = False
        #: Whether the caller heard, by an exception, that the steps were not committed.
        self._caller_knows = False
        self._draft = new_draft()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self._ended:
            self.commit()
        self._caller_knows = error is not None

    def __del__(self) -> None:
        if self._steps and not self._ended and not self._caller_knows:
            logger.warning(
                "%s: %d steps were dropped, and the table has none of them; end the chain with commit(), or use `with`",
                self.made_by,
                len(self._steps),
            )

    def commit(self) -> Result:
        """Commit the steps. Returns the commit's report; None in a transaction, where they become a step of it.
        Raises InvalidInput if they are not valid together, RequirementFailed if the table changed under them."""
        self._refuse_ended()
        change = self._checked(self._make, self._steps)
        self._ended = True
        self.report = self._submit_change(change)
        return self.report

    def _add(self, step: Callable[[Draft], None]) -> Self:
        self._refuse_ended()
        try:
            self._checked(step, self._draft)
        except InvalidInput:
            # The step may have done a part of its work.
            self._draft = self._new_draft()
            for earlier in self._steps:
                earlier(self._draft)
            raise
        self._steps.append(step)
        return self

    def _checked(self, call: Callable[_Given, _Found], *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        """What a call makes of what the caller gave. Raises as it does."""
        self._caller_knows = True
        found = call(*args, **kwargs)
        self._caller_knows = False
        return found

    def _refuse_ended(self) -> None:
        if self._ended:
            raise InvalidInput("this update was committed already", next_step="begin another one")
