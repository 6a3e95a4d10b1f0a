from __future__ import annotations

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    AlreadyExistsException,
    ConfigValSecurityException,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
    TxnAbortedException,
    UnknownDBException,
)
from thrift.Thrift import TApplicationException, TException

from iceberg_hms.errors import AccessDenied, MetastoreRefused
from iceberg_hms.metastore.faults import Fault, classify

# As the servers say it: 2.3.10, 3.1.3, 4.0.1 to 4.2.0.
SAID = [
    (
        MetaException("The table has been modified. The parameter value for key 'metadata_location' is 'a'."),
        Fault.TABLE_MODIFIED,
    ),
    (MetaException("New value for expected key iceberg-hms.probe is not set"), Fault.EXPECTED_KEY_MISSING),
    (MetaException("Cannot update parameter with JDO"), Fault.SWAP_BROKEN),
    (MetaException('Error executing SQL query "update "TABLE_PARAMS" set ..." 42818'), Fault.SWAP_BROKEN),
    (
        InvalidOperationException(
            "The following columns have types incompatible with the existing columns in their respective positions :\na"
        ),
        Fault.INCOMPATIBLE_COLUMNS,
    ),
    (InvalidOperationException("Database db is not empty. One or more tables exist."), Fault.NOT_EMPTY),
    (InvalidOperationException("new table db.t already exists"), Fault.ALREADY_EXISTS),
    (AlreadyExistsException("Table t already exists"), Fault.ALREADY_EXISTS),
    (
        InvalidOperationException("Unable to change partition or table. Database nope does not exist Check metastore"),
        Fault.NO_SUCH_DATABASE,
    ),
    (UnknownDBException("nope"), Fault.NO_SUCH_DATABASE),
    (NoSuchObjectException("db.t table not found"), Fault.NO_SUCH_OBJECT),
    (InvalidOperationException("hive.db.t table not found"), Fault.NO_SUCH_OBJECT),
    (InvalidObjectException("nope"), Fault.INVALID),
    (InvalidObjectException("a b is not a valid object name"), Fault.INVALID),
    (MetaException("Permission denied: user [eve] does not have [WRITE] privilege"), Fault.ACCESS_DENIED),
    (MetaException("org.apache.hadoop.security.AccessControlException: eve"), Fault.ACCESS_DENIED),
    (ConfigValSecurityException("For security reasons, the config key x cannot be accessed"), Fault.ACCESS_DENIED),
    (NoSuchLockException("No such lock: lockid:1"), Fault.NO_SUCH_LOCK),
    (TxnAbortedException("Transaction aborted"), Fault.NO_SUCH_LOCK),
    (TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'x'"), Fault.UNKNOWN_METHOD),
    (TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing lock"), Fault.INTERNAL),
    (TApplicationException(TApplicationException.PROTOCOL_ERROR, "Required field 'type' is unset!"), Fault.OTHER),
    (MetaException("java.lang.NullPointerException"), Fault.OTHER),
    (MetaException("Got exception: NoSuchObjectException db.t table not found"), Fault.NO_SUCH_OBJECT),
    (MetaException("java.lang.ClassNotFoundException: Class S3AFileSystem not found"), Fault.OTHER),
    (MetaException('ERROR: relation "TBLS" does not exist'), Fault.OTHER),
    (MetaException('FATAL: database "metastore" does not exist'), Fault.OTHER),
    (MetaException(None), Fault.OTHER),
    (
        MetaException(
            "JDOException: Exception thrown when executing query : SELECT A0.TBL_NAME FROM TBLS A0 WHERE ...\n"
            "Root cause: ERROR 42818: Comparisons between 'CLOB (UCS_BASIC)' and 'CLOB (UCS_BASIC)' are not supported."
        ),
        Fault.NOT_COMPARABLE,
    ),
    (MetaException("ORA-00932: inconsistent datatypes: expected - got CLOB"), Fault.NOT_COMPARABLE),
    (MetaException("Exception thrown when executing query : SELECT A0.TBL_NAME FROM TBLS A0"), Fault.OTHER),
    (
        MetaException(
            'Error executing SQL query "update "TABLE_PARAMS" set ..."\n'
            "Root cause: ERROR 42818: Comparisons between 'CLOB (UCS_BASIC)' and 'CLOB (UCS_BASIC)' are not supported."
        ),
        Fault.SWAP_BROKEN,
    ),
]


@pytest.mark.parametrize(("error", "fault"), SAID, ids=lambda value: value.name if isinstance(value, Fault) else "")
def test_an_answer_is_told_by_its_type_and_words(error: TException, fault: Fault) -> None:
    answer = classify(error, "alter_table")
    assert answer.fault is fault
    assert isinstance(answer, MetastoreRefused)
    assert isinstance(answer, AccessDenied) == (fault is Fault.ACCESS_DENIED)
    assert "alter_table" in str(answer)


def test_a_stack_trace_in_a_message_is_not_passed_on() -> None:
    answer = classify(MetaException("it broke\n\tat java.lang.Thread.run\n" + "x" * 5_000), "lock")
    assert answer.detail == "it broke"
    assert len(classify(MetaException("x" * 5_000), "lock").detail) < 500


def test_the_next_step_for_refused_columns_names_the_setting() -> None:
    (columns,) = [error for error, fault in SAID if fault is Fault.INCOMPATIBLE_COLUMNS]
    assert "disallow.incompatible.col.type.changes" in str(classify(columns, "alter_table"))
