"""Find every value of many JSON documents at once, level by level.

The documents are the first level; the members and elements of all containers of a level are the
next one. So the number of steps is that of the levels, whatever the documents' structure is.

Source: mysql-server, sql-common/json_binary.h; json_binary.cc, Value::element; json_dom.cc,
double_quote.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.binlog.json.document import (
    CONTAINERS,
    DEPTH_MAX,
    FIXED_SIZES,
    INLINED,
    LARGE,
    OBJECTS,
    STRING_SIZE_BYTES_MAX,
    JsonType,
)
from airflow_provider_binlog.blocks.arrays import numbers_of, of_flags, of_numbers, of_octets
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Int64Array,
    Memory,
    Values,
    gather_bytes,
)

Types = npt.NDArray[np.uint8]

VALUES_MAX = 400_000
"""The most values read at a time: vectors take some 200 bytes for each."""

_TYPES = range(max(JsonType) + 1)
_UNKNOWN = sorted({*_TYPES} - {*JsonType})


def _sizes(width: int) -> Int64Array:
    """Return by type what a value takes outside of a slot of `width` bytes, if always that."""
    return np.array(
        [0 if code in INLINED[width] else FIXED_SIZES.get(code, 0) for code in range(256)]
    )


_SIZES = {width: _sizes(width) for width in (2, 4)}
_DOCUMENT_SIZES = np.array([FIXED_SIZES.get(code, 0) for code in range(256)])
_INLINED = {width: np.array([code in INLINED[width] for code in range(256)]) for width in (2, 4)}


@dataclass(frozen=True)
class Containers:
    """Containers of one type and level.

    Attributes:
        which: Their indexes in the level.
        children: Index of each one's first child in the next level, and the one after the last.
        count: How many children each one has.
        is_object: Whether they are objects.
        room: Bytes each one has for what its slots lead to.
    """

    which: Int64Array
    children: Int64Array
    count: Int64Array
    is_object: bool
    room: Int64Array


@dataclass(frozen=True)
class Level:
    """All values of one depth.

    Attributes:
        type: JSON types.
        offset: Where each value begins; a string after its length.
        size: Bytes of a string, of an opaque value with its header, of a container.
        text: Number of the key's text, or of the text before an element.
        containers: The containers among the values, by type.
        present: How many values of each type there are.
    """

    type: Types
    offset: Int64Array
    size: Int64Array
    text: Int64Array
    containers: list[Containers]
    present: Int64Array


class _Values(NamedTuple):
    """Values as their container lists them, not checked yet.

    Attributes:
        type, text: As in `Level`.
        offset: Where each value begins.
        size: Bytes it takes outside of its slot, where its type says it.
        end: Where its container ends.
    """

    type: Types
    offset: Int64Array
    size: Int64Array
    end: Int64Array
    text: Int64Array


def walk(memory: Memory, offset: Int64Array, end: Int64Array, keys: Keys) -> list[Level]:
    """Find every value of the documents that begin and end here; none is empty.

    The last level has no values.

    Raises:
        FormatError: A document breaks the format, or there are more than `VALUES_MAX` values; it is
            left to a plain decoder to say which.
    """
    types = memory.u1[offset]
    nothing = np.zeros(len(offset), dtype=np.int64)
    values = _Values(types, offset + 1, _DOCUMENT_SIZES[types], end, nothing)
    levels: list[Level] = []
    left = VALUES_MAX
    while len(values.type):
        left -= len(values.type)
        present = _present(values.type)
        begin, size = _measure(memory, values, present)
        if levels:
            _check_room(levels[-1].containers, values.size)
        containers: list[Containers] = []
        parts: list[_Values] = []
        done = 0
        for kind in CONTAINERS:
            if present[kind]:
                opened, children = _open(memory, values, kind, keys, done=done, left=left - done)
                containers.append(opened)
                parts.append(children)
                done += len(children.type)
        if containers and len(levels) == DEPTH_MAX:
            raise FormatError("a JSON document is too deep", depth_max=DEPTH_MAX)
        levels.append(Level(values.type, begin, size, values.text, containers, present))
        values = _join(parts)
    levels.append(
        Level(values.type, values.offset, values.size, values.text, [], _present(values.type))
    )
    return levels


def _present(types: Types) -> Int64Array:
    """Return how many values of each type there are.

    Raises:
        FormatError: One is of no known type.
    """
    present = np.bincount(types, minlength=len(_TYPES))
    if len(present) > len(_TYPES) or present[_UNKNOWN].any():
        raise FormatError("not a type of JSON value")
    return present


def _measure(memory: Memory, values: _Values, present: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Set the size of every value; return begin and size as a level has them.

    Raises:
        FormatError: A value ends after its container.
    """
    whole = values.size
    if (values.offset > values.end).any():
        raise FormatError("a JSON value lies outside of its container")
    for kind in CONTAINERS:
        if present[kind]:
            which = np.flatnonzero(values.type == kind)
            whole[which] = _word(memory, kind)[values.offset[which] + _width(kind)]
    if present[JsonType.OPAQUE]:
        which = np.flatnonzero(values.type == JsonType.OPAQUE)
        offset = values.offset[which]
        begin, length = find_variable(memory, offset + 1)
        whole[which] = begin + length - offset
    begin, size = values.offset, whole
    if present[JsonType.STRING]:
        begin, size = begin.copy(), whole.copy()
        which = np.flatnonzero(values.type == JsonType.STRING)
        offset = begin[which]
        content, length = find_variable(memory, offset)
        begin[which] = content
        size[which] = length
        whole[which] = content + length - offset
    if (values.offset + whole > values.end).any():
        raise FormatError("a JSON value lies outside of its container")
    return begin, size


