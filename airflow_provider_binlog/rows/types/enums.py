"""ENUM and SET: the index of a value, or a bit per member, little-endian.

ENUM 0 is the empty string that MySQL stores for an invalid value; 1 is the first value. SET bit 0
is the first member; SELECT prints the members of a SET in their order, with commas.

Source: mysql-server sql/field.cc, Field_enum::val_str, Field_set::val_str.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.integers import read_unsigned
from airflow_provider_binlog.rows.values import Array, Convert, Plan, Values, array_of, validity

if TYPE_CHECKING:
    from collections.abc import Callable

_Count: TypeAlias = "Callable[[Values], int]"


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


def enum_plan(size: int, known: EnumValues) -> Plan:
    """Return how to read an ENUM of `size` bytes with these values."""
    _check_size(size, 2)
    empty = pa.array([b""], pa.binary()).cast(known.array.type)
    convert = partial(_enum, size=size, known=pa.concat_arrays([empty, known.array]))
    changed = [index + 1 for index in known.changed]
    return _plan(convert, known, size, partial(_number_changed, size=size, changed=changed))


def set_plan(size: int, known: EnumValues) -> Plan:
    """Return how to read a SET of `size` bytes with these members."""
    _check_size(size, 8)
    changed = np.uint64(sum(1 << index for index in known.changed))
    convert = partial(_set, size=size, known=known.array, comma=known.comma)
    return _plan(convert, known, size, partial(_mask_changed, size=size, changed=changed))


def _plan(convert: Convert, known: EnumValues, size: int, count_changed: _Count) -> Plan:
    data_type = known.array.type
    if not known.changed:
        return Plan(data_type, convert, size=size)
    return Plan(
        data_type,
        partial(_refuse, convert=convert, count_changed=count_changed),
        size=size,
        repair=partial(_count, convert=convert, count_changed=count_changed),
    )


def _refuse(values: Values, *, convert: Convert, count_changed: _Count) -> Array:
    if count_changed(values):
        raise FormatError("an ENUM or SET value is not valid in its character set")
    return convert(values)


def _count(values: Values, *, convert: Convert, count_changed: _Count) -> tuple[Array, int]:
    return convert(values), count_changed(values)


def _number_changed(values: Values, *, size: int, changed: list[int]) -> int:
    return _count_shown(np.isin(read_unsigned(values, size), changed), values)


def _mask_changed(values: Values, *, size: int, changed: np.uint64) -> int:
    return _count_shown(read_unsigned(values, size) & changed != 0, values)


def _count_shown(shown: npt.NDArray[np.bool_], values: Values) -> int:
    if values.null is not None:
        shown &= ~values.null
    return int(np.count_nonzero(shown))


def number_plan(size: int) -> Plan:
    """Return how to read an ENUM or SET whose values are not in the log: as its number."""
    _check_size(size, 8)
    return Plan(pa.uint64(), partial(_number, size=size), size=size)


def _check_size(size: int, size_max: int) -> None:
    if not 1 <= size <= size_max:
        raise FormatError("not the size of an ENUM or SET", size=size)


def _number(values: Values, *, size: int) -> Array:
    return array_of(pa.uint64(), read_unsigned(values, size), values.null)


def _enum(values: Values, *, size: int, known: Array) -> Array:
    indexes = read_unsigned(values, size)
    if values.null is not None:
        indexes[values.null] = 0
    if len(indexes) and int(indexes.max()) >= len(known):
        raise FormatError("an ENUM has no such value", index=int(indexes.max()))
    return _with_nulls(known.take(indexes), values)


def _set(values: Values, *, size: int, known: Array, comma: bytes) -> Array:
    masks = read_unsigned(values, size)
    if values.null is not None:
        masks[values.null] = 0
    if len(masks) and int(np.bitwise_or.reduce(masks)) >> len(known):
        raise FormatError("a SET has no such member", bits=hex(int(np.bitwise_or.reduce(masks))))
    distinct, inverse = np.unique(masks, return_inverse=True)
    return _with_nulls(_print_sets(distinct, known, comma).take(inverse.reshape(-1)), values)


def _print_sets(masks: npt.NDArray[np.uint64], known: Array, comma: bytes) -> Array:
    """Return the members in each mask, with commas between them."""
    nothing = pa.scalar(b"", pa.binary())
    joined = pa.array([b""] * len(masks), pa.binary())
    for bit, each in enumerate(known.cast(pa.binary())):
        member: bytes = each.as_py()
        present = pa.array((masks >> np.uint64(bit) & np.uint64(1)).astype(np.bool_))
        is_first = pa.array((masks & np.uint64((1 << bit) - 1)) == 0)
        text = pc.if_else(
            is_first, pa.scalar(member, pa.binary()), pa.scalar(comma + member, pa.binary())
        )
        joined = pc.binary_join_element_wise(joined, pc.if_else(present, text, nothing), nothing)
    return joined.cast(known.type)


def _with_nulls(array: Array, values: Values) -> Array:
    """Return the array with NULL where the log has it."""
    if values.null is None:
        return array
    _, offsets, data = array.buffers()
    return pa.Array.from_buffers(array.type, len(array), [validity(values.null), offsets, data])
