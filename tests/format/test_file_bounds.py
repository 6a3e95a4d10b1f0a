"""Bounds of files."""

from __future__ import annotations

from iceberg_hms.config import Settings
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, SMALL_BYTES, FileBounds, Limit


def test_the_bounds_are_those_of_the_settings() -> None:
    settings = Settings.load({"storage.max-manifests": 7}, environ={})
    found = FileBounds.of(settings.as_dict())
    assert found.manifests == Limit("storage.max-manifests", 7)
    assert found.metadata_bytes.value == settings.max_metadata_bytes
    assert found.manifest_bytes.value == settings.max_manifest_bytes
    assert found.inflate_ratio.value == settings.max_inflate_ratio
    assert found.entries.value == settings.max_manifest_entries
    assert FileBounds.of(Settings.load({}, environ={}).as_dict()) == DEFAULT_BOUNDS


def test_what_a_file_may_inflate_to_grows_with_it() -> None:
    assert DEFAULT_BOUNDS.inflated_bytes(1) == SMALL_BYTES
    assert DEFAULT_BOUNDS.inflated_bytes(10**6) == 250 * 10**6


def test_the_error_names_the_setting() -> None:
    error = Limit("a.key", 5).exceeded("file:/x", "it has more than 5 bytes")
    assert error.location == "file:/x"
    assert (
        str(error)
        == "file:/x is beyond a limit: it has more than 5 bytes (if the file is as it should be, raise `a.key`)"
    )
