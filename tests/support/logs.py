"""Hypothesis strategies for whole logs, well-formed or not, and the blocks they may arrive in."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.events.gtid import Gtid
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import GROUP_STARTS, IGNORABLE, EventHeader, EventType
from airflow_provider_binlog.blocks.block import SLACK, EventBlock
from airflow_provider_binlog.blocks.framing import HEADER, checked_block, read_records
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.position import Flavor
from tests.reference.rows_header import STATEMENT_END
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.table_map_builder import table_map

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

OTHER_SERVER = "ffffffff-e4ef-11f0-9d0c-0242ac110002"
DUMMY_TABLE_ID = 0xFFFFFF
STARTS = GROUP_STARTS
MARIADB_FORMAT = builder.parsed_format(builder.MARIADB)


@dataclass(frozen=True)
class Made:
    """An event in the making."""

    type: int
    body: bytes = b""
    flags: int = 0
    timestamp: int = 1_700_000_000
    server_id: int = 1


def a_table(name: str, *columns: str, database: str = "shop", table_id: int = 1) -> TableMap:
    """Return a table of INT columns, the first of which is its key."""
    described = tuple(
        TableMapColumn(
            ColumnType.LONG, b"", ColumnType.LONG, nullable=index > 0, unsigned=False, name=column
        )
        for index, column in enumerate(columns)
    )
    return TableMap(table_id, 0, database, name, described, ((0, 0),))


TABLES = (
    a_table("a", "id", "x"),
    a_table("b", "id"),
    a_table("a", "id", "x", "y"),  # the first one, altered
    a_table("a", "id", "x", database="other"),
)


def insert(table: TableMap, ids: Sequence[int], *, version: int = 2, ends: bool = True) -> Made:
    """Return WRITE_ROWS with one row per id; the other columns are twice the id, or NULL."""
    kind = EventType.WRITE_ROWS if version == 2 else EventType.WRITE_ROWS_V1
    others = len(table.columns) - 1
    images = b"".join(
        builder.row_image([struct.pack("<i", each), *_others(each, others)]) for each in ids
    )
    flags = STATEMENT_END if ends else 0
    body = builder.rows(kind, table.table_id, len(table.columns), images, flags=flags)
    return Made(kind, body)


def update(
    table: TableMap,
    ids: Sequence[int],
    after: Sequence[int],
    *,
    version: int = 2,
    ends: bool = True,
) -> Made:
    """Return UPDATE_ROWS with the key before, and of these columns what `insert` writes after."""
    kind = EventType.UPDATE_ROWS if version == 2 else EventType.UPDATE_ROWS_V1
    width = len(table.columns)
    images = b""
    for each in ids:
        key = struct.pack("<i", each)
        values = [key, *_others(each, width - 1)]
        images += builder.row_image([key])
        images += builder.row_image([values[column] for column in after])
    body = builder.rows(
        kind,
        table.table_id,
        width,
        images,
        flags=STATEMENT_END if ends else 0,
        present=[column == 0 for column in range(width)],
        present_after=[column in after for column in range(width)],
    )
    return Made(kind, body)


def _others(number: int, count: int) -> list[bytes | None]:
    return [struct.pack("<i", 2 * number) if number % 3 else None] * count


def maps(table: TableMap, flavor: Flavor) -> Made:
    """Return the table's TABLE_MAP."""
    return Made(EventType.TABLE_MAP, table_map(table, flavor))


def query(sql: str) -> Made:
    return Made(EventType.QUERY, builder.query(sql))


# Made once: a strategy that is made for every draw takes more time than the draw.
_NAMED_TABLES = st.lists(
    # Servers reuse an id after a while, for another table.
    st.tuples(st.sampled_from(TABLES), st.sampled_from([1, 2, 7, 1 << 40])),
    min_size=1,
    max_size=3,
    unique_by=lambda pair: pair[1],
)
_IDS = st.lists(st.integers(0, 99), min_size=1, max_size=3)
_COUNTS = [st.integers(0, count) for count in range(10)]
_AFTER = {
    width: st.none() | st.sets(st.integers(0, width - 1), min_size=1).map(sorted)
    for width in {len(table.columns) for table in TABLES}
}


