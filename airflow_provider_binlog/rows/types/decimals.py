"""DECIMAL: in row images groups of decimal digits, in result sets text.

    | partial group | 9 digits in 4 bytes ... | . | 9 digits in 4 bytes ... | partial group |

Big-endian, the sign in the top bit of the first byte: 1 for values of 0 and above. A negative value
has every bit inverted, that one included. The text of a result set has all digits after the decimal
point, `-1234567.89`, `0.50`: so its digits are counted from the end. Eight of them are read at a
time: as the bytes of a word, they are added up by three multiplications.

Source: mysql-server strings/decimal.cc, bin2decimal and decimal2string.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Plan,
    Values,
    array_of,
    cached_slices,
    gather_bytes,
    to_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.rows.values import Convert, Int64Array, Memory

PRECISION_MAX = 65
SCALE_MAX = 30

_GROUP_DIGITS = 9
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_WORD_BYTES, _WORD_DIGITS = 8, 19
_UNSIGNED = np.uint64((1 << 63) - 1)
_SIGN, _ONE = np.uint64(63), np.uint64(1)
_HALF, _HALF_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)

UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Group:
    """Some digits of a value.

    Attributes:
        offset: Where its bytes begin in the value.
        size: How many bytes.
        digits: How many digits, 1 to 9.
    """

    offset: int
    size: int
    digits: int


def groups(precision: int, scale: int) -> tuple[Group, ...]:
    """Return the groups of DECIMAL(`precision`, `scale`) from the first byte on."""
    whole, fraction = divmod(precision - scale, _GROUP_DIGITS), divmod(scale, _GROUP_DIGITS)
    digits = [whole[1], *[_GROUP_DIGITS] * (whole[0] + fraction[0]), fraction[1]]
    digits = [count for count in digits if count]
    sizes = [_GROUP_BYTES[count] for count in digits]
    offsets = [0, *accumulate(sizes)]
    return tuple(map(Group, offsets, sizes, digits))


def plan(precision: int, scale: int) -> Plan:
    """Return how to read DECIMAL(`precision`, `scale`): decimal128, or text above 38 digits.

    Raises:
        FormatError: MySQL has no such type.
    """
    if not (1 <= precision <= PRECISION_MAX and scale <= min(SCALE_MAX, precision)):
        raise FormatError("not a DECIMAL", precision=precision, scale=scale)
    parts = groups(precision, scale)
    size = sum(part.size for part in parts)
    if precision > DECIMAL_DIGITS_MAX:
        return Plan(pa.string(), partial(_text, parts=parts, scale=scale), size=size)
    data_type = pa.decimal128(precision, scale)
    return Plan(data_type, partial(_numbers, parts=parts, data_type=data_type), size=size)


class _Words:
    """The bytes of some values, eight at a time as words, all bits of negative ones inverted.

    Attributes:
        flip: All ones for a negative value, else zero; None where none is negative.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._not_null: UInt64Array | None = None
        self._first: UInt64Array = values.read(">u8")
        if values.null is not None:
            # NULL is read as 0.
            self._not_null = np.subtract(values.null, 1, dtype=np.int64).view(np.uint64)
            self._first &= self._not_null
            self._first |= values.null.astype(np.uint64) << _SIGN
        self.flip: UInt64Array | None = None
        if len(values) and not int(np.minimum.reduce(self._first)) >> 63:
            self.flip = self._first >> _SIGN
            self.flip -= _ONE

    def read(self, begin: int) -> UInt64Array:
        """Return the word at a byte of each value, that at 0 without the sign, and only once."""
        word = self._values.read(">u8", begin) if begin else self._first
        if self.flip is not None:
            word ^= self.flip
        if not begin:
            word &= _UNSIGNED
        elif self._not_null is not None:
            word &= self._not_null
        return word


def _read(words: _Words, parts: tuple[Group, ...]) -> Iterator[tuple[Group, UInt64Array, bool]]:
    """Yield each group of all values as numbers, and whether any of them is not 0.

    Raises:
        FormatError: A group holds more than its digits can say.
    """
    begin = stop = 0
    for group in parts:
        if group.offset + group.size > stop:
            begin, stop = group.offset, group.offset + _WORD_BYTES
            word = words.read(begin)
        numbers = word >> np.uint64(8 * (stop - group.offset - group.size))
        if group.offset > begin:
            numbers &= np.uint64((1 << 8 * group.size) - 1)
        largest = int(np.maximum.reduce(numbers, initial=0))
        if largest >= 10**group.digits:
            raise FormatError("not a DECIMAL: a group of digits is too large", digits=group.digits)
        yield group, numbers, largest > 0


def _numbers(values: Values, *, parts: tuple[Group, ...], data_type: pa.DataType) -> Array:
    """Read decimals into 128 bits, as many at a time as stay in the processor's cache."""
    halves = np.empty((len(values), 2), dtype=np.uint64)
    for some in cached_slices(len(values)):
        _read_halves(values.choose(some), parts, halves[some])
    return array_of(data_type, halves, values.null)


def _read_halves(values: Values, parts: tuple[Group, ...], halves: UInt64Array) -> None:
    """Set the low and the high 64 bits of each value.

    Up to 19 digits are one word; of more there are two or three, of which the first are multiplied.
    Groups of zeros before all others take no part in it.
    """
    words = _Words(values)
    totals: list[tuple[int, UInt64Array]] = []
    for group, numbers, some in _read(words, parts):
        digits = totals[-1][0] + group.digits if totals else 0
        if 0 < digits <= _WORD_DIGITS:
            total = totals.pop()[1]
            total *= np.uint64(10**group.digits)
            if some:
                total += numbers
            totals.append((digits, total))
        elif totals or some or group is parts[-1]:
            totals.append((group.digits, numbers))
    (digits, low), *rest = totals
    high: UInt64Array | None = None
    for digits_more, total in rest:
        low, high = _multiply_add(low, high, 10**digits_more, total)
    flip = words.flip
    if flip is None:
        halves[:, 0] = low
        halves[:, 1] = 0 if high is None else high
        return
    low ^= flip
    low -= flip
    halves[:, 0] = low
    if high is None and digits < _WORD_DIGITS:
        np.right_shift(low.view(np.int64), 63, out=halves[:, 1].view(np.int64))
        return
    carry = (low == 0) & (flip != 0)
    np.add(flip if high is None else high ^ flip, carry, out=halves[:, 1])


