"""Events that hold SQL, and those that end a transaction.

Source: mysql-server, libs/mysql/binlog/event/statement_events.{h,cpp} and rows_event.h;
mariadb, sql/log_event.cc, Query_log_event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import (
    BINARY,
    charset_of,
    decode_identifier,
    decode_text,
)
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.lexer import Session

_FLAGS2 = 0
_EXPLICIT_TIMESTAMPS_FLAG = 1 << 24  # of MariaDB; unset, too, by servers that do not log it
_CHARSET = 4  # client, connection, server
_FIXED_STATUS_SIZE = {
    3: 4,  # AUTO_INCREMENT
    7: 2,  # LC_TIME_NAMES
    8: 2,  # CHARSET_DATABASE
    9: 8,  # TABLE_MAP_FOR_UPDATE
    10: 4,  # MASTER_DATA_WRITTEN
    18: 2,  # DEFAULT_COLLATION_FOR_UTF8MB4
    19: 1,  # SQL_REQUIRE_PRIMARY_KEY
    20: 1,  # DEFAULT_TABLE_ENCRYPTION
    21: 1,  # ENABLE_CASCADE_TRIGGERS
    129: 8,  # XID
}
_SIZED_STATUS = {
    2: 1,  # CATALOG: a NUL follows
    6: 0,  # CATALOG_NZ
}
_INVOKER = 11
_TOO_MANY_DATABASES = 254  # then no names follow
_GTID_FLAGS3 = 130
_GTID_FLAGS3_ALTER = 0x04 | 0x08  # a sequence number follows
_CHARACTER_SET_COLLATIONS = 131


@dataclass(frozen=True, slots=True)
class Query:
    """QUERY: a statement that changes no rows, or one logged by its text.

        | 4 thread id | 4 seconds | 1 size of database | 2 error | 2 size of status variables |
        | status variables | database + NUL | statement to the end |

    None stands for what the event does not say.

    Attributes:
        thread_id: The session's connection id.
        database: The session's default database.
        error: The error code that the statement ended with on the server.
        client_collation, connection_collation: Of the statement's text, and of string literals.
        sql_mode: The session's, as bits.
        ddl_xid: The number of the transaction that a DDL statement of MySQL was.
        explicit_timestamps: `explicit_defaults_for_timestamp`.
        databases: Those of all tables that it reads or changes, by triggers and functions, too;
            None also where foreign keys may add others.
        microseconds: When the statement started, after full seconds.
        seconds: When it started, since 1970, by the event's header; None where that was not read.
        used_temporary: Whether it used a temporary table, or an earlier statement of the same
            stored procedure did, by the event's header.
    """

    thread_id: int
    database: str
    error: int
    sql: str
    client_collation: int | None = None
    sql_mode: int | None = None
    ddl_xid: int | None = None
    explicit_timestamps: bool | None = None
    connection_collation: int | None = None
    databases: tuple[str, ...] | None = None
    microseconds: int | None = None
    time_zone: str | None = None
    seconds: int | None = None
    used_temporary: bool = False

    def session(self, flavor: Flavor) -> Session:
        """Return what decides the meaning of the statement."""
        return Session(
            flavor,
            database=self.database,
            sql_mode=self.sql_mode,
            explicit_timestamps=self.explicit_timestamps,
            connection_charset=_charset_or_none(self.connection_collation),
            client_charset=_charset_or_none(self.client_collation),
            seconds=self.seconds,
            microseconds=self.microseconds,
            time_zone=self.time_zone,
        )

    @classmethod
    def parse(cls, body: bytes | memoryview, file_format: FormatDescription) -> Query:
        """Read the event's body.

        Invalid byte sequences in the statement are replaced by U+FFFD. They occur in string
        literals and comments.
        """
        fixed, rest = file_format.split(EventType.QUERY, body)
        thread_id = fixed.uint(4)
        fixed.take(4)
        database_size = fixed.uint(1)
        error = fixed.uint(2)
        status = _read_status(Buffer(rest.take(fixed.uint(2))))
        database = decode_identifier(rest.terminated(database_size))
        sql = _decode_sql(rest.rest(), status.get("client_collation"))
        return cls(thread_id, database, error, sql, **status)


def _read_status(status: Buffer) -> dict[str, Any]:
    """Return the status variables that are attributes of `Query`."""
    read: dict[str, Any] = {}
    while status.remaining:
        code = status.uint(1)
        if code == _FLAGS2:
            read["explicit_timestamps"] = bool(status.uint(4) & _EXPLICIT_TIMESTAMPS_FLAG) or None
        elif code == _CHARSET:
            read["client_collation"] = status.uint(2)
            read["connection_collation"] = status.uint(2)
            status.take(2)
        elif code in _READERS:
            name, read_value = _READERS[code]
            read[name] = read_value(status)
        elif not _skip(status, code):
            break
    return read


def _skip(status: Buffer, code: int) -> bool:
    """Skip one status variable; return False if it is not known: its size is not written."""
    if code in _FIXED_STATUS_SIZE:
        status.take(_FIXED_STATUS_SIZE[code])
    elif code in _SIZED_STATUS:
        status.take(status.uint(1) + _SIZED_STATUS[code])
    elif code == _INVOKER:
        status.take(status.uint(1))
        status.take(status.uint(1))
    elif code == _GTID_FLAGS3:
        if status.uint(1) & _GTID_FLAGS3_ALTER:
            status.take(8)
    elif code == _CHARACTER_SET_COLLATIONS:
        status.take(4 * status.uint(1))
    else:
        return False
    return True


def _read_databases(status: Buffer) -> tuple[str, ...] | None:
    """Return the databases of a statement's tables; None where they are too many, or not known."""
    count = status.uint(1)
    if count == _TOO_MANY_DATABASES:
        return None
    names = [b"".join(iter(lambda: bytes(status.take(1)), b"\0")) for _ in range(count)]
    return tuple(map(decode_identifier, names)) if names and all(names) else None


