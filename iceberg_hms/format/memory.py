"""How much memory JSON takes once it is decoded: three to four times its text, so that a bound on text is none."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Final

#: Of a long list so many members are looked at, evenly spread, and of a large object; the others count like them.
LIST_SAMPLE: Final = 8
OBJECT_SAMPLE: Final = 64


def estimated_bytes(value: Any) -> int:
    """About how many bytes a JSON value takes, what it holds included; where there is much, by a sample. Names of
    fields count nothing: the decoder makes each once."""
    own = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return own + _of_members(value.values(), OBJECT_SAMPLE)
    if isinstance(value, list | tuple):
        return own + _of_members(value, LIST_SAMPLE)
    return own


def _of_members(members: Collection[Any], sample: int) -> int:
    seen = list(islice(members, 0, None, max(1, len(members) // sample)))
    return sum(map(estimated_bytes, seen)) * len(members) // max(1, len(seen))
