"""How the work of a function grows with its input: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """How many of Python's instructions it takes. What C code does at once counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def seconds(work: Callable[[], object]) -> float:
    """Of this thread's processor time: the shortest of some runs, for what C code does at once."""
    taken = []
    for _ in range(5):
        started = time.thread_time()
        work()
        taken.append(time.thread_time() - started)
    return min(taken)


def is_linear(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether twice the size takes at most about twice the steps. work: prepares a run of a size."""
    return steps(work(2 * size)) < 2.6 * steps(work(size))


def is_linear_in_time(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """The same by time, for regular expressions: eight times the size would take 64 times as long if it were
    quadratic. The limit leaves room for memory that fits no cache; what is too quick to measure is linear too."""
    small, large = seconds(work(size)), seconds(work(8 * size))
    return large < 0.02 or large < 40 * small
