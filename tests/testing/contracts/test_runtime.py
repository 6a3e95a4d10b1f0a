"""A suite that cannot fail proves nothing: broken runtimes are found."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import Result
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.testing.contracts import runtime as contract


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_real_threads_keep_the_contract(check: contract.Check) -> None:
    check(ThreadRuntime())


class NoMutex(ThreadRuntime):
    def mutex(self) -> Any:
        return contextlib.nullcontext()


class Unordered(ThreadRuntime):
    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        return super().gather(functions)[::-1]


class Hasty(ThreadRuntime):
    """Raises before all have ended."""

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        return [function() for function in functions]


class Elsewhere(ThreadRuntime):
    """Forgets the caller's context."""

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        return contextvars.Context().run(super().gather, functions)


class Unfinished(ThreadRuntime):
    """Does not wait for the work, or not where the wait fails."""

    def run_while_waiting(self, work: Callable[[], None], wait: Callable[[], Result]) -> Result:
        def quiet() -> None:
            with contextlib.suppress(LookupError):
                work()

        threading.Thread(target=quiet).start()
        self.sleep(0.005)
        return wait()


class Silent(ThreadRuntime):
    """Keeps the error of the work to itself."""

    def run_while_waiting(self, work: Callable[[], None], wait: Callable[[], Result]) -> Result:
        with contextlib.suppress(LookupError):
            work()
        return wait()


class NoSleep(ThreadRuntime):
    def sleep(self, seconds: float) -> None:
        return


class OneId(ThreadRuntime):
    def uuid(self) -> str:
        return "same"


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (NoMutex, contract.a_mutex_lets_one_in),
        (Unordered, contract.gathered_results_are_in_order),
        (Hasty, contract.a_gathered_error_is_raised_when_all_have_ended),
        (Elsewhere, contract.what_is_gathered_is_in_its_caller_s_context_and_what_is_spawned_is_not),
        (Unfinished, contract.what_is_done_meanwhile_has_ended_when_the_wait_has),
        (Unfinished, contract.an_error_of_the_wait_or_of_the_work_is_raised_when_both_have_ended),
        (Silent, contract.an_error_of_the_wait_or_of_the_work_is_raised_when_both_have_ended),
        (NoSleep, contract.time_goes_on_and_a_sleep_takes_it),
        (OneId, contract.ids_are_new),
    ],
)
def test_a_broken_runtime_is_found(broken: type[ThreadRuntime], check: contract.Check) -> None:
    with pytest.raises(AssertionError):
        check(broken())
