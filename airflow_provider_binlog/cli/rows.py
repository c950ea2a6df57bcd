"""`rows`: every row change as one JSON object on a line of its own.

The whole range is walked event by event, so an event that may carry row changes and is not decoded
ends the command; what `--table` leaves out is not decoded and need not be decodable. Changes are
printed where they stand in the log, those of a transaction that was only prepared, too.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import ROWS, EventType
from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.binlog.transactions import Place, TransactionScanner
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import ROW_FILE_SHIFT, ChangeType
from airflow_provider_binlog.cli.json_values import format_moments, to_json_values
from airflow_provider_binlog.cli.past_schemas import PastSchemas
from airflow_provider_binlog.cli.row_tables import RowTables
from airflow_provider_binlog.cli.source import find_range
from airflow_provider_binlog.cli.verify import verify
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.rows.decode import decode
from airflow_provider_binlog.rows.events import RowsEvents
from airflow_provider_binlog.sql.statement_types import StatementType, xid_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.cli.row_tables import RowTable

_CHANGES = tuple(ChangeType)
_encode = json.JSONEncoder(ensure_ascii=False).encode
_GROUP_EVENTS_MAX = 4096
_GROUP_BYTES_MAX = 1 << 20
"""Rows are printed group by group; a group is decoded in one go."""


def run(arguments: argparse.Namespace) -> None:
    """Print the changes of the range; see the module."""
    chosen = find_range(arguments.source, start=arguments.start, stop=arguments.stop)
    if arguments.verify:
        verify(chosen, arguments.table)
        return
    write = sys.stdout.write
    server, expander = chosen.log.server, Expander()
    wanted = _wanted(arguments.table)
    # All at once, but for the server's own tables: those are looked at as they come.
    asked_for = wanted if arguments.table else TableFilter(("*.*",)).matches
    past = None if server is None else PastSchemas(server, chosen.start, asked_for)
    reader = RowReader(RowTables(wanted, past))
    for block in chain.from_iterable(map(expander.expand, chosen.blocks())):
        for line in reader.read(block):
            write(line)


def _wanted(patterns: Sequence[str] | None) -> Callable[[str, str], bool]:
    """Return what tells by database and name whether a table's rows are printed."""

    def matches(database: str, table: str) -> bool:
        return patterns is None or any(
            fnmatchcase(f"{database}.{table}", each) for each in patterns
        )

    return matches


@dataclass
class _Group:
    """Rows events of one table in one shape that follow one another in a block."""

    table: RowTable
    events: list[int] = field(default_factory=list)
    gtids: list[str | None] = field(default_factory=list)
    xids: list[str | None] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    bytes: int = 0


class RowReader:
    """Follows a log from a transaction boundary on, and turns its changes into lines."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._scanner = TransactionScanner()
        self._files: list[str] = []
        self._gtid: str | None = None
        self._xid: str | None = None
        self._commit: int | None = None

    def read(self, block: EventBlock) -> Iterator[str]:
        """Yield a line for each change in the next block, whose compressed events are expanded.

        Raises:
            UnsupportedError: An event carries row changes, or may, and is not decoded.
            FormatError: An event is not what its type says, or stands where it cannot.
        """
        if block.file not in self._files:
            self._files.append(block.file)
        group: _Group | None = None
        for index in range(len(block)):
            try:
                table = self._follow(block, index)
            except BinlogError as error:
                if group is not None:
                    yield from self._print(block, group)
                error.context.pop("log_pos", None)
                error.context.update(file=block.file, offset=int(block.offset[index]))
                raise
            if table is None:
                continue
            if group is not None and (group.table is not table or _is_full(group)):
                yield from self._print(block, group)
                group = None
            group = group or _Group(table)
            group.events.append(index)
            group.gtids.append(self._gtid)
            group.xids.append(self._xid)
            group.commits.append(
                int(block.timestamp[index]) * 1_000_000 if self._commit is None else self._commit
            )
            group.bytes += int(block.size[index])
        if group is not None:
            yield from self._print(block, group)

    def _follow(self, block: EventBlock, index: int) -> RowTable | None:
        """Take note of an event; return the table if it holds wanted rows."""
        header, body = EventHeader.parse(block.event(index)), block.body(index)
        seen = self._scanner.feed(header, body, block.format)
        if seen.place is Place.BEGIN and seen.gtid is not None:
            self._tables.begin()
            self._gtid = seen.gtid.text
            # MySQL says it in a statement, MariaDB at once.
            self._xid = seen.gtid.xid if isinstance(seen.gtid, MariadbGtid) else None
            self._commit = (
                header.timestamp * 1_000_000
                if isinstance(seen.gtid, MariadbGtid)
                else seen.gtid.commit_timestamp_us
            )
        elif seen.query is not None and seen.statement_type is StatementType.XA_START:
            self._xid = xid_of(seen.query.sql)
        elif header.type == EventType.TABLE_MAP:
            self._tables.see(block, index)
        elif header.type in ROWS:
            return self._tables.of(block, index)
        return None

    def _print(self, block: EventBlock, group: _Group) -> Iterator[str]:
        layout = group.table.layout
        chosen = np.array(group.events)
        start = block.start[chosen]
        events = RowsEvents(
            data=block.data,
            start=start,
            end=start + block.size[chosen] - block.format.checksum_size,
            type=block.type[chosen],
        )
        try:
            rows = decode(layout, events)
        except BinlogError as error:
            event = error.context.pop("event", 0)
            at = chosen[event if isinstance(event, int) else 0]
            error.context.update(file=block.file, offset=int(block.offset[at]))
            raise
        names = [column.name for column in layout.columns]
        held = [set(each) for each in rows.images]
        columns = [
            to_json_values(array, column)
            for array, column in zip(rows.columns, layout.columns, strict=True)
        ]
        base = self._files.index(block.file) << ROW_FILE_SHIFT
        commits = format_moments(group.commits, 6)
        positions = block.offset[chosen].tolist()
        rising = block.expanded_offset[chosen].tolist()
        found = (rows.event, rows.change, rows.offset, rows.image)
        places = zip(*(each.tolist() for each in found), strict=True)
        for place, values in zip(places, zip(*columns, strict=True), strict=True):
            event, change, offset, image = place
            named = zip(names, values, strict=True)
            line = {
                "table": group.table.name,
                "change": _CHANGES[change].value,
                "file": block.file,
                "pos": positions[event],
                "row": base + rising[event] + offset,
                "gtid": group.gtids[event],
                "commit_ts": commits[event],
                "values": {
                    name: value for index, (name, value) in enumerate(named) if index in held[image]
                },
            }
            if group.xids[event] is not None:
                line["xa"] = group.xids[event]
            yield _encode(line) + "\n"


def _is_full(group: _Group) -> bool:
    return len(group.events) >= _GROUP_EVENTS_MAX or group.bytes >= _GROUP_BYTES_MAX
