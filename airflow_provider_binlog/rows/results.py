"""Select the columns of a table, and read the rows of the result set.

    row: | NULL bits, the first one for column 0 at bit 2 | values that are not NULL, no gaps |

One vector of cursors walks all rows of a block together, column after column. Every column has the
type, the conversions and the policies of its `ColumnLayout`; what a result set writes otherwise
than the log is read as `types/registry.py` says.

The session that selects has `character_set_results=NULL`, so that text comes in the column's
character set, as in the log, and `time_zone='+00:00'`.

Source: MySQL Internals, "Binary Protocol Resultset Row" and "Binary Protocol Value"; MySQL 9.7
reference manual, 12.4 Connection Character Sets and Collations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.rows.layout import Converted, RowLayout, convert_columns
from airflow_provider_binlog.rows.types.hashed import hash_policies
from airflow_provider_binlog.rows.types.registry import plan_result, readers_of, sent_bytes
from airflow_provider_binlog.rows.values import Int64Array, Memory, Values

# The first bits of the NULL bits stand for no column.
_NULL_BITS_BEFORE = 2
# They start no length: NULL has a bit in binary rows, and 0xFF starts an ERR packet.
_NULL_LENGTH, _ERROR_LENGTH = 0xFB, 0xFF


@dataclass(frozen=True)
class ResultLayout:
    """Plan to select the columns of a table that are read, and to read them.

    Attributes:
        rows: These columns, each with the plan by which its value in a result set is read.
        sizes: Bytes of each one's values, 0 where a length precedes a value.
        expressions: What is selected, one per column.
    """

    rows: RowLayout
    sizes: tuple[int, ...]
    expressions: tuple[str, ...]

    def check_types(self, type_codes: Sequence[int]) -> None:
        """Refuse a result set whose columns are not of these types.

        Raises:
            FormatError: A column is not sent in the width in which it can be read.
        """
        if len(type_codes) != len(self.sizes):
            raise FormatError("a result set has other columns than were selected")
        for column, size, code in zip(self.rows.columns, self.sizes, type_codes, strict=True):
            if sent_bytes(code) != size:
                raise FormatError(
                    "the server sends a column as another type than it has",
                    column=column.name,
                    type=column.mysql_type,
                )

    def decode(self, data: npt.NDArray[np.uint8], start: Int64Array, stop: Int64Array) -> Converted:
        """Return the columns of some rows, of the types that the table's rows in the log have.

        `start` and `stop` say where in `data` each row begins, at its NULL bits, and ends.

        Raises:
            FormatError: A row breaks the format.
            UnsupportedError: A zero or invalid date is refused.
        """
        memory = Memory(data, int(stop[-1]) if len(stop) else 0)
        located = locate_columns(self.sizes, memory, start, stop)
        try:
            return convert_columns(self.rows, located, np.arange(len(start)))
        except BinlogError as error:
            # The number of the row in its block says nothing to anybody.
            error.context.pop("event", None)
            raise


def compile_results(layout: RowLayout) -> ResultLayout:
    """Return how to select the columns of a table and to read what comes."""
    policies = layout.policies, hash_policies(layout.policies)
    columns = tuple(
        replace(
            column,
            plan=plan_result(column.logged, policies[column.hash is not None], column.plan),
        )
        for column in map(layout.columns.__getitem__, layout.read)
    )
    return ResultLayout(
        replace(layout, columns=columns, excluded=frozenset()),
        tuple(readers_of(column.logged).sent for column in columns),
        tuple(
            readers_of(column.logged).select(quote_identifier(column.name), column.logged)
            for column in columns
        ),
    )


def locate_columns(
    sizes: Sequence[int], memory: Memory, start: Int64Array, stop: Int64Array
) -> Iterator[tuple[int, Values]]:
    """Yield each column, and where its values are; `start` is where the NULL bits of a row are.

    Raises:
        TruncatedError: A row ends inside a value.
        FormatError: A row does not end with its last value.
    """
    cursor = start + (_NULL_BITS_BEFORE + len(sizes) + 7) // 8
    nulls = _read_nulls(memory, start, len(sizes))
    for index, (size, null) in enumerate(zip(sizes, nulls, strict=True)):
        if size:
            values = Values(memory, cursor, None, null)
            cursor = cursor + (size if null is None else size * ~null)
        else:
            _check(cursor, stop)
            offset, length = _lengths_before(memory, cursor, null)
            if int(length.min(initial=0)) < 0 or (length > stop - offset).any():
                raise TruncatedError("a row of a result set ends inside a value")
            values = Values(memory, offset, length, null)
            cursor = offset + length
        _check(cursor, stop)
        yield index, values
    if (cursor != stop).any():
        raise FormatError("a row of a result set does not end with its last value")


def _check(cursor: Int64Array, stop: Int64Array) -> None:
    if (cursor > stop).any():
        raise TruncatedError("a row of a result set ends inside a value")


def _read_nulls(
    memory: Memory, start: Int64Array, count: int
) -> Iterator[npt.NDArray[np.bool_] | None]:
    """Yield for each column in which rows it is NULL; None if in none."""
    for bit in range(_NULL_BITS_BEFORE, _NULL_BITS_BEFORE + count):
        if bit == _NULL_BITS_BEFORE or bit % 8 == 0:
            octets = memory.u1.take(start + bit // 8, mode="clip")
            some = int(np.bitwise_or.reduce(octets, initial=0))
        yield (octets >> bit % 8 & 1).astype(np.bool_) if some >> bit % 8 & 1 else None


def _lengths_before(
    memory: Memory, cursor: Int64Array, null: npt.NDArray[np.bool_] | None
) -> tuple[Int64Array, Int64Array]:
    """Return where the values begin whose length is a length-encoded integer, and their lengths."""
    first = memory.u1.take(cursor)
    if null is not None:
        first[null] = 0
    offset = cursor + 1 if null is None else cursor + ~null
    length = first.astype(np.int64)
    if int(first.max(initial=0)) < _NULL_LENGTH:
        return offset, length
    if ((first == _NULL_LENGTH) | (first == _ERROR_LENGTH)).any():
        raise FormatError("a length in a result set is none")
    for code, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
        chosen = np.flatnonzero(first == code)
        words = memory.i8[cursor[chosen] + 1]
        length[chosen] = words if width == 8 else words & ((1 << 8 * width) - 1)
        offset[chosen] += width
    return offset, length
