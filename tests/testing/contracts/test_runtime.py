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
        (NoMutex, contract.a_mutex_admits_one_thread_at_a_time),
        (Unordered, contract.gathered_results_are_in_order),
        (Hasty, contract.gather_raises_an_error_after_all_functions_ended),
        (Elsewhere, contract.gathered_functions_share_the_callers_context_and_spawned_ones_do_not),
        (Unfinished, contract.run_while_waiting_returns_after_both_functions_ended),
        (Unfinished, contract.run_while_waiting_raises_either_error_after_both_functions_ended),
        (Silent, contract.run_while_waiting_raises_either_error_after_both_functions_ended),
        (NoSleep, contract.time_advances_at_least_by_a_sleep),
        (OneId, contract.ids_are_new),
    ],
)
def test_a_broken_runtime_is_found(broken: type[ThreadRuntime], check: contract.Check) -> None:
    with pytest.raises(AssertionError):
        check(broken())