def find_variable(memory: Memory, at: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return where what has a length of variable size begins, and that length.

    Raises:
        FormatError: The length takes too many bytes.
    """
    octet = memory.u1.take(at)
    length = (octet & 0x7F).astype(np.int64)
    begin = at + 1
    more = np.flatnonzero(octet > 0x7F)
    for number in range(1, STRING_SIZE_BYTES_MAX):
        if not len(more):
            return begin, length
        octet = memory.u1[begin[more]]
        length[more] |= (octet & 0x7F).astype(np.int64) << 7 * number
        begin[more] += 1
        more = more[octet > 0x7F]
    if len(more):
        raise FormatError("not the length of a JSON value")
    return begin, length


def _check_room(containers: list[Containers], size: Int64Array) -> None:
    """Refuse containers whose values overlap: a short document could be a long text."""
    upto = np.zeros(len(size) + 1, dtype=np.int64)
    np.cumsum(size, out=upto[1:])
    for opened in containers:
        sums = upto[opened.children]
        if (sums[1:] - sums[:-1] > opened.room).any():
            raise FormatError("the values of a JSON container overlap")


def _width(kind: int) -> int:
    return 4 if kind in LARGE else 2


def _word(memory: Memory, kind: int) -> npt.NDArray[np.unsignedinteger]:
    return memory.u4 if kind in LARGE else memory.u2


def _open(
    memory: Memory, values: _Values, kind: JsonType, keys: Keys, *, done: int, left: int
) -> tuple[Containers, _Values]:
    """Open containers of one type; `done` children of others stand before theirs."""
    which = np.flatnonzero(values.type == kind)
    base, size = values.offset[which], values.size[which]
    width = _width(kind)
    key_entry = width + 2 if kind in OBJECTS else 0
    count = _word(memory, kind)[base].astype(np.int64)
    room = size - 2 * width - (key_entry + 1 + width) * count
    if (size < 2 * width).any() or (room < 0).any():
        raise FormatError("a JSON container smaller than its header")
    upto = np.zeros(len(base) + 1, dtype=np.int64)
    np.cumsum(count, out=upto[1:])
    if upto[-1] > left:
        raise FormatError("more values than are decoded together", values_max=VALUES_MAX)
    number = np.arange(upto[-1])
    # Number i is entry i - f of the container whose first one is number f.
    entry = np.repeat(base + 2 * width + key_entry * count - upto[:-1] * (1 + width), count)
    entry += number * (1 + width)
    # A type and a slot are 3 or 5 bytes, read as 4 or 8.
    words = memory.u4[entry] if width == 2 else memory.u8[entry]
    types = words.astype(np.uint8)
    words >>= words.dtype.type(8)
    offset = words.astype(np.int64)
    offset &= (1 << 8 * width) - 1
    offset += np.repeat(base, count)
    entry += 1
    np.copyto(offset, entry, where=_INLINED[width].take(types))
    if kind in OBJECTS:
        text = np.zeros(len(types), dtype=np.int64)
        filled = np.flatnonzero(count)
        if len(filled):
            members = count[filled]
            begin, length = locate_keys(memory, width, base[filled], members, size[filled])
            first = np.cumsum(members) - members
            text = keys.number_texts(memory, begin, length, first)
            room[filled] -= np.add.reduceat(length, first)
    else:
        text = np.full(len(types), NEXT_ELEMENT, dtype=np.int64)
        text[upto[:-1][count > 0]] = FIRST_ELEMENT
    end = np.repeat(base + size, count)
    containers = Containers(which, upto + done, count, kind in OBJECTS, room)
    return containers, _Values(types, offset, _SIZES[width].take(types), end, text)


def _join(parts: list[_Values]) -> _Values:
    if len(parts) == 1:
        return parts[0]
    nothing = np.zeros(0, dtype=np.int64)
    empty = _Values(nothing.astype(np.uint8), nothing, nothing, nothing, nothing)
    return _Values(*map(np.concatenate, zip(empty, *parts, strict=True)))


_EXTRA_BYTES = np.zeros(256, dtype=np.int64)
_EXTRA_BYTES[:0x20] = len("\\u0000") - 1
_EXTRA_BYTES[[*b'\b\t\n\f\r"\\']] = len("\\n") - 1


def find_special(memory: Memory, offset: Int64Array, length: Int64Array) -> Int64Array:
    """Return which strings hold a quote, a backslash or a control character."""
    special = memory.u1 < 0x20
    special |= memory.u1 == ord('"')
    special |= memory.u1 == ord("\\")
    upto = np.zeros(len(special) + 1, dtype=np.int32)
    np.cumsum(special, out=upto[1:])
    return np.flatnonzero(upto[offset] != upto[offset + length])


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
"""Numbers of the texts before elements of arrays, which are kept like those of keys."""


class Keys:
    """The texts of keys by number, each with what may come before and after the key.

        ", "name": "     a quote is left off where no string comes before it, or none after

    Attributes:
        texts: As many at a time as were found at a time.
    """

    def __init__(self) -> None:
        self.texts = [Bytes.of_values([b'", "', b'["'])]
        self._count = 2

    def number_texts(
        self, memory: Memory, begin: Int64Array, length: Int64Array, first: Int64Array
    ) -> Int64Array:
        """Return the number of each key's text; `first` are the first keys of an object."""
        every_key = gather_bytes(Values(memory, begin, length, None)).array(pa.binary(), None)
        distinct = every_key.dictionary_encode()
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


def locate_keys(
    memory: Memory, width: int, base: Int64Array, count: Int64Array, size: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return where all keys of some objects begin, and their lengths.

    `width` is that of an offset; `base`, `count` and `size` say where objects begin, how many
    members each has, and its bytes.

    Raises:
        FormatError: One lies outside of its object.
    """
    upto = np.cumsum(count)
    entry = np.repeat(base + 2 * width - (upto - count) * (width + 2), count)
    entry += np.arange(upto[-1]) * (width + 2)
    offset = (memory.u2 if width == 2 else memory.u4)[entry].astype(np.int64)
    length = memory.u2[entry + width].astype(np.int64)
    if (offset + length > np.repeat(size, count)).any():
        raise FormatError("a key lies outside of its JSON object")
    return np.repeat(base, count) + offset, length
