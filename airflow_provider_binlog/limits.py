"""Limits of the memory that capture takes, and of the size of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from airflow_provider_binlog.errors import ConfigurationError

_MEBIBYTE = 1 << 20
_DECODED_FACTOR = 4
_SIZE = re.compile(r"([0-9]+) ?(B|KiB|MiB|GiB)", re.ASCII)
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class _Size:
    """A field that is given in bytes or in words, and read in bytes."""

    def __init__(self, default: int) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, limits: Limits | None, owner: type) -> int:
        if limits is None:
            return self._default
        return read_size(vars(limits)[self._name], self._name)

    def __set__(self, limits: Limits, value: int | str) -> None:
        vars(limits)[self._name] = value


@dataclass(frozen=True)
class Limits:
    """Bounds on bytes of the log's rows events, not on rows or transactions.

    Each is a number of bytes, or a text such as ``"256 MiB"`` (``B``, ``KiB``, ``MiB``, ``GiB``).
    A value that is neither raises ConfigurationError when the task runs, not when the DAG is
    parsed.

    Where a part ends follows from these and from the log alone, never from how the log arrived:
    that is what makes a range replay to the same files.

    Attributes:
        part_bytes_max: A table's rows events in one part, 16 MiB by default. The part's file is
            smaller, as a rule a third; decoded, the rows take about twice as much. An event of as
            many bytes is a part by itself. Rows of few bytes, with narrow columns or NULLs, take
            more: their part ends at four times as much.
        pending_bytes_max: Rows events of all tables that wait for their part to fill up, 48 MiB by
            default. When there are more, the tables that hold the most are written early.
        prepared_bytes_max: Changes that wait in memory for the XA COMMIT of their transaction, or
            for the end of one that has savepoints, 16 MiB by default. When there are more, the
            largest are read again from the log.
    """

    part_bytes_max: _Size = _Size(16 * _MEBIBYTE)
    pending_bytes_max: _Size = _Size(48 * _MEBIBYTE)
    prepared_bytes_max: _Size = _Size(16 * _MEBIBYTE)

    @property
    def decoded_bytes_max(self) -> int:
        """Decoded rows that are held before they are written."""
        return _DECODED_FACTOR * self.part_bytes_max

    def check(self) -> None:
        """Raise ConfigurationError if a limit is not a positive number of bytes."""
        for field in fields(self):
            getattr(self, field.name)


def read_limits(value: object) -> Limits:
    """Return the limits that a task was given, checked; the defaults in place of None."""
    if not isinstance(value, Limits | None):
        raise ConfigurationError("limits are given as Limits(...)", given=value)
    limits = value or Limits()
    limits.check()
    return limits


def limits_in_bytes(limits: Limits) -> dict[str, int]:
    """Return limits as they are stored and sent: by their names."""
    return {field.name: getattr(limits, field.name) for field in fields(limits)}


def read_size(value: object, name: str) -> int:
    """Return a number of bytes that is given as such or in words: `"256 MiB"`."""
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        value = int(match[1]) * _UNITS[match[2]]
    if type(value) is not int or value < 1:
        raise ConfigurationError(
            'a limit is a positive number of bytes, or a size such as "256 MiB"', **{name: value}
        )
    return value
