"""VARCHAR, TEXT and BLOB with the attribute COMPRESSED, of MariaDB.

After the length of a value there is nothing, if it is empty, or a byte:

    0            the value itself
    8 | r | k    its size in k bytes, big-endian, and a zlib stream; a raw one where r is 1

A declared size is refused if the column does not hold that much, or if zlib cannot produce it: no
stream decompresses to more than `GROWTH_MAX` bytes for each of its own.

Source: mariadb sql/field_comp.cc, compress_zlib and uncompress_zlib.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import OFFSET_MAX, Bytes, Values

GROWTH_MAX = 1032
"""DEFLATE encodes at most 258 bytes in two bits."""

_PLAIN = 0
_ZLIB = 8
_RAW = 8
_SIZE_MASK = 7


def gather(values: Values, *, bytes_max: int) -> Bytes:
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
        FormatError: It is not compressed as above, or does not have the size that it declares.
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
        found = plain.decompress(stream, size + 1)
    except zlib.error as error:
        raise FormatError("a compressed value is damaged", cause=str(error)) from error
    if len(found) != size or not plain.eof:
        raise FormatError("a compressed value does not have the size that it declares", size=size)
    return found
