"""`events`: one line per event, as SHOW BINLOG EVENTS prints them.

The events of a compressed transaction follow the event that holds them. As the server prints them,
they start and end where that event ends. The column Info is that of the event's own server family;
it is empty for events that neither family has written since 2004.

Source: mysql-server, sql/log_event.cc, and mariadb, sql/log_event_server.cc, pack_info of each.
"""

from __future__ import annotations

import re
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pymysql.charset import charset_by_id

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import charset_of, decode_identifier
from airflow_provider_binlog.binlog.events.compressed import TransactionPayload
from airflow_provider_binlog.binlog.events.control import BinlogCheckpoint, Incident, Rotate
from airflow_provider_binlog.binlog.events.gtid import (
    COMMIT_ALTER,
    PREPARED_XA,
    ROLLBACK_ALTER,
    START_ALTER,
    GtidEvent,
    MariadbGtid,
    MariadbGtidList,
)
from airflow_provider_binlog.binlog.events.statements import Query, RowsQuery, XaPrepare, Xid
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.binlog.header import (
    COMPRESSED,
    ROWS,
    EventHeader,
    EventType,
    show_name,
)
from airflow_provider_binlog.binlog.json.scalars import decimal_text
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.cli.source import find_range
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from airflow_provider_binlog.binlog.events.control import FormatDescription
    from airflow_provider_binlog.blocks.block import EventBlock


# As the mysql client in batch mode: an event stays one line.
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\0": r"\0"})

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


def run(arguments: argparse.Namespace) -> None:
    """Print Log_name, Pos, Event_type, Server_id, End_log_pos and Info of each event, with tabs."""
    write = sys.stdout.write
    chosen = find_range(arguments.source, start=arguments.start, stop=arguments.stop)
    expander = Expander()
    for block in chosen.blocks():
        for line in list_events(block, expander):
            write(line)


def list_events(block: EventBlock, expander: Expander) -> Iterator[str]:
    """Yield a line for each event of a block, and for each event inside a compressed one.

    Raises:
        FormatError: An event's body is not what its type says; the text names its coordinates.
    """
    for index in range(len(block)):
        header = EventHeader.parse(block.event(index))
        position = int(block.offset[index])
        if header.type == EventType.QUERY_COMPRESSED:
            (plain,) = expander.expand(block.part(index, index + 1))
            info = _describe(EventHeader.parse(plain.event(0)), plain, 0)
        else:
            info = _describe(header, block, index)
        yield _line(block.file, position, header, header.log_pos, info)
        if header.type != EventType.TRANSACTION_PAYLOAD:
            continue
        for inner in expander.expand(block.part(index, index + 1)):
            for event in range(len(inner)):
                head = EventHeader.parse(inner.event(event))
                info = _describe(head, inner, event)
                yield _line(block.file, position + header.size, head, header.log_pos, info)


def _describe(header: EventHeader, block: EventBlock, index: int) -> str:
    try:
        return describe(header, block.body(index), block.format)
    except BinlogError as error:
        error.context.update(file=block.file, offset=int(block.offset[index]))
        raise


def _line(file: str, position: int, header: EventHeader, end: int, info: str) -> str:
    return (
        f"{file}\t{position}\t{show_name(header.type)}\t{header.server_id}"
        f"\t{end}\t{info.translate(_ESCAPES)}\n"
    )


class _Event(NamedTuple):
    header: EventHeader
    body: bytes | memoryview
    format: FormatDescription


def describe(header: EventHeader, body: bytes | memoryview, file_format: FormatDescription) -> str:
    """Return the column Info of an event, given its body without header and checksum."""
    write = _WRITERS.get(header.type)
    return write(_Event(header, body, file_format)) if write else ""


def _query(event: _Event) -> str:
    query = Query.parse(event.body, event.format)
    use = ""
    if query.database and not event.header.flags & _SUPPRESS_USE:
        use = f"use {quote_identifier(query.database)}; "
    numbered = query.ddl_xid is not None and event.format.flavor is Flavor.MYSQL
    return use + query.sql + (f" /* xid={query.ddl_xid} */" if numbered else "")


def _rotate(event: _Event) -> str:
    rotate = Rotate.parse(event.body, event.format)
    return f"{rotate.file};pos={rotate.offset}"


def _table_map(event: _Event) -> str:
    table = TableMap.parse(event.body, event.format)
    return f"table_id: {table.table_id} ({table.database}.{table.table})"


def _rows(event: _Event) -> str:
    fixed, _ = event.format.split(event.header.type, event.body)
    table_id, flags = fixed.uint(6), fixed.uint(2)
    shown = [name for flag, name in _ROWS_FLAGS.items() if flags & flag]
    version = tuple(map(int, re.findall(r"\d+", event.format.server_version)[:2]))
    if event.format.flavor is Flavor.MARIADB or version < _PRINTS_ALL_ROWS_FLAGS:
        shown = [name for name in shown if name == "STMT_END_F"]
    return f"table_id: {table_id}{' flags: ' if shown else ''}{' '.join(shown)}"


def _xa_prepare(event: _Event) -> str:
    prepare = XaPrepare.parse(event.body, event.format)
    return (
        f"XA COMMIT {prepare.xid} ONE PHASE" if prepare.one_phase else f"XA PREPARE {prepare.xid}"
    )


def _gtid(event: _Event) -> str:
    gtid = GtidEvent.parse(event.header.type, event.body, event.format).text
    return f"SET @@SESSION.GTID_NEXT= '{gtid or 'ANONYMOUS'}'"


