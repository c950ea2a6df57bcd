"""Where the values of each column are, in many rows of a result set at once.

    row: | NULL bits, the first one for column 0 at bit 2 | values that are not NULL, no gaps |

A row is a packet of its own, so that one vector of cursors walks all rows of a block together,
column after column.

Source: MySQL Internals, "Binary Protocol Resultset Row" and "Binary Protocol Value".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.column_types import BLOBS, ColumnType
from airflow_provider_binlog.errors import FormatError, TruncatedError
from airflow_provider_binlog.rows.values import Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.rows.memory import Int64Array, Memory

_NULL_BITS_BEFORE = 2
_NULL_LENGTH, _ERROR_LENGTH = 0xFB, 0xFF


class Length(Enum):
    """How it is known where a value ends."""

    FIXED = "fixed"
    BYTE = "one byte before it"
    ENCODED = "a length-encoded integer before it"


class Form(NamedTuple):
    """How the values of a column are sent.

    Attributes:
        length: How it is known where a value ends.
        size: Bytes of a value of fixed width.
    """

    length: Length
    size: int = 0


MOMENT = Form(Length.BYTE)
STRING = Form(Length.ENCODED)

_T = ColumnType
_FORMS: dict[int, Form] = {
    _T.TINY: Form(Length.FIXED, 1),
    **dict.fromkeys((_T.SHORT, _T.YEAR), Form(Length.FIXED, 2)),
    **dict.fromkeys((_T.INT24, _T.LONG, _T.FLOAT), Form(Length.FIXED, 4)),
    **dict.fromkeys((_T.LONGLONG, _T.DOUBLE), Form(Length.FIXED, 8)),
    **dict.fromkeys((_T.DATE, _T.TIME, _T.DATETIME, _T.TIMESTAMP), MOMENT),
    **dict.fromkeys((_T.NEWDECIMAL, _T.BIT, _T.JSON, _T.GEOMETRY, _T.VECTOR), STRING),
    **dict.fromkeys((_T.STRING, _T.VAR_STRING, _T.VARCHAR, *BLOBS), STRING),
}


def form_of(type_code: int) -> Form:
    """Return how the values of a column of the result set are sent.

    Raises:
        FormatError: No column that is selected has this type.
    """
    try:
        return _FORMS[type_code]
    except KeyError:
        raise FormatError("a result set has a column of a type that is not known here") from None


def locate_columns(
    forms: Sequence[Form], memory: Memory, start: Int64Array, stop: Int64Array
) -> Iterator[tuple[int, Values]]:
    """Yield each column, and where its values are.

    Args:
        forms: One per column.
        memory: The rows.
        start: Where each row begins, at its NULL bits.
        stop: Where each row ends.

    Raises:
        TruncatedError: A row ends inside a value.
        FormatError: A row does not end with its last value.
    """
    nulls = _NullBits(memory, start, len(forms))
    cursor = start + nulls.size
    for index, form in enumerate(forms):
        null = nulls.of(index)
        if form.length is Length.FIXED:
            values = Values(memory, cursor, None, null)
            cursor = cursor + (form.size if null is None else form.size * ~null)
        else:
            read = _bytes_before if form.length is Length.BYTE else _integers_before
            _check(cursor, stop)
            offset, length = read(memory, cursor, null)
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


class _NullBits:
    """The NULL bits of some rows, and how many bytes they are."""

    def __init__(self, memory: Memory, start: Int64Array, count: int) -> None:
        self.size = (count + _NULL_BITS_BEFORE + 7) // 8
        self._bytes = [memory.u1.take(start + number, mode="clip") for number in range(self.size)]
        self._some = [int(np.bitwise_or.reduce(each, initial=0)) for each in self._bytes]

    def of(self, index: int) -> npt.NDArray[np.bool_] | None:
        """Return in which rows a column is NULL; None if in none."""
        number, bit = divmod(index + _NULL_BITS_BEFORE, 8)
        if not self._some[number] >> bit & 1:
            return None
        return (self._bytes[number] >> bit & 1).astype(np.bool_)


def _bytes_before(
    memory: Memory, cursor: Int64Array, null: npt.NDArray[np.bool_] | None
) -> tuple[Int64Array, Int64Array]:
    """Return where the values begin whose length is a byte, and their lengths."""
    length = memory.u1.take(cursor).astype(np.int64)
    if null is None:
        return cursor + 1, length
    length[null] = 0
    return cursor + ~null, length


def _integers_before(
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
