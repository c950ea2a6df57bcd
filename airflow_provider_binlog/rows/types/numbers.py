"""Numbers: integers, YEAR, BIT, FLOAT, DOUBLE and DECIMAL; ENUM and SET, stored as numbers.

Integers are little-endian, two's complement where signed; BIT(n) is big-endian, in as many whole
bytes as it needs; FLOAT and DOUBLE are IEEE 754, little-endian.

ENUM 0 is the empty string that MySQL stores for an invalid value; 1 is the first value. SET bit 0
is the first member; SELECT prints the members of a SET in their order, with commas.

Source: mysql-server sql/field.cc, Field_tiny::pack ... Field_longlong::pack, Field_year,
Field_bit_as_char, Field_float::pack, Field_double::pack, Field_enum::val_str, Field_set::val_str;
the flag BIT_LEN_EXACT of TABLE_MAP; strings/decimal.cc, bin2decimal and decimal2string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.binlog.column_types import DecimalGroup, decimal_groups
from airflow_provider_binlog.blocks.arrays import of_numbers, of_octets
from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Plan,
    Values,
    array_of,
    buffer_of,
    gather_bytes,
    to_offsets,
    validity,
    with_nulls,
)

YEAR_BASE = 1900
"""A stored year counts from here; 0 stands for the year 0000."""

UINT64 = pa.decimal128(20, 0)
"""BIGINT UNSIGNED: no lake type has unsigned 64-bit integers."""


def integer_plan(size: int, *, unsigned: bool) -> Plan:
    """Return how to read integers of `size` bytes: int32 or the next that holds them."""
    if size == 8 and unsigned:
        return Plan(UINT64, _uint64, size=size)
    data_type = pa.int64() if size == 8 or (size == 4 and unsigned) else pa.int32()
    convert = partial(_integers, size=size, unsigned=unsigned, data_type=data_type)
    return Plan(data_type, convert, size=size)


def read_unsigned(values: Values, size: int) -> npt.NDArray[np.uint64]:
    """Return little-endian numbers of `size` bytes, 1 to 8, as uint64."""
    if size == 1:
        return values.read("<u1").astype(np.uint64)
    words: npt.NDArray[np.uint64] = values.read("<u8")
    if size < 8:
        words &= np.uint64((1 << 8 * size) - 1)
    return words


def _integers(values: Values, *, size: int, unsigned: bool, data_type: pa.DataType) -> Array:
    kind = "u" if unsigned else "i"
    numbers: npt.NDArray[np.integer[Any]]
    if size == 3:
        # Shift the value's top byte to the word's top, and back, signed or unsigned.
        numbers = values.read(f"<{kind}4")
        numbers <<= 8
        numbers >>= 8
    else:
        numbers = values.read(f"<{kind}{size}")
    if numbers.itemsize < data_type.bit_width // 8:
        numbers = numbers.astype(np.int64 if data_type.bit_width == 64 else np.int32)
    return array_of(data_type, numbers, values.null)


def _uint64(values: Values) -> Array:
    halves = np.zeros((len(values), 2), dtype=np.uint64)
    halves[:, 0] = values.read("<u8")
    return array_of(UINT64, halves, values.null)


def _year(values: Values) -> Array:
    stored = values.read("<u1").astype(np.int32)
    return array_of(pa.int32(), stored + YEAR_BASE * (stored != 0).astype(np.int32), values.null)


YEAR = Plan(pa.int32(), _year, size=1)
FLOAT = Plan(pa.float32(), lambda v: array_of(pa.float32(), v.read("<u4"), v.null), size=4)
DOUBLE = Plan(pa.float64(), lambda v: array_of(pa.float64(), v.read("<u8"), v.null), size=8)


def bit_plan(width: int) -> Plan:
    """Return how to read BIT(`width`): a boolean for one bit, else the bytes SELECT returns."""
    size = (width + 7) // 8
    if width == 1:
        return Plan(pa.bool_(), _boolean, size=1)
    return Plan(pa.binary(), partial(_bits, size=size), size=size)


def _boolean(values: Values) -> Array:
    octets = np.packbits(values.read("<u1") & 1, bitorder="little")
    return pa.Array.from_buffers(
        pa.bool_(), len(values), [validity(values.null), buffer_of(octets)]
    )


def _bits(values: Values, *, size: int) -> Array:
    # The bytes as they are: they are big-endian in the log, as in what SELECT returns.
    words = values.read("<u8")
    data = words.view(np.uint8).reshape(-1, 8)[:, :size]
    return Bytes.of_rows(data).array(pa.binary(), values.null)


_Numbers = npt.NDArray[np.uint64]
_Test: TypeAlias = "Callable[[_Numbers], npt.NDArray[Any]]"
"""Is true, or no 0, of the numbers that show a value which is not as in the source."""


@dataclass(frozen=True)
class EnumValues:
    """The values of an ENUM, or the members of a SET, in the column's order.

    Attributes:
        array: Text or binary.
        changed: Indexes of those with invalid byte sequences.
        comma: The separator of the members of a SET.
    """

    array: Array
    changed: tuple[int, ...] = ()
    comma: bytes = b","


def enum_plan(size: int, listed: EnumValues) -> Plan:
    """Return how to read an ENUM of `size` bytes with these values."""
    _check_size(size, 2)
    empty = of_octets([b""]).cast(listed.array.type)
    show = partial(_enum, listed=pa.concat_arrays([empty, listed.array]))
    changed = [index + 1 for index in listed.changed]
    return _plan(listed, size, show, partial(np.isin, test_elements=changed))


def set_plan(size: int, listed: EnumValues) -> Plan:
    """Return how to read a SET of `size` bytes with these members."""
    _check_size(size, 8)
    changed = np.uint64(sum(1 << index for index in listed.changed))
    show = partial(_set, listed=listed.array, comma=listed.comma)
    return _plan(listed, size, show, partial(np.bitwise_and, changed))


def number_plan(size: int) -> Plan:
    """Return how to read an ENUM or SET whose values are not in the log: as its number."""
    _check_size(size, 8)
    return Plan(pa.uint64(), partial(_number, size=size), size=size)


def _check_size(size: int, size_max: int) -> None:
    if not 1 <= size <= size_max:
        raise FormatError("not the size of an ENUM or SET", size=size)


def _number(values: Values, *, size: int) -> Array:
    return array_of(pa.uint64(), read_unsigned(values, size), values.null)


def _plan(listed: EnumValues, size: int, show: Callable[[_Numbers], Array], changed: _Test) -> Plan:
    """Return how to read values that `show` turns into text."""

    def repair(values: Values) -> tuple[Array, int]:
        numbers = read_unsigned(values, size)
        if values.null is not None:
            numbers[values.null] = 0
        count = int(np.count_nonzero(changed(numbers))) if listed.changed else 0
        return with_nulls(show(numbers), values.null), count

    def convert(values: Values) -> Array:
        array, count = repair(values)
        if count:
            raise FormatError("an ENUM or SET value is not valid in its character set")
        return array

    return Plan(listed.array.type, convert, size=size, repair=repair if listed.changed else None)


def _enum(indexes: _Numbers, *, listed: Array) -> Array:
    if len(indexes) and int(indexes.max()) >= len(listed):
        raise FormatError("an ENUM has no such value", index=int(indexes.max()))
    return listed.take(of_numbers(indexes))


def _set(masks: _Numbers, *, listed: Array, comma: bytes) -> Array:
    if len(masks) and int(np.bitwise_or.reduce(masks)) >> len(listed):
        raise FormatError("a SET has no such member", bits=hex(int(np.bitwise_or.reduce(masks))))
    distinct, inverse = np.unique(masks, return_inverse=True)
    members: list[bytes] = [member.as_py() for member in listed.cast(pa.binary())]
    texts = [
        comma.join(member for bit, member in enumerate(members) if mask >> bit & 1)
        for mask in distinct.tolist()
    ]
    return of_octets(texts).cast(listed.type).take(of_numbers(inverse.reshape(-1)))


# Any 19 digits are less than 2**64, not all 20.
_WORD_BYTES, _WORD_DIGITS = 8, 19
_UNSIGNED = np.uint64((1 << 63) - 1)
_SIGN, _ONE = np.uint64(63), np.uint64(1)
_HALF, _HALF_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)

UInt64Array = npt.NDArray[np.uint64]


def decimal_plan(precision: int, scale: int) -> Plan:
    """Return how to read DECIMAL(`precision`, `scale`): decimal128, or text above 38 digits.

    Raises:
        FormatError: MySQL has no such type.
    """
    parts = decimal_groups(precision, scale)
    size = sum(part.size for part in parts)
    if precision > DECIMAL_DIGITS_MAX:
        return Plan(pa.string(), partial(_decimal_text, parts=parts, scale=scale), size=size)
    data_type = pa.decimal128(precision, scale)
    return Plan(data_type, partial(_decimals, parts=parts, data_type=data_type), size=size)


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
            # NULL is read as 0: of whatever bytes are there the sign would look negative.
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


def _read_groups(
    words: _Words, parts: tuple[DecimalGroup, ...]
) -> Iterator[tuple[DecimalGroup, UInt64Array, bool]]:
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


def _decimals(values: Values, *, parts: tuple[DecimalGroup, ...], data_type: pa.DataType) -> Array:
    """Read decimals into 128 bits: up to 19 digits are one word, more are two or three."""
    words = _Words(values)
    totals: list[tuple[int, UInt64Array]] = []
    for group, numbers, some in _read_groups(words, parts):
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
    flip, halves = words.flip, np.empty((len(values), 2), dtype=np.uint64)
    if flip is not None:
        # Two's complement of the negative ones: -x is (x ^ -1) - -1.
        low ^= flip
        low -= flip
    halves[:, 0] = low
    if high is None and digits < _WORD_DIGITS:
        # It has a bit for the sign, which the upper half repeats.
        np.right_shift(low.view(np.int64), 63, out=halves[:, 1].view(np.int64))
    elif flip is None:
        halves[:, 1] = 0 if high is None else high
    else:
        # To add 1 to the inverted lower half overflows where that is all ones: where -low is 0.
        carry = (low == 0) & (flip != 0)
        np.add(flip if high is None else high ^ flip, carry, out=halves[:, 1])
    return array_of(data_type, halves, values.null)


def _multiply_add(
    low: UInt64Array, high: UInt64Array | None, by: int, total: UInt64Array
) -> tuple[UInt64Array, UInt64Array]:
    """Return the halves of 128-bit numbers, multiplied by a word and added to."""
    by_low, by_high = np.uint64(by & 0xFFFFFFFF), np.uint64(by >> 32)
    right, left = low & _HALF_MASK, low >> _HALF
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


def _decimal_text(values: Values, *, parts: tuple[DecimalGroup, ...], scale: int) -> Array:
    """Read decimals into the text that SELECT prints: `-12.50`, `0.07`, `3`."""
    words = _Words(values)
    precision = sum(group.digits for group in parts)
    digits = np.empty((len(values), precision), dtype=np.uint8)
    column = 0
    for group, numbers, _ in _read_groups(words, parts):
        rest = numbers.astype(np.uint32)
        for index in range(column + group.digits - 1, column - 1, -1):
            rest, digits[:, index] = np.divmod(rest, np.uint32(10))
        column += group.digits
    negative = np.zeros(len(values), dtype=np.bool_) if words.flip is None else words.flip != 0
    return _print_decimals(digits, scale, negative, values.null)


def _print_decimals(
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


def read_decimal_text(values: Values, *, data_type: pa.DataType) -> Array:
    """Read the text of DECIMALs of a type."""
    try:
        return gather_bytes(values).array(pa.string(), values.null).cast(data_type)
    except pa.ArrowInvalid as error:
        raise FormatError("the text of a DECIMAL is no number of its type") from error