def _mariadb_gtid(event: _Event) -> str:
    gtid = MariadbGtid.parse(event.body, event.format, server_id=event.header.server_id)
    parts = ["GTID" if gtid.standalone else "BEGIN GTID"]
    if gtid.flags & PREPARED_XA and not gtid.standalone:
        parts = [f"XA START {gtid.xid} GTID"]
    parts.append(gtid.text)
    if gtid.commit_id is not None:
        parts.append(f"cid={gtid.commit_id}")
    if gtid.flags_extra & START_ALTER:
        parts.append("START ALTER")
    if gtid.flags_extra & COMMIT_ALTER:
        parts.append(f"COMMIT ALTER id={gtid.alter_sequence}")
    if gtid.flags_extra & ROLLBACK_ALTER:
        parts.append(f"ROLLBACK ALTER id={gtid.alter_sequence}")
    return " ".join(parts)


def _mariadb_gtid_list(event: _Event) -> str:
    gtids = MariadbGtidList.parse(event.body, event.format).gtids
    return f"[{','.join(f'{domain}-{server}-{number}' for domain, server, number in gtids)}]"


def _incident(event: _Event) -> str:
    incident = Incident.parse(event.body, event.format)
    parts = f"#{incident.number} ({'LOST_EVENTS' if incident.number == 1 else 'NOTHING'})"
    return f"{parts}: {incident.message}" if incident.message else parts


def _intvar(event: _Event) -> str:
    buffer = Buffer(event.body)
    name = {1: "LAST_INSERT_ID", 2: "INSERT_ID"}.get(buffer.uint(1), "INVALID_INT")
    return f"{name}={buffer.uint(8)}"


def _rand(event: _Event) -> str:
    buffer = Buffer(event.body)
    return f"rand_seed1={buffer.uint(8)},rand_seed2={buffer.uint(8)}"


def _user_var(event: _Event) -> str:
    """`| 4 size + name | 1 is null | 1 type | 4 collation | 4 size + value | 1 flags |`."""
    buffer = Buffer(event.body)
    name = quote_identifier(decode_identifier(buffer.take(buffer.uint(4))))
    if buffer.uint(1):
        return f"@{name}=NULL"
    kind, collation = buffer.uint(1), buffer.uint(4)
    value = bytes(buffer.take(buffer.uint(4)))
    unsigned = bool(buffer.remaining and buffer.uint(1) & 1)
    match kind:
        case 0:
            return f"@{name}={_hex_text(value, collation, event.format.flavor)}"
        case 1:
            return f"@{name}={struct.unpack('<d', Buffer(value).take(8))[0]:.14g}"
        case 2:
            return f"@{name}={int.from_bytes(value, 'little', signed=not unsigned)}"
        case 4:
            return f"@{name}={decimal_text(memoryview(value)).decode()}"
        case _:
            return f"@{name}"


def _hex_text(value: bytes, collation: int, flavor: Flavor) -> str:
    try:
        charset = charset_of(collation)
    except UnsupportedError:
        return "???"  # the server's own text for an unknown collation
    try:
        name = charset_by_id(collation).collation  # type: ignore[attr-defined]  # not in the stubs
    except KeyError:  # PyMySQL has the collations of MySQL 8.0
        name = str(collation)
    digits = value.hex().upper()
    literal = f"X'{digits}'" if flavor is Flavor.MARIADB else f"0x{digits}"
    return f"_{charset} {literal} COLLATE {name}"


def _begin_load_query(event: _Event) -> str:
    fixed, rest = event.format.split(event.header.type, event.body)
    return f";file_id={fixed.uint(4)};block_len={rest.remaining}"


def _transaction_payload(event: _Event) -> str:
    payload = TransactionPayload.parse(event.body)
    size = payload.size or 0
    return f"compression='{payload.compression.name}', decompressed_size={size} bytes"


_Writer: TypeAlias = "Callable[[_Event], str]"

_WRITERS: dict[int, _Writer] = {
    **dict.fromkeys((ROWS | COMPRESSED) - {EventType.QUERY_COMPRESSED}, _rows),
    EventType.FORMAT_DESCRIPTION: lambda event: (
        f"Server ver: {event.format.server_version}, Binlog ver: 4"
    ),
    EventType.QUERY: _query,
    EventType.ROTATE: _rotate,
    EventType.TABLE_MAP: _table_map,
    EventType.XID: lambda event: f"COMMIT /* xid={Xid.parse(event.body, event.format).number} */",
    EventType.XA_PREPARE: _xa_prepare,
    EventType.ROWS_QUERY: lambda event: f"# {RowsQuery.parse(event.body, event.format).sql}",
    EventType.ANNOTATE_ROWS: lambda event: RowsQuery.parse_annotate(event.body, event.format).sql,
    EventType.GTID: _gtid,
    EventType.ANONYMOUS_GTID: _gtid,
    EventType.GTID_TAGGED: _gtid,
    # The server puts a line break after each comma.
    EventType.PREVIOUS_GTIDS: lambda event: str(GtidSet.decode(event.body)).replace(",", ",\n"),
    EventType.MARIADB_GTID: _mariadb_gtid,
    EventType.MARIADB_GTID_LIST: _mariadb_gtid_list,
    EventType.BINLOG_CHECKPOINT: lambda event: (
        BinlogCheckpoint.parse(event.body, event.format).file
    ),
    EventType.INCIDENT: _incident,
    EventType.INTVAR: _intvar,
    EventType.RAND: _rand,
    EventType.USER_VAR: _user_var,
    EventType.BEGIN_LOAD_QUERY: _begin_load_query,
    EventType.TRANSACTION_PAYLOAD: _transaction_payload,
}
