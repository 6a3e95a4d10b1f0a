"""One alter of a table's row: the keys of the metastore's compare-and-swap that it carries (HIVE-26882), how long to
wait for its answer, and what the answer means."""

from __future__ import annotations

from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.lease_check import require_fresh_locks, require_unexpired_locks
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, Unanswered
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.thrift_types import EnvironmentContext

#: The HMS parameter that every swap compares: where the table's current metadata file is.
METADATA_LOCATION: Final = "metadata_location"
#: The type of a view's row.
VIRTUAL_VIEW: Final = "VIRTUAL_VIEW"
#: In parameters and in an alter's environment: the metastore must not list the table's folder for statistics.
DO_NOT_UPDATE_STATS: Final = "DO_NOT_UPDATE_STATS"

#: A parameter that no row has, and a value for it: HMS skips the comparison if the expected value is empty.
PROBE_KEY: Final = "iceberg-hms.probe"
PROBE_VALUE: Final = "absent"


def alter_environment(expected: tuple[str, str] | None) -> Any:
    """The environment of an alter that compares a parameter (its key and value) with the row, or compares nothing."""
    properties = {DO_NOT_UPDATE_STATS: "true"}
    if expected is not None:
        properties["expected_parameter_key"], properties["expected_parameter_value"] = expected
    return EnvironmentContext(properties=properties)


def send_alter(
    client: MetastoreClient,
    clock: Clock,
    base: Pointer,
    table: Any,
    expected: tuple[str, str] | None,
    *,
    atomic: bool = False,
    can_succeed: bool = True,
) -> SwapAnswer:
    """Send one alter of the row that was read as `base`, with an expected parameter or none.

    atomic: the server is known to compare it atomically. can_succeed: False for a probe. An alter that can succeed and
    is not atomic may overwrite later commits if it arrives late: it is sent only under a fresh lock, and waits for its
    answer for `metastore.unanswered-swap-timeout-ms`. Any other that can succeed is sent under locks that have not
    expired. Raises NotSent, and LockLost before the alter is sent.
    """
    may_overwrite = can_succeed and not atomic
    call = client.call
    if may_overwrite:
        require_fresh_locks()
        call = client.call_patiently
    elif can_succeed:
        require_unexpired_locks()
    sent = clock.monotonic()
    try:
        call(
            "alter_table_with_environment_context",
            dbname=base.name.namespace,
            tbl_name=base.name.name,
            new_tbl=table,
            environment_context=alter_environment(expected),
        )
    except ServerFault as fault:
        return Refused(fault.fault is Fault.TABLE_MODIFIED, fault, in_doubt=not fault.final)
    except NoAnswer as error:
        if error.is_over and may_overwrite:
            return Refused(False, MetastoreUnavailable(error.message), in_doubt=True)
        waited = clock.monotonic() - sent
        return Unanswered(MetastoreUnavailable(error.message), atomic, waited)
    return Swapped()
