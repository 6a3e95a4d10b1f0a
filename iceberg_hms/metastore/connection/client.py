"""One connection to one metastore: Thrift's binary protocol over TCP, coded in C where Thrift's C code is there.

A call ends in one of four ways, and the difference decides whether a commit may be repeated:

    it returns      the server answered with success
    ServerFault     the server answered with an error
    NotSent         the server never had the whole call; repeating it is safe
    NoAnswer        the server may have the call; whether it was carried out is not known

NotSent and NoAnswer break the connection, and it is closed. A handler that lost its store (seen on a 4.1.0 in its first
seconds) would answer every further call with the same error: its answer counts as NoAnswer, and closes the connection.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import socket
from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException, TMessageType, TType

from iceberg_hms import work
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import ConfigError
from iceberg_hms.metastore.connection.call_transport import CallTransport, ReplyTooLarge
from iceberg_hms.metastore.connection.cas_support import ConnectionCasSupport
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, NotSent, ServerFault, classify
from iceberg_hms.metastore.connection.thrift_types import messages
from iceberg_hms.setting import MIB

logger = logging.getLogger(__name__)

_DEFAULT_PORT = 9083
_SEQUENCE_MAX = 2**31 - 1
#: The fewest bytes of an element: the length of an empty string. Thrift makes room for all that a list claims to have.
_ELEMENT_MIN_BYTES = 4


def parse_uri(uri: str) -> tuple[str, int]:
    """Host and port of `thrift://host[:port]`. Raises ConfigError."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme != "thrift" or not host:
        raise ConfigError(f"{uri!r} is not thrift://host:port", next_step="write it as thrift://host:9083")
    return host, port or _DEFAULT_PORT


