"""Which locations are below which roots, however they are spelled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.coordinator.locations.location_policy import LocationGuard, LocationPolicy
from iceberg_hms.coordinator.ports import Pointer, TableName
from iceberg_hms.errors import ConfigError, LocationNotAllowed
from iceberg_hms.format.locations import parse
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_files import MemoryFiles


def policy(allowed: str = "", *, warehouse: str = "file:/w", strict: bool = False) -> LocationPolicy:
    return LocationPolicy(MemoryFiles(), warehouse=warehouse, allowed=allowed, strict=strict)


def allows(guard: LocationGuard, location: str) -> bool:
    try:
        guard.check_folder(location, "location")
    except LocationNotAllowed:
        return False
    return True


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(LocationNotAllowed) as raised:
        yield
    assert "/" not in raised.value.message
    assert "add it to `rest.allowed-locations`" in (raised.value.next_step or "")


@pytest.mark.parametrize(
    "spelling", ["file:/w/x", "/w/x", "file:///w/x", "FILE:/w//x/", "file://localhost/w/x", "file:/w/"]
)
def test_a_folder_of_the_warehouse_is_allowed_in_every_spelling(spelling: str) -> None:
    assert allows(policy().guard(), spelling)


@pytest.mark.parametrize("root", ["s3://lake", "s3://lake/", "s3a://lake//"])
def test_a_bucket_is_a_root(root: str) -> None:
    guard = policy(root).guard()
    assert allows(guard, "s3n://lake/x")
    assert not allows(guard, "s3://lake2/x")
    assert not allows(guard, "gs://lake/x")


@pytest.mark.parametrize(
    "text", ["lake", "file:lake", "file:/a/../b", "hdfs://u@nn/x", "hdfs://nn/x?user=a", "s3://a;b/x"]
)
def test_an_odd_root_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match="warehouse"):
        policy(warehouse=text)
    with pytest.raises(ConfigError, match=r"rest\.allowed-locations"):
        policy(text)


@pytest.mark.parametrize(
    "text", ["s3://lake/x[]", "s3://lake/x[sales,", "s3://lake/x[a/b]", "[sales]", "s3://lake[a][b]"]
)
def test_an_odd_grant_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"rest\.allowed-locations"):
        policy(text)


def test_a_folder_that_is_granted_to_some_namespaces_is_for_no_other() -> None:
    made = policy("s3://lake/sales [Sales marketing_*], s3://shared")
    for namespace, location in [
        ("sales", "s3://lake/sales/db"),
        ("marketing_eu", "s3://lake/sales/db"),
        ("x", "s3://shared/x"),
    ]:
        made.check_namespace(namespace, location)
    with pytest.raises(LocationNotAllowed, match="is for others"):
        made.check_namespace("x", "s3://lake/sales/db")
    placed = made.placement("x", {"x"}.__contains__, None)
    assert not placed.allows(parse("s3://lake/sales/t"))
    assert made.placement("sales", {"sales"}.__contains__, None).allows(parse("s3://lake/sales/t"))


def test_a_container_of_azure_is_a_root() -> None:
    guard = policy("abfss://lake@account.dfs.core.windows.net/w").guard()
    assert allows(guard, "abfs://lake@account.dfs.core.windows.net/w/t")
    assert not allows(guard, "abfs://other@account.dfs.core.windows.net/w/t")
    assert not allows(guard, "abfs://lake@lake@account.dfs.core.windows.net/w/t")


@pytest.mark.parametrize(
    ("root", "spelling"),
    [
        ("file:/w", "file://localhost/w/x"),
        ("file://localhost/w", "file:///w/x"),
        ("s3a://lake/w", "s3://lake/w/x"),
        ("s3://lake/w", "s3n://lake/w/x"),
        ("abfss://c@a.dfs.core.windows.net/w", "abfs://c@a.dfs.core.windows.net/w/x"),
    ],
)
def test_spellings_of_one_store_are_one(root: str, spelling: str) -> None:
    guard = policy(warehouse=root).guard()
    assert allows(guard, spelling)
    assert not allows(guard, spelling.replace("/w/", "/x/"))


def test_which_authority_hdfs_leaves_out_is_only_what_the_settings_and_rows_say() -> None:
    """The default is that of each client's Hadoop configuration, which the server does not know."""
    full, short = "hdfs://nn:8020/w", "hdfs:///w"
    for one, other in ((full, short), (short, full)):
        assert not allows(policy(warehouse=one).guard(), f"{other}/x")
        assert not allows(policy(warehouse=one).guard(f"{one}/t"), f"{other}/t")
        assert allows(policy(other, warehouse=one).guard(), f"{other}/x")
        assert allows(policy(warehouse=one).guard(f"{other}/t"), f"{other}/t/metadata"), "the table's own row says so"
    both = policy(short, warehouse=full)
    assert allows(both.guard(), "hdfs:/w/x")
    for elsewhere in ("hdfs://other:8020/w/x", "hdfs://nn:9000/w/x", "hdfs://nn/w/x", "viewfs:///w/x"):
        assert not allows(both.guard(), elsewhere)


