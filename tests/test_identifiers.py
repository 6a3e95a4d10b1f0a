import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput, NoSuchNamespace, NoSuchTable
from iceberg_hms.identifiers import namespace_name, new_name, new_table_name, table_name


@pytest.mark.parametrize("written", ["DB.Tbl", ("db", "TBL"), TableName("db", "tbl"), TableName("Db", "Tbl")])
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


@pytest.mark.parametrize("odd", ["t ", " t", "t\0", "\nt", "a\tb", "t\x7f", "\x85t", "@hive#t", "\ud800"])
def test_a_spelling_that_the_metastore_takes_for_another_name_names_nothing(odd):
    with pytest.raises(NoSuchTable):
        table_name(("db", odd))
    with pytest.raises(NoSuchTable):
        table_name(TableName(odd, "t"))
    with pytest.raises(NoSuchNamespace):
        namespace_name(odd)
    with pytest.raises(NoSuchNamespace):
        new_table_name((odd, "t"))
    with pytest.raises(InvalidInput, match="not a valid name for a table"):
        new_table_name(("db", odd))


@pytest.mark.parametrize("plain", ["a b", "a@b", "a-b", "a/b", "\u00e9", "a\u00a0"])
def test_other_names_may_be_another_writers(plain):
    assert table_name(("db", plain)) == TableName("db", plain)
    assert namespace_name(plain.upper()) == plain.upper().lower()


def test_no_namespace_has_an_empty_name():
    with pytest.raises(NoSuchNamespace):
        namespace_name("")


def test_the_name_of_a_new_table_is_folded():
    assert new_table_name("DB.New_1") == TableName("db", "new_1")


@pytest.mark.parametrize("long", ["t" * 257, "\u00e9" * 129])
def test_no_metastore_has_a_longer_name(long):
    with pytest.raises(NoSuchTable):
        table_name(("db", long))
    with pytest.raises(NoSuchTable):
        table_name(("n" * 129, "t"))
    with pytest.raises(NoSuchNamespace):
        namespace_name("n" * 129)
    with pytest.raises(NoSuchNamespace):
        new_table_name(("n" * 129, "t"))
    assert table_name(("n" * 128, "t" * 256)) == TableName("n" * 128, "t" * 256)


@pytest.mark.parametrize(("kind", "most"), [("namespace", 128), ("table", 256)])
def test_a_new_name_has_at_most_what_every_metastore_holds(kind, most):
    assert new_name("t" * most, kind) == "t" * most
    with pytest.raises(InvalidInput, match="too long"):
        new_name("t" * (most + 1), kind)
