"""Which spellings are one file, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import (
    Location,
    check_readers_open,
    contains,
    file_key,
    join,
    parse,
    same_folder,
)


@pytest.mark.parametrize(
    "spelling",
    [
        "/a/b",
        "file:/a/b",
        "file:///a/b",
        "file://localhost/a/b",
        "FILE:/a/b",
        "file:/a//b/",
        "file:/a/./c/../b",
        "//a/b",
    ],
)
def test_all_spellings_of_a_local_file_are_equal(spelling: str) -> None:
    assert parse(spelling) == Location("file", "", "/a/b")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3A"])
def test_s3_has_three_names(scheme: str) -> None:
    assert parse(f"{scheme}://bucket/a/b") == Location("s3", "bucket", "/a/b")


def test_keys_of_an_object_store_are_text_not_trees() -> None:
    assert parse("s3://bucket/a//b") != parse("s3://bucket/a/b")
    assert parse("s3://bucket/a/../b") != parse("s3://bucket/b")
    assert parse("s3://one/a") != parse("s3://other/a")


def test_hdfs_paths_are_trees() -> None:
    assert parse("hdfs://nn:8020/a//b") == parse("hdfs://nn:8020/a/b")
    assert parse("hdfs://nn:8020/a") != parse("hdfs://other:8020/a")


@pytest.mark.parametrize("name", ["a%20b", "a b", "a+b", "a#b", "a?b=c", "a:b", "ä", "a\\b"])
def test_names_are_not_decoded_or_changed(name: str) -> None:
    assert parse(f"file:/w/{name}").path == f"/w/{name}"
    assert parse(f"s3://w/{name}").path == f"/{name}"
    assert parse(f"file:/w/{name}").name == name


@pytest.mark.parametrize("location", ["", "a/b", "file:a", "file:", "file://host/a", "s3:a", "s3://bucket", "/a\x00b"])
def test_relative_locations_are_refused(location: str) -> None:
    with pytest.raises(InvalidInput):
        parse(location)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("file:/a/b", "file:///a/b"),
        ("file:/a/b", "/a//b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3n://bucket/a", "s3a://bucket/a"),
    ],
)
def test_all_spellings_of_one_file_have_one_key(first: str, second: str) -> None:
    assert file_key(first) == file_key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("file:/a/b", "file:/a/c"),
        ("s3://bucket/a", "s3://other/a"),
        ("s3://bucket/a//b", "s3://bucket/a/b"),
        ("hdfs://nn/a", "file:/a"),
        ("a/b", "/a/b"),
        ("file://host/a", "file:/a"),
    ],
)
def test_two_files_have_two_keys(first: str, second: str) -> None:
    assert file_key(first) != file_key(second)


def test_a_location_that_cannot_be_read_is_its_own_key() -> None:
    assert file_key("a/b") == "a/b"
    assert file_key("") == ""


def test_join_keeps_the_spelling_of_the_base() -> None:
    assert join("s3a://b/w/", "metadata", "x.avro") == "s3a://b/w/metadata/x.avro"
    assert join("file:/w w", "x") == "file:/w w/x"


@given(st.text(alphabet="abc/.%: é", min_size=1))
def test_parsing_a_location_is_idempotent(text: str) -> None:
    once = parse("/" + text)
    assert parse(once.path) == once


@pytest.mark.parametrize(
    ("inside", "location"),
    [
        (True, "file:/w/db"),
        (True, "file:///w//db/t"),
        (False, "file:/w/db2"),
        (False, "file:/w"),
        (False, "s3://w/db/t"),
        (False, "hdfs://nn/w/db/t"),
    ],
)
def test_a_folder_contains_what_is_below_it_and_not_what_begins_like_it(inside: bool, location: str) -> None:
    assert contains(parse("file:/w/db"), parse(location)) == inside


def test_a_bucket_contains_its_keys_and_no_others() -> None:
    assert contains(parse("s3://b/"), parse("s3://b/k"))
    assert not contains(parse("s3://b/"), parse("s3://c/k"))


def test_a_folder_is_the_same_under_each_of_its_spellings() -> None:
    assert same_folder("file:/a/b", "file:///a/b/")
    assert same_folder(None, None)
    assert not same_folder("file:/a/b", "file:/a/c")
    assert not same_folder("file:/a/b", None)


#: What some reader does not find in a path, with a scheme or without one, in a name or a folder: found by writing a
#: file with each character and reading it by Java's HadoopFileIO, by Spark and by PyIceberg.
UNREAD = {
    **{
        f"{scheme}/d/{name}": True
        for scheme in ("file:", "file://", "s3://b", "s3a://b", "hdfs://n")
        for name in (
            *("a#b.parquet", "a?b.parquet", "a\tb.parquet", "a\nb.parquet", "a\rb.parquet", "#", "a?", "\t"),
            *("x#y/f.parquet", "x?/f.parquet", "\n/f.parquet"),
        )
    },
    **{
        f"{scheme}/d/{name}": True
        for scheme in ("", "file:", "file://", "FILE:")
        for name in ("a:b", ":", "a:", "x/:b")
    },
    # A path without a scheme is no URL, and a folder has no checksum.
    **{f"/d/{name}": False for name in ("a#b.parquet", "a?b.parquet", "a\tb", "x#y/f", "a:b/f")},
    **{f"file:/d/{name}": False for name in ("a:b/f.parquet", ":/f.parquet")},
    **{f"{scheme}://b/d/a:b.parquet": False for scheme in ("s3", "s3a", "gs")},
}


@pytest.mark.parametrize("location", UNREAD, ids=ascii)
def test_a_path_that_some_reader_does_not_open_is_refused(location: str) -> None:
    if UNREAD[location]:
        with pytest.raises(InvalidInput, match="not every reader opens it") as caught:
            check_readers_open(location)
        assert "write the file to a path" in caught.value.next_step
    else:
        check_readers_open(location)


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "s3://b"])
def test_every_reader_opens_all_other_characters(scheme: str) -> None:
    for number in range(1, 0x250):
        if chr(number) not in "/#?\t\n\r:":
            check_readers_open(f"{scheme}/d/{chr(number)}/a{chr(number)}b.parquet")
    for text in ("%20", "%2F", "%FF", "%", "a=b", "..x", "\u2028", "\ufffd", "\U0001f600", "a//b"):
        check_readers_open(f"{scheme}/d/{text}/{text}.parquet")
