from __future__ import annotations

import fnmatch

from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.name_pattern import NamePattern


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_star_stands_for_any_characters_and_all_else_for_itself(pattern: str, name: str) -> None:
    assert NamePattern(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)