def _draw_statement(draw: st.DrawFn, flavor: Flavor) -> list[Made]:
    """Return what one statement logs: a note, the TABLE_MAPs, rows events of any of the tables."""
    version = 1 if flavor is Flavor.MARIADB else 2
    note = EventType.ANNOTATE_ROWS if flavor is Flavor.MARIADB else EventType.ROWS_QUERY
    tables = [replace(table, table_id=table_id) for table, table_id in draw(_NAMED_TABLES)]
    events = [Made(note, b"\x05hello")] if draw(st.booleans()) else []
    events += [maps(table, flavor) for table in tables]
    last = draw(_COUNTS[3])
    for index in range(last + 1):
        table = tables[draw(_COUNTS[len(tables) - 1])]
        after = draw(_AFTER[len(table.columns)])
        if after is None:
            events.append(insert(table, draw(_IDS), version=version, ends=index == last))
        else:
            events.append(update(table, draw(_IDS), after, version=version, ends=index == last))
    if draw(_COUNTS[5]) == 0:
        dummy = replace(TABLES[0], table_id=DUMMY_TABLE_ID)
        events.append(insert(dummy, [], version=version))
    return events


_XA_NAME = "X'61',X'62',1"
_INSIDE = ("SAVEPOINT `s`", "ROLLBACK TO `s`", "CREATE TABLE t (a int) START TRANSACTION")
_CREATION = query(_INSIDE[2])
_ALONE = ("DROP TABLE `a`", "TRUNCATE shop.a", "GRANT SELECT ON a TO b", "CREATE TABLE a (id int)")
_SAMPLED_INSIDE = st.sampled_from(_INSIDE)
_SAMPLED_ALONE = st.sampled_from(_ALONE)


def _draw_changes(draw: st.DrawFn, flavor: Flavor) -> list[Made]:
    """Return the events between the start and the end of a transaction."""
    mixed = draw(_COUNTS[2]) == 2
    events: list[Made] = []
    for _ in range(draw(_COUNTS[4 if mixed else 3])):
        if mixed and draw(st.booleans()):
            said = query(draw(_SAMPLED_INSIDE))
            # No server creates a table twice in one transaction.
            if said != _CREATION or said not in events:
                events.append(said)
        else:
            events += _draw_statement(draw, flavor)
    return events


_ENDS = (
    *[Made(EventType.XID, builder.xid(1))] * 4,
    query("COMMIT"),
    query("ROLLBACK"),
)
_SAMPLED_ENDS = st.sampled_from(_ENDS)


_MYSQL_STARTS = st.sampled_from(
    [*["gtid"] * 4, "gtid", "other", "original", "old", "tagged", "anonymous"]
)
_MYSQL_FORMS = st.sampled_from([*["transaction"] * 6, "alone", "xa", "xa end", "cut"])
_MARIADB_FORMS = st.sampled_from([*["transaction"] * 6, "alone", "alter", "xa", "xa end", "cut"])
_FILE_ENDS: st.SearchStrategy[list[Made]] = st.sampled_from(
    [[], [Made(EventType.STOP)], [Made(EventType.ROTATE)]]
)


