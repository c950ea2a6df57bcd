"""`events`: one line per event, as SHOW BINLOG EVENTS prints them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.event_types import show_name
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.cli.info import describe
from airflow_provider_binlog.cli.source import read_blocks
from airflow_provider_binlog.errors import BinlogError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock

# As the mysql client writes them in batch mode: one event stays one line.
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\0": r"\0"})


def run(arguments: argparse.Namespace) -> None:
    """Print Log_name, Pos, Event_type, Server_id, End_log_pos and Info of each event, with tabs."""
    write = sys.stdout.write
    for block, count in read_blocks(arguments.source, start=arguments.start, stop=arguments.stop):
        for line in list_events(block, count):
            write(line)


def list_events(block: EventBlock, count: int) -> Iterator[str]:
    """Yield a line for each of the first `count` events of a block.

    Raises:
        FormatError: An event's body is not what its type says; the text names its place.
    """
    for index in range(count):
        event = block.event(index)
        header = EventHeader.parse(event)
        try:
            info = describe(header, block.body(index), block.format)
        except BinlogError as error:
            error.context.update(file=block.file, offset=int(block.position[index]))
            raise
        yield (
            f"{block.file}\t{block.position[index]}\t{show_name(header.type)}\t{header.server_id}"
            f"\t{header.log_pos}\t{info.translate(_ESCAPES)}\n"
        )
