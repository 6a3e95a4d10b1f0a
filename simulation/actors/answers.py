"""What a process is answered that calls an operation of the library."""

from __future__ import annotations

from collections.abc import Callable

from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError
from simulation.world.history import Answer


def answer_of(operation: Callable[[], object]) -> tuple[Answer, str]:
    """The answer, and what the error said."""
    try:
        operation()
    except CommitStateUnknown as error:
        return Answer.UNKNOWN, error.message.partition(": ")[0]
    except IcebergHmsError as error:
        # Any other error than a proved one proves nothing, like a 5xx answer to a REST client.
        answer = Answer.FAILED if error.proved_failed else Answer.UNKNOWN
        return answer, f"{type(error).__name__}: {error.message.partition(': ')[0]}"
    return Answer.COMMITTED, ""