def test_without_a_warehouse_only_the_metastores_folders_are_allowed() -> None:
    empty = policy(" , ", warehouse="")
    assert not allows(empty.guard(), "file:/w/x")
    assert allows(empty.guard("hdfs://nn/db", None), "hdfs://nn/db/t")


def test_a_metastores_folder_may_be_odd_but_not_what_is_added_to_it() -> None:
    guard = policy().guard("file:/odd;place/t?")
    assert allows(guard, "file:/odd;place/t?/metadata")
    assert allows(guard, "file:/odd;place/t?/")
    assert not allows(guard, "file:/odd;place/t?/a;b")
    assert not allows(guard, "file:/odd;place/t?/../u")
    assert not allows(guard, "file:/odd;place/t?2")
    assert not allows(guard, "file:///odd;place/t?/metadata")


def test_a_strict_policy_ignores_the_metastores_folders() -> None:
    strict = policy(strict=True)
    assert not allows(strict.guard("file:/far"), "file:/far/t")
    row = Pointer(TableName("db", "t"), "file:/far/t/metadata/m.json", None, {}, None, "file:/far/t")
    assert not allows(strict.table_guard(row, TableMetadata({"location": "file:/far/t"})), "file:/far/t")
    assert not allows(strict.guard().with_table(row), "file:/far/t")


def test_a_table_has_its_own_folder_and_that_of_its_metadata_file() -> None:
    row = Pointer(TableName("db", "t"), "file:/meta/m.json", None, {}, None, "file:/far/t")
    for guard in (policy().table_guard(row, TableMetadata({"location": "file:/e"})), policy().guard().with_table(row)):
        assert allows(guard, "file:/far/t/x")
        assert allows(guard, "file:/meta")
        assert not allows(guard, "file:/far/t2")
        assert not allows(guard, "file:/e")


def test_files_beside_those_that_the_table_names_may_be_read_and_nothing_else() -> None:
    row = Pointer(TableName("db", "t"), "file:/new/metadata/m.json", None, {}, None, "file:/new")
    moved = TableMetadata({"location": "file:/new", "snapshots": [{"manifest-list": "file:/old/metadata/l.avro"}, {}]})
    guard = policy().table_guard(row, moved)
    guard.check_read("file:/old/metadata/m0.avro", "manifests")
    for location in ("file:/old/metadata/../x", "file:/old/x", "file:/old/metadata/", "file:/old/metadata/..", "x"):
        with refused():
            guard.check_read(location, "manifests")
    with refused():
        guard.check_file("file:/old/metadata/m0.avro", "manifests")


@pytest.mark.parametrize("name", ["", ".", "..", "a?b", "a%2Fb", "a\nb", "a\\b"])
def test_a_file_needs_a_plain_name(name: str) -> None:
    guard = policy().guard()
    guard.check_file("file:/w/t/l.avro", "manifest-list")
    with refused():
        guard.check_file(f"file:/w/t/{name}", "manifest-list")


PARTS = st.sampled_from(
    [
        "w",
        "w2",
        "etc",
        "..",
        ".",
        "",
        "%2e%2e",
        "%2E.",
        "..%2f",
        "%252e",
        "a\\..",
        "a;b",
        "a?b",
        "a#b",
        "t",
        "\x00",
        "\u2028",
    ]
)
PREFIXES = st.sampled_from(
    [
        "",
        "file:",
        "file:/",
        "file://",
        "FILE://",
        "file://localhost",
        "file://w",
        "s3://w",
        "hdfs://nn",
        "hdfs://u@nn",
        "file:.",
    ]
)


@given(PREFIXES, st.lists(PARTS, max_size=6))
def test_no_spelling_of_an_outside_path_is_allowed(prefix: str, parts: list[str]) -> None:
    """Whatever is allowed is, for the operating system and for a client that decodes first, below a root."""
    location = "/".join([prefix, *parts])
    if not allows(policy("hdfs://nn/w").guard(), location):
        return
    assert ".." not in parts
    assert "%" not in location
    found = parse(location)
    assert found.scheme in ("file", "hdfs")
    assert (found.scheme, found.authority) in (("file", ""), ("hdfs", "nn"))
    assert os.path.normpath("/" + found.path.lstrip("/")).split("/")[1] == "w"


