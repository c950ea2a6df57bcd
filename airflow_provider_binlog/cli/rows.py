"""`rows`: every row change as one JSON object on a line of its own.

An event that may carry row changes and is not decoded ends the command; what `--table` leaves out
is not decoded and need not be decodable. Changes are printed where they are logged, those of a
transaction that was only prepared, or rolled back, too.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.capture.range_facts import NO_FACTS, RestartRange
from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.cli.row_objects import RowObjects
from airflow_provider_binlog.cli.source import find_range
from airflow_provider_binlog.cli.verify import verify
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.names import matches_globs
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.schema_history.past import Past
from airflow_provider_binlog.schema_history.schemas import SchemaReader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.capture.range_facts import RangeFacts
    from airflow_provider_binlog.cli.row_objects import RowObject
    from airflow_provider_binlog.cli.source import Range


_encode = json.JSONEncoder(ensure_ascii=False).encode


def run(arguments: argparse.Namespace) -> None:
    """Print the changes of the range; see the module."""
    chosen = find_range(arguments.source, start=arguments.start, stop=arguments.stop)
    if arguments.verify:
        verify(chosen, arguments.table)
    else:
        print_rows(chosen, arguments.table, sys.stdout.write)


def print_rows(
    chosen: Range, patterns: Sequence[str] | None, write: Callable[[str], object]
) -> None:
    """Write a line for each change of a range in tables whose name matches a pattern.

    Raises:
        UnsupportedError: An event carries row changes, or may, and is not decoded.
        FormatError: An event is not what its type says, or is where it cannot be.
        SourceError: The source, or the way to it, failed.
    """
    for each in read_rows(chosen, patterns):
        write(_encode(each) + "\n")


def read_rows(chosen: Range, patterns: Sequence[str] | None) -> Iterator[RowObject]:
    """Yield the changes that `print_rows` writes.

    Raises:
        BinlogError: As `print_rows`.
    """
    reader, facts = _RowReader(chosen, patterns), NO_FACTS
    while True:
        try:
            yield from reader.rows(facts)
        except RestartRange as restart:
            facts = restart.facts
        else:
            return


def _matches(patterns: Sequence[str] | None) -> Callable[[str, str], bool]:
    """Return whether a table's rows are printed, by database and name."""

    def matches(database: str, table: str) -> bool:
        return patterns is None or matches_globs(f"{database}.{table}", patterns)

    return matches


class _RowReader:
    """Turns a range into row changes, however often it has to be read.

    One that was yielded is never taken back. So no table is completed before the statements of the
    whole range are known: for the first one that takes it, the range is read to its end, and then
    again for the rows that are not yielded yet.
    """

    def __init__(self, chosen: Range, patterns: Sequence[str] | None) -> None:
        self._chosen = chosen
        self._matches = _matches(patterns)
        # All at once, but for the server's own tables: those are queried as they come.
        self._queried = self._matches if patterns else TableFilter(("*.*",)).matches
        self._end = chosen.start
        self._objects = RowObjects()
        self._yielded = -1
        self._failure: BinlogError | None = None
        self._refused: list[BinlogError] = []

    def rows(self, facts: RangeFacts) -> Iterator[RowObject]:
        """Yield the changes that were not yielded before.

        Raises:
            RestartRange: The range has to be read again for the rest.
            BinlogError: As `print_rows`.
        """
        past = self._past(facts)
        reader = RangeReader(
            captured=self._matches,
            schemas=SchemaReader(past, facts.changes, tentative=False, refuse=_raise_retryable),
            refuse=self._refused.append,
        )
        self._objects.begin(past, reader)
        try:
            for logged in self._chosen.blocks():
                self._end = Position(logged.file, logged.next_offset)
                for captured in reader.read(logged):
                    yield from self._of(captured)
                if not reader.needs_restart:
                    self._raise_refused()
        except BinlogError as error:
            if not reader.needs_restart or error.retryable:
                raise
            past.lose_server(error)
        self._failure = past.failure
        self._refused.clear()
        reader.finish()

    def _past(self, facts: RangeFacts) -> Past:
        if facts.changes is not None:
            # Its statements are known up to here.
            self._chosen = replace(self._chosen, stop=self._end)
        past = Past(
            self._chosen.log,
            self._end,
            captured=self._queried,
            read_server_tables=self._chosen.log.read_server_tables,
        )
        past.can_gain = False  # what the log leaves out of an image is not printed
        if self._failure is not None:
            past.lose_server(self._failure)
        return past

    def _of(self, captured: CapturedBlock) -> Iterator[RowObject]:
        """Yield the changes of a block, up to what is refused in it."""
        chosen = captured.row > self._yielded
        for error in self._refused:
            offset = error.context.get("offset")
            if isinstance(offset, int):
                chosen &= captured.block.offset[captured.events] < offset
        yield from self._objects.of(captured, chosen)
        if chosen.any():
            self._yielded = int(captured.row[np.flatnonzero(chosen)[-1]])
        self._raise_refused()

    def _raise_refused(self) -> None:
        if self._refused:
            raise min(self._refused, key=lambda each: int(str(each.context.get("offset", 0))))


def _raise_retryable(error: BinlogError) -> None:
    """Raise what a retry may help; of the rest a note says that the server was not queried."""
    if error.retryable:
        raise error
