"""How far a capture has come."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.position import Position

_INTERVAL_SECONDS = 5.0


@dataclass(frozen=True)
class Progress:
    """One line of a log while a long range is staged.

    Attributes:
        file, offset: What has been read ends here.
        bytes: Bytes of the log read so far.
        bytes_total: Bytes of the log in the range; None where the files' sizes are not known.
        events: Events read so far.
        parts: Parts written so far.
        rows: Change rows in them.
        seconds: Since the range was begun.
    """

    file: str
    offset: int
    bytes: int
    bytes_total: int | None
    events: int
    parts: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        """Return `binlog.000007:1048576, 12.3 MB of 80.0 MB (15 %), 900 events, 77 rows in ...`."""
        share = ""
        if self.bytes_total:
            percent = 100 * self.bytes // self.bytes_total
            share = f" of {self.bytes_total / 1e6:.1f} MB ({percent} %)"
        return (
            f"{self.file}:{self.offset}, {self.bytes / 1e6:.1f} MB{share}, {self.events} events, "
            f"{self.rows} rows in {self.parts} parts, {self.seconds:.0f} s"
        )


class ProgressReporter:
    """Reports now and then how far a range has come."""

    def __init__(
        self,
        start: Position,
        bytes_total: int | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        """Begin at the start of a range.

        Args:
            start: Where it is.
            bytes_total: Bytes of log in the range, where known.
            on_progress: Called every few seconds; None: never.
        """
        self._bytes_total = bytes_total
        self._on_progress = on_progress
        self._began = self._reported = time.monotonic()
        self._read = 0
        self._last = start

    def report(self, at: Position, *, events: int, parts: int, rows: int) -> None:
        """Take note of how far the range has come; the counts are those of `Progress`."""
        self._read += at.offset - (self._last.offset if self._last.file == at.file else 0)
        self._last = at
        now = time.monotonic()
        if self._on_progress is None or now - self._reported < _INTERVAL_SECONDS:
            return
        self._reported = now
        self._on_progress(
            Progress(
                file=at.file,
                offset=at.offset,
                bytes=self._read,
                bytes_total=self._bytes_total,
                events=events,
                parts=parts,
                rows=rows,
                seconds=now - self._began,
            )
        )
