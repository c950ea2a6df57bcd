"""One stream of a server for consecutive ranges: each continues where the last one stopped.

A server opens the file, and notes in its error log, that a dump begins: for a range every few
seconds that would be thousands of times a day.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import numpy as np

from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.block_stream import reaches
from airflow_provider_binlog.transport.stream.live import ServerBlockStream

# Until then the heartbeats of a quiet server fit into the socket's buffer.
_IDLE_SECONDS_MAX = 600


class FollowedBlockStream:
    """The log of a server; a `BlockStream` that keeps the connection of its last bounded range."""

    def __init__(self, stream: ServerBlockStream) -> None:
        self._stream = stream
        self._blocks: Generator[EventBlock] | None = None
        # Where the kept connection continues, with what it has sent from there on.
        self._at: Position | None = None
        self._rest: EventBlock | None = None
        self._used = 0.0

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the blocks of a range, the last one cut at its stop, which the log has reached.

        One without a stop has a connection of its own. Raises as `ServerBlockStream.blocks`.
        """
        if stop is None or reaches(start.file, start.offset, stop):
            return self._stream.blocks(start, stop)
        return self._read(start, stop)

    def close(self) -> None:
        """Close all connections."""
        self._blocks = self._at = self._rest = None
        self._stream.close()

    def _read(self, start: Position, stop: Position) -> Iterator[EventBlock]:
        blocks, block = self._take(start)
        while True:
            if block is None:
                block = next(blocks)
            if reaches(block.file, block.next_offset, stop):
                break
            yield block
            block = None
        is_in_file = block.file == stop.file
        count = int(np.searchsorted(block.offset, stop.offset)) if is_in_file else 0
        # Before the last yield, after which the reader may not come back.
        self._rest = block.part(count, len(block)) if count < len(block) else None
        self._blocks, self._at, self._used = blocks, stop, time.monotonic()
        if count:
            yield block.part(0, count)

    def _take(self, start: Position) -> tuple[Generator[EventBlock], EventBlock | None]:
        """Return the blocks from a start on; while they are read, no connection is kept."""
        blocks, rest, at = self._blocks, self._rest, self._at
        self._blocks = self._rest = self._at = None
        is_fresh = time.monotonic() - self._used <= _IDLE_SECONDS_MAX
        if blocks and at and is_fresh and at.coordinates == start.coordinates:
            return blocks, rest
        if blocks:
            blocks.close()
        return self._stream.follow(start), None
