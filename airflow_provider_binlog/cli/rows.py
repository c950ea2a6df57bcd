"""`rows`: every row change as one JSON object on a line of its own.

An event that may carry row changes and is not decoded ends the command; what `--table` leaves out
is not decoded and need not be decodable. Changes are printed where they are logged, those of a
transaction that was only prepared, or rolled back, too.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.capture.range_reader import RangeReader
from airflow_provider_binlog.cli.row_objects import RowObjects
from airflow_provider_binlog.cli.source import find_range
from airflow_provider_binlog.cli.verify import verify
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.names import matches_globs
from airflow_provider_binlog.schema_history.schemas import SchemaReader
from airflow_provider_binlog.schema_history.server_schemas import ServerSchemas

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_binlog.blocks.captured import CapturedBlock
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
    for row in read_rows(chosen, patterns):
        write(_encode(row) + "\n")


def read_rows(chosen: Range, patterns: Sequence[str] | None) -> Iterator[RowObject]:
    """Yield the changes that `print_rows` writes.

    Raises:
        BinlogError: As `print_rows`.
    """
    matches, refused = _matches(patterns), list[BinlogError]()
    # A change that was yielded is never taken back: so whenever information_schema is queried, the
    # statements of the whole range are read first.
    server = ServerSchemas(
        chosen.log,
        chosen.start,
        captured=matches,
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
    """Yield the changes of a block, up to what is refused in it."""
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
    """Return whether a table's rows are printed, by database and name."""

    def matches(database: str, table: str) -> bool:
        return patterns is None or matches_globs(f"{database}.{table}", patterns)

    return matches


def _raise_retryable(error: BinlogError) -> None:
    """Raise what a retry may help; of the rest a note says that the server was not queried."""
    if error.retryable:
        raise error
