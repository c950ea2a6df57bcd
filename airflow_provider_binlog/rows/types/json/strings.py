"""Strings and keys of JSON documents, escaped where they must be.

The text of a key holds what may come before and after it:

    ", "name": "     a quote is left off where no string comes before it, or none after

Most objects of a column have the same keys. So one object is looked into, and all that have the
same bytes in their headers and keys get its texts; then another one, as long as that pays. The keys
of the others are distinguished by Arrow.

Source: mysql-server, sql-common/json_dom.cc, double_quote; sql-common/json_binary.cc,
serialize_json_object.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.binlog.json.scalars import quote
from airflow_provider_binlog.blocks.arrays import (
    numbers_of,
    of_flags,
    of_numbers,
    of_octets,
    unaligned_view,
)
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    WORD_MASK,
    Array,
    Bytes,
    Memory,
    Values,
    gather_bytes,
)

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.values import Int64Array

_EXTRA_BYTES = np.zeros(256, dtype=np.int64)
_EXTRA_BYTES[:0x20] = len("\\u0000") - 1
_EXTRA_BYTES[[*b'\b\t\n\f\r"\\']] = len("\\n") - 1

_PIECE = 64 * 1024
"""Bytes searched together: what fits into the processor's cache."""
_BITS = 56
"""Bits that a word of 64 holds wherever in its first byte they begin."""
_BITS_MASK = (np.uint64(1) << np.arange(_BITS + 1, dtype=np.uint64)) - np.uint64(1)
_LONG = 8 * _BITS
"""Longer strings are searched one by one."""


def find_special(memory: Memory, offset: Int64Array, length: Int64Array) -> Int64Array:
    """Return which strings hold a quote, a backslash or a control character."""
    bits = _special_bits(memory.u1)
    words = unaligned_view(bits, "<u8")
    is_special = _some_bit(words, offset, length)
    longer = np.flatnonzero(length > _BITS)
    is_long = length.take(longer) > _LONG
    for number in longer[is_long].tolist():
        at = int(offset[number])
        is_special[number] = _special_bits(memory.u1[at : at + int(length[number])]).any()
    longer = longer[~is_long]
    done = _BITS
    while len(longer):
        left = length.take(longer) - done
        is_special[longer] |= _some_bit(words, offset.take(longer) + done, left)
        longer = longer[left > _BITS]
        done += _BITS
    return np.flatnonzero(is_special)


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
    is_set: npt.NDArray[np.bool_] = bits != 0
    return is_set


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
    joined = Bytes.of(strings)
    memory = Memory(joined.data, len(joined.data))
    bounds = joined.offsets.astype(np.int64)
    which = find_special(memory, bounds[:-1], bounds[1:] - bounds[:-1])
    if not len(which):
        return strings
    mask = np.zeros(len(strings), dtype=np.bool_)
    mask[which] = True
    changed = escape(Bytes.of(strings.take(of_numbers(which))))
    result: Array = pc.replace_with_mask(strings, of_flags(mask), changed.array(pa.binary(), None))
    return result


NEXT_ELEMENT, FIRST_ELEMENT = 0, 1
"""What stands before an element of an array is a text like that of a key."""

_ROUND_SHARE = 4
"""One object is looked into for others as long as one in so many is like it."""
_COMPARED_WORDS_MAX = 256
"""Objects whose headers and keys have more words of 8 bytes are not compared."""


@dataclass(frozen=True)
class Objects:
    """Objects with offsets of one width, none of them empty.

    Attributes:
        width: Bytes of an offset.
        base: Where each one begins.
        count: Its members.
        size: Its bytes, of which the header has as many as its members take.
    """

    width: int
    base: Int64Array
    count: Int64Array
    size: Int64Array

    def choose(self, which: Int64Array) -> Objects:
        """Return some of the objects."""
        return Objects(self.width, self.base[which], self.count[which], self.size[which])


