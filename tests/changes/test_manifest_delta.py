"""What a client's list adds to its parent's and removes from it."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.manifest_delta import (
    ManifestDelta,
    NotRebasable,
    check_not_committed,
    compute_delta,
    without_numbers,
)
from iceberg_hms.errors import CommitStateUnknown
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from tests.changes.tables import snapshot

MINE = Snapshot.parse(snapshot(10, sequence_number=5))


def manifest(
    name: str, added_by: int = 1, *, number: int = 1, lowest: int | None = None, **changes: object
) -> ManifestFile:
    counts = {"added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0, **changes}
    lowest = number if lowest is None else lowest
    return ManifestFile(name, 100, 0, added_by, sequence_number=number, min_sequence_number=lowest, **counts)  # type: ignore[arg-type]


def test_added_manifests_lose_their_numbers_and_the_rest_is_kept() -> None:
    old = [manifest("a"), manifest("b", 2, number=2)]
    found = compute_delta(MINE, [manifest("m", 10, number=5, first_row_id=7), *old], old)
    assert isinstance(found, ManifestDelta)
    [own] = found.added
    assert (own.manifest_path, own.sequence_number, own.min_sequence_number) == ("m", UNASSIGNED, UNASSIGNED)
    assert own.first_row_id is None
    assert not found.replaced
    assert not found.empty


def test_a_manifest_with_older_files_keeps_its_lowest_number() -> None:
    assert without_numbers(manifest("m", 10, number=5, lowest=2), MINE).min_sequence_number == 2
    deletes = manifest("d", 10, number=5, first_row_id=7, content=ManifestContent.DELETES)
    assert without_numbers(deletes, MINE).first_row_id == 7


@pytest.mark.parametrize(
    ("existing", "lowest", "kept"),
    [
        # All of its files are new, and inherit the snapshot's number.
        (0, 5, UNASSIGNED),
        # Older files have explicit numbers, so one of them has this number.
        (1, 5, 5),
        # The list lacks the count of older files. A number that is too low does no harm.
        (None, 5, 5),
        (0, 2, 2),
        (0, UNASSIGNED, UNASSIGNED),
        (1, 0, 0),
    ],
)
def test_only_an_inherited_lowest_number_is_assigned_again(existing: int | None, lowest: int, kept: int) -> None:
    """Java drops delete files with lower numbers than the lowest of all data files: one that is too high costs deletes
    that are live."""
    mine = manifest("m", 10, number=5, lowest=lowest, existing_files_count=existing)
    assert without_numbers(mine, MINE).min_sequence_number == kept


def test_what_was_replaced_is_left_out_and_so_is_what_had_no_live_files() -> None:
    live, dead, kept = manifest("live"), manifest("dead", added_files_count=0), manifest("kept")
    found = compute_delta(MINE, [manifest("m", 10, number=5), kept], [live, dead, kept])
    assert isinstance(found, ManifestDelta)
    assert (found.replaced, found.empty) == ({"live"}, {"dead"})
    new = manifest("new", 11, number=5)

    def names(files: object) -> list[str]:
        assert isinstance(files, tuple)
        return [each.manifest_path for each in files]

    assert names(found.apply_to([new, live, dead, kept])) == ["m", "new", "kept"]
    assert names(found.apply_to([new, live, kept])) == ["m", "new", "kept"]


def test_a_manifest_of_unknown_origin_is_not_kept() -> None:
    found = compute_delta(MINE, [manifest("m", 10, number=5), manifest("stray", 3)], [manifest("a")])
    assert isinstance(found, NotRebasable)


def test_a_manifest_of_the_parent_is_kept_even_if_nothing_says_who_added_it() -> None:
    found = compute_delta(MINE, [manifest("m", 10), manifest("a", 10)], [manifest("a", 1), manifest("b", 1)])
    assert isinstance(found, ManifestDelta)
    assert ([each.manifest_path for each in found.added], found.replaced) == (["m"], {"b"})


def test_added_manifests_in_the_head_prove_an_earlier_commit() -> None:
    own = [manifest("m1", 10), manifest("m2", 10)]
    check_not_committed(MINE, own, [manifest("a"), manifest("b", 11)])
    check_not_committed(MINE, [], [manifest("a")])
    with pytest.raises(CommitStateUnknown, match="snapshot 10 is not in the table, but its manifests are") as caught:
        check_not_committed(MINE, own, [manifest("b", 11), manifest("m2", 10), manifest("a")])
    assert not caught.value.proved_failed
    assert "delete none of its files" in caught.value.next_step
    with pytest.raises(CommitStateUnknown):
        check_not_committed(MINE, own, [manifest("a"), manifest("the server's", 10)])
