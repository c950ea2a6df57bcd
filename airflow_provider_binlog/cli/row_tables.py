"""The tables of a log, for whoever walks it event by event: what each rows event is about.

What the log leaves out of a table, a server is asked for. Where that is not certain, or there is no
server, standard error gets a line: what the log does not say, and what is printed instead.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.rows import RowsHeader
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.cli.unsaid import unsaid
from airflow_provider_binlog.errors import TableMapMissingError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.schema_history.completion import Unclear, needs_more
from airflow_provider_binlog.transport.server.version import parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.cli.past_schemas import PastSchemas


@dataclass(frozen=True)
class RowTable:
    """A table as it is between two statements that change it."""

    name: str
    layout: RowLayout


@dataclass
class _Logged:
    """A TABLE_MAP as it stands in the log; its tables are compiled when rows of theirs come.

    Attributes:
        wanted: Whether its rows are.
        asks: Whether it leaves out something that a server may know.
        tables: By their epochs; see `PastSchemas`.
    """

    table_map: TableMap
    wanted: bool
    asks: bool
    tables: dict[int, RowTable] = field(default_factory=dict)


class RowTables:
    """Follows the TABLE_MAPs of a log, event after event, from a transaction boundary on."""

    def __init__(self, wanted: Callable[[str, str], bool], past: PastSchemas | None) -> None:
        """Begin with no table.

        Args:
            wanted: Tells by database and name. What is not wanted need not be decodable.
            past: Tells what the log leaves out; None where there is nobody to ask.
        """
        self._wanted = wanted
        self._past = past
        self._noted: set[str] = set()
        self._by_id: dict[int, _Logged] = {}
        self._by_shape: dict[bytes, _Logged] = {}

    def begin(self) -> None:
        """Begin a transaction: its events name tables by ids of their own."""
        self._by_id.clear()

    def see(self, block: EventBlock, index: int) -> None:
        """Take note of a TABLE_MAP.

        Raises:
            FormatError: It breaks the format.
            UnsupportedError: It has a column of a type that is not known.
        """
        body = block.body(index)
        fixed, rest = block.format.split(EventType.TABLE_MAP, body)
        table_id, shape = fixed.uint(6), bytes(rest.rest())
        logged = self._by_shape.get(shape)
        if logged is None:
            table_map, file_format = TableMap.parse(body, block.format), block.format
            version = parse_version(file_format.server_version).version
            asks = self._past is not None and needs_more(table_map, file_format.flavor, version)
            wanted = self._wanted(table_map.database, table_map.table)
            logged = self._by_shape[shape] = _Logged(table_map, wanted, asks)
        self._by_id[table_id] = logged

    def of(self, block: EventBlock, index: int) -> RowTable | None:
        """Return the table of a rows event; None if it is not wanted, or the event has no rows.

        Raises:
            TableMapMissingError: There was no TABLE_MAP for it.
            UnsupportedError: The table's rows cannot be decoded.
            SourceError: The way to the server failed, or a table is locked: a retry may help.
        """
        code, body = int(block.type[index]), block.body(index)
        fixed, _ = block.format.split(code, body)
        logged = self._by_id.get(fixed.uint(6))
        if logged is None:
            if RowsHeader.parse(code, body, block.format).is_dummy:
                return None
            raise TableMapMissingError("a rows event without the TABLE_MAP of its table")
        if not logged.wanted:
            return None
        epoch, past = 0, self._past if logged.asks else None
        if past is not None:
            epoch = past.epoch(logged.table_map, _place(block, index), block.format.flavor)
        table = logged.tables.get(epoch)
        if table is None:
            told: TableMap | Unclear | None = None
            if past is not None:
                told = past.complete(logged.table_map, _place(block, index), block.format)
            table = logged.tables[epoch] = self._compile(logged.table_map, told, block.format)
        return table

    def _compile(
        self, logged: TableMap, told: TableMap | Unclear | None, file_format: FormatDescription
    ) -> RowTable:
        name = f"{logged.database}.{logged.table}"
        if not isinstance(told, TableMap):
            self._note(name, unsaid(logged, file_format), told)
            return RowTable(name, compile_layout(logged, allow_missing_metadata=True))
        # Only what is in an image is shown: generated columns may be missing from it.
        columns = tuple(replace(column, generated=None) for column in told.columns)
        return RowTable(name, compile_layout(replace(told, columns=columns)))

    def _note(self, name: str, lacking: list[str], unclear: Unclear | None) -> None:
        """Say what the log does not say of a table, and nobody else does."""
        note = f"note: {name}: the log does not say {', '.join(lacking)}"
        if unclear is not None:
            note += f"; the server's catalogue does not tell it for certain: {unclear.reason}"
        if lacking and note not in self._noted:
            self._noted.add(note)
            sys.stderr.write(f"{note}\n")


def _place(block: EventBlock, index: int) -> Position:
    return Position(block.file, int(block.offset[index]))
