"""Progress of a range or a snapshot that is being read: its share, its pace, the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

_PAUSE_SECONDS_MIN = 5.0
_PAUSE_SECONDS_MAX = 300.0
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True)
class ReadProgress:
    """How much of a range or of a snapshot is read.

    Attributes:
        done: Bytes of log, or chunks of a table.
        total: How many of these there are; None if that is not known.
        unit: What `done` and `total` count.
        rows: Rows that were captured or read.
        seconds: How long it took.
        at: Where in the log; empty for a snapshot.
    """

    done: int
    total: int | None
    unit: Literal["bytes", "chunks"]
    rows: int
    seconds: float
    at: str = ""

    @property
    def share(self) -> float | None:
        """What part is read, from 0 to 1; None if that is not known."""
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this pace; None if that is not known."""
        if not self.share:
            return None
        return self.seconds / self.share - self.seconds

    def __str__(self) -> str:
        """Return `12.3 of 80.0 MB (15 %), 77,000 rows, 15,400 rows/s, 28 s left`."""
        texts = [f"{self._amount()}", f"{self.rows:,} rows"]
        if self.seconds > 0:
            texts.append(f"{self.rows / self.seconds:,.0f} rows/s")
        if (left := self.seconds_left) is not None:
            texts.append(f"{_duration(left)} left")
        return ", ".join([f"at {self.at}", *texts] if self.at else texts)

    def _amount(self) -> str:
        done, total = str(self.done), str(self.total)
        if self.unit == "bytes":
            done, total = (f"{(value or 0) / 1e6:,.1f}" for value in (self.done, self.total))
        unit = "MB" if self.unit == "bytes" else self.unit
        if self.share is None:
            return f"{done} {unit}"
        return f"{done} of {total} {unit} ({self.share:.0%})"


OnProgress = Callable[[ReadProgress], object]
"""Takes the progress after each block of a log, or of rows."""


def ignore_progress(_: ReadProgress) -> None:
    """Take no notice; an `OnProgress`."""


class ProgressReporter:
    """Reports after each step what is read by then, from its creation on."""

    def __init__(
        self, total: int | None, unit: Literal["bytes", "chunks"], on_progress: OnProgress
    ) -> None:
        self.rows = 0
        self._total = total
        self._unit = unit
        self._on_progress = on_progress
        self._began = time.monotonic()
        self._done = 0

    def add(self, done: int = 0, *, rows: int = 0, at: str = "") -> None:
        """Report a step of so many bytes or chunks, and so many rows; see `ReadProgress`."""
        self._done += done
        self.rows += rows
        seconds = time.monotonic() - self._began
        self._on_progress(ReadProgress(self._done, self._total, self._unit, self.rows, seconds, at))


class PacedProgress:
    """Passes progress on after 5 seconds, then ever more rarely: a log of hours stays short."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._next = _PAUSE_SECONDS_MIN

    def __call__(self, progress: ReadProgress) -> None:
        """Write the progress as a line, if it is time."""
        if progress.seconds < self._next:
            return
        pause = min(max(progress.seconds / 4, _PAUSE_SECONDS_MIN), _PAUSE_SECONDS_MAX)
        self._next = progress.seconds + pause
        self._write(str(progress))


def _duration(seconds: float) -> str:
    """Return `42 s`, `3 min` or `2 h 10 min`."""
    whole = round(seconds)
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    minutes = round(seconds / _MINUTE)
    if whole < 2 * _HOUR:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
