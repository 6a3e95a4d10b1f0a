"""What the names of folders and files say."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.datafiles.folder_names import FolderNames, Readers, hive_folders, unescaped
from iceberg_hms.datafiles.partition_values import partition_of
from iceberg_hms.errors import InvalidInput
from tests.catalog.parquet import table_for

BOTH, NEITHER, ONE = Readers.BOTH, Readers.NEITHER, Readers.ONE

#: Name of a file in a partition's folder -> whether Spark 4.1 read it from a table, whether it read it by Hive's
#: classes: integration/migration/test_partition_texts.py asks them.
READ: dict[str, tuple[bool, bool]] = {
    "a": (True, True),
    "_a": (False, False),
    ".a": (False, False),
    "_a=1": (True, False),
    ".a=1": (False, False),
    "_metadata": (False, False),
    "_common_metadata": (False, False),
    "_metadata_x": (False, False),
    "_metadata=1": (True, False),
    "a._COPYING_": (False, True),
    "_a=1._COPYING_": (False, False),
    "._COPYING_": (False, False),
    "_metadata._COPYING_": (False, False),
    ".metadata": (False, False),
}


@pytest.mark.parametrize(("name", "read"), READ.items())
def test_a_file_is_read_by_those_that_see_its_name(name: str, read: tuple[bool, bool]) -> None:
    assert FolderNames().readers(name) is {(True, True): BOTH, (False, False): NEITHER}.get(read, ONE)


@pytest.mark.parametrize(
    ("path", "columns", "expected"),
    [
        ("_day=2021-01-01/a", ["_day"], BOTH),
        (".day=2021-01-01/a", [".day"], BOTH),
        ("_day=1/_hour=2/a", ["_day", "_hour"], BOTH),
        ("_day=1/hour=2/a", ["_day", "hour"], BOTH),
        ("_a%20b=1/a", ["_a b"], BOTH),
        ("_a b=1/a", ["_a b"], BOTH),
        ("_%25=1/a", ["_%"], BOTH),
        ("_day=/a", ["_day"], BOTH),
        ("_day=1/a", [], NEITHER),
        ("_day=1/a", ["day"], NEITHER),
        ("_days=1/a", ["_day"], NEITHER),
        ("_day/a", ["_day"], NEITHER),
        ("_Day=1/a", ["_day"], NEITHER),
        ("_day=1/_x/a", ["_day"], NEITHER),
        ("_day=1/_a", ["_day"], NEITHER),
        ("_day=1/.a", ["_day"], NEITHER),
        ("_day=1/_SUCCESS", ["_day"], NEITHER),
        ("_day=1/_a=1", ["_day"], ONE),
        ("_day=1", ["_day"], ONE),
        ("_day=1/a._COPYING_", ["_day"], ONE),
        ("_temporary/_day=1/a", ["_day"], NEITHER),
        (".hive-staging/_day=1/a", ["_day"], NEITHER),
        ("_%FF=1/a", ["_\u00ff"], NEITHER),
        ("x._COPYING_/a", [], BOTH),
    ],
)
def test_the_folders_of_a_table_s_own_partition_columns_are_not_hidden_and_nothing_else_is_spared(
    path: str, columns: list[str], expected: Readers
) -> None:
    assert FolderNames(columns).readers(path) is expected
    assert FolderNames(columns).is_hidden(path) == (expected is NEITHER or path.rpartition("/")[2].startswith("_"))


def test_the_columns_are_those_of_all_specs_and_of_their_sources() -> None:
    metadata = table_for(pa.schema([("_a", pa.int64()), ("_b", pa.string())]), ["_a", "truncate(2, _b) as _c"])
    names = FolderNames.of(metadata)
    assert [names.readers(f"{each}=1/x") for each in ("_a", "_b", "_c", "_d")] == [BOTH, BOTH, BOTH, NEITHER]


#: Text -> what Spark and Hive make of it (`unescapePathName`); None: one of them fails.
ESCAPES: dict[str, tuple[str | None, str]] = {
    "a": ("a", "a"),
    "%41": ("A", "A"),
    "%FF": ("\u00ff", "\u00ff"),
    "%C3%A4": ("\u00c3\u00a4", "\u00c3\u00a4"),
    "%e4": ("\u00e4", "\u00e4"),
    "%80": ("\u0080", "\u0080"),
    "%": ("%", "%"),
    "%2": ("%2", "%2"),
    "%zz": ("%zz", "%zz"),
    "%a": ("%a", "%a"),
    "%4g": ("%4g", "%4g"),
    "% 1": ("% 1", "% 1"),
    "%1 ": ("%1 ", "%1 "),
    "%00": ("\u0000", "\u0000"),
    "%7F": ("\u007f", "\u007f"),
    "%7f": ("\u007f", "\u007f"),
    "%+1": ("%+1", "\u0001"),
    "%-1": ("%-1", "%-1"),
    "%-0": ("%-0", "\u0000"),
    "%%41": ("%A", "%A"),
    "%41%": ("A%", "A%"),
    "%41%4": ("A%4", "A%4"),
    "a%": ("a%", "a%"),
    "a%4": ("a%4", "a%4"),
    "%25": ("%", "%"),
    "%2525": ("%25", "%25"),
    "a+b": ("a+b", "a+b"),
    "%A\u00e9": (None, "%A\u00e9"),
    "%\u0663\u0663": ("%\u0663\u0663", "3"),
}
#: Hive and Spark agree, and those who decode UTF-8 do not: Java's URLDecoder, Python's unquote.
NOT_UTF_8 = ("%FF", "%C3%A4", "%e4", "%80")


@pytest.mark.parametrize(("text", "decoded"), ESCAPES.items())
def test_a_folder_s_name_means_what_all_readers_take_it_for_or_is_refused(
    text: str, decoded: tuple[str | None, str]
) -> None:
    spark, hive = decoded
    location = f"file:/t/c={text}/x.parquet"
    metadata = table_for(pa.schema([("c", pa.string())]), ["c"])
    if spark == hive and text not in NOT_UTF_8:
        assert unescaped(text) == spark
        assert partition_of(location, metadata, {}, frozenset()) == {"c": spark}
        return
    with pytest.raises(InvalidInput, match="for which readers see different characters"):
        unescaped(text)
    with pytest.raises(InvalidInput, match="different characters") as refused:
        partition_of(location, metadata, {}, frozenset())
    assert location in refused.value.message
    assert "rename the folder" in refused.value.next_step


@given(st.text())
def test_every_text_can_be_written_so_that_all_readers_see_it(text: str) -> None:
    assert unescaped(text.replace("%", "%25")) == text


def test_folders_are_found_by_their_names_without_the_file_s_own() -> None:
    found = hive_folders("s3://bucket/t/a=1/b%3D=x%25y/c=/%FF=1/d=%FF/name=2.parquet")
    assert found == {"a": "1", "b=": "x%25y", "c": "", "d": "%FF"}