def _mysql_group(draw: st.DrawFn, number: int) -> list[Made]:
    micros = 1_700_000_000_000_000 + number * 7
    starts = {
        "gtid": builder.gtid(number, commit_timestamp_us=micros),
        "other": builder.gtid(number, server=OTHER_SERVER, commit_timestamp_us=micros),
        "original": builder.gtid(number, commit_timestamp_us=micros, original_timestamp_us=5),
        # As MySQL 5.7 writes it: no commit timestamp.
        "old": builder.gtid(number)[:42],
        "tagged": builder.gtid_tagged(number, "t", commit_timestamp_us=micros),
        "anonymous": builder.gtid(0, server=None, commit_timestamp_us=micros),
    }
    kind = draw(_MYSQL_STARTS)
    code = {"tagged": EventType.GTID_TAGGED, "anonymous": EventType.ANONYMOUS_GTID}.get(
        kind, EventType.GTID
    )
    timestamp = 1_600_000_000 + number
    start = Made(code, starts[kind], timestamp=timestamp)
    form = draw(_MYSQL_FORMS)
    if form == "alone":
        return [start, query(draw(_SAMPLED_ALONE))]
    if form == "xa end":
        return [start, query(f"XA {draw(st.sampled_from(['COMMIT', 'ROLLBACK']))} {_XA_NAME}")]
    inner = _draw_changes(draw, Flavor.MYSQL)
    if form == "xa":
        prepare = builder.xa_prepare(b"a", b"b", one_phase=draw(st.booleans()))
        xa_end = [query(f"XA END {_XA_NAME}"), Made(EventType.XA_PREPARE, prepare)]
        return [start, query(f"XA START {_XA_NAME}"), *inner, *xa_end]
    end = [] if form == "cut" else [draw(_SAMPLED_ENDS)]
    return [start, query("BEGIN"), *inner, *end]


def _mariadb_group(draw: st.DrawFn, number: int) -> list[Made]:
    form = draw(_MARIADB_FORMS)
    flags = {"alone": 0x29, "alter": 0x29, "xa": 0x4C, "xa end": 0x8D}.get(form, 0x0C)
    xa = (1, b"a", b"b") if form.startswith("xa") else None
    extra = bytes([draw(st.sampled_from([0, 2]))]) if form == "alter" else b""
    domain = draw(st.sampled_from([0, 0, 7]))
    body = builder.mariadb_gtid(number, domain=domain, flags=flags, xa=xa, extra=extra)
    server_id = draw(st.sampled_from([1, 1, 300]))
    start = Made(
        EventType.MARIADB_GTID, body, timestamp=1_600_000_000 + number, server_id=server_id
    )
    if form == "alter":
        return [start, query("ALTER TABLE a ADD z int")]
    if form == "alone":
        return [start, query(draw(_SAMPLED_ALONE))]
    if form == "xa end":
        return [start, query(f"XA ROLLBACK {_XA_NAME}")]
    inner = _draw_changes(draw, Flavor.MARIADB)
    if form == "xa":
        prepare = Made(EventType.XA_PREPARE, builder.xa_prepare(b"a", b"b"))
        return [start, *inner, query(f"XA END {_XA_NAME}"), prepare]
    end = [] if form == "cut" else [draw(_SAMPLED_ENDS)]
    return [start, *inner, *end]


_GROUPS: dict[Flavor, Callable[[st.DrawFn, int], list[Made]]] = {
    Flavor.MYSQL: _mysql_group,
    Flavor.MARIADB: _mariadb_group,
}


def is_open(group: Sequence[Made]) -> bool:
    """Whether a transaction ends without its end."""
    inner = [query(sql) for sql in ("BEGIN", *_INSIDE)]
    alone = group[-1].type == EventType.QUERY and len(group) == 2 and group[-1] not in inner
    return not alone and group[-1] not in _ENDS and group[-1].type != EventType.XA_PREPARE


_IGNORED = Made(200, b"?", flags=IGNORABLE)


@st.composite
def group_lists(draw: st.DrawFn, flavor: Flavor) -> list[list[Made]]:
    """Return one to three files of events without their FORMAT_DESCRIPTION; each may end cut."""
    numbers = itertools.count(1)
    files = []
    for _ in range(1 + draw(_COUNTS[2])):
        events = []
        for _ in range(draw(_COUNTS[6])):
            group = _GROUPS[flavor](draw, next(numbers))
            events += group
            if draw(_COUNTS[9]) == 0:
                events.append(_IGNORED)
            if is_open(group):
                break  # it was cut, and so is the file
        events += draw(_FILE_ENDS)
        files.append(events)
    return files


