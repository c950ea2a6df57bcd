"""DECIMAL as a result set has it: text, with all digits after the decimal point.

    -1234567.89    0.50    -0.01

So the digits are counted from the end. Eight of them are read at a time: as the bytes of a word,
they are added up by three multiplications.

Source: mysql-server, strings/decimal.cc, decimal2string.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import Array, Values, array_of, gather_bytes

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array, Memory
    from airflow_provider_binlog.rows.values import Convert

_INT64_DIGITS = 18
_WORD = 8


def converter(data_type: pa.Decimal128Type) -> Convert:
    """Return what reads the text of a DECIMAL of this type."""
    if data_type.precision > _INT64_DIGITS:
        return partial(_long, data_type=data_type)
    return partial(_short, data_type=data_type)


def _long(values: Values, *, data_type: pa.DataType) -> Array:
    try:
        return gather_bytes(values).array(pa.string(), values.null).cast(data_type)
    except pa.ArrowInvalid as error:
        raise FormatError("the text of a DECIMAL is no number of its type") from error


def _short(values: Values, *, data_type: pa.Decimal128Type) -> Array:
    memory, stop, scale = values.memory, values.offset + values.lengths, data_type.scale
    negative = memory.u1.take(values.offset) == ord("-")
    if values.null is not None:
        negative &= ~values.null
    point = stop - (scale + 1 if scale else 0)
    whole = _number(memory, point, point - values.offset - negative, data_type.precision - scale)
    total = whole * 10**scale
    if scale:
        total += _number(memory, stop, np.full(len(stop), scale), scale)
    flip = -negative.astype(np.int64)
    total = (total ^ flip) - flip
    halves = np.empty((len(values), 2), dtype=np.int64)
    halves[:, 0] = total
    halves[:, 1] = total >> 63
    return array_of(data_type, halves, values.null)


def _number(memory: Memory, stop: Int64Array, count: Int64Array, count_max: int) -> Int64Array:
    """Return the numbers of `count` digits, at most `count_max`, that end before `stop`.

    A number without digits is 0. A value of no fraction may have one digit more: a zero.
    """
    total = np.zeros(len(stop), dtype=np.int64)
    for done in range(0, max(count_max, 1), _WORD):
        digits = np.clip(count - done, 0, _WORD)
        total += _eight_digits(memory.u8[stop - done - _WORD], digits) * 10**done
    return total


def _eight_digits(words: npt.NDArray[np.uint64], count: Int64Array) -> Int64Array:
    """Return the number of the last `count` bytes of each word, which are digits.

    Source: D. Lemire, "Quickly parsing eight digits".
    """
    words = words & _LAST.take(count)
    words = words * np.uint64(2561) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    words = words * np.uint64(6553601) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    return (words * np.uint64(42949672960001) >> np.uint64(32)).view(np.int64)


# The low halves of the last bytes of a word: of a digit, its value.
_LAST = np.array(
    [sum(0x0F << 8 * byte for byte in range(_WORD - count, _WORD)) for count in range(_WORD + 1)],
    dtype=np.uint64,
)
