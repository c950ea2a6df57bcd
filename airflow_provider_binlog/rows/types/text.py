"""CHAR, VARCHAR and TEXT in any character set, to UTF-8.

UTF-8 is checked and kept; a single-byte character set is one look-up per byte; the
others are decoded a column at a time, joined by a control character that no value holds.
Invalid byte sequences are an error, or replaced by U+FFFD: see `Policies.invalid_text`.

Source: mysql-server strings/ctype-*.cc; sql/field.cc, Field_string, Field_varstring, Field_blob.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.binlog.charsets import decode_text, single_byte_table
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

# What one character takes: of the others it is one byte, or a first byte and others above 0x20.
_UNIT = {"ucs2": ">u2", "utf16": ">u2", "utf16le": "<u2", "utf32": ">u4"}
_SEPARATORS = 0x20

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
    table = _table(charset)
    if table is not None:
        return text if table.extends_ascii and text.is_ascii else table.to_utf8(text)
    return _joined_to_utf8(text, charset)


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


@dataclass(frozen=True)
class SingleByteTable:
    """A single-byte character set.

    Attributes:
        units: uint8[256, 3]; each byte's character in UTF-8.
        sizes: int64[256]; how many bytes of it count, 0 for a byte without a character.
        extends_ascii: Whether the lower half is ASCII.
    """

    units: npt.NDArray[np.uint8]
    sizes: npt.NDArray[np.int64]
    extends_ascii: bool

    def to_utf8(self, text: Bytes) -> Bytes:
        """Return the values in UTF-8."""
        sizes = self.sizes.take(text.data)
        if not sizes.all():
            raise FormatError("text has a byte without a character in its character set")
        bounds = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=bounds[1:])
        if bounds[-1] > OFFSET_MAX:
            raise pa.ArrowCapacityError("text is too large in UTF-8")
        data = np.empty(bounds[-1], dtype=np.uint8)
        for number in range(3):
            chosen = np.flatnonzero(sizes > number)
            data[bounds[chosen] + number] = self.units[text.data[chosen], number]
        return Bytes(bounds.take(text.offsets).astype(np.int32), data)


@cache
def _table(charset: str) -> SingleByteTable | None:
    characters = single_byte_table(charset)
    if characters is None:
        return None
    encoded = [character.encode() for character in characters]
    units = np.frombuffer(b"".join(each.ljust(3, b"\0") for each in encoded), dtype=np.uint8)
    sizes = np.array([len(each) for each in encoded], dtype=np.int64)
    extends_ascii = characters[:128] == [chr(code) for code in range(128)]
    return SingleByteTable(units.reshape(256, 3), sizes, extends_ascii)


def _joined_to_utf8(text: Bytes, charset: str) -> Bytes:
    """Decode all values in one call, joined by a character that none of them holds."""
    unit = np.dtype(_UNIT.get(charset, "u1"))
    data, offsets = text.data, text.offsets
    if (offsets % unit.itemsize).any():
        raise FormatError("text ends inside a character", charset=charset)
    units = data.view(unit)
    used = np.bincount(units[units < _SEPARATORS].astype(np.int64), minlength=_SEPARATORS)
    free = np.flatnonzero(used == 0)
    if not len(free):
        return _each_to_utf8(text, charset)
    count = len(offsets) - 1
    joined = np.full(len(units) + count, free[0], dtype=unit)
    separators = offsets[1:] // unit.itemsize + np.arange(count)
    kept = np.ones(len(joined), dtype=np.bool_)
    kept[separators] = False
    joined[kept] = units
    encoded = np.frombuffer(_decode(joined.tobytes(), charset), dtype=np.uint8)
    ends = np.flatnonzero(encoded == free[0])
    if len(ends) != count:
        raise FormatError("text ends inside a character", charset=charset)
    bounds = np.zeros(count + 1, dtype=np.int64)
    bounds[1:] = ends - np.arange(count)
    if bounds[-1] > OFFSET_MAX:
        raise pa.ArrowCapacityError("text is too large in UTF-8")
    return Bytes(bounds.astype(np.int32), encoded[encoded != free[0]])


def _each_to_utf8(text: Bytes, charset: str) -> Bytes:
    """Decode value by value: for columns in which every control character occurs."""
    values: list[Any] = text.array(pa.binary(), None).to_pylist()
    return Bytes.of_values([_decode(value, charset) for value in values])


def _decode(value: bytes, charset: str) -> bytes:
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
