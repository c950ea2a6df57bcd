"""The protocol of what yields binlog events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import ForeignPositionError
from airflow_provider_binlog.position import Position, split_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock


class BlockStream(Protocol):
    """A server's log, or files of one.

    The same range gives the same events, byte for byte, from every source.
    """

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events from `start` on, in the order of the log, up to the log's end.

        A block never spans two files. FORMAT_DESCRIPTION is the first event of a file's first
        block, unless `start` is after it.

        Args:
            start: Where the first event begins: a boundary between two transactions.
            stop: The block that reaches this position is the last one; it may go on beyond it.
                None: the log's end as it is when it is reached.

        Raises:
            ConnectionLostError: The connection ended early; nothing is known to be wrong.
            PositionPurgedError: The source no longer has the start.
            ForeignPositionError: The source never had the start, or has another file of that name,
                by the start's `file_created`.
            FormatError: An event is damaged, cut, or not what its header says.
        """
        ...

    def close(self) -> None:
        """Close connections and files; an iterator that is not at its end cannot continue."""
        ...


def check_created(file: str, created: int, position: Position) -> None:
    """Refuse a file that has the name of a position's file, and is another one.

    Args:
        file: Name of a file that is read.
        created: When it was created.
        position: Where reading starts.

    Raises:
        ForeignPositionError: The position's file was created at another time.
    """
    if file != position.file or position.file_created in (None, created):
        return
    raise ForeignPositionError(
        "the file of the position is not the one in the log now, which was created at another "
        "time: the log was reset, or the server was restored from a backup, and another history "
        "followed; take new snapshots of the tables, and capture under a new source name",
        position=position,
        file_was_created=_time(position.file_created),
        now_created=_time(created),
    )


def _time(seconds: int | None) -> str:
    return datetime.fromtimestamp(seconds or 0, UTC).isoformat()


def events_from(block: EventBlock, offset: int) -> EventBlock:
    """Return the events of a block from an offset of its file on.

    Raises:
        ForeignPositionError: No event of the block begins there.
    """
    first = int(block.offset.searchsorted(offset))
    if first == len(block) or block.offset[first] != offset:
        raise ForeignPositionError(
            "no event begins at the position", file=block.file, offset=offset
        )
    return block.part(first, len(block))


def reaches(file: str, offset: int, stop: Position | None) -> bool:
    """Whether a file and offset are at `stop` or after it; never, without a stop."""
    if stop is None:
        return False
    if file == stop.file:
        return offset >= stop.offset
    return split_file_name(file)[1] > stop.file_number
