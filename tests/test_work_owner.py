from __future__ import annotations

import contextlib

from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.work_owner import NOBODY, owned_by, owner


def test_work_belongs_to_the_innermost_owner_who_was_named() -> None:
    assert owner() == NOBODY
    with owned_by("a"):
        with owned_by("b"):
            assert owner() == "b"
        assert owner() == "a"
    assert owner() == NOBODY


def test_an_error_ends_the_work_too() -> None:
    with contextlib.suppress(ValueError), owned_by("a"):
        raise ValueError
    assert owner() == NOBODY


def test_threads_that_help_work_for_the_same_owner() -> None:
    with owned_by("a"):
        assert ThreadRuntime().gather([owner] * 20) == ["a"] * 20