@given(st.lists(st.sampled_from(["in", "out", "up", "a", "b", "file"]), min_size=1, max_size=5))
def test_no_chain_of_links_leads_outside(lake: Path, parts: list[str]) -> None:
    guard = LocationPolicy(RoutedFiles(), warehouse=f"file:{lake}/w").guard()
    path = lake.joinpath("w", *parts)
    inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(lake / "w"))
    assert allows(guard, f"file:{path}") == inside


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse `w`, and links in it that stay inside and lead outside."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "w" / "a" / "b").mkdir(parents=True)
    (folder / "elsewhere" / "a").mkdir(parents=True)
    for where in ("w", "w/a", "w/a/b"):
        (folder / where / "in").symlink_to(folder / "w" / "a")
        (folder / where / "out").symlink_to(folder / "elsewhere")
        (folder / where / "up").symlink_to("..")
    return folder


def test_a_link_to_itself_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    guard = LocationPolicy(RoutedFiles(), warehouse=f"file:{tmp_path}").guard()
    assert not allows(guard, f"file:{tmp_path}/loop")
    assert not allows(guard, f"file:{tmp_path}/loop/t")


def test_a_file_that_is_read_is_no_link_to_the_outside(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "secret").touch()
    (tmp_path / "w" / "inside").touch()
    (tmp_path / "w" / "good").symlink_to(tmp_path / "w" / "inside")
    (tmp_path / "w" / "evil").symlink_to(tmp_path / "secret")
    guard = LocationPolicy(RoutedFiles(), warehouse=f"file:{tmp_path}/w").guard()
    guard.check_read(f"file:{tmp_path}/w/good", "manifest-list")
    with refused():
        guard.check_read(f"file:{tmp_path}/w/evil", "manifest-list")


def test_an_operator_may_point_a_linked_warehouse_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    link = tmp_path / "w"
    link.symlink_to(tmp_path / "one")
    linked = LocationPolicy(RoutedFiles(), warehouse=f"file:{link}")
    assert allows(linked.guard(), f"file:{link}/t")
    link.unlink()
    link.symlink_to(tmp_path / "other")
    assert allows(linked.guard(), f"file:{link}/t")


@pytest.mark.parametrize("where", ["above the root", "at the root", "above and at it"])
def test_links_above_and_at_the_root_are_the_operators(tmp_path: Path, where: str) -> None:
    """Such as /warehouse -> /mnt/disk7/warehouse: tables of all spellings are read and written as before."""
    (tmp_path / "disk" / "lake" / "w" / "t").mkdir(parents=True)
    (tmp_path / "disk" / "lake" / "w" / "t" / "list").touch()
    (tmp_path / "disk" / "secret").touch()
    mounted = tmp_path / "mounted"
    mounted.symlink_to(tmp_path / "disk")
    if where == "above the root":
        root = mounted / "lake" / "w"
    else:
        root = tmp_path / "warehouse"
        root.symlink_to((mounted if where == "above and at it" else tmp_path / "disk") / "lake" / "w")
    linked = LocationPolicy(RoutedFiles(), warehouse=f"file:{root}")
    # A table that the metastore has under the real path, from before the link or from another writer.
    real = tmp_path / "disk" / "lake" / "w" / "t"
    for guard, spelling in ((linked.guard(), f"{root}/t"), (linked.guard(f"file:{real}"), str(real))):
        guard.check_folder(f"file:{spelling}", "location")
        guard.check_folder(f"file:{spelling}/new", "location")
        guard.check_read(f"file:{spelling}/list", "manifest-list")
    (real / "up").symlink_to(tmp_path / "disk")
    (real / "stolen").symlink_to(tmp_path / "disk" / "secret")
    for name in ("up/secret", "stolen"):
        with refused():
            linked.guard().check_read(f"file:{root}/t/{name}", "manifest-list")


def test_a_link_below_a_metastores_folder_stays_below_it(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "out").symlink_to(tmp_path)
    far = LocationPolicy(RoutedFiles(), warehouse="file:/w")
    guard = far.guard(f"file:{tmp_path}/t")
    assert allows(guard, f"file:{tmp_path}/t/metadata")
    assert not allows(guard, f"file:{tmp_path}/t/out/metadata")


def test_a_folder_is_looked_at_once(tmp_path: Path) -> None:
    looked: list[str] = []

    class Watched(RoutedFiles):
        def real_path(self, location: str) -> str:
            looked.append(location)
            return super().real_path(location)

    guard = LocationPolicy(Watched(), warehouse=f"file:{tmp_path}").guard()
    looked.clear()
    for number in range(10):
        guard.check_file(f"file:{tmp_path}/t/metadata/{number}.avro", "manifest-list")
        guard.check_read(f"file:{tmp_path}/t/metadata/{number}.avro", "manifest-list")
    assert looked == [f"{tmp_path}/t/metadata"]


def test_a_refusal_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with refused():
        policy().guard().check_folder("file:/etc/x\n2026-01-01 INFO all is well", "location")
    [record] = caplog.records
    assert "\n" not in record.getMessage()
    assert "etc" in record.getMessage()
