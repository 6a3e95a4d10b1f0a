"""One write of a table's or view's row: what an alter compares (HIVE-26882), how long to wait for the answer, and what
the answer means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Self

from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, SwapAnswer, Swapped, TableName, Unanswered
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, ServerFault
from iceberg_hms.metastore.connection.thrift_types import EnvironmentContext

#: The HMS parameter that every swap of an Iceberg table or view compares: where its current metadata file is.
METADATA_LOCATION: Final = "metadata_location"
#: The type of a view's row.
VIRTUAL_VIEW: Final = "VIRTUAL_VIEW"
#: In parameters and in an alter's environment: the metastore must not list the table's folder for statistics.
DO_NOT_UPDATE_STATS: Final = "DO_NOT_UPDATE_STATS"

#: A parameter that no row has, and a value for it: HMS skips the comparison if the expected value is empty.
PROBE_KEY: Final = "iceberg-hms.probe"
PROBE_VALUE: Final = "absent"

ALTER: Final = "alter_table_with_environment_context"


class LateWrite(Enum):
    """What happens if the server carries a write out after its caller gave up."""

    #: It writes over no other row: a creation, or a probe.
    HARMLESS = auto()
    #: The server compares an expected value atomically, and refuses.
    REFUSED = auto()
    #: It may overwrite or remove what others committed meanwhile.
    OVERWRITES = auto()


@dataclass(frozen=True, slots=True)
class ReadRow:
    """The row that an alter replaces, as it was read.

    table: the record of it. expected: the key and value of its parameter that the server compares, of which the new row
    has another value; None if it has no such parameter: then the lock alone protects the alter."""

    name: TableName
    table: Any
    expected: tuple[str, str] | None

    @classmethod
    def of(cls, base: Pointer) -> Self:
        """The row of an Iceberg table or view, which an alter moves from its metadata location."""
        return cls(base.name, base.table, (METADATA_LOCATION, base.metadata_location))


def alter_arguments(name: TableName, row: Any, expected: tuple[str, str] | None) -> dict[str, Any]:
    """Of an ALTER that writes `row` over the row with a name, if the latter has a parameter (its key and value) as
    expected; None compares nothing."""
    properties = {DO_NOT_UPDATE_STATS: "true"}
    if expected is not None:
        properties["expected_parameter_key"], properties["expected_parameter_value"] = expected
    context = EnvironmentContext(properties=properties)
    return {"dbname": name.namespace, "tbl_name": name.name, "new_tbl": row, "environment_context": context}


def write_row(
    client: MetastoreClient, clock: Clock, method: str, late: LateWrite, sending: Sending, /, **arguments: Any
) -> SwapAnswer:
    """Send one call that writes a row.

    What OVERWRITES is sent only under a fresh lock, and waits for its answer for
    `metastore.unanswered-swap-timeout-ms`. What is REFUSED is sent under locks that have not expired. Raises NotSent,
    and LockLost before the call is sent.
    """
    call = client.call
    if late is LateWrite.OVERWRITES:
        sending.require_fresh_locks()
        call = client.call_patiently
    elif late is LateWrite.REFUSED:
        sending.require_unexpired_locks()
    sent = clock.monotonic()
    try:
        call(method, **arguments)
    except ServerFault as fault:
        return Refused(fault.fault is Fault.TABLE_MODIFIED, fault, in_doubt=not fault.final)
    except NoAnswer as error:
        if error.is_over and late is LateWrite.OVERWRITES:
            return Refused(False, MetastoreUnavailable(error.message), in_doubt=True)
        waited = clock.monotonic() - sent
        return Unanswered(MetastoreUnavailable(error.message), late is LateWrite.REFUSED, waited)
    return Swapped()


def fault_of(answer: SwapAnswer) -> Fault | None:
    """What the server said, if it refused."""
    return answer.error.fault if isinstance(answer, Refused) and isinstance(answer.error, ServerFault) else None
