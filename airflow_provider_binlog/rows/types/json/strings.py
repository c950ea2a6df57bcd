"""Strings of JSON documents, escaped where they must be.

Source: mysql-server, sql-common/json_dom.cc, double_quote.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.blocks.arrays import of_flags, of_numbers, unaligned_view
from airflow_provider_binlog.rows.memory import Memory
from airflow_provider_binlog.rows.values import Array, Bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.rows.memory import Int64Array

_EXTRA_BYTES = np.zeros(256, dtype=np.int64)
_EXTRA_BYTES[:0x20] = len("\\u0000") - 1
_EXTRA_BYTES[[*b'\b\t\n\f\r"\\']] = len("\\n") - 1

_PIECE = 64 * 1024
"""Bytes that are looked at together, in the processor's cache."""
_BITS = 56
"""Bits that a word of 64 holds wherever in its first byte they begin."""
_BITS_MASK = (np.uint64(1) << np.arange(_BITS + 1, dtype=np.uint64)) - np.uint64(1)
_LONG = 8 * _BITS
"""Longer strings are looked at one by one."""


def find_special(memory: Memory, offset: Int64Array, length: Int64Array) -> Int64Array:
    """Return which strings hold a quote, a backslash or a control character."""
    bits = _special_bits(memory.u1)
    words = unaligned_view(bits, "<u8")
    found = _some_bit(words, offset, length)
    longer = np.flatnonzero(length > _BITS)
    is_long = length.take(longer) > _LONG
    for number in longer[is_long].tolist():
        at = int(offset[number])
        found[number] = _special_bits(memory.u1[at : at + int(length[number])]).any()
    longer = longer[~is_long]
    done = _BITS
    while len(longer):
        left = length.take(longer) - done
        found[longer] |= _some_bit(words, offset.take(longer) + done, left)
        longer = longer[left > _BITS]
        done += _BITS
    return np.flatnonzero(found)


def _special_bits(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a bit per byte, the first the lowest, and 8 bytes of none."""
    bits = np.zeros((len(data) + 7) // 8 + 8, dtype=np.uint8)
    for first in range(0, len(data), _PIECE):
        piece = data[first : first + _PIECE]
        special = piece < 0x20
        special |= piece == ord('"')
        special |= piece == ord("\\")
        packed = np.packbits(special, bitorder="little")
        bits[first // 8 : first // 8 + len(packed)] = packed
    return bits


def _some_bit(
    words: npt.NDArray[np.uint64], offset: Int64Array, length: Int64Array
) -> npt.NDArray[np.bool_]:
    """Return where one of the first 56 bits is set, of the `length` that count."""
    bits = words[offset >> 3]
    bits >>= (offset & 7).view(np.uint64)
    bits &= _BITS_MASK.take(length, mode="clip")
    found: npt.NDArray[np.bool_] = bits != 0
    return found


def escape(strings: Bytes) -> Bytes:
    """Return strings with each such character written as a backslash and what follows it."""
    # All that is escaped is ASCII: as Latin-1 every byte is a character, and one call is enough.
    text = encode_basestring(str(strings.data.data, "latin-1"))[1:-1].encode("latin-1")
    extra = np.zeros(len(strings.data) + 1, dtype=np.int64)
    np.cumsum(_EXTRA_BYTES[strings.data], out=extra[1:])
    offsets = (strings.offsets + extra[strings.offsets]).astype(np.int32)
    return Bytes(offsets, np.frombuffer(text, dtype=np.uint8))


def escaped(strings: Array) -> Array:
    """Return strings, escaped where they must be."""
    found = Bytes.of(strings)
    memory = Memory(found.data, len(found.data))
    bounds = found.offsets.astype(np.int64)
    which = find_special(memory, bounds[:-1], bounds[1:] - bounds[:-1])
    if not len(which):
        return strings
    mask = np.zeros(len(strings), dtype=np.bool_)
    mask[which] = True
    changed = escape(Bytes.of(strings.take(of_numbers(which))))
    result: Array = pc.replace_with_mask(strings, of_flags(mask), changed.array(pa.binary(), None))
    return result
