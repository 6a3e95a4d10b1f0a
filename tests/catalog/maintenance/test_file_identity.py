import pytest

from iceberg_hms.catalog.maintenance.file_identity import FileIdentity
from iceberg_hms.errors import StorageError
from iceberg_hms.storage.files import PyArrowFiles

FILES = PyArrowFiles()


@pytest.mark.parametrize(
    "other",
    ["/a/b/c", "file:/a/b/c", "file:///a/b/c", "hdfs://nn/a/b/c", "viewfs:/a/b/c", "file:/a//b/c", "file:/a/./b/c"],
)
def test_spellings_of_one_path_have_one_key(other):
    identity = FileIdentity(FILES.real_path, FILES.is_link)
    assert identity.key(other) == identity.key("file:/a/b/c")
    assert identity.key("file:/a/b/d") != identity.key("file:/a/b/c")


def test_a_folder_that_is_a_link_is_the_folder_that_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    identity = FileIdentity(FILES.real_path, FILES.is_link)
    assert identity.key(f"file:{tmp_path}/link/x") == identity.key(f"file:{tmp_path}/real/x")


def test_a_link_has_the_key_of_the_file_behind_too(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("chained")
    (tmp_path / "chained").symlink_to("real")
    identity = FileIdentity(FILES.real_path, FILES.is_link)
    keys = {name: identity.key(f"file:{tmp_path}/{name}") for name in ("real", "link", "missing")}
    assert identity.keys(f"file:{tmp_path}/link") == (keys["link"], keys["real"])
    assert identity.keys(f"file:{tmp_path}/real") == (keys["real"],)
    assert identity.keys(f"file:{tmp_path}/missing") == (keys["missing"],)
    assert identity.keys("no location") == ("no location",)


@pytest.mark.parametrize("odd", ["", "x", "relative/x", "file:/a/..", "file:/a/\0/x", "x:y", "file://host/a"])
def test_what_names_no_file_is_its_own_key(odd):
    assert FileIdentity(FILES.real_path, FILES.is_link).key(odd) == odd


def test_a_folder_is_resolved_once():
    asked = []
    identity = FileIdentity(lambda folder: asked.append(folder) or folder, FILES.is_link)
    assert len({identity.key(f"file:/a/{number}") for number in range(5)}) == 5
    assert asked == ["file:/a"]


def test_a_folder_that_cannot_be_resolved_is_as_it_is_spelled():
    def real_path(folder):
        raise StorageError("a loop of links")

    assert FileIdentity(real_path, FILES.is_link).key("file:/a/x") == "file:/a/x"
