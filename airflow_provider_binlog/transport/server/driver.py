"""Wrapper around PyMySQL: connections, statements and their rows, with every error translated.

PyMySQL trusts the server: it waits for every byte, keeps answers of any size, sends the password in
clear text if asked to, and raises whatever its parsers run into. `ServerConnection` bounds that.

Source: PyMySQL 1.2, connections.py, _auth.py, protocol.py.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from airflow_provider_binlog import errors

Connection: TypeAlias = "pymysql.connections.Connection[Any]"
Connect: TypeAlias = "Callable[[], Connection]"

LOG_IS_OFF = "the server writes no binary log: put log_bin=binlog under [mysqld] and restart it"

LOGIN_BYTES_MAX = 1 << 18
"""The most that a server sends before a connection is logged in: a greeting, a key, a refusal."""

ANSWER_BYTES_MAX = 1 << 29
"""The largest answer to a statement; each packet of it counts `_PACKET_COST_BYTES` more."""

COLUMNS_MAX = 4096
"""No server has a table or a result set of more columns."""

_PACKET_COST_BYTES = 128  # a row of no columns is an object, too
_PART_BYTES = 1 << 16

# Plugins that send the password as it is, or so weakly hashed that it can be computed from that.
_CLEAR_TEXT_PLUGINS = frozenset({b"mysql_clear_password", b"dialog", b"mysql_old_password"})

# The numbers are those that PyMySQL, or its type stubs, have no name for. Source:
# messages_to_clients.txt of MySQL, errmsg-utf8.txt of MariaDB.
_DENIED = frozenset(
    {
        *(ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR),
        *(ER.COLUMNACCESS_DENIED_ERROR, ER.PROCACCESS_DENIED_ERROR),
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
        1698,  # denied, without a password
        *(1820, 1862),  # the password must be changed: in a session, or at the login
        *(3118, 4151),  # the account is locked: MySQL, MariaDB
    }
)
_PASSING = frozenset(
    {
        *(ER.CON_COUNT_ERROR, ER.TOO_MANY_USER_CONNECTIONS, ER.USER_LIMIT_REACHED),
        *(ER.SERVER_SHUTDOWN, ER.NORMAL_SHUTDOWN, ER.QUERY_INTERRUPTED),
        ER.MAX_PREPARED_STMT_COUNT_REACHED,
        # It has no memory, thread or room for what a statement takes; 5 and 20 are mysys's.
        *(ER.OUTOFMEMORY, ER.OUT_OF_SORTMEMORY, ER.OUT_OF_RESOURCES, ER.CANT_CREATE_THREAD),
        *(ER.DISK_FULL, ER.RECORD_FILE_FULL, 5, 20),
        1927,  # MariaDB: the connection was killed
        3032,  # MySQL: offline mode
        4031,  # MySQL: idle for wait_timeout
    }
)
_TEXT_SIZE_MAX = 1000
_CLIENT_ERRORS = range(2000, 3000)
"""PyMySQL's own numbers: it could not connect, or the connection ended."""


@contextmanager
def driver_errors(**context: object) -> Iterator[None]:
    """Raise our errors for those of PyMySQL, and for answers that it cannot parse.

    Also a decorator of functions that read the rows of an answer. `context` is added to every
    `BinlogError` that passes.

    Raises:
        AccessDeniedError: The account lacks a privilege, or its password is wrong.
        ConnectionLostError: The connection ended, or the server is shutting down.
        FormatError: The server's answer breaks the protocol, or is not what was queried.
        SourceError: The server refused.
    """
    try:
        yield
    except errors.BinlogError as error:
        error.context |= {**context, **error.context}
        raise
    except (pymysql.MySQLError, OSError) as error:
        translated = translate(error, **context)
        # What a server replies is all there is to know; where a connection broke is not.
        raise translated from (None if _code_and_text(error)[0] in _DENIED else error)
    except MemoryError:
        raise
    except Exception as error:  # PyMySQL itself raises `Exception`, and what its parsers meet.
        raise errors.FormatError(
            "the server's answer breaks the protocol: is this the address of a MySQL or MariaDB "
            "server, and no proxy in between that fails?",
            **context,
            reason=clean_text(f"{type(error).__name__}: {error}"),
        ) from error


