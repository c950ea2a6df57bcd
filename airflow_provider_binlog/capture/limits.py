"""How much memory capture may take, and how large its files become."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_binlog.errors import ConfigurationError

_MEBIBYTE = 1 << 20
_DECODED_FACTOR = 4


@dataclass(frozen=True)
class Limits:
    """Bounds in bytes of the log's rows events, not of rows or transactions.

    Where a part ends follows from these and from the log alone, never from how the log arrived:
    that is what makes a range replay to the same files.

    Attributes:
        part_bytes_max: A table's rows events that go into one part. The part's file is smaller, as
            a rule a third; decoded, the rows take about twice as much. Rows of few bytes, with
            narrow columns or NULLs, take more: their part ends at four times as much.
        pending_bytes_max: Rows events of all tables that wait for their part to fill up. When
            there are more, the tables that hold the most become parts early.
        prepared_bytes_max: Changes of prepared XA transactions that wait in memory for their XA
            COMMIT. When there are more, the largest are read once more from the log.
    """

    part_bytes_max: int = 16 * _MEBIBYTE
    pending_bytes_max: int = 48 * _MEBIBYTE
    prepared_bytes_max: int = 16 * _MEBIBYTE

    @property
    def decoded_bytes_max(self) -> int:
        """Decoded rows that are held before they are written."""
        return _DECODED_FACTOR * self.part_bytes_max

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if type(value) is not int or value < 1:
                raise ConfigurationError("a limit is a positive number of bytes", **{name: value})
