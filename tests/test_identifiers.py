import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.identifiers import new_name, table_name


@pytest.mark.parametrize("written", ["DB.Tbl", ("db", "TBL"), TableName("db", "tbl")])
def test_a_name_is_folded_as_the_metastore_folds_it(written):
    assert table_name(written) == TableName("db", "tbl")
    assert str(table_name(written)) == "db.tbl"


@pytest.mark.parametrize("written", ["", "tbl", "a.b.c", ".tbl", "db.", ("db",), ("", "t"), ("a", "b", "c")])
def test_what_is_not_a_table_name_is_refused(written):
    with pytest.raises(InvalidInput, match="not a table's name"):
        table_name(written)


def test_a_new_name_is_checked():
    assert new_name("Events_2", "table") == "events_2"
    for bad in ("", "a-b", "a b", "a.b", "é", "a/b", "a\n"):
        with pytest.raises(InvalidInput, match="not a valid name for a table"):
            new_name(bad, "table")