def _multiply_add(
    low: UInt64Array, high: UInt64Array | None, by: int, total: UInt64Array
) -> tuple[UInt64Array, UInt64Array]:
    """Return the halves of 128-bit numbers, multiplied by a word and added to."""
    by_low, by_high = np.uint64(by & 0xFFFFFFFF), np.uint64(by >> 32)
    right, left = low & _HALF_MASK, low >> _HALF
    if not by_high and high is None:
        right *= by_low
        right >>= _HALF
        left *= by_low
        left += right
        left >>= _HALF
        low = low * by_low
        low += total
        left += low < total
        return low, left
    middle = right * by_low
    middle >>= _HALF
    middle += left * by_low
    right *= by_high
    right += middle & _HALF_MASK
    middle >>= _HALF
    right >>= _HALF
    left *= by_high
    left += middle
    left += right
    if high is not None:
        left += high * np.uint64(by)
    low = low * np.uint64(by)
    low += total
    left += low < total
    return low, left


def _text(values: Values, *, parts: tuple[Group, ...], scale: int) -> Array:
    """Read decimals into the text that SELECT prints: `-12.50`, `0.07`, `3`."""
    words = _Words(values)
    precision = sum(group.digits for group in parts)
    digits = np.empty((len(values), precision), dtype=np.uint8)
    column = 0
    for group, numbers, _ in _read(words, parts):
        rest = numbers.astype(np.uint32)
        for index in range(column + group.digits - 1, column - 1, -1):
            rest, digits[:, index] = np.divmod(rest, np.uint32(10))
        column += group.digits
    negative = np.zeros(len(values), dtype=np.bool_) if words.flip is None else words.flip != 0
    return _print(digits, scale, negative, values.null)


def _print(
    digits: npt.NDArray[np.uint8],
    scale: int,
    negative: npt.NDArray[np.bool_],
    null: npt.NDArray[np.bool_] | None,
) -> Array:
    """Write sign, digits and point as a matrix, and remove leading zeros."""
    count, precision = digits.shape
    whole = digits[:, : precision - scale]
    if not whole.shape[1]:
        whole = np.zeros((count, 1), dtype=np.uint8)
    signs = np.full((count, 1), ord("-"), dtype=np.uint8)
    fraction = [np.full((count, 1), ord("."), dtype=np.uint8), digits[:, precision - scale :] + 48]
    text = np.concatenate([signs, whole + 48, *(fraction if scale else [])], axis=1)
    keep = np.ones(text.shape, dtype=np.bool_)
    keep[:, 0] = negative
    keep[:, 1 : whole.shape[1]] = np.logical_or.accumulate(whole[:, :-1] != 0, axis=1)
    if null is not None:
        keep[null] = False
    offsets = to_offsets(np.concatenate([[0], keep.sum(axis=1)]))
    return Bytes(offsets, text[keep]).array(pa.string(), null)


_INT64_DIGITS = 18


def text_converter(data_type: pa.Decimal128Type) -> Convert:
    """Return what reads the text of a DECIMAL of this type."""
    if data_type.precision > _INT64_DIGITS:
        return partial(_read_long_text, data_type=data_type)
    return partial(_read_short_text, data_type=data_type)


def _read_long_text(values: Values, *, data_type: pa.DataType) -> Array:
    try:
        return gather_bytes(values).array(pa.string(), values.null).cast(data_type)
    except pa.ArrowInvalid as error:
        raise FormatError("the text of a DECIMAL is no number of its type") from error


def _read_short_text(values: Values, *, data_type: pa.Decimal128Type) -> Array:
    memory, stop, scale = values.memory, values.offset + values.lengths, data_type.scale
    negative = memory.u1.take(values.offset) == ord("-")
    if values.null is not None:
        negative &= ~values.null
    point = stop - (scale + 1 if scale else 0)
    whole = _read_digits(
        memory, point, point - values.offset - negative, data_type.precision - scale
    )
    total = whole * 10**scale
    if scale:
        total += _read_digits(memory, stop, np.full(len(stop), scale), scale)
    flip = -negative.astype(np.int64)
    total = (total ^ flip) - flip
    halves = np.empty((len(values), 2), dtype=np.int64)
    halves[:, 0] = total
    halves[:, 1] = total >> 63
    return array_of(data_type, halves, values.null)


def _read_digits(memory: Memory, stop: Int64Array, count: Int64Array, count_max: int) -> Int64Array:
    """Return the numbers of `count` digits, at most `count_max`, that end before `stop`.

    A number without digits is 0. A value of no fraction may have one digit more: a zero.
    """
    total = np.zeros(len(stop), dtype=np.int64)
    for done in range(0, max(count_max, 1), _WORD_BYTES):
        digits = np.clip(count - done, 0, _WORD_BYTES)
        total += _eight_digits(memory.u8[stop - done - _WORD_BYTES], digits) * 10**done
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
    [
        sum(0x0F << 8 * byte for byte in range(_WORD_BYTES - count, _WORD_BYTES))
        for count in range(_WORD_BYTES + 1)
    ],
    dtype=np.uint64,
)
