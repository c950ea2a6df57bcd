"""Documents of one structure: of the same containers, with the same keys, at the same places.

Such documents differ in their scalars alone, each of which is found in all of them at once; other
documents are left to `walk`.

    {"id": 7, "tags": ["x", 1]}     {"id": ·, "tags": [·, ·]}     · a scalar of any type

Source: mysql-server, sql-common/json_binary.h; json_binary.cc, Value::element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.json.document import FIXED_SIZES, INLINED, JsonType, quote
from airflow_provider_binlog.blocks.arrays import unaligned_view
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.json.walk import find_variable, locate_keys
from airflow_provider_binlog.rows.values import WORD_MASK, Int64Array, Memory, Rows

_SCALARS_MAX = 400
_DEPTH_MAX = 8
_HEAD_MAX = 2048
_HEADER, _KEY_ENTRY, _VALUE_ENTRY = 4, 4, 3
"""Bytes of small containers, which have less than 64 KiB."""
_LAST_CONTAINER = JsonType.LARGE_ARRAY
_WHOLE_WORD = WORD_MASK[8]


@dataclass(frozen=True)
class _Container:
    """A container of the first document.

    Attributes:
        type: `SMALL_OBJECT` or `SMALL_ARRAY`.
        base: Where it begins.
        values: Where the entries of its values are, from its beginning.
        children: By number of a value: the container that it is; None: a scalar.
        names: The text of its keys, if it has any.
        key_bytes: What they take in it.
        head: Bytes up to where its entries and keys end.
        alike: What is alike in it: words of 8 bytes by number, their bits that count, and those.
    """

    type: int
    base: int
    values: int
    children: list[_Container | None]
    names: list[bytes]
    key_bytes: int
    head: int
    alike: list[tuple[int, np.uint64, np.uint64]]


class Scalars(NamedTuple):
    """Scalars of one type at one place.

    Attributes:
        type: A `JsonType`.
        rows: The documents that have them.
        offset, size: As in `walk.Level`.
    """

    type: int
    rows: Rows
    offset: Int64Array
    size: Int64Array


class Structure:
    """The structure of a document.

    Attributes:
        glue: The text before, between and after its scalars.
    """

    def __init__(self, memory: Memory, begin: int, end: int) -> None:
        """Read the structure of the document.

        Raises:
            FormatError: The document is no small container, or too large, or damaged.
        """
        self._memory = memory
        self._scalars = 0
        self._root = self._open(int(memory.u1[begin]), begin + 1, end, 1)
        texts = [b""]
        for text in _texts(self._root):
            if text is None:
                texts.append(b"")
            else:
                texts[-1] += text
        self.glue = texts

    def _open(self, kind: int, base: int, end: int, depth: int) -> _Container:
        memory = self._memory
        if kind not in {JsonType.SMALL_OBJECT, JsonType.SMALL_ARRAY} or depth > _DEPTH_MAX:
            raise FormatError("not a structure that is followed")
        if base + _HEADER > end:
            raise FormatError("a JSON container smaller than its header")
        count, size = int(memory.u2[base]), int(memory.u2[base + 2])
        self._scalars += count
        if self._scalars > _SCALARS_MAX:
            raise FormatError("more values than are followed")
        keys = count if kind == JsonType.SMALL_OBJECT else 0
        values = _HEADER + _KEY_ENTRY * keys
        head = values + _VALUE_ENTRY * count
        if base + size > end or head > size:
            raise FormatError("a JSON container smaller than its header")
        same = [slice(2), slice(_HEADER, values)]
        names, key_bytes = [], 0
        if keys:
            alone = np.array([base]), np.array([count]), np.array([size])
            begin, length = locate_keys(memory, 2, *alone)
            same.append(slice(int(begin.min()) - base, int((begin + length).max()) - base))
            names, key_bytes = self._names(begin, begin + length), int(length.sum())
            head = max(head, same[-1].stop)
        if head > _HEAD_MAX:
            raise FormatError("more keys than are followed")
        alike = _words(memory.u1[base : base + head], same)
        children: list[_Container | None] = []
        for entry in range(base + values, base + values + _VALUE_ENTRY * count, _VALUE_ENTRY):
            child, at = int(memory.u1[entry]), base + int(memory.u2[entry + 1])
            is_container = child <= _LAST_CONTAINER
            children.append(self._open(child, at, base + size, depth + 1) if is_container else None)
        return _Container(kind, base, values, children, names, key_bytes, head, alike)

    def _names(self, begin: Int64Array, end: Int64Array) -> list[bytes]:
        data = self._memory.u1.data
        spans = zip(begin.tolist(), end.tolist(), strict=True)
        return [b"%b: " % quote(data[first:last]) for first, last in spans]

    def find_alike(self, begin: Int64Array, end: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which documents have this structure; the first must be the one it is made of."""
        alike: npt.NDArray[np.bool_] = self._memory.u1[begin] == self._root.type
        self._compare(self._root, begin + 1, end, alike)
        return alike

    def _compare(
        self, of: _Container, base: Int64Array, end: Int64Array, alike: npt.NDArray[np.bool_]
    ) -> None:
        """Take out of `alike` the documents that have something else in this container."""
        memory = self._memory
        alike &= base + of.head <= end
        # Of documents that are not alike the first one is read instead.
        base = np.where(alike, base, of.base)
        size = memory.u2[base + 2]
        alike &= (size >= of.head) & (base + size <= end)
        words = -(-of.head // 8)
        headers = unaligned_view(memory.u1, f"V{8 * words}")[base].view("<u8").reshape(-1, words)
        for number, mask, word in of.alike:
            word_of_document = headers[:, number]
            alike &= (word_of_document if mask == _WHOLE_WORD else word_of_document & mask) == word
        types = headers.view(np.uint8).reshape(len(base), -1)[:, of.values :: _VALUE_ENTRY]
        for number, child in enumerate(of.children):
            if child is None:
                alike &= types[:, number] > _LAST_CONTAINER
            else:
                alike &= types[:, number] == child.type
                at = base + memory.u2[base + (of.values + _VALUE_ENTRY * number + 1)]
                self._compare(child, at, base + size, alike)

    def find_scalars(self, begin: Int64Array) -> list[list[Scalars]]:
        """Return the scalars of documents of this structure, place after place, by type.

        Raises:
            FormatError: A value lies outside of its container, overlaps others, or is of no type.
        """
        scalar_lists: list[list[Scalars]] = []
        self._find(self._root, begin + 1, scalar_lists)
        return scalar_lists

    def _find(
        self, of: _Container, base: Int64Array, scalar_lists: list[list[Scalars]]
    ) -> Int64Array:
        """Add the scalars of a container, and return its sizes."""
        memory = self._memory
        size = memory.u2[base + 2].astype(np.int64)
        end = base + size
        room = size - (of.values + _VALUE_ENTRY * len(of.children) + of.key_bytes)
        for number, child in enumerate(of.children):
            entry = base + (of.values + _VALUE_ENTRY * number)
            if child is not None:
                room -= self._find(child, base + memory.u2[entry + 1], scalar_lists)
                continue
            scalars = []
            for kind, rows in _by_type(memory.u1.take(entry)):
                offset, length, taken = self._locate(kind, base[rows], entry[rows], end[rows])
                scalars.append(Scalars(kind, rows, offset, length))
                room[rows] -= taken
            scalar_lists.append(scalars)
        if (room < 0).any():
            raise FormatError("the values of a JSON container overlap")
        return size

    def _locate(
        self, kind: int, base: Int64Array, entry: Int64Array, end: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array | int]:
        """Return offset and size of values of a type, and what they take outside of their slots."""
        memory = self._memory
        if kind in INLINED[2]:
            return entry + 1, np.zeros(len(entry), dtype=np.int64), 0
        offset = base + memory.u2[entry + 1]
        if (offset > end).any():
            raise FormatError("a JSON value lies outside of its container")
        whole: Int64Array | int
        if kind == JsonType.STRING:
            content, size = find_variable(memory, offset)
            whole = content + size - offset
        elif kind == JsonType.OPAQUE:
            begin, length = find_variable(memory, offset + 1)
            content, whole = offset, begin + length - offset
            size = whole
        elif kind in FIXED_SIZES:
            content, whole = offset, FIXED_SIZES[kind]
            size = np.zeros(len(offset), dtype=np.int64)
        else:
            raise FormatError("not a type of JSON value")
        if (offset + whole > end).any():
            raise FormatError("a JSON value lies outside of its container")
        return content, size, whole


def _texts(of: _Container) -> Iterator[bytes | None]:
    """Yield the text of a container; None for each scalar."""
    is_object = of.type == JsonType.SMALL_OBJECT
    yield b"{" if is_object else b"["
    for number, child in enumerate(of.children):
        yield b", " * (number > 0) + (of.names[number] if is_object else b"")
        if child is None:
            yield None
        else:
            yield from _texts(child)
    yield b"}" if is_object else b"]"


def _words(
    head: npt.NDArray[np.uint8], same: list[slice]
) -> list[tuple[int, np.uint64, np.uint64]]:
    """Return some bytes of a head as words: number, bits that count, and those."""
    mask, data = np.zeros((2, -(-len(head) // 8) * 8), dtype=np.uint8)
    for part in same:
        mask[part] = 0xFF
    data[: len(head)] = head
    data &= mask
    words = enumerate(zip(mask.view("<u8"), data.view("<u8"), strict=True))
    return [(number, counts, word) for number, (counts, word) in words if counts]


def _by_type(types: npt.NDArray[np.uint8]) -> Iterator[tuple[int, Rows]]:
    """Yield each type and which values have it."""
    if (types == types[0]).all():
        yield int(types[0]), slice(None)
        return
    for kind in np.flatnonzero(np.bincount(types)).tolist():
        yield kind, np.flatnonzero(types == kind)
