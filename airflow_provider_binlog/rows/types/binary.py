"""Types that are stored as bytes: BINARY, BLOB, GEOMETRY, VECTOR, INET4, INET6, UUID; COMPRESSED.

BINARY(n) is stored without trailing zeros. A VECTOR is floats end to end, IEEE 754, little-endian,
as many as the value has. INET4, INET6 and UUID of MariaDB are BINARY(4) and BINARY(16) in the log,
the highest byte first. An INET6 is printed without its first longest run of zero groups, even of
one group, and ends like an INET4 if it represents one:

    ::    ::1    2001:db8::7    1::3:4:5:6:7:8    ::ffff:192.0.2.1    ::192.0.2.1

A VARCHAR, TEXT or BLOB with the attribute COMPRESSED of MariaDB has nothing after its length, if it
is empty, or a byte:

    0            the value itself
    8 | r | k    its size in k bytes, big-endian, and a zlib stream; a raw one where r is 1

A declared size is refused if the column does not hold that much, or if zlib cannot produce it: no
stream decompresses to more than `GROWTH_MAX` bytes for each of its own.

Source: mysql-server sql/field.cc, Field_string::pack, Field_varstring::pack, Field_blob::pack;
sql/field.h, Field_vector; mariadb sql/sql_type_vector.cc; plugin/type_inet/sql_type_inet.cc,
Inet4::to_string and Inet6::to_string; plugin/type_uuid/sql_type_uuid.h; sql/field_comp.cc,
compress_zlib and uncompress_zlib.
"""

from __future__ import annotations

import zlib
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
    with_nulls,
)


def plan(prefix: int, gather: Gather = gather_bytes, growth: int = 1) -> Plan:
    """Return how to read VARBINARY, BLOB or GEOMETRY with lengths of `prefix` bytes."""
    return Plan(pa.binary(), partial(_exact, gather=gather), prefix=prefix, growth=growth)


def padded_plan(prefix: int, width: int) -> Plan:
    """Return how to read BINARY(`width`)."""
    return Plan(pa.binary(), partial(_padded, width=width), prefix=prefix)


def _exact(values: Values, *, gather: Gather) -> Array:
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

_GROUPS = 8
_GROUP_BITS = 16
_NO_GAP = (0, 0)
_DASHES = (4, 6, 8, 10)
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint8)
_MAPPED = 0xFFFF

_Groups = npt.NDArray[np.uint16]


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
    return with_nulls(_dotted(padded(values, INET4_BYTES)), values.null)


def inet6s(values: Values) -> Array:
    """Read INET6s: `2001:db8::7`."""
    octets = padded(values, INET6_BYTES)
    groups = np.ascontiguousarray(octets).view(">u2").astype(np.uint16)
    begin, size = _gaps(groups)
    mapped = (size == 5) & (groups[:, 5] == _MAPPED)
    as_inet4 = (begin == 0) & ((size == 6) | mapped)
    # Those with the same gap are joined together, and then put back into their order.
    form = (begin * (_GROUPS + 1) + size) * 2 + as_inet4
    order, texts = [], []
    for number in np.unique(form).tolist():
        chosen = np.flatnonzero(form == number)
        gap = divmod(number // 2, _GROUPS + 1)
        order.append(chosen)
        texts.append(_join(groups[chosen], octets[chosen] if number % 2 else None, gap))
    if not texts:
        return pa.array([], pa.string())
    order_of = np.empty(len(values), dtype=np.int64)
    order_of[np.concatenate(order)] = np.arange(len(values))
    joined: Array = pa.concat_arrays(texts)
    return with_nulls(joined.take(order_of), values.null)


def _gaps(groups: _Groups) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the first longest run of zeros begins, and its size: 0 where there is none."""
    count = len(groups)
    run, begin, size = (np.zeros(count, dtype=np.int64) for _ in range(3))
    for index in range(_GROUPS):
        run = (run + 1) * (groups[:, index] == 0)
        longer = run > size
        size = np.where(longer, run, size)
        begin = np.where(longer, index + 1 - run, begin)
    return begin, size


def _join(groups: _Groups, octets: npt.NDArray[np.uint8] | None, gap: tuple[int, int]) -> Array:
    """Return the text of addresses with this gap; `octets` where they end like an INET4."""
    begin, size = gap
    shown = [_group_texts().take(groups[:, index]) for index in range(_GROUPS)]
    if octets is not None:
        shown[6:] = [_dotted(octets[:, 12:])]
    if gap == _NO_GAP:
        return _joined(shown, ":")
    before, after = shown[:begin], shown[begin + size :]
    empty: Array = pa.nulls(len(groups), pa.string()).fill_null("")
    ends = [_joined(part, ":") if part else empty for part in (before, after)]
    return _joined(ends, "::")


def _joined(parts: list[Array], separator: str) -> Array:
    joined: Array = pc.binary_join_element_wise(*parts, separator)  # type: ignore[call-overload]
    return joined


def _dotted(octets: npt.NDArray[np.uint8]) -> Array:
    return _joined([_octet_texts().take(octets[:, index]) for index in range(INET4_BYTES)], ".")


@cache
def _octet_texts() -> Array:
    return pa.array([str(number) for number in range(256)])


@cache
def _group_texts() -> Array:
    return pa.array([f"{number:x}" for number in range(1 << _GROUP_BITS)])


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
