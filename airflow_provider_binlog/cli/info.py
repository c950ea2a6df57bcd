"""The column Info of SHOW BINLOG EVENTS: an event in a few words.

As the server of the event's own family prints it. Events that neither family has written since
2004 have no words.

Source: mysql-server, sql/log_event.cc, and mariadb, sql/log_event_server.cc, pack_info of each.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymysql.charset import charset_by_id

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import charset_of, decode_identifier
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.control import Incident, Rotate
from airflow_provider_binlog.binlog.events.gtid import GtidEvent
from airflow_provider_binlog.binlog.events.mariadb import (
    COMMIT_ALTER,
    PREPARED_XA,
    ROLLBACK_ALTER,
    START_ALTER,
    BinlogCheckpoint,
    MariadbGtid,
    MariadbGtidList,
)
from airflow_provider_binlog.binlog.events.statements import Query, RowsQuery, XaPrepare, Xid
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.binlog.header import EventHeader

Body = bytes | memoryview

_SUPPRESS_USE = 0x0008
"""Flag of the header: the statement does not depend on the default database."""

_ROWS_FLAGS = {
    0x01: "STMT_END_F",
    0x02: "NO_FOREIGN_KEY_CHECKS_F",
    0x04: "RELAXED_UNIQUE_CHECKS_F",
    0x08: "COMPLETE_ROWS_F",
    0x10: "USE_SQL_FOREIGN_KEY_F",
}
_PRINTS_ALL_ROWS_FLAGS = (9, 6)
"""From this version on MySQL prints every flag; before, and in MariaDB, only the first."""


def describe(header: EventHeader, body: Body, file_format: FormatDescription) -> str:
    """Return the words for an event, given its body without header and checksum."""
    try:
        write = _WRITERS[EventType(header.type)]
    except (KeyError, ValueError):
        return ""
    return write(header, body, file_format)


def _format_description(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    return f"Server ver: {file_format.server_version}, Binlog ver: 4"


def _query(header: EventHeader, body: Body, file_format: FormatDescription) -> str:
    query = Query.parse(body, file_format)
    use = ""
    if query.database and not header.flags & _SUPPRESS_USE:
        use = f"use {_quoted(query.database)}; "
    numbered = query.ddl_xid is not None and file_format.flavor is Flavor.MYSQL
    return use + query.sql + (f" /* xid={query.ddl_xid} */" if numbered else "")


def _rotate(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    rotate = Rotate.parse(body, file_format)
    return f"{rotate.file};pos={rotate.offset}"


def _table_map(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    table = TableMap.parse(body, file_format)
    return f"table_id: {table.table_id} ({table.database}.{table.table})"


def _rows(header: EventHeader, body: Body, file_format: FormatDescription) -> str:
    fixed, _ = file_format.split(header.type, body)
    table_id, flags = fixed.uint(6), fixed.uint(2)
    shown = [name for flag, name in _ROWS_FLAGS.items() if flags & flag]
    version = tuple(map(int, re.findall(r"\d+", file_format.server_version)[:2]))
    if file_format.flavor is Flavor.MARIADB or version < _PRINTS_ALL_ROWS_FLAGS:
        shown = [name for name in shown if name == "STMT_END_F"]
    return f"table_id: {table_id}{' flags: ' if shown else ''}{' '.join(shown)}"


def _xid(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    return f"COMMIT /* xid={Xid.parse(body, file_format).number} */"


def _xa_prepare(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    event = XaPrepare.parse(body, file_format)
    return f"XA COMMIT {event.xid} ONE PHASE" if event.one_phase else f"XA PREPARE {event.xid}"


def _rows_query(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    return f"# {RowsQuery.parse(body, file_format).sql}"


def _annotate(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    return RowsQuery.parse_annotate(body, file_format).sql


def _gtid(header: EventHeader, body: Body, file_format: FormatDescription) -> str:
    event = GtidEvent.parse(header.type, body, file_format)
    return f"SET @@SESSION.GTID_NEXT= '{event.text or 'ANONYMOUS'}'"


def _previous_gtids(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    # The server puts a line break after each comma.
    return str(GtidSet.decode(body)).replace(",", ",\n")


def _mariadb_gtid(header: EventHeader, body: Body, file_format: FormatDescription) -> str:
    event = MariadbGtid.parse(body, file_format, server_id=header.server_id)
    words = ["GTID" if event.standalone else "BEGIN GTID"]
    if event.flags & PREPARED_XA and not event.standalone:
        words = [f"XA START {event.xid} GTID"]
    words.append(event.text)
    if event.commit_id is not None:
        words.append(f"cid={event.commit_id}")
    if event.flags_extra & START_ALTER:
        words.append("START ALTER")
    if event.flags_extra & COMMIT_ALTER:
        words.append(f"COMMIT ALTER id={event.alter_sequence}")
    if event.flags_extra & ROLLBACK_ALTER:
        words.append(f"ROLLBACK ALTER id={event.alter_sequence}")
    return " ".join(words)


def _mariadb_gtid_list(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    gtids = MariadbGtidList.parse(body, file_format).gtids
    return f"[{','.join(f'{domain}-{server}-{number}' for domain, server, number in gtids)}]"


def _binlog_checkpoint(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    return BinlogCheckpoint.parse(body, file_format).file


def _incident(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    incident = Incident.parse(body, file_format)
    words = f"#{incident.number} ({'LOST_EVENTS' if incident.number == 1 else 'NOTHING'})"
    return f"{words}: {incident.message}" if incident.message else words


def _intvar(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    buffer = Buffer(body)
    name = {1: "LAST_INSERT_ID", 2: "INSERT_ID"}.get(buffer.uint(1), "INVALID_INT")
    return f"{name}={buffer.uint(8)}"


def _rand(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    buffer = Buffer(body)
    return f"rand_seed1={buffer.uint(8)},rand_seed2={buffer.uint(8)}"


def _user_var(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    """`| 4 size + name | 1 is null | 1 type | 4 collation | 4 size + value | 1 flags |`."""
    buffer = Buffer(body)
    name = _quoted(decode_identifier(buffer.take(buffer.uint(4))))
    if buffer.uint(1):
        return f"@{name}=NULL"
    kind, collation = buffer.uint(1), buffer.uint(4)
    value = bytes(buffer.take(buffer.uint(4)))
    unsigned = bool(buffer.remaining and buffer.uint(1) & 1)
    match kind:
        case 0:
            return f"@{name}={_hex_text(value, collation, file_format.flavor)}"
        case 1:
            return f"@{name}={struct.unpack('<d', Buffer(value).take(8))[0]:.14g}"
        case 2:
            return f"@{name}={int.from_bytes(value, 'little', signed=not unsigned)}"
        case 4:
            return f"@{name}={_decimal(value)}"
        case _:
            return f"@{name}"


def _hex_text(value: bytes, collation: int, flavor: Flavor) -> str:
    try:
        charset = charset_of(collation)
    except UnsupportedError:
        return "???"  # the server's own words for a collation it does not know
    try:
        name = charset_by_id(collation).collation  # type: ignore[attr-defined]  # not in the stubs
    except KeyError:  # PyMySQL knows those of MySQL 8.0
        name = str(collation)
    digits = value.hex().upper()
    literal = f"X'{digits}'" if flavor is Flavor.MARIADB else f"0x{digits}"
    return f"_{charset} {literal} COLLATE {name}"


def _decimal(value: bytes) -> str:
    """Return a DECIMAL in words: 1 precision, 1 scale, then groups of nine digits in 4 bytes.

    Source: mysql-server, strings/decimal.cc, bin2decimal.
    """
    head = Buffer(value)
    precision, scale, first = head.uint(1), head.uint(1), head.uint(1)
    negative = not first & 0x80
    data = bytes([first ^ 0x80, *head.rest()])
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    buffer = Buffer(data)
    whole, fraction = precision - scale, scale
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    groups = [(whole % 9, sizes[whole % 9])] if whole % 9 else []
    groups += [(9, 4)] * (whole // 9 + fraction // 9)
    groups += [(fraction % 9, sizes[fraction % 9])] if fraction % 9 else []
    digits = "".join(
        f"{int.from_bytes(buffer.take(size), 'big'):0{count}}" for count, size in groups
    )
    text = digits[:whole].lstrip("0") or "0"
    return ("-" if negative else "") + text + (f".{digits[whole:]}" if fraction else "")


def _begin_load_query(header: EventHeader, body: Body, file_format: FormatDescription) -> str:
    fixed, rest = file_format.split(header.type, body)
    return f";file_id={fixed.uint(4)};block_len={rest.remaining}"


def _transaction_payload(header: EventHeader, body: Body, file_format: FormatDescription) -> str:  # noqa: ARG001
    """`1 field | 1 size | value` until field 0; 2 names the compression, 3 the size without it."""
    buffer = Buffer(body)
    compression, size = 255, 0
    while field := buffer.lenenc():
        value = Buffer(buffer.lenenc_bytes())
        if field == 2:
            compression = value.lenenc()
        elif field == 3:
            size = value.lenenc()
    name = "ZSTD" if compression == 0 else "NONE"
    return f"compression='{name}', decompressed_size={size} bytes"


def _quoted(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"


_Writer = Callable[["EventHeader", Body, "FormatDescription"], str]

_ROWS_EVENTS: dict[EventType, _Writer] = dict.fromkeys(
    (
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED_V1,
        EventType.WRITE_ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED,
    ),
    _rows,
)
_WRITERS: dict[EventType, _Writer] = _ROWS_EVENTS | {
    EventType.FORMAT_DESCRIPTION: _format_description,
    EventType.QUERY: _query,
    EventType.ROTATE: _rotate,
    EventType.TABLE_MAP: _table_map,
    EventType.XID: _xid,
    EventType.XA_PREPARE: _xa_prepare,
    EventType.ROWS_QUERY: _rows_query,
    EventType.ANNOTATE_ROWS: _annotate,
    EventType.GTID: _gtid,
    EventType.ANONYMOUS_GTID: _gtid,
    EventType.GTID_TAGGED: _gtid,
    EventType.PREVIOUS_GTIDS: _previous_gtids,
    EventType.MARIADB_GTID: _mariadb_gtid,
    EventType.MARIADB_GTID_LIST: _mariadb_gtid_list,
    EventType.BINLOG_CHECKPOINT: _binlog_checkpoint,
    EventType.INCIDENT: _incident,
    EventType.INTVAR: _intvar,
    EventType.RAND: _rand,
    EventType.USER_VAR: _user_var,
    EventType.BEGIN_LOAD_QUERY: _begin_load_query,
    EventType.TRANSACTION_PAYLOAD: _transaction_payload,
}