_READERS: dict[int, tuple[str, Callable[[Buffer], Any]]] = {
    1: ("sql_mode", lambda status: status.uint(8)),
    5: ("time_zone", lambda status: str(status.take(status.uint(1)), "ascii", "replace")),
    12: ("databases", _read_databases),
    13: ("microseconds", lambda status: status.uint(3)),
    16: ("explicit_timestamps", lambda status: bool(status.uint(1))),
    17: ("ddl_xid", lambda status: status.uint(8)),
    128: ("microseconds", lambda status: status.uint(3)),  # MariaDB's HRNOW
}
"""Status variable -> attribute of `Query`, and what reads it."""


def _charset_or_none(collation: int | None) -> str | None:
    try:
        return None if collation is None else charset_of(collation)
    except UnsupportedError:
        return None


def _decode_sql(text: memoryview, collation: int | None) -> str:
    charset = _charset_or_none(collation) or "utf8mb4"
    return decode_text(text, "utf8mb4" if charset == BINARY else charset, errors="replace")


class XaPrepare(NamedTuple):
    """XA_PREPARE: the transaction is prepared, and committed or rolled back later by its name.

        | 1 one phase | 4 format | 4 size of gtrid | 4 size of bqual | gtrid | bqual |

    Attributes:
        one_phase: The transaction was committed at once instead: `XA COMMIT ... ONE PHASE`.
        xid: The name as `XA COMMIT` of the log writes it: `X'61',X'62',1`.
    """

    one_phase: bool
    xid: str

    @classmethod
    def parse(cls, body: bytes | memoryview) -> XaPrepare:
        """Read the event's body: it has no post-header, whatever the FORMAT_DESCRIPTION says."""
        buffer = Buffer(body)
        one_phase = bool(buffer.uint(1))
        format_id = buffer.sint(4)
        gtrid_size, bqual_size = buffer.uint(4), buffer.uint(4)
        gtrid, bqual = buffer.take(gtrid_size), buffer.take(bqual_size)
        return cls(one_phase, f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}")
