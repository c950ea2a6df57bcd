"""Documents of one structure: of the same containers, with the same keys, at the same places.

Most documents of a column are written by one program, and differ in their scalars alone. Then the
text between the scalars is the same, and what is left to find is one scalar after the other, each
in all documents at once:

    {"id": 7, "tags": ["x", 1]}     {"id": ·, "tags": [·, ·]}     · a scalar of any type

Where that does not hold, documents are left to `walk`, which takes them level by level.

Source: mysql-server, sql-common/json_binary.h; json_binary.cc, Value::element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.binlog.json.document import FIXED_SIZES, INLINED, JsonType
from airflow_provider_binlog.binlog.json.scalars import quote
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.json.keys import Objects, find_alike, locate_keys
from airflow_provider_binlog.rows.types.json.walk import find_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.rows.memory import Int64Array, Memory

_SCALARS_MAX = 400
_DEPTH_MAX = 8
_HEADER, _KEY_ENTRY, _VALUE_ENTRY = 4, 4, 3
"""Bytes of small containers, which have less than 64 KiB."""
_LAST_CONTAINER = JsonType.LARGE_ARRAY


@dataclass(frozen=True)
class _Container:
    """A container of the first document.

    Attributes:
        type: `SMALL_OBJECT` or `SMALL_ARRAY`.
        base, count, size: Where it begins, its members or elements, its bytes.
        children: By number of a value: the container that it is.
    """

    type: int
    base: int
    count: int
    size: int
    children: dict[int, _Container]

    @property
    def alone(self) -> Objects:
        """It, as an object beside no others."""
        return Objects(2, np.array([self.base]), np.array([self.count]), np.array([self.size]))

    @property
    def values(self) -> int:
        """Where the entries of its values are, from its beginning."""
        return _HEADER + (_KEY_ENTRY * self.count if self.type == JsonType.SMALL_OBJECT else 0)


class Scalars(NamedTuple):
    """Scalars of one type at one place.

    Attributes:
        type: A `JsonType`.
        rows: The documents that have them.
        number: Which of the scalars of a document.
        offset, size: As in `walk.Level`.
    """

    type: int
    rows: Int64Array
    number: int
    offset: Int64Array
    size: Int64Array


class Structure:
    """The structure of a document.

    Attributes:
        glue: The text before, between and after its scalars, without their quotes.
    """

    def __init__(self, memory: Memory, begin: int, end: int) -> None:
        """Look into the document.

        Raises:
            FormatError: It is no small container, or too large, or damaged.
        """
        self._memory = memory
        self._scalars = 0
        self._root = self._open(int(memory.u1[begin]), begin + 1, end, 1)
        texts = [b""]
        for text in self._texts(self._root):
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
        opened = _Container(kind, base, count, size, {})
        self._scalars += count
        if self._scalars > _SCALARS_MAX:
            raise FormatError("more values than are followed")
        if base + size > end or opened.values + _VALUE_ENTRY * count > size:
            raise FormatError("a JSON container smaller than its header")
        for number in range(count):
            entry = base + opened.values + _VALUE_ENTRY * number
            child = int(memory.u1[entry])
            if child <= _LAST_CONTAINER:
                at = base + int(memory.u2[entry + 1])
                opened.children[number] = self._open(child, at, base + size, depth + 1)
        return opened

    def _texts(self, of: _Container) -> Iterator[bytes | None]:
        """Yield the text of a container; None for each scalar."""
        is_object = of.type == JsonType.SMALL_OBJECT
        names = self._names(of) if is_object and of.count else [b""] * of.count
        yield b"{" if is_object else b"["
        for number, name in enumerate(names):
            yield b", " * (number > 0) + name
            if number in of.children:
                yield from self._texts(of.children[number])
            else:
                yield None
        yield b"}" if is_object else b"]"

    def _names(self, of: _Container) -> list[bytes]:
        data = self._memory.u1.data
        begin, length = locate_keys(self._memory, of.alone)
        ends = (begin + length).tolist()
        return [b"%b: " % quote(data[at:end]) for at, end in zip(begin.tolist(), ends, strict=True)]

    def find_alike(self, begin: Int64Array, end: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which documents have this structure; the first must be the one it is made of."""
        alike: npt.NDArray[np.bool_] = self._memory.u1[begin] == self._root.type
        self._compare(self._root, begin + 1, end, alike)
        return alike

    def _compare(
        self, of: _Container, base: Int64Array, end: Int64Array, alike: npt.NDArray[np.bool_]
    ) -> None:
        """Take out of `alike` the documents that have something else at these places."""
        memory = self._memory
        alike &= base + _HEADER <= end
        # Of documents that are not alike the first one is read instead.
        base = np.where(alike, base, of.base)
        count, size = (memory.u2[base + at].astype(np.int64) for at in (0, 2))
        alike &= (count == of.count) & (base + size <= end)
        alike &= size >= of.values + _VALUE_ENTRY * of.count
        if of.type == JsonType.SMALL_OBJECT and of.count:
            keys = locate_keys(memory, of.alone)
            alike &= find_alike(memory, Objects(2, base, count, size), *keys)
        base = np.where(alike, base, of.base)
        for number in range(of.count):
            entry = base + (of.values + _VALUE_ENTRY * number)
            types, child = memory.u1.take(entry), of.children.get(number)
            if child is None:
                alike &= types > _LAST_CONTAINER
            else:
                alike &= types == child.type
                self._compare(child, base + memory.u2[entry + 1], base + size, alike)

    def find_scalars(self, begin: Int64Array) -> list[Scalars]:
        """Return the scalars of documents of this structure, place after place.

        Raises:
            FormatError: A value lies outside of its container, overlaps others, or is of no type.
        """
        found: list[Scalars] = []
        self._find(self._root, begin + 1, found, 0)
        return found

    def _find(
        self, of: _Container, base: Int64Array, found: list[Scalars], index: int
    ) -> tuple[Int64Array, int]:
        """Add the scalars of a container from an index on; return its sizes, and the next index."""
        memory = self._memory
        size = memory.u2[base + 2].astype(np.int64)
        end = base + size
        everywhere = np.arange(len(base))
        room = size - (of.values + _VALUE_ENTRY * of.count)
        if of.type == JsonType.SMALL_OBJECT and of.count:
            room -= int(locate_keys(memory, of.alone)[1].sum())
        for number in range(of.count):
            entry = base + (of.values + _VALUE_ENTRY * number)
            if number in of.children:
                at = base + memory.u2[entry + 1]
                used, index = self._find(of.children[number], at, found, index)
                room -= used
                continue
            types = memory.u1.take(entry)
            for kind, which in _by_type(types, everywhere):
                own = (base, entry, end)
                if which is not everywhere:
                    own = (base.take(which), entry.take(which), end.take(which))
                offset, length, taken = self._locate(kind, *own)
                found.append(Scalars(kind, which, index, offset, length))
                if which is everywhere:
                    room -= taken
                else:
                    room[which] -= taken
            index += 1
        if (room < 0).any():
            raise FormatError("the values of a JSON container overlap")
        return size, index

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


def _by_type(
    types: npt.NDArray[np.uint8], everywhere: Int64Array
) -> Iterator[tuple[int, Int64Array]]:
    """Yield each type and which values have it; `everywhere` is all of them."""
    if (types == types[0]).all():
        yield int(types[0]), everywhere
        return
    for kind in np.flatnonzero(np.bincount(types)).tolist():
        yield kind, np.flatnonzero(types == kind)
