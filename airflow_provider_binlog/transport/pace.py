"""How long a stream may take: a server cannot hold it up with silence, drops or heartbeats.

Only the time that is spent waiting for the server counts, not that of the reader of the blocks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConnectionLostError

if TYPE_CHECKING:
    from collections.abc import Callable

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

    Args:
        receive_into: Of a socket, plain or TLS, or of the file around it.
        pace: Counts what comes.
        ended: What an error says of a connection that ends.
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
    """Counts what arrives, and the time that it takes."""

    def __init__(self, seconds_max: float) -> None:
        """Start to count.

        Args:
            seconds_max: So long may a server send less than `BYTES_PER_SECOND_MIN`, or nothing but
                heartbeats.
        """
        self._seconds_max = seconds_max
        self._size = 0
        self._seconds = 0.0
        self._seconds_without_events = 0.0
        self._heartbeats = self._heartbeat_bytes = 0

    def received(self, size: int, seconds: float) -> None:
        """Count bytes, and how long was waited for them.

        Raises:
            ConnectionLostError: There were too few in too long a time.
        """
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

    def skipped(self) -> None:
        """Count a heartbeat that says how far the server has skipped transactions we have."""
        self._size, self._seconds = 0, 0.0
        self.event()

    def heartbeat(self, size: int) -> None:
        """Count an event that is in no file, of a size in bytes.

        Raises:
            ConnectionLostError: For too long a time, or in too many bytes, there was nothing else.
        """
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