def translate(error: Exception, **context: object) -> errors.SourceError:
    """Return what an error of PyMySQL means in our words."""
    code, text = _code_and_text(error)
    context = {**context, "code": code} if code else context
    refusal = text or "the server refused, and does not say why"
    if code in _DENIED:
        return errors.AccessDeniedError(refusal, **context)
    if code == ER.NO_BINARY_LOGGING:
        return errors.ServerSetupError(LOG_IS_OFF, **context)
    if code == CR.CR_AUTH_PLUGIN_CANNOT_LOAD:
        return errors.SourceError(
            "the account has an authentication plugin that is not supported: give it "
            "caching_sha2_password, or on MariaDB mysql_native_password",
            **context,
            reason=text,
        )
    client_side = isinstance(error, (pymysql.InterfaceError, OSError)) or code in _CLIENT_ERRORS
    if client_side or code in _PASSING:
        return errors.ConnectionLostError(text or "the connection is closed", **context)
    return errors.SourceError(refusal, **context)


def _code_and_text(error: Exception) -> tuple[int, str]:
    match error.args:
        case (int(code), str(text), *_):
            return code, clean_text(text)
        case _:
            return 0, clean_text(str(error))


def clean_text(text: str) -> str:
    """Return the text of a server's error as it may stand in a log: one line, cut, no escapes.

    A terminal obeys escapes, and a line break would begin a line that nobody logged.
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:_TEXT_SIZE_MAX])
    return shown.strip() + ("…" if len(text) > _TEXT_SIZE_MAX else "")


@cache
def unverified_context() -> ssl.SSLContext:
    """Return what TLS without verification needs: one for all connections of the process.

    PyMySQL makes one per connection, and reads all the CA certificates of the machine for it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass
class _Allowance:
    """Left to a server in the current phase: the login, or one answer."""

    phase: str
    deadline: float
    seconds: float
    bytes_left: int
    columns_left: int = COLUMNS_MAX


