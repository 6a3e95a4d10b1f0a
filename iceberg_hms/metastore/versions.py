"""What a metastore says of its version, and the little that depends on it.

The version decides nothing that could lose a commit: what a server can do is asked or probed (capabilities.py).
"""

from __future__ import annotations

import re

from iceberg_hms.metastore.client import MetastoreClient
from iceberg_hms.metastore.faults import ServerFault

#: What every Hive 1 and 2 metastore answers, 2.3.10 too: the number of its Thrift interface.
_BEFORE_HIVE_3 = "3.0"
_NUMBER = re.compile(r"(\d+)\.(\d+)")


def server_version(client: MetastoreClient) -> str:
    """The server's version, "2.x" for those before Hive 3, which do not tell, "unknown" if it refuses to say."""
    try:
        answer = str(client.call("getVersion")).strip()
    except ServerFault:
        return "unknown"
    return "2.x" if answer == _BEFORE_HIVE_3 else answer


def has_local_time_zones(client: MetastoreClient) -> bool:
    """Whether the server has the type `timestamp with local time zone` (HIVE-16614): Hive 3 and later."""
    return _is_hive_3(client)


def changes_databases(client: MetastoreClient) -> bool:
    """Whether alter_database changes comment and location (HIVE-8472): Hive 3 and later. Hive 2 answers with success
    and leaves them."""
    return _is_hive_3(client)


def _is_hive_3(client: MetastoreClient) -> bool:
    number = _NUMBER.match(server_version(client))
    return number is not None and int(number.group(1)) >= 3
