"""`events`: one line per event, as SHOW BINLOG EVENTS prints them.

The events of a compressed transaction follow the one that holds them. As the server prints them,
they stand where that one ends, and end there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.event_types import EventType, show_name
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.cli.info import describe
from airflow_provider_binlog.cli.source import find_range
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
    chosen = find_range(arguments.source, start=arguments.start, stop=arguments.stop)
    expander = Expander()
    for block in chosen.blocks():
        for line in list_events(block, expander):
            write(line)


def list_events(block: EventBlock, expander: Expander) -> Iterator[str]:
    """Yield a line for each event of a block, and for those that a compressed one holds.

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