class ServerConnection(pymysql.connections.Connection):
    """A connection that a server cannot hold up, fill up, or ask for the password in clear text."""

    # What the type stubs leave out.
    _sock: Any
    _rfile: Any
    _secure: bool
    _read_timeout: float
    _current_timeout: float | None
    _force_close: Callable[[], None]

    def __init__(
        self,
        *,
        connect_timeout: float,
        read_timeout: float,
        query_timeout: float,
        server_public_key: bytes | None = None,
        get_server_public_key: bool = False,
        enable_cleartext_plugin: bool = False,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        """Connect and log in.

        Args:
            connect_timeout: Seconds within which the server must be reached; that and
                `read_timeout` together are the time for the login.
            read_timeout: Seconds of silence after which the connection counts as lost.
            query_timeout: Seconds within which the answer to a statement must be complete.
            server_public_key: PEM; encrypts the password where there is no TLS.
            get_server_public_key: Whether a key that the server itself sends may do that.
            enable_cleartext_plugin: Whether the password may be sent in clear text without TLS.
            clock: In seconds.
            options: PyMySQL's.
        """
        self._clock = clock
        self._query_timeout = query_timeout
        self._known_key = server_public_key
        self._takes_server_key = get_server_public_key
        self._sends_clear_text = enable_cleartext_plugin
        self._sent_key: bytes | None = None
        self._allow("login", connect_timeout + read_timeout, LOGIN_BYTES_MAX)
        super().__init__(
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            # Without one, neither a TLS handshake nor a server that does not read would ever end.
            write_timeout=read_timeout,
            **options,
        )

    @property
    def server_public_key(self) -> bytes | None:
        """The key that encrypts the password; PyMySQL queries the server where this is None."""
        return self._known_key or self._sent_key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        """Take a key that the server sends, if it may be; one that was configured stays."""
        if key is None or self._known_key is not None:
            return
        if not self._takes_server_key:
            raise errors.ConfigurationError(
                "the server asks for the password under a key that only the server itself vouches "
                "for: set ssl_mode to required, or name the server's key in "
                "server_public_key_path, or set get_server_public_key if nobody can pose as the "
                "server"
            )
        self._sent_key = key

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        return sslp if isinstance(sslp, ssl.SSLContext) else unverified_context()

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        if plugin_name in _CLEAR_TEXT_PLUGINS and not (self._secure or self._sends_clear_text):
            raise errors.ConfigurationError(
                "the server asks for the password in clear text, without TLS: set ssl_mode to "
                "required, or set enable_cleartext_plugin if nobody can read or pose as the server",
                plugin=plugin_name.decode(),
            )
        return super()._process_auth(plugin_name, *rest)  # type: ignore[misc]

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        self._allow("query", self._query_timeout, ANSWER_BYTES_MAX)
        super()._execute_command(command, sql)  # type: ignore[misc]

    def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> MysqlPacket:
        if packet_type is FieldDescriptorPacket:
            self._allowed.columns_left -= 1
            if self._allowed.columns_left < 0:
                self._force_close()
                raise errors.FormatError("a result set of more columns than a table can have")
        self._charge(_PACKET_COST_BYTES)
        packet: MysqlPacket = super()._read_packet(packet_type)  # type: ignore[no-untyped-call]
        return packet

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._charge(num_bytes)
        parts = []
        while num_bytes:
            self._limit_wait()
            try:
                part = self._rfile.read1(min(num_bytes, _PART_BYTES))
            except OSError as error:
                self._limit_wait()
                why = f"{error}: read_timeout is {self._read_timeout:g} s"
                reason = why if isinstance(error, TimeoutError) else error
                raise self._lost(f" ({reason})") from error
            if not part:
                raise self._lost("")
            parts.append(part)
            num_bytes -= len(part)
        return b"".join(parts)

    def _allow(self, phase: str, seconds: float, bytes_max: int) -> None:
        self._allowed = _Allowance(phase, self._clock() + seconds, seconds, bytes_max)

    def _charge(self, size: int) -> None:
        self._allowed.bytes_left -= size
        if self._allowed.bytes_left >= 0:
            return
        self._force_close()
        if self._allowed.phase == "login":
            raise errors.FormatError(
                "the server sends more than a login takes: is this the address of a MySQL or "
                "MariaDB server?",
                bytes_max=LOGIN_BYTES_MAX,
            )
        raise errors.SourceError(
            "the server's answer to a statement is too large", bytes_max=ANSWER_BYTES_MAX
        )

    def _limit_wait(self) -> None:
        """Wait for the next byte as long as `read_timeout` allows, and not after the deadline."""
        left = self._allowed.deadline - self._clock()
        if left <= 0:
            self._force_close()
            raise errors.ConnectionLostError(
                "the server did not answer in full in time",
                phase=self._allowed.phase,
                seconds=self._allowed.seconds,
            )
        if left < self._read_timeout:
            self._sock.settimeout(left)
            self._current_timeout = left

    def _lost(self, reason: str) -> pymysql.OperationalError:
        self._force_close()
        return pymysql.OperationalError(
            CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query{reason}"
        )


Row = dict[str, Any]


def query(connection: Connection, statement: str, *arguments: object) -> list[Row]:
    """Return the rows that `statement` gives, each as a dict by column name.

    Raises as `driver_errors`, and ServerSetupError if the statement needs the binary log, which is
    off.
    """
    # Not the connection's own cursor class, which may give dicts, or stream.
    with driver_errors(statement=statement), connection.cursor(Cursor) as cursor:
        cursor.execute(statement, arguments or None)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def send_command(connection: Connection, command: bytes) -> None:
    """Send a command of one packet as PyMySQL sends its own."""
    connection._execute_command(command[0], command[1:])  # type: ignore[attr-defined]  # noqa: SLF001


def read_packet(connection: Connection, kind: type[MysqlPacket] = MysqlPacket) -> Any:
    """Return the next packet of an answer; one that reports an error is raised as PyMySQL's."""
    return connection._read_packet(kind)  # type: ignore[no-untyped-call]  # noqa: SLF001


def cut(connection: Connection) -> None:
    """Close the socket without a farewell: the server may be in the middle of sending."""
    connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001


@contextmanager
def ended_by(connection: Connection, statement: str) -> Iterator[None]:
    """Execute a statement after a body, such as ROLLBACK; a connection that is closed needs none.

    An error of the body is raised, whatever the statement does then: it may be the connection's.
    """
    try:
        yield
    except BaseException:
        if connection.open:
            with suppress(errors.FormatError, errors.SourceError):
                query(connection, statement)
        raise
    if connection.open:
        query(connection, statement)