class MetastoreClient:
    """One open connection. Not safe for threads: a pool hands it to one at a time.

    uri: thrift://host:port. user: the user name to send (`set_ugi`; servers without Kerberos believe it), "" for none.
    cas_support: what its server makes of compare-and-swap, as far as compare_and_swap/swap.py proved it.
    socket_timeout_ms: how long one call may take in all. max_reply_bytes: the largest reply.
    now: the monotonic clock.
    patience_ms: how long `call_patiently` waits. on_overdue: it calls this when socket_timeout_ms have passed.
    Raises NotSent if the server cannot be reached within connect_timeout_ms.
    """

    is_patient = False
    on_overdue: Callable[[], None] | None = None

    def __init__(
        self,
        uri: str,
        *,
        connect_timeout_ms: int,
        socket_timeout_ms: int,
        patience_ms: int = 0,
        max_reply_bytes: int = 100 * MIB,
        user: str = "",
        now: Callable[[], float] = SYSTEM_CLOCK.monotonic,
    ) -> None:
        self.uri = uri
        self.cas_support = ConnectionCasSupport(now)
        self._ordinary_ms = socket_timeout_ms
        self._patience_ms = patience_ms
        self._sequence = 0
        self._broken = False
        self._process = os.getpid()
        host, port = parse_uri(uri)
        try:
            connection = socket.create_connection((host, port), connect_timeout_ms / 1000)
        except OSError as error:
            raise NotSent(f"The metastore {uri} cannot be reached: {_reason(error)}") from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = CallTransport(connection, max_reply_bytes=max_reply_bytes, now=now)
        # Strict: a server of another protocol is found by its first bytes.
        self._protocol = TBinaryProtocolAccelerated(
            self._transport,
            fallback=True,
            strictRead=True,
            string_length_limit=max_reply_bytes,
            container_length_limit=max_reply_bytes // _ELEMENT_MIN_BYTES,
        )
        if user:
            self._introduce(user)

    def _introduce(self, user: str) -> None:
        try:
            self.call("set_ugi", user_name=user, group_names=_groups_of(user))
        except ServerFault as fault:
            # Servers that know callers otherwise (Kerberos, proxies) may refuse it.
            logger.debug("%s did not take our user name: %s", self.uri, fault.detail)
        except (NotSent, NoAnswer) as error:
            self.close()
            raise NotSent(f"The metastore {self.uri} cannot be reached: {error.message}") from error

    @property
    def is_usable(self) -> bool:
        """Whether a call could be sent: nothing went wrong before, and the server has not hung up meanwhile. Never in a
        forked child: two processes on one connection would read each other's answers."""
        return not self._broken and self._is_ours and not self._transport.has_hung_up()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or a call failed so that no other can be sent."""
        return self._broken

    @property
    def _is_ours(self) -> bool:
        return self._process == os.getpid()

    def call(self, method: str, /, **arguments: Any) -> Any:
        """Call the metastore. `method` and the names of the arguments are the IDL's; structures are thrift_types'.

        Returns the call's result, None for a call without one. Raises ServerFault, NotSent, NoAnswer.
        """
        work.called(method)
        arguments_type, result_type = messages(method)
        message = arguments_type(**arguments)
        self._sequence = self._sequence % _SEQUENCE_MAX + 1
        try:
            self._send(method, message)
            return self._read(method, result_type())
        except ServerFault as fault:
            self._answered(method, fault)
        except BaseException:
            # After any error, an interrupt too: the next call must not find half a message, or our reply.
            self.close()
            raise

    def _answered(self, method: str, fault: ServerFault) -> NoReturn:
        """Raise the error that a server's answer amounts to."""
        if fault.fault is Fault.INTERNAL:
            # The handler may be broken: some calls have no other error for that.
            self.close()
        if fault.fault is not Fault.HANDLER_BROKEN:
            raise fault
        self.close()
        error = NoAnswer(f"The handler of the metastore {self.uri} broke during {method}: {fault.detail}")
        error.is_over = True
        raise error from fault

    def call_patiently(self, method: str, /, **arguments: Any) -> Any:
        """`call`, for requests that may overwrite later commits if they are carried out after their caller gave up."""
        self.is_patient = True
        try:
            return self.call(method, **arguments)
        finally:
            self.is_patient = False

    def _send(self, method: str, message: Any) -> None:
        self._transport.begin_call(
            self._ordinary_ms,
            patience_ms=self._patience_ms if self.is_patient else 0,
            on_overdue=self.on_overdue if self.is_patient else None,
        )
        try:
            self._protocol.writeMessageBegin(method, TMessageType.CALL, self._sequence)
            message.write(self._protocol)
            self._protocol.writeMessageEnd()
            # Until here all is in a buffer. A flush that fails has not handed over the last bytes of the message.
            self._transport.flush()
        except (TException, OSError) as error:
            raise NotSent(f"The metastore {self.uri} did not take {method}: {_reason(error)}") from error

    def _read(self, method: str, result: Any) -> Any:
        try:
            return self._receive(method, result)
        except ServerFault:
            raise
        except ReplyTooLarge as error:
            raise NoAnswer(
                f"The metastore {self.uri} did not answer {method}: {error}",
                next_step="raise metastore.max-reply-bytes",
            ) from error
        except Exception as error:
            # A reply that cannot be read is no reply, whatever the cause.
            raise NoAnswer(f"The metastore {self.uri} did not answer {method}: {_reason(error)}") from error

    def _receive(self, method: str, result: Any) -> Any:
        name, kind, sequence = self._protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(self._protocol)
            self._protocol.readMessageEnd()
            raise classify(failure, method)
        if kind != TMessageType.REPLY or name != method or sequence != self._sequence:
            raise NoAnswer(f"the reply is to another call: {name} {sequence}")
        if not _returns(result):
            return self._receive_nothing(method, result)
        result.read(self._protocol)
        self._protocol.readMessageEnd()
        return _outcome(method, result)

    def _receive_nothing(self, method: str, result: Any) -> None:
        """The reply to a call without a result: an empty structure is its success, and a field is an error.

        Thrift skips fields that it does not know. So an error that a newer server declares would leave the structure
        empty, and a swap that was refused would be taken for made.
        """
        _, kind, number = self._protocol.readFieldBegin()
        if kind == TType.STOP:
            self._protocol.readMessageEnd()
            return
        field = result.thrift_spec[number] if 0 < number < len(result.thrift_spec) else None
        if field is None or field[1] != kind:
            raise NoAnswer(f"the reply has an unknown field: number {number}, type {kind}")
        error = self._protocol.readFieldByTType(kind, field[3])
        self._protocol.readFieldEnd()
        _, kind, number = self._protocol.readFieldBegin()
        if kind != TType.STOP:
            raise NoAnswer(f"the reply has a second field: number {number}, type {kind}")
        self._protocol.readMessageEnd()
        raise classify(error, method)

    def close(self) -> None:
        """Hang up. Never raises; twice is harmless. In a forked child its parent goes on with the connection."""
        self._broken = True
        try:
            if self._is_ours:
                # While a forked child has the socket too, the server would not learn of a mere close.
                self._transport.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the server hung up before, or we did
        try:
            self._transport.close()
        except OSError:
            logger.debug("closing the connection to %s failed", self.uri, exc_info=True)


def _returns(result: Any) -> bool:
    """Whether the call has a result: it is field 0 of the reply, and the errors are numbered from 1."""
    return bool(result.thrift_spec) and result.thrift_spec[0] is not None


def _outcome(method: str, result: Any) -> Any:
    for field in result.thrift_spec[1:]:
        if field is not None and (error := getattr(result, field[2])) is not None:
            raise classify(error, method)
    if result.success is None:
        unknown = TApplicationException(TApplicationException.MISSING_RESULT, "neither a result nor an error we know")
        raise classify(unknown, method)
    return result.success


def _groups_of(user: str) -> list[str]:
    """The groups of an OS user, as Hadoop's clients send them; none for a name that this machine does not know."""
    try:
        entry = pwd.getpwnam(user)
        return sorted(grp.getgrgid(number).gr_name for number in os.getgrouplist(user, entry.pw_gid))
    except (KeyError, OSError):
        return []


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, EOFError):
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
