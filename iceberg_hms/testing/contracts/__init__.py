"""Contract suites: what every implementation of a port must do, as checks that need no test framework.

A suite is a tuple `CHECKS` of functions. Each takes the implementation under test, calls it, and raises AssertionError
if it answers wrongly. With pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_files_keep_the_contract(check, tmp_path):
        check(MyFiles(), f"file:{tmp_path}")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def expect(condition: bool, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds; `assert` is gone under `python -O`."""
    if not condition:
        raise AssertionError(message)


def expect_equal(found: object, expected: object, what: str) -> None:
    """Raise AssertionError unless both are equal."""
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


@contextmanager
def expect_raises(kind: type[Exception], what: str) -> Iterator[None]:
    """Raise AssertionError unless the block raises `kind`; other exceptions pass through."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what}: expected {kind.__name__}, nothing was raised")
