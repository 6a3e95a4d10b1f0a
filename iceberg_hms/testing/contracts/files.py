"""What every implementation of `coordinator.ports.Files` must do.

Each check takes the implementation and the location of an empty folder that it may fill; it need not exist yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import AlreadyExists, CorruptFile, InvalidInput, MissingFile
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.testing.contracts import at_once, checks_of, expect, expect_equal, expect_raises

_WRITERS: Final = 8


def a_read_returns_the_written_bytes(files: Files, root: str) -> None:
    data = bytes(range(256)) * 4_096
    files.write(f"{root}/a.bin", data)
    expect_equal(files.length(f"{root}/a.bin"), len(data), "length")
    expect(files.read(f"{root}/a.bin") == data, "other bytes came back")


def an_empty_file_exists(files: Files, root: str) -> None:
    files.write(f"{root}/empty", b"")
    expect_equal(files.length(f"{root}/empty"), 0, "length")
    expect_equal(files.read(f"{root}/empty"), b"", "content")


def a_file_beyond_the_limit_is_refused(files: Files, root: str) -> None:
    files.write(f"{root}/large", b"0123456789")
    expect_equal(files.read(f"{root}/large", Limit("a.key", 10)), b"0123456789", "content")
    with expect_raises(CorruptFile, "read"):
        files.read(f"{root}/large", Limit("a.key", 9))


def a_missing_file_raises_missing_file(files: Files, root: str) -> None:
    with expect_raises(MissingFile, "read"):
        files.read(f"{root}/none")
    with expect_raises(MissingFile, "length"):
        files.length(f"{root}/none")
    expect_equal(files.delete(f"{root}/none"), False, "delete")


def a_write_creates_folders(files: Files, root: str) -> None:
    files.write(f"{root}/one/two/three/x", b"deep")
    expect_equal(files.read(f"{root}/one/two/three/x"), b"deep", "content")


def a_folder_can_be_made_before_its_files(files: Files, root: str) -> None:
    for _ in range(2):
        files.make_folder(f"{root}/made/deep")
    files.write(f"{root}/made/deep/x", b"in it")
    files.make_folder(f"{root}/made/deep")
    expect_equal(files.read(f"{root}/made/deep/x"), b"in it", "content")
    with expect_raises(InvalidInput, "a relative folder"):
        files.make_folder("made/deep")


def a_write_never_overwrites(files: Files, root: str) -> None:
    files.write(f"{root}/once", b"first")
    with expect_raises(AlreadyExists, "second write"):
        files.write(f"{root}/once", b"second, and longer")
    expect_equal(files.read(f"{root}/once"), b"first", "content")


def a_deleted_name_can_be_written_again(files: Files, root: str) -> None:
    files.write(f"{root}/again", b"old")
    expect_equal(files.delete(f"{root}/again"), True, "delete")
    expect_equal(files.delete(f"{root}/again"), False, "second delete")
    files.write(f"{root}/again", b"new")
    expect_equal(files.read(f"{root}/again"), b"new", "content")


def many_files_are_deleted_whether_or_not_they_are_there(files: Files, root: str) -> None:
    there = [f"{root}/many/{number}" for number in range(3)]
    files.write_all([(location, b"x") for location in [*there, f"{root}/many/kept"]])
    deleted = files.delete_all([there[0], f"{root}/many/none", *there[1:]])
    expect(set(there) <= set(deleted.locations), "a deleted file is not reported")
    expect_equal(dict(deleted.failed), {}, "failures")
    expect_equal([each.location for each in files.list_files(f"{root}/many")], [f"{root}/many/kept"], "what is left")
    expect_equal(tuple(files.delete_all([]).locations), (), "nothing to delete")
    refused = files.delete_all([f"{root}/many/kept", "many/kept"])
    expect_equal(
        (list(refused.locations), list(refused.failed)), ([f"{root}/many/kept"], ["many/kept"]), "a relative one"
    )


def each_of_many_deletions_has_one_outcome(files: Files, root: str) -> None:
    """What the location of a folder names is no file; an object store knows none there."""
    files.write_all([(f"{root}/outcomes/{name}", b"x") for name in ("a", "b", "folder/x")])
    asked = [f"{root}/outcomes/{name}" for name in ("folder", "a", "none", "b", "folder/none")]
    deleted = files.delete_all([*asked, "outcomes/a", asked[1]])
    expect(not set(deleted.locations) & deleted.failed.keys(), "a file is deleted and failed")
    expect({asked[1], asked[3]} <= set(deleted.locations), "a deleted file is not reported")
    expect(deleted.failed.keys() <= {asked[0], "outcomes/a"}, "a file that was deleted or missing failed")
    expect_equal(
        [each.location for each in files.list_files(f"{root}/outcomes")], [f"{root}/outcomes/folder/x"], "what is left"
    )


def the_end_of_a_file_can_be_read_alone(files: Any, root: str) -> None:
    data = bytes(range(256)) * 1_024
    for name, content in (("long", data), ("short", b"0123456789"), ("empty", b"")):
        files.write(f"{root}/{name}", content)
        with files.open(f"{root}/{name}") as file:
            expect_equal(int(file.size()), len(content), f"the size of the {name} file")
            for start, count in (
                (max(0, len(content) - 8), 8),
                (0, 4),
                (len(content) // 2, 100_000),
                (len(content), 1),
            ):
                file.seek(start)
                expect(bytes(file.read(count)) == content[start : start + count], f"{count} bytes from {start}: {name}")
    with expect_raises(MissingFile, "open"):
        files.open(f"{root}/none")


def locations_are_not_decoded(files: Files, root: str) -> None:
    for name in ("a b", "a%20b", "a+b", "a#b", "a?b", "ä"):
        files.write(f"{root}/{name}", name.encode())
    for name in ("a b", "a%20b", "a+b", "a#b", "a?b", "ä"):
        expect_equal(files.read(f"{root}/{name}"), name.encode(), f"content of {name!r}")


def relative_locations_are_refused(files: Files, root: str) -> None:
    for location in ("", "x/y", "file:x", root.rpartition(":")[2].lstrip("/")):
        with expect_raises(InvalidInput, location):
            files.write(location, b"")
        with expect_raises(InvalidInput, location):
            files.read(location)


def one_of_many_concurrent_writers_wins(files: Files, root: str) -> None:
    won: list[bytes] = []
    together = threading.Barrier(_WRITERS)

    def write(number: int) -> None:
        data = bytes([number]) * 100_000
        together.wait()
        try:
            files.write(f"{root}/race", data)
        except AlreadyExists:
            return
        won.append(data)

    at_once(write, _WRITERS)
    expect_equal(len(won), 1, "writers whose write succeeded")
    expect(files.read(f"{root}/race") == won[0], "the file is not the winner's")


def a_listing_has_every_file_below_its_folder_alone(files: Files, root: str) -> None:
    inside = {f"{root}/listed/{name}": bytes(len(name)) for name in ("x", "a b/y%20z", ".hidden/_w", "a b/c/d/ä")}
    for location, data in inside.items():
        files.write(location, data)
    files.write(f"{root}/listed2/x", b"beside it")
    before = list(files.list_files(f"{root}/listed"))
    expect_equal({each.location: each.length for each in before}, {k: len(v) for k, v in inside.items()}, "listing")
    expect_equal(
        {each.location for each in files.list_files(f"{root}/listed/")}, set(inside), "with a slash at its end"
    )
    expect(all(each.modified_ms > 1_500_000_000_000 for each in before), "a file has no time")
    for each in before:
        expect_equal(len(files.read(each.location)), each.length, f"the file {each.location}")
        files.delete(each.location)
    expect_equal(list(files.list_files(f"{root}/listed")), [], "after all files were deleted")


def a_folder_that_is_not_there_has_no_files(files: Files, root: str) -> None:
    expect_equal(list(files.list_files(f"{root}/none")), [], "listing")
    with expect_raises(InvalidInput, "a relative folder"):
        list(files.list_files("none"))


def a_folder_exists_once_it_was_made_or_has_files(files: Files, root: str) -> None:
    expect(not files.folder_exists(f"{root}/none"), "a folder that nobody made")
    files.write(f"{root}/folder/deep/x", b"in it")
    files.make_folder(f"{root}/empty folder")
    for folder in ("folder", "folder/deep", "folder/"):
        expect(files.folder_exists(f"{root}/{folder}") in (True, None), f"{folder} does not exist")
    for other in ("folder/deep/x", "folder/deep/x/y", "folde"):
        expect(not files.folder_exists(f"{root}/{other}"), f"{other} is no folder")
    # Where `make_folder` makes none, the store may have folders all the same.
    made = files.folder_exists(f"{root}/empty folder")
    expect(made or not files.real_path(root).startswith("file:"), "an empty folder does not exist")
    with expect_raises(InvalidInput, "a relative folder"):
        files.folder_exists("folder/deep")


def a_real_path_names_the_same_file_once_more(files: Files, root: str) -> None:
    files.write(f"{root}/real/x", b"one")
    real = files.real_path(f"{root}/real/x")
    expect_equal(files.read(real), b"one", real)
    expect_equal(files.real_path(real), real, "the real path of a real path")
    expect(files.real_path(f"{root}/real/none/y").startswith(real[:-1]), "a file that is not there has no real path")


def only_links_are_links(files: Files, root: str) -> None:
    files.write(f"{root}/plain/x", b"one")
    for location in (f"{root}/plain/x", f"{root}/plain", f"{root}/plain/none", f"{root}/none/x", f"{root}/plain/x/y"):
        expect(not files.is_link(location), f"{location} is no link")
    expect_equal(list(files.list_links(root)), [], "links")
    expect_equal(list(files.list_links(f"{root}/none")), [], "links in a folder that is not there")
    with expect_raises(InvalidInput, "a relative folder"):
        list(files.list_links("plain"))


CHECKS: Final[tuple[Callable[[Files, str], None], ...]] = checks_of(globals())


def all_spellings_of_a_local_file_name_one_file(files: Files, folder: str) -> None:
    """For stores of local files; `folder` is a plain absolute path."""
    files.write(f"file:{folder}/x", b"one")
    for spelling in (f"{folder}/x", f"file://{folder}/x", f"file:{folder}//x", f"file:{folder}/./y/../x"):
        expect_equal(files.read(spelling), b"one", spelling)
        expect_equal(files.real_path(spelling), files.real_path(f"{folder}/x"), f"the real path of {spelling}")
        with expect_raises(AlreadyExists, spelling):
            files.write(spelling, b"two")
