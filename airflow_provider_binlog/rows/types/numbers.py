"""Numbers of fixed width: integers, YEAR, BIT, FLOAT and DOUBLE; ENUM and SET, stored as numbers.

Integers are little-endian, two's complement where signed; BIT(n) is big-endian, in as many whole
bytes as it needs; FLOAT and DOUBLE are IEEE 754, little-endian.

ENUM 0 is the empty string that MySQL stores for an invalid value; 1 is the first value. SET bit 0
is the first member; SELECT prints the members of a SET in their order, with commas.

Source: mysql-server sql/field.cc, Field_tiny::pack ... Field_longlong::pack, Field_year,
Field_bit_as_char, Field_float::pack, Field_double::pack, Field_enum::val_str, Field_set::val_str;
the flag BIT_LEN_EXACT of TABLE_MAP.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.blocks.arrays import of_flags, of_numbers, of_octets
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Plan,
    Repair,
    Values,
    array_of,
    buffer_of,
    validity,
    with_nulls,
)

if TYPE_CHECKING:
    from collections.abc import Callable

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


def year_plan() -> Plan:
    """Return how to read YEAR: int32, the year 0000 as 0."""
    return Plan(pa.int32(), _year, size=1)


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


def float_plan() -> Plan:
    """Return how to read FLOAT: float32."""
    return Plan(pa.float32(), _float, size=4)


def double_plan() -> Plan:
    """Return how to read DOUBLE: float64."""
    return Plan(pa.float64(), _double, size=8)


def _float(values: Values) -> Array:
    return array_of(pa.float32(), values.read("<u4"), values.null)


def _double(values: Values) -> Array:
    return array_of(pa.float64(), values.read("<u8"), values.null)


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
    read = partial(_read, size=size, show=show, changed=changed if listed.changed else None)
    convert = partial(_refuse_changed, read=read)
    return Plan(listed.array.type, convert, size=size, repair=read if listed.changed else None)


def _read(
    values: Values, *, size: int, show: Callable[[_Numbers], Array], changed: _Test | None
) -> tuple[Array, int]:
    numbers = read_unsigned(values, size)
    if values.null is not None:
        numbers[values.null] = 0
    count = 0 if changed is None else int(np.count_nonzero(changed(numbers)))
    return with_nulls(show(numbers), values.null), count


def _refuse_changed(values: Values, *, read: Repair) -> Array:
    array, count = read(values)
    if count:
        raise FormatError("an ENUM or SET value is not valid in its character set")
    return array


def _enum(indexes: _Numbers, *, listed: Array) -> Array:
    if len(indexes) and int(indexes.max()) >= len(listed):
        raise FormatError("an ENUM has no such value", index=int(indexes.max()))
    return listed.take(of_numbers(indexes))


def _set(masks: _Numbers, *, listed: Array, comma: bytes) -> Array:
    if len(masks) and int(np.bitwise_or.reduce(masks)) >> len(listed):
        raise FormatError("a SET has no such member", bits=hex(int(np.bitwise_or.reduce(masks))))
    distinct, inverse = np.unique(masks, return_inverse=True)
    return _print_sets(distinct, listed, comma).take(of_numbers(inverse.reshape(-1)))


def _print_sets(masks: _Numbers, listed: Array, comma: bytes) -> Array:
    """Return the members in each mask, with commas between them."""
    nothing = of_octets([b""])[0]
    joined = of_octets([b""] * len(masks))
    for bit, scalar in enumerate(listed.cast(pa.binary())):
        member: bytes = scalar.as_py()
        present = of_flags((masks >> np.uint64(bit) & np.uint64(1)).astype(np.bool_))
        is_first = of_flags((masks & np.uint64((1 << bit) - 1)) == 0)
        text = pc.if_else(is_first, *of_octets([member, comma + member]))
        joined = pc.binary_join_element_wise(joined, pc.if_else(present, text, nothing), nothing)
    return joined.cast(listed.type)
