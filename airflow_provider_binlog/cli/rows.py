"""`rows`: every row change as one JSON object on a line of its own, where it is logged.

An event that may carry row changes and is not decoded ends the command; what `--table` leaves out
is not decoded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.column_types import ENUMS, INTEGERS, TEXTS
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.blocks.captured import CapturedBlock
from airflow_provider_binlog.blocks.transactions import NO_NAME
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.cli.output import print_stream
from airflow_provider_binlog.cli.source import Range, find_range
from airflow_provider_binlog.cli.verify import verify
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.names import matches_globs
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.decode import DecodedRows, RowsEvents, decode_pieces
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.rows.types.printed import JsonValue, format_moments
from airflow_provider_binlog.rows.types.registry import to_json_values
from airflow_provider_binlog.schema_history.completion import may_be_another_type
from airflow_provider_binlog.schema_history.schemas import SchemaReader
from airflow_provider_binlog.schema_history.statements import ServerSchemas
from airflow_provider_binlog.sql.statement_types import StatementType, xid_of
from airflow_provider_binlog.transport.server.queries import parse_version


def run(arguments: argparse.Namespace) -> None:
    """Print the changes of the range; see the module."""
    chosen = find_range(arguments.source, start=arguments.start, stop=arguments.stop)
    if arguments.verify:
        verify(chosen, arguments.table, arguments.output)
    else:
        print_stream(read_rows(chosen, arguments.table), arguments.output or "json")


def read_rows(chosen: Range, patterns: Sequence[str] | None) -> Iterator[RowObject]:
    """Yield the changes of a range in tables whose name matches a pattern.

    Raises:
        UnsupportedError: An event carries row changes, or may, and is not decoded.
        FormatError: An event is not what its type says, or is where it cannot be.
        SourceError: The source, or the way to it, failed.
    """
    matches, refused = _matches(patterns), list[BinlogError]()
    # A change that was yielded is never taken back: so whenever information_schema is queried, the
    # statements of the whole range are read first.
    server = ServerSchemas(
        chosen.log,
        chosen.start,
        read_server_tables=chosen.log.read_server_tables,
    )
    server.can_gain = False  # what the log leaves out of an image is not printed
    reader = RangeReader(
        captured=matches,
        schemas=SchemaReader(server, refuse=_raise_retryable),
        refuse=refused.append,
    )
    objects = RowObjects(server, reader)
    for logged in chosen.blocks():
        for captured in reader.read(logged):
            yield from _read_block(objects, captured, refused)
        _raise_first(refused)


def _read_block(
    objects: RowObjects, captured: CapturedBlock, refused: Sequence[BinlogError]
) -> Iterator[RowObject]:
    chosen = np.ones(len(captured), dtype=bool)
    for error in refused:
        offset = error.context.get("offset")
        if isinstance(offset, int):
            chosen &= captured.block.offset[captured.events] < offset
    yield from objects.of(captured, chosen)
    _raise_first(refused)


def _raise_first(refused: Sequence[BinlogError]) -> None:
    if refused:
        raise min(refused, key=lambda error: int(str(error.context.get("offset", 0))))


def _matches(patterns: Sequence[str] | None) -> Callable[[str, str], bool]:
    def matches(database: str, table: str) -> bool:
        return patterns is None or matches_globs(f"{database}.{table}", patterns)

    return matches


def _raise_retryable(error: BinlogError) -> None:
    # Of the rest a note says that the server was not queried.
    if error.retryable:
        raise error


RowObject: TypeAlias = "dict[str, JsonValue]"
"""A row change: what the command `rows` prints as a line."""

_CHANGES = tuple(ChangeType)
_GROUP_EVENTS_MAX = 4096
_GROUP_BYTES_MAX = 1 << 20
"""Rows are printed group by group; a group is decoded in one call."""


class RowObjects:
    """Yields the row changes of a range, block after block; notes missing metadata once."""

    def __init__(self, server: ServerSchemas, reader: RangeReader) -> None:
        self._noted: set[str] = set()
        self._server = server
        self._reader = reader
        # By the index of their table maps.
        self._layouts: dict[int, RowLayout] = {}
        # Of the transaction that was open at the end of the last block.
        self._xid: str | None = None

    def of(self, captured: CapturedBlock, chosen: npt.NDArray[np.bool_]) -> Iterator[RowObject]:
        """Yield an object for each row of the chosen rows events of the next block.

        Raises:
            FormatError: A row image breaks the format.
            UnsupportedError: A table's rows cannot be decoded.
        """
        xids = self._xids(captured)
        for group in _groups(captured.where(chosen)):
            yield from self._group(group, xids)

    def _xids(self, captured: CapturedBlock) -> dict[int, str | None]:
        transactions = captured.transactions
        xids = {0: self._xid}
        for event, seen in transactions.scanned.items():
            own = int(transactions.of_event[event])
            # MySQL names it in a statement, MariaDB in its GTID.
            if seen.gtid is not None:
                xids[own] = seen.gtid.xid
            elif seen.query is not None and seen.statement_type is StatementType.XA_START:
                xids[own] = xid_of(seen.query.sql)
        self._xid = xids.get(len(transactions.start) - 1)
        return xids

    def _group(self, captured: CapturedBlock, xids: dict[int, str | None]) -> Iterator[RowObject]:
        layout = self._layout(captured)
        headings = self._headings(captured, f"{layout.database}.{layout.table}")
        names = [xids.get(number) for number in captured.transaction.tolist()]
        for rows in _decode(captured, layout):
            columns = (rows.event.tolist(), rows.change.tolist(), rows.offset.tolist())
            for values, event, change, offset in zip(_values(layout, rows), *columns, strict=True):
                line = headings[event] | {
                    "change": _CHANGES[change].value,
                    "row": headings[event]["row"] + offset,
                    "values": values,
                }
                if names[event] is not None:
                    line["xa"] = names[event]
                yield line

    def _headings(self, captured: CapturedBlock, table: str) -> list[dict[str, Any]]:
        transactions, own = captured.transactions, captured.transaction
        prefixes = self._reader.transactions.prefixes
        columns = (
            captured.block.offset[captured.events].tolist(),
            captured.row.tolist(),
            transactions.prefix[own].tolist(),
            transactions.number[own].tolist(),
            format_moments(transactions.commit_ts[own], 6),
        )
        return [
            {
                "table": table,
                "change": None,
                "file": captured.block.file,
                "pos": position,
                "row": row,
                "gtid": None if prefix == NO_NAME else f"{prefixes[prefix]}{number}",
                "commit_ts": commit,
            }
            for position, row, prefix, number, commit in zip(*columns, strict=True)
        ]

    def _layout(self, captured: CapturedBlock) -> RowLayout:
        index = int(captured.table[0])
        layout = self._layouts.get(index)
        if layout is None:
            try:
                layout = self._layouts[index] = self._compile(captured, index)
            except BinlogError as error:
                error.context.update(captured.block.where(int(captured.events[0])))
                raise
        return layout

    def _compile(self, captured: CapturedBlock, index: int) -> RowLayout:
        table_map = captured.table_maps[index]
        refusal, failure = self._reader.schemas.refused.get(index), self._server.failure
        unclear = refusal.unclear if refusal is not None else None
        if unclear is None and failure is not None:
            unclear = str(failure)
        if not self._server.has_server or unclear is not None:
            name = ".".join(table_map.name)
            self._note(name, missing_metadata(table_map, captured.block.format), unclear)
        # Only what is in an image is printed: generated columns may be missing from it.
        return compile_layout(table_map, allow_missing_metadata=True)

    def _note(self, name: str, missing: list[str], unclear: str | None) -> None:
        note = f"note: {name}: the log does not say {', '.join(missing)}"
        if unclear is not None:
            note += f"; information_schema does not determine it: {unclear}"
        if missing and note not in self._noted:
            self._noted.add(note)
            sys.stderr.write(f"{note}\n")


def _groups(captured: CapturedBlock) -> Iterator[CapturedBlock]:
    """Yield the rows events of a block in groups of one table that follow one another."""
    table = captured.table
    size = np.cumsum(captured.block.size[captured.events])
    first = 0
    while first < len(table):
        others = np.flatnonzero(table[first : first + _GROUP_EVENTS_MAX] != table[first])
        last = first + (int(others[0]) if len(others) else _GROUP_EVENTS_MAX)
        before = int(size[first - 1]) if first else 0
        full = int(np.searchsorted(size, before + _GROUP_BYTES_MAX)) + 1
        last = min(last, full, len(table))
        yield captured.where(np.arange(first, last))
        first = last


def _decode(captured: CapturedBlock, layout: RowLayout) -> Iterator[DecodedRows]:
    try:
        for _, _, rows in decode_pieces(layout, RowsEvents.of(captured.block, captured.events)):
            yield rows
    except BinlogError as error:
        event = error.context.pop("event", 0)
        at = event if isinstance(event, int) else 0
        error.context.update(captured.block.where(int(captured.events[at])))
        raise


def _values(layout: RowLayout, rows: DecodedRows) -> Iterator[dict[str, JsonValue]]:
    """Yield the values of each row, by the names of the columns that it has."""
    names = [column.name for column in layout.columns]
    columns = [
        to_json_values(array, column.logged)
        for array, column in zip(rows.columns, layout.columns, strict=True)
    ]
    held = [[(names[index], columns[index]) for index in sorted(image)] for image in rows.images]
    for row, image in enumerate(rows.image.tolist()):
        yield {name: column[row] for name, column in held[image]}


def missing_metadata(table_map: TableMap, file_format: FormatDescription) -> list[str]:
    """Return the facts that the log leaves out, each with its fallback output."""
    columns = table_map.columns
    version = parse_version(file_format.server_version).version
    missing = {
        "how its columns are called (@1, @2, ... stand for them)": any(
            column.name is None for column in columns
        ),
        "which integers are unsigned (all are printed as if signed)": any(
            column.real_type in INTEGERS and column.unsigned is None for column in columns
        ),
        "what is text and in which character set (UTF-8 is printed as text, the rest as base64)": (
            any(column.real_type in TEXTS and column.collation is None for column in columns)
        ),
        "the values of ENUM and SET (their numbers are printed)": any(
            column.real_type in ENUMS
            and (column.collation is None or (column.enum_values or column.set_members) is None)
            for column in columns
        ),
        "whether what looks like BINARY is UUID, INET or VECTOR (it is printed as base64)": any(
            file_format.flavor is Flavor.MARIADB
            and column.collation is not None
            and may_be_another_type(column, version)
            for column in columns
        ),
    }
    return [text for text, applies in missing.items() if applies]
