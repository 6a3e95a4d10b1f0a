"""The metastore's version, and the little that depends on it.

The version decides nothing that could lose a commit: compare_and_swap/ and capabilities.py ask and probe what a server
can do.
"""

from __future__ import annotations

import re

from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import Fault, ServerFault

#: The number of the Thrift interface, which is all that Hive 1, 2 and 3 metastores answer: 2.3.10 and 3.1.3 alike.
_OF_THE_INTERFACE = "3.0"
_BEFORE_HIVE_3 = "2.x"
_HIVE_3 = "3.x"
_NUMBER = re.compile(r"(\d+)\.")


def server_version(client: MetastoreClient) -> str:
    """The server's version; "2.x" and "3.x" for those before Hive 4, which tell no more; "unknown" if it refuses the
    call. Raises NotSent, NoAnswer."""
    try:
        answer = str(client.call("getVersion")).strip()
    except ServerFault:
        return "unknown"
    if answer != _OF_THE_INTERFACE:
        return answer
    return _BEFORE_HIVE_3 if _has_indexes(client) else _HIVE_3


def _has_indexes(client: MetastoreClient) -> bool:
    """Whether the server has Hive's indexes, which left with Hive 3 (HIVE-18448)."""
    try:
        client.call("get_index_names", db_name="default", tbl_name="iceberg_hms_no_such_table", max_indexes=1)
    except ServerFault as fault:
        return fault.fault is not Fault.UNKNOWN_METHOD
    return True


def has_local_time_zones(client: MetastoreClient) -> bool:
    """Whether the server has the type `timestamp with local time zone` (HIVE-16614): Hive 3 and later."""
    return _is_at_least(client, 3)


def has_wide_columns(client: MetastoreClient) -> bool:
    """Whether the server's schema has room for comments of 4,000 bytes and for locks of tables with names of 256
    characters (upgrade-3.2.0-to-4.0.0-alpha-1): Hive 4 and later."""
    return _is_at_least(client, 4)


def changes_databases(client: MetastoreClient) -> bool:
    """Whether alter_database changes comment and location (HIVE-8472): Hive 3 and later. Hive 2 answers with success
    and leaves them."""
    return _is_at_least(client, 3)


def _is_at_least(client: MetastoreClient, release: int) -> bool:
    number = _NUMBER.match(server_version(client))
    return number is not None and int(number.group(1)) >= release
