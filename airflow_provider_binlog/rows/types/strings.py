"""String types: text in any character set, to UTF-8, and what is stored as bytes.

UTF-8 is checked and kept, ASCII too. Other text is decoded a column at a time by Python's codec,
the values joined by a control character that none of them holds. Invalid byte sequences are an
error, or replaced by U+FFFD: see `Policies.invalid_text`. BINARY(n) is stored without trailing
zeros. A VECTOR is little-endian floats end to end, as many as the value has. INET4, INET6 and UUID
of MariaDB are BINARY in the log, the highest byte first.

Source: mysql-server strings/ctype-*.cc; sql/field.cc, Field_string, Field_varstring, Field_blob;
sql/field.h, Field_vector; mariadb sql/sql_type_vector.cc; plugin/type_inet/sql_type_inet.cc,
Inet4::to_string and Inet6::to_string; plugin/type_uuid/sql_type_uuid.h.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache, partial
from socket import inet_ntoa
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
    array_of,
    buffer_of,
    gather_bytes,
    validity,
)

UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})

_UNITS = {"ucs2": ">u2", "utf16": ">u2", "utf16le": "<u2", "utf32": ">u4"}

# In a set of several bytes a character, no longer character has a byte below.
_SEPARATORS = 0x20

# Of one value, which may be large, it is not computed where each character begins.
_OFFSETS_OF_ONE = 2

# Where some value is invalid, this many values are checked together before each by itself.
_CHECKED_TOGETHER = 128


def text_plan(
    prefix: int,
    charset: str,
    gather: Gather = gather_bytes,
    growth: int = 1,
    *,
    replaces: bool = False,
) -> Plan:
    """Return how to read text; if it `replaces`, U+FFFD stands for every ill-formed sequence."""
    convert = partial(_text, charset=charset, gather=gather)
    repair = partial(_replaced, charset=charset, gather=gather) if replaces else None
    return Plan(pa.string(), convert, prefix=prefix, repair=repair, growth=growth)


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
    if text.is_ascii and (_extends_ascii(charset) or not len(text.data)):
        return text
    if len(text.offsets) == _OFFSETS_OF_ONE:
        begin, end = text.offsets.tolist()
        return Bytes.of_values([_decode(text.data[begin:end].data, charset)])
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


@cache
def _extends_ascii(charset: str) -> bool:
    if charset in MULTI_BYTE:
        return True
    characters = single_byte_table(charset)
    return characters is not None and characters[:128] == [chr(code) for code in range(128)]


def _joined_to_utf8(text: Bytes, charset: str) -> Bytes:
    """Decode all values in one call, joined by a control character that none of them holds."""
    unit = np.dtype(_UNITS.get(charset, "u1"))
    if (text.offsets % unit.itemsize).any():
        raise FormatError("text ends inside a character", charset=charset)
    units = text.data.view(unit)
    free = next((code for code in range(_SEPARATORS) if not (units == code).any()), None)
    if free is None:
        return _each_to_utf8(text, charset)
    count = len(text.offsets) - 1
    separator: Any = of_octets([np.array([free], unit).tobytes()])[0]
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


def bytes_plan(prefix: int, gather: Gather = gather_bytes, growth: int = 1) -> Plan:
    """Return how to read VARBINARY, BLOB or GEOMETRY with lengths of `prefix` bytes."""
    return Plan(pa.binary(), partial(_bytes, gather=gather), prefix=prefix, growth=growth)


def binary_plan(prefix: int, width: int) -> Plan:
    """Return how to read BINARY(`width`)."""
    return Plan(pa.binary(), partial(_padded, width=width), prefix=prefix)


def _bytes(values: Values, *, gather: Gather) -> Array:
    return gather(values).array(pa.binary(), values.null)


def _padded(values: Values, *, width: int) -> Array:
    return Bytes.of_rows(padded(values, width)).array(pa.binary(), values.null)


def padded(values: Values, width: int) -> npt.NDArray[np.uint8]:
    """Return values of at most `width` bytes, zeros after them: uint8[values, width].

    Raises:
        FormatError: A value is longer.
    """
    longest = int(values.lengths.max(initial=0))
    if longest > width:
        raise FormatError("a value is longer than its column", bytes=longest, column_bytes=width)
    word_count = (width + 7) // 8
    words = np.empty((len(values), word_count), dtype=np.uint64)
    for number in range(word_count):
        words[:, number] = values.memory.word(values.offset, values.lengths, number)
    return words.view(np.uint8).reshape(len(values), 8 * word_count)[:, :width]


VECTOR = pa.list_(pa.float32())
FLOAT_BYTES = 4


def vectors(values: Values) -> Array:
    """Read VECTORs: lists of float32."""
    gathered = gather_bytes(values)
    if (gathered.offsets % FLOAT_BYTES).any():
        raise FormatError("a VECTOR ends inside a number")
    count = len(gathered.data) // FLOAT_BYTES
    floats = array_of(pa.float32(), gathered.data[: count * FLOAT_BYTES], None)
    offsets = gathered.offsets // np.int32(FLOAT_BYTES)
    return pa.ListArray.from_buffers(
        VECTOR,
        len(values),
        [validity(values.null), buffer_of(offsets)],
        children=[floats],
    )


INET4_BYTES = 4
INET6_BYTES = 16
UUID_BYTES = 16

_DASHES = (4, 6, 8, 10)
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint8)


def uuids(values: Values) -> Array:
    """Read UUIDs: `123e4567-e89b-12d3-a456-426655440000`."""
    count = len(values)
    digits = _HEX.reshape(256, 2).take(padded(values, UUID_BYTES), axis=0)
    text = np.full((count, 2 * UUID_BYTES + len(_DASHES)), ord("-"), dtype=np.uint8)
    for number, (first, last) in enumerate(zip((0, *_DASHES), (*_DASHES, UUID_BYTES), strict=True)):
        text[:, 2 * first + number : 2 * last + number] = digits[:, first:last].reshape(
            count, 2 * (last - first)
        )
    return Bytes.of_rows(text).array(pa.string(), values.null)


def inet4s(values: Values) -> Array:
    """Read INET4s: `192.0.2.1`."""
    return _each(values, INET4_BYTES, inet_ntoa)


def inet6s(values: Values) -> Array:
    """Read INET6s: `2001:db8::7`."""
    return _each(values, INET6_BYTES, _inet6)


def _each(values: Values, size: int, show: Callable[[bytes], str]) -> Array:
    octets = padded(values, size).tobytes()
    texts = [show(octets[at : at + size]).encode() for at in range(0, len(octets), size)]
    return Bytes.of_values(texts).array(pa.string(), values.null)


def _inet6(octets: bytes) -> str:
    groups = struct.unpack(">8H", octets)
    texts = [f"{group:x}" for group in groups]
    is_zero = bytes(not group for group in groups)
    size = next(count for count in range(len(groups), -1, -1) if bytes([1]) * count in is_zero)
    begin = is_zero.index(bytes([1]) * size)
    if not begin and (size == 6 or (size == 5 and groups[5] == 0xFFFF)):
        texts[6:] = [inet_ntoa(octets[12:])]
    if not size:
        return ":".join(texts)
    return f"{':'.join(texts[:begin])}::{':'.join(texts[begin + size :])}"


# A VARCHAR, TEXT or BLOB with the attribute COMPRESSED of MariaDB has nothing after its length, if
# it is empty, or a byte:
#     0            the value itself
#     8 | r | k    its size in k bytes, big-endian, and a zlib stream; a raw one where r is 1
# Source: mariadb sql/field_comp.cc, compress_zlib and uncompress_zlib.
GROWTH_MAX = 1032
"""DEFLATE encodes at most 258 bytes in two bits."""

_PLAIN = 0
_ZLIB = 8
_RAW = 8
_SIZE_MASK = 7


def gather_compressed(values: Values, *, bytes_max: int) -> Bytes:
    """Return the bytes of values of at most `bytes_max` bytes end to end, not compressed."""
    data = values.memory.u1.data
    plain, left = [], OFFSET_MAX
    for offset, length in zip(values.offset.tolist(), values.lengths.tolist(), strict=True):
        plain.append(decompress(data[offset : offset + length], bytes_max))
        left -= len(plain[-1])
        if left < 0:
            raise pa.ArrowCapacityError("values are too large for one array")
    return Bytes.of_values(plain)


def decompress(value: memoryview, bytes_max: int) -> bytes:
    """Return a value of at most `bytes_max` bytes.

    Raises:
        FormatError: The value is not compressed as above, or does not have its declared size.
    """
    if not value:
        return b""
    header = value[0]
    if header == _PLAIN:
        return bytes(value[1:])
    size_end = 1 + (header & _SIZE_MASK)
    if header >> 4 != _ZLIB or size_end == 1 or len(value) < size_end:
        raise FormatError("not a compressed value", header=hex(header))
    size = int.from_bytes(value[1:size_end], "big")
    stream = value[size_end:]
    if size > min(bytes_max, GROWTH_MAX * len(stream)):
        raise FormatError(
            "a compressed value declares a size that it cannot have", size=size, max=bytes_max
        )
    try:
        plain = zlib.decompressobj(-zlib.MAX_WBITS if header & _RAW else zlib.MAX_WBITS)
        content = plain.decompress(stream, size + 1)
    except zlib.error as error:
        raise FormatError("a compressed value is damaged", cause=str(error)) from error
    if len(content) != size or not plain.eof:
        raise FormatError("a compressed value does not have the size that it declares", size=size)
    return content
