"""`events`: one line per event, as SHOW BINLOG EVENTS prints them.

The column Info is empty for events that go with the text of a statement: its variables, its seeds,
its file.

Source: mysql-server, sql/log_event.cc, and mariadb, sql/log_event_server.cc, pack_info of each.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.events.control import (
    FormatDescription,
    Incident,
    Rotate,
)
from airflow_provider_binlog.binlog.events.gtid import (
    COMMIT_ALTER,
    ROLLBACK_ALTER,
    START_ALTER,
    Gtid,
    read_gtid_list,
)
from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.binlog.header import (
    COMPRESSED,
    ROWS,
    EventHeader,
    EventType,
    show_name,
)
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.blocks.compressed import Payload
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.cli.output import print_stream
from airflow_provider_binlog.cli.source import find_range
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor

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
    chosen = find_range(arguments.source, start=arguments.start, stop=arguments.stop)
    expander = Expander()
    events = (event for block in chosen.blocks() for event in list_events(block, expander))
    if arguments.output in (None, "plain"):
        sys.stdout.writelines("\t".join(event.texts()) + "\n" for event in events)
    else:
        names = ListedEvent._fields
        records = (dict(zip(names, event.texts(), strict=True)) for event in events)
        print_stream(records, arguments.output)


class ListedEvent(NamedTuple):
    """An event as SHOW BINLOG EVENTS prints it."""

    file: str
    position: int
    type: str
    server_id: int
    end: int
    info: str

    def texts(self) -> list[str]:
        """Return the fields as they are printed."""
        return [*map(str, self[:-1]), self.info.translate(_ESCAPES)]


def list_events(block: EventBlock, expander: Expander) -> Iterator[ListedEvent]:
    """Yield the events of a block, and those inside a compressed one after it.

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
        yield _list(block.file, position, header, info)
        if header.type != EventType.TRANSACTION_PAYLOAD:
            continue
        # As the server prints them, these start and end where the event that holds them ends.
        for inner in expander.expand(block.part(index, index + 1)):
            for event in range(len(inner)):
                head = EventHeader.parse(inner.event(event))
                info = _describe(head, inner, event)
                listed = _list(block.file, position + header.size, head, info)
                yield listed._replace(end=header.log_pos)


def _describe(header: EventHeader, block: EventBlock, index: int) -> str:
    try:
        return describe(header, block.body(index), block.format)
    except BinlogError as error:
        error.context.update(file=block.file, offset=int(block.offset[index]))
        raise


def _list(file: str, position: int, header: EventHeader, info: str) -> ListedEvent:
    type_ = show_name(header.type)
    return ListedEvent(file, position, type_, header.server_id, header.log_pos, info)


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


def _split(event: _Event) -> tuple[Buffer, Buffer]:
    return event.format.split(event.header.type, event.body)


def _rows_query(event: _Event) -> str:
    """Return a statement in the session's character set, which the event does not name."""
    _, rest = _split(event)
    rest.take(1)  # a byte without meaning
    return f"# {str(rest.rest(), 'utf-8', 'replace')}"


def _rows(event: _Event) -> str:
    fixed, _ = _split(event)
    table_id, flags = fixed.uint(6), fixed.uint(2)
    shown = [name for flag, name in _ROWS_FLAGS.items() if flags & flag]
    version = tuple(map(int, re.findall(r"\d+", event.format.server_version)[:2]))
    if event.format.flavor is Flavor.MARIADB or version < _PRINTS_ALL_ROWS_FLAGS:
        shown = [name for name in shown if name == "STMT_END_F"]
    return f"table_id: {table_id}{' flags: ' if shown else ''}{' '.join(shown)}"


def _xa_prepare(event: _Event) -> str:
    prepare = XaPrepare.parse(event.body)
    xid = prepare.xid
    return f"XA COMMIT {xid} ONE PHASE" if prepare.one_phase else f"XA PREPARE {xid}"


def _gtid(event: _Event) -> str:
    gtid = Gtid.parse(event.header, event.body).text
    return f"SET @@SESSION.GTID_NEXT= '{gtid or 'ANONYMOUS'}'"


def _mariadb_gtid(event: _Event) -> str:
    gtid = Gtid.parse(event.header, event.body)
    parts = ["GTID" if gtid.standalone else "BEGIN GTID"]
    if gtid.starts_xa:
        parts = [f"XA START {gtid.xid} GTID"]
    parts.append(gtid.text or "")
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
    gtids = read_gtid_list(event.body, event.format)
    return f"[{','.join(f'{domain}-{server}-{number}' for domain, server, number in gtids)}]"


def _binlog_checkpoint(event: _Event) -> str:
    fixed, rest = _split(event)
    return decode_identifier(rest.take(fixed.uint(4)))


def _incident(event: _Event) -> str:
    incident = Incident.parse(event.body, event.format)
    parts = f"#{incident.number} ({'LOST_EVENTS' if incident.number == 1 else 'NOTHING'})"
    return f"{parts}: {incident.message}" if incident.message else parts


def _transaction_payload(event: _Event) -> str:
    payload = Payload.parse(event.body)
    size = payload.size or 0
    return f"compression='{payload.compression.name}', decompressed_size={size} bytes"


_WRITERS: dict[int, Callable[[_Event], str]] = {
    **dict.fromkeys((ROWS | COMPRESSED) - {EventType.QUERY_COMPRESSED}, _rows),
    EventType.FORMAT_DESCRIPTION: lambda event: (
        f"Server ver: {event.format.server_version}, Binlog ver: 4"
    ),
    EventType.QUERY: _query,
    EventType.ROTATE: _rotate,
    EventType.TABLE_MAP: _table_map,
    EventType.XID: lambda event: f"COMMIT /* xid={_split(event)[1].uint(8)} */",
    EventType.XA_PREPARE: _xa_prepare,
    EventType.ROWS_QUERY: _rows_query,
    EventType.ANNOTATE_ROWS: lambda event: str(_split(event)[1].rest(), "utf-8", "replace"),
    EventType.GTID: _gtid,
    EventType.ANONYMOUS_GTID: _gtid,
    EventType.GTID_TAGGED: _gtid,
    # The server puts a line break after each comma.
    EventType.PREVIOUS_GTIDS: lambda event: str(GtidSet.decode(event.body)).replace(",", ",\n"),
    EventType.MARIADB_GTID: _mariadb_gtid,
    EventType.MARIADB_GTID_LIST: _mariadb_gtid_list,
    EventType.BINLOG_CHECKPOINT: _binlog_checkpoint,
    EventType.INCIDENT: _incident,
    EventType.TRANSACTION_PAYLOAD: _transaction_payload,
}
