"""DECIMAL: groups of decimal digits, big-endian, the sign in the top bit.

    | partial group | 9 digits in 4 bytes ... | . | 9 digits in 4 bytes ... | partial group |

The top bit of the first byte is 1 for values of 0 and above. A negative value has every bit
inverted, that one included.

Source: mysql-server strings/decimal.cc, bin2decimal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import Array, Bytes, Plan, Values, array_of, to_offsets

PRECISION_MAX = 65
SCALE_MAX = 30

_INT64_DIGITS = 18
_GROUP_DIGITS = 9
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_LIMB = np.uint64(32)
_LIMB_MASK = np.uint64(0xFFFFFFFF)

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
    read = _short if precision <= _INT64_DIGITS else _long
    return Plan(data_type, partial(read, parts=parts, data_type=data_type), size=size)


def _negative(values: Values) -> npt.NDArray[np.bool_]:
    return values.memory.u1.take(values.offset) < 0x80


def _read(values: Values, group: Group, flip: UInt64Array) -> UInt64Array:
    """Return one group of each value as a number; `flip` is all ones for a negative value.

    Raises:
        FormatError: A group holds more than its digits can say.
    """
    memory, bits = values.memory, 8 * group.size
    numbers = memory.u4[values.offset + group.offset].byteswap(inplace=True).astype(np.uint64)
    numbers >>= np.uint64(32 - bits)
    if not group.offset:
        numbers ^= np.uint64(1 << (bits - 1))
    numbers ^= flip & np.uint64((1 << bits) - 1)
    if values.null is not None:
        numbers[values.null] = 0
    if len(numbers) and int(numbers.max()) >= 10**group.digits:
        raise FormatError("not a DECIMAL: a group of digits is too large", digits=group.digits)
    return numbers


def _short(values: Values, *, parts: tuple[Group, ...], data_type: pa.DataType) -> Array:
    """Read decimals that fit in 64 bits."""
    flip = -_negative(values).astype(np.int64)
    total = np.zeros(len(values), dtype=np.int64)
    for number, group in enumerate(parts):
        digits = _read(values, group, flip.view(np.uint64)).view(np.int64)
        total = total * 10**group.digits + digits if number else digits
    total = (total ^ flip) - flip
    halves = np.empty((len(values), 2), dtype=np.int64)
    halves[:, 0] = total
    halves[:, 1] = total >> 63
    return array_of(data_type, halves, values.null)


def _long(values: Values, *, parts: tuple[Group, ...], data_type: pa.DataType) -> Array:
    """Read decimals into 128 bits: limbs of 32 bits, multiplied and added to as on paper."""
    negative = _negative(values)
    flip = (-negative.astype(np.int64)).view(np.uint64)
    limbs = [np.zeros(len(values), dtype=np.uint64) for _ in range(4)]
    for group in parts:
        carry = _read(values, group, flip)
        for number, limb in enumerate(limbs):
            carry += limb * np.uint64(10**group.digits)
            limbs[number] = carry & _LIMB_MASK
            carry >>= _LIMB
    low = (limbs[0] | limbs[1] << _LIMB) ^ flip
    high = (limbs[2] | limbs[3] << _LIMB) ^ flip
    low += negative
    high += negative & (low == 0)
    return array_of(data_type, np.stack([low, high], axis=1), values.null)


def _text(values: Values, *, parts: tuple[Group, ...], scale: int) -> Array:
    """Read decimals into the text that SELECT prints: `-12.50`, `0.07`, `3`."""
    negative = _negative(values)
    flip = (-negative.astype(np.int64)).view(np.uint64)
    precision = sum(group.digits for group in parts)
    digits = np.empty((len(values), precision), dtype=np.uint8)
    column = 0
    for group in parts:
        rest = _read(values, group, flip).astype(np.uint32)
        for index in range(column + group.digits - 1, column - 1, -1):
            rest, digits[:, index] = np.divmod(rest, np.uint32(10))
        column += group.digits
    return _print(digits, scale, negative, values.null)


def _print(
    digits: npt.NDArray[np.uint8],
    scale: int,
    negative: npt.NDArray[np.bool_],
    null: npt.NDArray[np.bool_] | None,
) -> Array:
    """Write sign, digits and point as a matrix, and keep of it what is no leading zero."""
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
