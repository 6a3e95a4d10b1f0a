"""Contract suites: what every implementation of a port must do, as checks that need no test framework.

A suite is a tuple `CHECKS` of functions. Each takes the implementation under test, calls it, and raises AssertionError
if it answers wrongly. With pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_files_keep_the_contract(check, tmp_path):
        check(MyFiles(), f"file:{tmp_path}")
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from iceberg_hms.coordinator.ports import Refused, SwapAnswer


def checks_of(module: Mapping[str, Any]) -> tuple[Any, ...]:
    """The suite of a module, by its `globals()`: its own public functions that return nothing, in their order."""
    own = (each for each in module.values() if getattr(each, "__module__", "") == module["__name__"])
    functions = [each for each in own if isinstance(each, FunctionType) and not each.__name__.startswith("_")]
    return tuple(each for each in functions if each.__annotations__["return"] == "None")


def expect(condition: bool, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds; `assert` is gone under `python -O`."""
    if not condition:
        raise AssertionError(message)


def expect_equal(found: object, expected: object, what: str) -> None:
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


@contextmanager
def expect_raises(kind: type[Exception], what: str) -> Iterator[None]:
    """Raise AssertionError unless the block raises `kind`; other exceptions pass through."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what}: expected {kind.__name__}, nothing was raised")


def expect_refused(answer: SwapAnswer, conflict: bool, kind: type[Exception] | None, what: str) -> None:
    """Raise AssertionError unless an answer refuses. conflict: what it says. kind: of its error, None for any."""
    expect(isinstance(answer, Refused), f"{what}: {answer} is not Refused")
    if isinstance(answer, Refused):
        expect_equal(answer.conflict, conflict, f"{what}, conflict")
        expect(kind is None or isinstance(answer.error, kind), f"{what}: {answer.error!r} is not {kind}")


def at_once(function: Callable[[int], None], times: int) -> None:
    """Call a function with 0, 1, 2... on as many threads, and wait for all of them."""
    threads = [threading.Thread(target=function, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
