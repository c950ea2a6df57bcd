"""CHAR, VARCHAR and TEXT in any character set, to UTF-8.

UTF-8 is checked and kept, ASCII too. The others are decoded a column at a time by Python's codec.
Where characters have one size, their size in UTF-8 comes from a table; values of the other sets
are joined by a control character that none of them holds.
Invalid byte sequences are an error, or replaced by U+FFFD: see `Policies.invalid_text`.

Source: mysql-server strings/ctype-*.cc; sql/field.cc, Field_string, Field_varstring, Field_blob.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.binlog.charsets import MULTI_BYTE, decode_text, single_byte_table
from airflow_provider_binlog.blocks.arrays import gather, of_numbers, of_octets
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    OFFSET_MAX,
    Array,
    Bytes,
    Gather,
    Plan,
    Values,
    gather_bytes,
)

UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})

STRING_OR_BINARY = pa.dense_union([pa.field("text", pa.string()), pa.field("bytes", pa.binary())])
"""What a column holds of which the log does not say whether it is text: each value is a string if
it is UTF-8, else bytes."""

_UNITS = {"ucs2": ">u2", "utf16": ">u2", "utf16le": "<u2", "utf32": ">u4"}
_SURROGATE_BYTES = 2

# In a set of several bytes a character, no longer character has a byte below.
_SEPARATORS = 0x20

# Of one value, which may be large, it is not computed where each character begins.
_OFFSETS_OF_ONE = 2

# Where some value is invalid, this many values are checked together before each by itself.
_CHECKED_TOGETHER = 128


def plan(
    prefix: int,
    charset: str,
    gather: Gather = gather_bytes,
    growth: int = 1,
    *,
    replaces: bool = False,
) -> Plan:
    """Return how to read text in this character set, with lengths of `prefix` bytes.

    If it `replaces`, U+FFFD stands for every ill-formed sequence.
    """
    convert = partial(_text, charset=charset, gather=gather)
    repair = partial(_replaced, charset=charset, gather=gather) if replaces else None
    return Plan(pa.string(), convert, prefix=prefix, repair=repair, growth=growth)


def unknown_plan(prefix: int) -> Plan:
    """Return how to read what may be text or not, for want of a collation in the log."""
    return Plan(STRING_OR_BINARY, _text_or_bytes, prefix=prefix)


def _text(values: Values, *, charset: str, gather: Gather) -> Array:
    return to_utf8(gather(values), charset).array(pa.string(), values.null)


def _replaced(values: Values, *, charset: str, gather: Gather) -> tuple[Array, int]:
    text, changed = replace_invalid(gather(values), charset)
    return text.array(pa.string(), values.null), int(np.count_nonzero(changed))


def replace_invalid(text: Bytes, charset: str) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    """Return the values in UTF-8, U+FFFD for what is ill-formed; and in which there was any."""
    count = len(text.offsets) - 1
    changed = np.zeros(count, dtype=np.bool_)
    pieces = []
    for first in range(0, count, _CHECKED_TOGETHER):
        last = min(first + _CHECKED_TOGETHER, count)
        piece = text.slice(first, last)
        try:
            pieces.append(to_utf8(piece, charset))
        except FormatError:
            converted, changed[first:last] = _replace_in_each(piece, charset)
            pieces.append(converted)
    return Bytes.join(pieces), changed


def _replace_in_each(text: Bytes, charset: str) -> tuple[Bytes, list[bool]]:
    values: list[Any] = text.array(pa.binary(), None).to_pylist()
    encoded, changed = [], []
    for value in values:
        try:
            encoded.append(_decode(value, charset))
            changed.append(False)
        except FormatError:
            encoded.append(decode_text(value, charset, errors="replace").encode())
            changed.append(True)
    return Bytes.of_values(encoded), changed


def to_utf8(text: Bytes, charset: str) -> Bytes:
    """Return the values in UTF-8.

    Raises:
        FormatError: A value is not valid in its character set.
    """
    if charset in UTF8:
        return checked_utf8(text)
    if _extends_ascii(charset) and text.is_ascii:
        return text
    if len(text.offsets) == _OFFSETS_OF_ONE:
        begin, end = text.offsets.tolist()
        return Bytes.of_values([_decode(text.data[begin:end].data, charset)])
    if charset in MULTI_BYTE:
        return _joined_to_utf8(text, charset)
    return _units_to_utf8(text, charset)


def checked_utf8(text: Bytes) -> Bytes:
    """Return the values, which are UTF-8.

    Raises:
        FormatError: One is not.
    """
    if not text.is_ascii:
        try:
            text.array(pa.string(), None).validate(full=True)
        except pa.ArrowInvalid as error:
            raise FormatError("text is not UTF-8") from error
    return text


@cache
def _extends_ascii(charset: str) -> bool:
    if charset in MULTI_BYTE:
        return True
    characters = single_byte_table(charset)
    return characters is not None and characters[:128] == [chr(code) for code in range(128)]


def _units_to_utf8(text: Bytes, charset: str) -> Bytes:
    """Decode all values in one call, and find each by the bytes that its units take in UTF-8."""
    sizes, width = _sizes(text, charset)
    bounds = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if bounds[-1] > OFFSET_MAX:
        raise pa.ArrowCapacityError("text is too large in UTF-8")
    encoded = np.frombuffer(_decode(text.data.data, charset), dtype=np.uint8)
    return Bytes(bounds.take(text.offsets // width).astype(np.int32), encoded)


def _sizes(text: Bytes, charset: str) -> tuple[npt.NDArray[np.uint8], int]:
    """Return how many bytes of UTF-8 each unit of text becomes, and the bytes of a unit.

    Raises:
        FormatError: A value ends inside a character.
    """
    if charset not in _UNITS:
        return _single_byte_sizes(charset).take(text.data), 1
    unit = np.dtype(_UNITS[charset])
    if (text.offsets % unit.itemsize).any():
        raise FormatError("text ends inside a character", charset=charset)
    units = text.data.view(unit).astype(unit.newbyteorder("="))
    sizes = (units >= 0x80).astype(np.uint8)
    sizes += units >= 0x800
    sizes += 1
    if unit.itemsize == _SURROGATE_BYTES:
        # Two surrogates are one character of four bytes.
        sizes -= units & 0xF800 == 0xD800
        last = text.offsets[1:][text.offsets[1:] > text.offsets[:-1]] // unit.itemsize - 1
        if (units[last] & 0xFC00 == 0xD800).any():
            raise FormatError("text ends inside a character", charset=charset)
    else:
        sizes += units >= 0x10000
    return sizes, unit.itemsize


@cache
def _single_byte_sizes(charset: str) -> npt.NDArray[np.uint8]:
    characters = single_byte_table(charset) or ()
    return np.array([len(character.encode()) for character in characters], dtype=np.uint8)


def _joined_to_utf8(text: Bytes, charset: str) -> Bytes:
    """Decode all values in one call, joined by a control character that none of them holds."""
    free = next((code for code in range(_SEPARATORS) if not (text.data == code).any()), None)
    if free is None:
        return _each_to_utf8(text, charset)
    count = len(text.offsets) - 1
    separator: Any = of_octets([bytes([free])])[0]
    whole: Any = of_numbers(np.array([0, count], dtype=np.int32))
    values: Any = pa.ListArray.from_arrays(whole, text.array(pa.binary(), None))
    text_of_all: Any = pc.binary_join(values, separator)
    joined = Bytes.of(text_of_all)
    encoded = np.frombuffer(_decode(joined.data.data, charset), dtype=np.uint8)
    ends = np.append(np.flatnonzero(encoded == free), len(encoded))
    if len(ends) != count:
        raise FormatError("text ends inside a character", charset=charset)
    if len(encoded) > OFFSET_MAX:
        raise pa.ArrowCapacityError("text is too large in UTF-8")
    return Bytes.of(gather(encoded, np.append(0, ends[:-1] + 1), ends))


def _each_to_utf8(text: Bytes, charset: str) -> Bytes:
    """Decode value by value: for columns in which every control character occurs."""
    values: list[Any] = text.array(pa.binary(), None).to_pylist()
    return Bytes.of_values([_decode(value, charset) for value in values])


def _decode(value: bytes | memoryview, charset: str) -> bytes:
    try:
        return decode_text(value, charset).encode()
    except UnicodeError as error:
        raise FormatError("text is not valid in its character set", charset=charset) from error


def _text_or_bytes(values: Values) -> Array:
    data = gather_bytes(values)
    everything = data.array(pa.binary(), values.null)
    is_text = np.ones(len(values), dtype=np.bool_)
    try:
        checked_utf8(data)
    except FormatError:
        for row, value in enumerate(data.array(pa.binary(), None)):
            is_text[row] = _is_utf8(value.as_py())
    children = [
        everything.filter(pa.array(is_text)).cast(pa.string()),
        everything.filter(pa.array(~is_text)),
    ]
    child: Any = pa.array((~is_text).astype(np.int8))
    index: Any = pa.array(
        np.where(is_text, np.cumsum(is_text), np.cumsum(~is_text)).astype(np.int32) - 1,
        pa.int32(),
    )
    return pa.UnionArray.from_dense(child, index, children, ["text", "bytes"])


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
