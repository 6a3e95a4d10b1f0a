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
from iceberg_hms.metastore.connection.faults import Fault, classify

# As the servers say it: 2.3.10, 3.1.3, 4.0.1 to 4.2.0.
SAID = [
    (
        MetaException("The table has been modified. The parameter value for key 'metadata_location' is 'a'."),
        Fault.TABLE_MODIFIED,
    ),
    (MetaException("New value for expected key iceberg-hms.probe is not set"), Fault.EXPECTED_KEY_MISSING),
    (MetaException("Cannot update parameter with JDO"), Fault.SWAP_BROKEN),
    (
        MetaException(
            "java.lang.UnsupportedOperationException: This Store doesn't support updating table parameter with "
            "expected value"
        ),
        Fault.CACHED_STORE,
    ),
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
    (MetaException('Got exception: UnsupportedFileSystemException No FileSystem for scheme "x"'), Fault.INVALID),
    (MetaException("java.net.URISyntaxException: Relative path in absolute URI: file:./a"), Fault.INVALID),
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

#: What Java's RetryingMetaStoreClient and HiveClientPool take for an error of the connection.
BROKEN_HANDLER = [
    "MetaException(message:javax.jdo.JDOFatalUserException: Persistence Manager has been closed)",
    "javax.jdo.JDODataStoreException: Communications link failure\n\tat org.datanucleus.api.jdo...",
    "java.lang.RuntimeException: it broke\nCaused by: javax.jdo.JDOFatalInternalException: nobody is there",
    "Got exception: org.apache.thrift.transport.TTransportException java.net.SocketException: Broken pipe",
    "org.apache.thrift.protocol.TProtocolException: Required field 'name' is unset!",
]
#: JDO's words too, of a statement that the database refused: the store is there, and nothing was written.
REFUSED_STATEMENTS = [
    "javax.jdo.JDODataStoreException: Insert failed\nCaused by: java.sql.SQLIntegrityConstraintViolationException: x",
    "javax.jdo.JDOException: Exception thrown when executing query : SELECT A0.TBL_NAME FROM TBLS A0",
]
TOO_LONG = [
    "javax.jdo.JDODataStoreException: ERROR: value too long for type character varying(4000)",
    "javax.jdo.JDODataStoreException: Data truncation: Data too long for column 'PARAM_VALUE' at row 1",
    "javax.jdo.JDODataStoreException: A truncation error was encountered trying to shrink VARCHAR 'x' to length 4000.",
    'javax.jdo.JDODataStoreException: ORA-12899: value too large for column "HIVE"."TABLE_PARAMS"."PARAM_VALUE"',
]
#: Of 4.0.1 and 4.1.0 (the first), and of 3.1.3, on PostgreSQL.
SWAP_SQL = (
    'JDODataStoreException: Error executing SQL query "update "TABLE_PARAMS" set "PARAM_VALUE"=? where "TBL_ID"=? and '
    '"PARAM_KEY"=? and "PARAM_VALUE"=?".\nRoot cause: '
)
WRITE_SQL = 'Put request failed : UPDATE "TABLE_PARAMS" SET "PARAM_VALUE" = ? WHERE "TBL_ID"=? AND "PARAM_KEY"=?'
#: What lock_timeout, a read-only failover and a COMMIT that nobody answered make of an alter. Whatever the words are,
#: an earlier try inside of the metastore may be the one that the database still carries out.
ERRORS_OF_THE_DATABASE = [
    SWAP_SQL + "org.postgresql.util.PSQLException: ERROR: canceling statement due to lock timeout\n  Where: while ...",
    SWAP_SQL + "org.postgresql.util.PSQLException: ERROR: cannot execute UPDATE in a read-only transaction",
    SWAP_SQL + "java.net.SocketTimeoutException: Read timed out",
    f"NucleusDataStoreException: {WRITE_SQL}\nRoot cause: org.postgresql.util.PSQLException: ERROR: canceling",
    f"NucleusDataStoreException: {WRITE_SQL}\nRoot cause: java.net.SocketTimeoutException: Read timed out",
    WRITE_SQL,
    "Committing the alter table transaction was not successful.",
    "java.lang.NullPointerException",
]
#: The metastore lost its connection to the database, and the node that it came back to does not let it in.
DENIED_BY_THE_DATABASE = [
    "javax.jdo.JDOFatalDataStoreException: Access denied for user 'hive'@'10.0.0.7' (using password: YES)",
    "java.sql.SQLException: Access denied for user 'hive'@'10.0.0.7' (using password: YES)",
    "Access denied for user 'hive'@'10.0.0.7' (using password: YES)",
    'org.postgresql.util.PSQLException: FATAL: permission denied for database "metastore"',
]


@pytest.mark.parametrize("said", [*ERRORS_OF_THE_DATABASE, *DENIED_BY_THE_DATABASE, *BROKEN_HANDLER])
def test_an_error_of_the_database_is_not_final(said: str) -> None:
    assert not classify(MetaException(said), "alter_table").final


@pytest.mark.parametrize("said", DENIED_BY_THE_DATABASE)
def test_what_the_database_denies_the_metastore_is_not_denied_to_us(said: str) -> None:
    assert not isinstance(classify(MetaException(said), "alter_table"), AccessDenied)


def test_an_error_inside_of_the_server_is_not_final() -> None:
    error = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing alter_table")
    assert not classify(error, "alter_table").final


@pytest.mark.parametrize(
    "error",
    [
        MetaException("The table has been modified. The parameter value for key 'metadata_location' is 'a'."),
        MetaException("New value for expected key iceberg-hms.probe is not set"),
        MetaException("Permission denied: user [eve] does not have [WRITE] privilege"),
        MetaException("This Store doesn't support updating table parameter with expected value"),
        InvalidOperationException("The following columns have types incompatible with the existing columns :\na"),
        InvalidOperationException("Unable to change partition or table."),
        InvalidOperationException("hive.db.t table not found"),
        InvalidObjectException("a b is not a valid object name"),
        MetaException('Got exception: UnsupportedFileSystemException No FileSystem for scheme "x"'),
        AlreadyExistsException("Table t already exists"),
        TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'x'"),
    ],
    ids=str,
)
def test_what_a_metastore_says_before_it_writes_is_final(error: TException) -> None:
    assert classify(error, "alter_table").final


@pytest.mark.parametrize("said", TOO_LONG)
def test_a_value_that_the_database_has_no_room_for_is_final(said: str) -> None:
    answer = classify(MetaException(said), "alter_table")
    assert (answer.fault, answer.final) == (Fault.VALUE_TOO_LONG, True)


@pytest.mark.parametrize("said", BROKEN_HANDLER)
def test_the_words_of_a_handler_that_lost_its_store_are_handler_broken(said: str) -> None:
    assert classify(MetaException(said), "get_table_req").fault is Fault.HANDLER_BROKEN


@pytest.mark.parametrize("said", REFUSED_STATEMENTS)
def test_a_statement_that_the_database_refused_breaks_no_handler(said: str) -> None:
    assert classify(MetaException(said), "get_table_req").fault is Fault.OTHER


def test_only_a_metaexception_speaks_of_its_handler() -> None:
    assert classify(InvalidObjectException(BROKEN_HANDLER[0]), "create_table").fault is Fault.INVALID


@pytest.mark.parametrize(("error", "fault"), SAID, ids=lambda value: value.name if isinstance(value, Fault) else "")
def test_an_error_is_classified_by_its_type_and_words(error: TException, fault: Fault) -> None:
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
