"""The protocol of what yields binlog events, and the time that a server may take to send them.

A server cannot hold a stream up with silence, drops or heartbeats. Only the time that is spent
waiting for the server counts, not that of the reader of the blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import ConnectionLostError, ForeignPositionError
from airflow_provider_binlog.position import Position, split_file_name

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.block import EventBlock


class BlockStream(Protocol):
    """A server's log, or files of one.

    The same range gives the same events, byte for byte, from every source.
    """

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events from `start` on, in the order of the log, up to the log's end.

        A block never spans two files. FORMAT_DESCRIPTION is the first event of a file's first
        block, unless `start` is after it. `start` is a boundary between two transactions. The block
        that reaches `stop` is the last one, and may go on beyond it.

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
    """Refuse a file that has the name of a position's file, and was created at another time."""
    previous = position.file_created
    if file != position.file or previous in (None, created):
        return
    raise ForeignPositionError(
        "the file of the position is not the one in the log now, which was created at another "
        "time: the log was reset, or the server was restored from a backup, and another history "
        "followed; take new snapshots of the tables, and capture under a new source name",
        position=position,
        file_was_created=datetime.fromtimestamp(previous or 0, UTC).isoformat(),
        now_created=datetime.fromtimestamp(created, UTC).isoformat(),
    )


def events_from(block: EventBlock, offset: int) -> EventBlock:
    """Return the events of a block from an offset of its file on, where one must begin."""
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


BYTES_PER_SECOND_MIN = 1 << 10
"""A server that sends less for as long as a connection may be silent counts as lost."""

HEARTBEATS_MAX = 10_000
HEARTBEAT_BYTES_MAX = 16 << 20
"""Events that are in no file, and their bytes, between two events of the log. A server sends
some each minute; one that floods the stream with heartbeats never lets us wait."""


def receiver(
    receive_into: Callable[[memoryview], int | None], pace: Pace, *, ended: str
) -> Callable[[memoryview], int]:
    """Return what fills the front of a buffer with what came, and returns how much: not nothing.

    `receive_into` is of a socket, plain or TLS, or of the file around it. An error says `ended`.
    """

    def receive(buffer: memoryview) -> int:
        began = time.monotonic()
        try:
            count = receive_into(buffer)
        except (OSError, ValueError) as error:
            # ValueError: a TLS socket that was closed meanwhile.
            reason = str(error) or type(error).__name__
            raise ConnectionLostError(ended, reason=reason) from error
        if not count:
            raise ConnectionLostError(ended, reason="the server closed it")
        pace.received(count, time.monotonic() - began)
        return count

    return receive


class Pace:
    """Counts what arrives, and the time that it takes.

    For `seconds_max` a server may send less than `BYTES_PER_SECOND_MIN`, or only heartbeats.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._size = 0
        self._seconds = 0.0
        self._seconds_without_events = 0.0
        self._heartbeats = self._heartbeat_bytes = 0

    def received(self, size: int, seconds: float) -> None:
        """Count bytes, and how long was waited for them; too few are an error."""
        self._seconds_without_events += seconds
        self._seconds += seconds
        self._size += size
        if self._size >= BYTES_PER_SECOND_MIN * self._seconds_max:
            self._size, self._seconds = 0, 0.0
        elif self._seconds > self._seconds_max:
            raise ConnectionLostError(
                "the server sends too slowly",
                bytes=self._size,
                seconds=round(self._seconds),
                bytes_per_second_min=BYTES_PER_SECOND_MIN,
            )

    def event(self) -> None:
        """Count events of the log."""
        self._seconds_without_events = 0.0
        self._heartbeats = self._heartbeat_bytes = 0

    def skipped(self, size: int) -> None:
        """Count a heartbeat that says how far the server has skipped transactions we have."""
        self._size, self._seconds, self._seconds_without_events = 0, 0.0, 0.0
        self.heartbeat(size)

    def heartbeat(self, size: int) -> None:
        """Count an event that is in no file, of a size in bytes; too many are an error."""
        self._heartbeats += 1
        self._heartbeat_bytes += size
        if (
            self._seconds_without_events > self._seconds_max
            or self._heartbeats > HEARTBEATS_MAX
            or self._heartbeat_bytes > HEARTBEAT_BYTES_MAX
        ):
            raise ConnectionLostError(
                "the server sends heartbeats, but no events of its log",
                seconds=round(self._seconds_without_events),
                heartbeats=self._heartbeats,
                bytes=self._heartbeat_bytes,
            )
