"""Which snapshot an operation starts from."""

from iceberg_hms.catalog.operations.submitter import head_of
from tests.changes.tables import branch, table, with_main


def test_the_head_of_a_branch_is_its_snapshot():
    metadata = with_main(7, refs={"main": branch(7), "audit": branch(7)})
    assert (head_of(metadata, "main"), head_of(metadata, "audit")) == (7, 7)


def test_a_branch_that_does_not_exist_starts_at_main():
    assert head_of(with_main(7), "audit") == 7


def test_an_empty_table_has_no_head():
    assert head_of(table(), "main") is None