@st.composite
def broken(draw: st.DrawFn, flavor: Flavor) -> list[list[Made]]:
    """Return files of events of which one is missing, stands twice, or stands elsewhere."""
    files = draw(group_lists(flavor))
    full = [events for events in files if events]
    if not full:
        return files
    events = draw(st.sampled_from(full))
    index = draw(st.integers(0, len(events) - 1))
    at = draw(st.integers(0, len(events)))
    match draw(st.sampled_from(["drop", "copy", "move", "refused"])):
        case "drop":
            events.pop(index)
        case "copy":
            events.insert(at, events[index])
        case "move":
            events.insert(min(at, len(events) - 1), events.pop(index))
        case _:
            refused = [Made(EventType.INTVAR, bytes(9)), Made(EventType.TRANSACTION_PAYLOAD)]
            stray = [Made(EventType.ROWS_QUERY, b"\x05hello"), query("INSERT INTO a VALUES (1)")]
            events.insert(at, draw(st.sampled_from(refused + stray)))
    return files


def write_files(
    files: Sequence[Sequence[Made]], flavor: Flavor, *, started: Collection[int] = ()
) -> dict[str, BinlogFile]:
    """Return the files by their names, each with what a server puts at its beginning.

    Args:
        files: Their events.
        flavor: Of the server.
        started: Numbers of the files that the server began as it was started.
    """
    version = builder.MARIADB if flavor is Flavor.MARIADB else builder.MYSQL
    executed, last = GtidSet(), MariadbGtidPosition({})
    written = {}
    for number, events in enumerate(files, start=1):
        file = BinlogFile(version, created=1_700_000_000 if number in started else 0)
        if flavor is Flavor.MYSQL:
            file.add(EventType.PREVIOUS_GTIDS, builder.previous_gtids(executed))
        else:
            listed = [(domain, *each) for domain, each in last.domains.items()]
            body = builder.mariadb_gtid_list(listed).ljust(6, b"\0")
            file.add(EventType.MARIADB_GTID_LIST, body)
        for made in events:
            file.add(
                made.type,
                made.body,
                flags=made.flags,
                timestamp=made.timestamp,
                server_id=made.server_id,
            )
            name = _name(made)
            if made.type == EventType.MARIADB_GTID:
                domain, server, sequence = map(int, str(name).split("-"))
                last = last.update(domain, server, sequence)
            elif name is not None:
                executed = executed.union(GtidSet.parse(name))
        written[f"binlog.{number:06}"] = file
    return written


def _name(made: Made) -> str | None:
    try:
        return Gtid.parse(EventHeader(0, made.type, made.server_id, 19, 0, 0), made.body).text
    except FormatError:
        return None


def split_blocks(name: str, file: BinlogFile, cuts: Sequence[int] = ()) -> Iterator[EventBlock]:
    """Yield the events of a file as blocks that begin at the events with these numbers."""
    data = np.frombuffer(bytes(file.data) + bytes(SLACK), dtype=np.uint8).copy()
    offsets = np.array([*file.offsets, len(file.data)], dtype=np.int64)
    description = FormatDescription.parse(data.data[int(offsets[0]) : int(offsets[1])])
    count = len(file.offsets)
    bounds = sorted({0, count, *(cut for cut in cuts if cut < count)})
    for first, last in itertools.pairwise(bounds):
        begin = int(offsets[first])
        piece = np.concatenate([data[begin : int(offsets[last])], np.zeros(SLACK, np.uint8)])
        start = offsets[first:last] - begin
        headers = read_records(piece, start, HEADER)
        yield checked_block(piece, start, headers, file=name, description=description, offset=begin)


def cuts(file: BinlogFile) -> st.SearchStrategy[list[int]]:
    """Return where to cut a file into blocks: nowhere, anywhere, or everywhere."""
    count = len(file.offsets)
    anywhere = st.lists(st.integers(1, max(1, count - 1)), max_size=6)
    return anywhere | st.just(list(range(count)))
