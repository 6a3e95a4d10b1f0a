"""How much memory Python's objects of a JSON text take, guessed from the text before it is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Python's objects for an object, a list and another value, by the sign that stands for it.
_OBJECT_BYTES: Final[Mapping[bytes, int]] = {b"{": 200, b"[": 72, b",": 40}
#: Metadata takes two to six times its text by this count; lists of empty lists take 37 times theirs.
_TIMES_TEXT: Final = 10
#: Less than this is never out of proportion.
_SMALL_BYTES: Final = 64 * 1024 * 1024


def parsed_bytes(text: bytes) -> int:
    """The guess, in bytes, for a text or a part of one. A sign in a string counts, too."""
    return sum(text.count(sign) * size for sign, size in _OBJECT_BYTES.items())


def is_out_of_proportion(parsed: int, text_bytes: int) -> bool:
    """Whether a text of this length has far more values than metadata has. parsed: by `parsed_bytes`."""
    return parsed > max(_SMALL_BYTES, _TIMES_TEXT * text_bytes)
