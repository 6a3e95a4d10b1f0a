"""Finds out what a server makes of compare-and-swap without touching anybody's table: on a scratch row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.compare_and_swap.findings import CompareAndSwap
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.thrift_types import (
    EnvironmentContext,
    FieldSchema,
    GetTableRequest,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from iceberg_hms.metastore.tables.parameters import DO_NOT_UPDATE_STATS

#: A parameter that no row has. HMS skips the comparison if the expected value is empty.
PROBE_KEY = "iceberg-hms.probe"
PROBE_VALUE = "absent"
_VALUE_KEY = "iceberg-hms.value"


class Call(Protocol):
    """One metastore call, as MetastoreClient.call."""

    def __call__(self, method: str, /, **arguments: Any) -> Any: ...


class Ids(Protocol):
    """What makes names: a Clock or a Runtime."""

    def uuid(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Proof:
    """problems: one sentence for each thing that did not work. left_behind: the scratch row may still be there."""

    verdict: CompareAndSwap
    problems: tuple[str, ...] = ()
    left_behind: bool = False


def scratch_name(namespace: str, ids: Ids) -> TableName:
    """A name for a scratch row that nobody else has."""
    return TableName(namespace, f"iceberg_hms_probe_{ids.uuid().replace('-', '')}")


def prove(call: Call, scratch: TableName) -> Proof:
    """Make the scratch row (a view, without files), swap on it, and drop it. Raises nothing: what does not work is
    UNKNOWN, with the problem."""
    try:
        call("create_table", tbl=_scratch_row(scratch))
    except MetastoreError as error:
        problem = f"Compare-and-swap could not be probed, no scratch view in {scratch.namespace}: {words(error)}"
        return Proof(CompareAndSwap.UNKNOWN, (problem,), isinstance(error, NoAnswer))
    try:
        verdict, problems = _verdict(call, scratch)
    except MetastoreError as error:
        verdict, problems = CompareAndSwap.UNKNOWN, [f"Compare-and-swap could not be probed: {words(error)}"]
    try:
        drop(call, scratch)
    except MetastoreError as error:
        problems.append(f"The scratch view {scratch} could not be dropped: {words(error)}")
        return Proof(verdict, tuple(problems), True)
    return Proof(verdict, tuple(problems))


#: What a refused creation says of whether anything can be written: nothing.
_NOT_ALLOWED = frozenset(
    {Fault.ACCESS_DENIED, Fault.NO_SUCH_OBJECT, Fault.NO_SUCH_DATABASE, Fault.INVALID, Fault.UNKNOWN_METHOD}
)


@dataclass(frozen=True, slots=True)
class Trial:
    """works: whether a row could be made, altered and dropped; None if none may be made. problem: what failed.
    left_behind: the scratch row may still be there."""

    works: bool | None
    problem: str = ""
    left_behind: bool = False


def try_to_write(call: Call, scratch: TableName) -> Trial:
    """Make a scratch row, alter it as a swap would but without an expected value, and drop it. Raises NotSent, before
    anything was sent."""
    try:
        call("create_table", tbl=_scratch_row(scratch))
    except NotSent:
        raise
    except MetastoreError as error:
        not_allowed = isinstance(error, ServerFault) and error.fault in _NOT_ALLOWED
        return Trial(None if not_allowed else False, words(error), isinstance(error, NoAnswer))
    problem = ""
    try:
        if (refusal := _alter(call, scratch, {_VALUE_KEY: "1"}, expected=None)) is not None:
            problem = words(refusal)
    except MetastoreError as error:
        problem = words(error)
    try:
        drop(call, scratch)
    except MetastoreError as error:
        return Trial(False, problem or words(error), True)
    return Trial(not problem, problem)


def drop(call: Call, scratch: TableName) -> None:
    """Drop a scratch row; harmless when it is gone. Raises MetastoreError."""
    try:
        call("drop_table", dbname=scratch.namespace, name=scratch.name, deleteData=False)
    except ServerFault as fault:
        if fault.fault is not Fault.NO_SUCH_OBJECT:
            raise


def words(error: MetastoreError) -> str:
    """The server's own words, if it said any."""
    return error.detail if isinstance(error, ServerFault) else error.message


def _verdict(call: Call, scratch: TableName) -> tuple[CompareAndSwap, list[str]]:
    """Three alters: one with a key that the row lacks, one that is right, one that is outdated. If the right
    one fails, the row is altered without the keys: a database that does that now, as it made the row before, cannot do
    the other; one that is out of order or read-only tells nothing."""
    first = _alter(call, scratch, {_VALUE_KEY: "1"}, expected=(PROBE_KEY, PROBE_VALUE))
    if first is None:
        return CompareAndSwap.IGNORED, []
    if first.fault not in (Fault.EXPECTED_KEY_MISSING, Fault.TABLE_MODIFIED):
        raise first
    right = _alter(call, scratch, {_VALUE_KEY: "1"}, expected=(_VALUE_KEY, "0"))
    if right is not None:
        if right.fault is not Fault.SWAP_BROKEN:
            raise right
        plain = _alter(call, scratch, {_VALUE_KEY: "1"}, expected=None)
        if plain is not None:
            raise plain
        return CompareAndSwap.BROKEN, [f"Compare-and-swap fails on this server's database: {right.detail}"]
    outdated = _alter(call, scratch, {_VALUE_KEY: "2"}, expected=(_VALUE_KEY, "0"))
    if outdated is None:
        return CompareAndSwap.IGNORED, []
    if outdated.fault is not Fault.TABLE_MODIFIED:
        raise outdated
    return CompareAndSwap.ATOMIC if first.fault is Fault.EXPECTED_KEY_MISSING else CompareAndSwap.CHECKED, []


def _alter(
    call: Call, name: TableName, parameters: Mapping[str, str], *, expected: tuple[str, str] | None
) -> ServerFault | None:
    """The server's refusal, or None for success."""
    row = call("get_table_req", req=GetTableRequest(dbName=name.namespace, tblName=name.name)).table
    row.parameters = {**(row.parameters or {}), **parameters}
    try:
        call(
            "alter_table_with_environment_context",
            dbname=name.namespace,
            tbl_name=name.name,
            new_tbl=row,
            environment_context=environment(expected),
        )
    except ServerFault as fault:
        return fault
    return None


def environment(expected: tuple[str, str] | None) -> Any:
    """The environment of an alter that compares a parameter (its key and value) with the row, or does not compare."""
    properties = {DO_NOT_UPDATE_STATS: "true"}
    if expected is not None:
        properties["expected_parameter_key"], properties["expected_parameter_value"] = expected
    return EnvironmentContext(properties=properties)


def _scratch_row(name: TableName) -> Any:
    # A view: for a table the server would make a folder.
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="iceberg-hms",
        tableType="VIRTUAL_VIEW",
        viewOriginalText="select 1",
        viewExpandedText="select 1",
        partitionKeys=[],
        parameters={_VALUE_KEY: "0"},
        sd=StorageDescriptor(
            cols=[FieldSchema(name="value", type="int")], serdeInfo=SerDeInfo(parameters={}), parameters={}
        ),
    )
