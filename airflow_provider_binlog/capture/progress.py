"""How far a capture has come."""

from __future__ import annotations

from dataclasses import dataclass


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