class Keys:
    """The texts of keys by number.

    Attributes:
        texts: As many at a time as were found at a time.
    """

    def __init__(self) -> None:
        self.texts = [Bytes.of_values([b'", "', b'["'])]
        self._count = 2

    def number_texts(self, memory: Memory, objects: Objects) -> tuple[Int64Array, Int64Array]:
        """Return the number of each key's text, object by object, and per object its keys' bytes.

        Raises:
            FormatError: A key lies outside of its object.
        """
        first = np.cumsum(objects.count) - objects.count
        texts = np.empty(objects.count.sum(), dtype=np.int64)
        key_bytes = np.empty(len(objects.base), dtype=np.int64)
        waits = np.ones(len(objects.base), dtype=np.bool_)
        left = np.arange(len(objects.base))
        while len(left):
            begin, length = locate_keys(memory, objects.choose(left[:1]))
            alike = left[find_alike(memory, objects.choose(left), begin, length)]
            if not len(alike):
                break
            numbers = self._add_few(memory, begin, length)
            if len(alike) == len(objects.base):
                return np.tile(numbers, len(alike)), np.full(len(alike), length.sum())
            texts[first[alike][:, np.newaxis] + np.arange(len(numbers))] = numbers
            key_bytes[alike] = length.sum()
            waits[alike] = False
            pays = len(alike) * _ROUND_SHARE > len(left)
            left = np.flatnonzero(waits)
            if not pays:
                break
        if len(left):
            others = objects.choose(left)
            begin, length = locate_keys(memory, others)
            upto = np.cumsum(others.count) - others.count
            offset = np.repeat(first[left] - upto, others.count) + np.arange(len(begin))
            texts[offset] = self._add_many(memory, begin, length, upto)
            key_bytes[left] = np.add.reduceat(length, upto)
        return texts, key_bytes

    def _add_few(self, memory: Memory, begin: Int64Array, length: Int64Array) -> Int64Array:
        """Return the numbers of the texts of one object's keys."""
        data = memory.u1.data
        spans = zip(begin.tolist(), (begin + length).tolist(), strict=True)
        keys = [quote(data[at:end]) for at, end in spans]
        leads = [b"{", *[b'", '] * len(keys)]
        texts = [b'%b%b: "' % lead_and_key for lead_and_key in zip(leads, keys, strict=False)]
        self.texts.append(Bytes.of_values(texts))
        self._count += len(keys)
        return np.arange(self._count - len(keys), self._count)

    def _add_many(
        self, memory: Memory, begin: Int64Array, length: Int64Array, first: Int64Array
    ) -> Int64Array:
        """Return the numbers of the texts of keys, of which `first` are the first of an object."""
        all_keys = gather_bytes(Values(memory, begin, length, None)).array(pa.binary(), None)
        distinct = all_keys.dictionary_encode()
        keys = escaped(distinct.dictionary)
        for before in (b'{"', b'", "'):
            pieces: list[Any] = list(of_octets([before, b'": "', b""]))
            pieces.insert(1, keys)
            self.texts.append(Bytes.of(pc.binary_join_element_wise(*pieces)))
        numbers: Int64Array = numbers_of(distinct.indices).astype(np.int64)
        numbers += self._count + len(keys)
        numbers[first] -= len(keys)
        self._count += 2 * len(keys)
        return numbers


def find_alike(
    memory: Memory, objects: Objects, begin: Int64Array, length: Int64Array
) -> npt.NDArray[np.bool_]:
    """Return which objects have the same keys as the first, whose keys are here."""
    width, count, base = objects.width, int(objects.count[0]), int(objects.base[0])
    low, high = int(begin.min()) - base, int((begin + length).max()) - base
    header = range(2 * width, 2 * width + count * (width + 2), 8)
    keys = range(low, high, 8)
    if len(header) + len(keys) > _COMPARED_WORDS_MAX:
        return np.zeros(len(objects.base), dtype=np.bool_)
    words = np.array([*header, *keys])
    left = np.array([*(header.stop - at for at in header), *(high - at for at in keys)])
    comparable = (objects.count == count) & (objects.size >= high)
    # Where an object is too small, its own beginning is read instead.
    offsets = (objects.base * comparable)[np.newaxis, :] + words[:, np.newaxis]
    differences = memory.u8[offsets]
    differences ^= memory.u8[base + words][:, np.newaxis]
    differences &= WORD_MASK[np.minimum(left, 8)][:, np.newaxis]
    same: npt.NDArray[np.bool_] = np.bitwise_or.reduce(differences, axis=0) == 0
    same &= comparable
    return same


def locate_keys(memory: Memory, objects: Objects) -> tuple[Int64Array, Int64Array]:
    """Return where all keys begin, and their lengths.

    Raises:
        FormatError: One lies outside of its object.
    """
    width, count = objects.width, objects.count
    upto = np.cumsum(count)
    entry = np.repeat(objects.base + 2 * width - (upto - count) * (width + 2), count)
    entry += np.arange(upto[-1]) * (width + 2)
    offset = (memory.u2 if width == 2 else memory.u4)[entry].astype(np.int64)
    length = memory.u2[entry + width].astype(np.int64)
    if (offset + length > np.repeat(objects.size, count)).any():
        raise FormatError("a key lies outside of its JSON object")
    return np.repeat(objects.base, count) + offset, length
