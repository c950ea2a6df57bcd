"""The text of JSON documents whose values were located, as SELECT prints it.

It is assembled from fragments: spans of bytes of several arrays.

Source: mysql-server, sql-common/json_dom.cc, wrapper_to_string; strings/dtoa.cc, my_gcvt; Arrow
columnar format, variable-size binary layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.binlog.json.document import (
    CONTAINERS,
    LITERALS,
    JsonType,
    double_text,
    opaque_text,
)
from airflow_provider_binlog.blocks.arrays import of_numbers, of_texts
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.json.walk import Keys, Level, escape, find_special
from airflow_provider_binlog.rows.values import (
    OFFSET_MAX,
    Bytes,
    Int64Array,
    Memory,
    Values,
    gather_bytes,
    take_spans,
)


def spans(begin: Int64Array, length: Int64Array) -> Int64Array:
    """Return spans of bytes as one number each: | 32 bits end | 32 begin |.

    In memory, that is begin and end, as two of Arrow's offsets.
    """
    return (begin + length << 32) + begin


LATER = 1
"""Added to a span: it begins a byte later and ends where it did."""
EARLIER = -(1 << 32)
"""Added to a span: it ends a byte earlier."""


class Fragments:
    """Fragments by number, and the bytes they are made of."""

    def __init__(self, count: int, data: npt.NDArray[np.uint8]) -> None:
        # Less than 2 GiB, with all that is added: spans have 32 bits for an offset.
        self._pieces = [data]
        self._size = len(data)
        self._spans = np.zeros(count + 1, dtype=np.int64)

    def add_bytes(self, data: bytes | npt.NDArray[np.uint8]) -> int:
        """Add bytes to take fragments from; return where they begin."""
        at = self._size
        piece = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        self._pieces.append(piece)
        self._size += len(piece)
        return at

    def add_values(self, values: Bytes) -> Int64Array:
        """Return the spans of these values, copied."""
        bounds = values.offsets.astype(np.int64)
        return spans(bounds[:-1] + self.add_bytes(values.data), bounds[1:] - bounds[:-1])

    def put(self, number: Int64Array, of: Int64Array) -> None:
        """Set the spans of some fragments."""
        self._spans[number] = of

    def join(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Return all fragments end to end, and where each one ends.

        Raises:
            ArrowCapacityError: The text takes more than Arrow's offsets can say.
        """
        count = len(self._spans) - 1
        if not count:
            return np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int32)
        bounds = self._spans.view(np.int32)
        begin, end = bounds[0:-2:2], bounds[1:-2:2]
        if int(end.sum(dtype=np.int64) - begin.sum(dtype=np.int64)) > OFFSET_MAX:
            raise pa.ArrowCapacityError("documents are too large as text")
        joined = take_spans(bounds[:-1], np.concatenate(self._pieces))
        return joined.data, joined.offsets[1:]


_BRACKETS = b'"}"]{}[]'
# What Arrow prints as MySQL does, but for the ".0" after a whole number.
_WHOLE_MAX = 1e15
_FRACTION_MIN, _FRACTION_MAX = 1e-4, 1e9


def render(memory: Memory, levels: list[Level], keys: Keys) -> Bytes:
    """Return the documents' text; that their strings are UTF-8 is left to check.

    Raises:
        FormatError: A value is none of its type.
    """
    counts, numbers, bounds = _number_fragments(levels)
    fragments = Fragments(int(bounds[-1]), memory.u1)
    _put_glue(fragments, levels, counts, numbers, keys)
    _put_scalars(fragments, memory, levels, numbers)
    data, ends = fragments.join()
    offsets = np.zeros(len(bounds), dtype=np.int32)
    offsets[1:] = ends[bounds[1:] - 1]
    return Bytes(offsets, data)


def _number_fragments(levels: list[Level]) -> tuple[list[Int64Array], list[Int64Array], Int64Array]:
    """Return by level how many fragments each value is, and its first; and the first by document.

    A scalar is one fragment. A container is one before each child, those of the child, and one
    after the last child. A document that is a string has quotes around it.
    """
    counts = [np.ones(len(level.type), dtype=np.int64) for level in levels]
    is_string = (levels[0].type == JsonType.STRING).astype(np.int64)
    counts[0] += 2 * is_string
    upto = [np.zeros(0, dtype=np.int64)] * len(levels)
    for depth in reversed(range(len(levels))):
        for group in levels[depth].containers:
            sums = upto[depth + 1][group.children]
            counts[depth][group.which] += sums[1:] - sums[:-1]
        upto[depth] = np.zeros(len(counts[depth]) + 1, dtype=np.int64)
        np.cumsum(counts[depth] + (depth > 0), out=upto[depth][1:])
    numbers = [upto[0][:-1] + is_string]
    for depth, level in enumerate(levels[:-1]):
        number = upto[depth + 1][:-1] + 1
        for group in level.containers:
            first, stop = group.children[0], group.children[-1]
            shift = numbers[depth][group.which] - upto[depth + 1][group.children[:-1]]
            number[first:stop] += np.repeat(shift, group.count)
        numbers.append(number)
    return counts, numbers, upto[0]


def _put_glue(
    fragments: Fragments,
    levels: list[Level],
    counts: list[Int64Array],
    numbers: list[Int64Array],
    keys: Keys,
) -> None:
    """Put the text before, between and after the values of containers."""
    texts = fragments.add_values(Bytes.join(keys.texts))
    brackets = fragments.add_bytes(_BRACKETS)
    strings = numbers[0][levels[0].type == JsonType.STRING]
    for quotes in (strings - 1, strings + 1):
        fragments.put(quotes, spans(np.full_like(quotes, brackets), np.ones_like(quotes)))
    for depth, (level, below) in enumerate(pairwise(levels)):
        is_string = (below.type == JsonType.STRING).astype(np.int64)
        # Of a text's two quotes, one ends the string before it and one begins the string after it.
        unquoted = np.ones(len(is_string), dtype=np.int64)
        unquoted[1:] -= is_string[:-1]
        for group in level.containers:
            filled = group.count > 0
            # No string can stand before the first child, and its text has no quote for one.
            unquoted[group.children[:-1][filled]] = 0
            after_string = np.zeros(len(filled), dtype=np.int64)
            after_string[filled] = is_string[group.children[1:][filled] - 1]
            close = brackets + (0 if group.is_object else 2)
            closing = spans(close + 1 - after_string, 1 + after_string)
            closing[~filled] = spans(np.array(close + 4), np.array(2))
            fragments.put(numbers[depth][group.which] + counts[depth][group.which] - 1, closing)
        unquoted *= LATER
        unquoted += texts.take(below.text)
        unquoted += (1 - is_string) * EARLIER
        fragments.put(numbers[depth + 1] - 1, unquoted)


def _put_scalars(
    fragments: Fragments,
    memory: Memory,
    levels: list[Level],
    numbers: list[Int64Array],
) -> None:
    """Put the text of everything that is no container."""
    integers: list[tuple[Int64Array, Int64Array]] = []
    for kind in JsonType:
        if kind in CONTAINERS or not any(level.present[kind] for level in levels):
            continue
        of, offset, size = _choose(levels, numbers, kind)
        if kind in INTEGERS:
            integers.append((of, INTEGERS[kind](memory, offset)))
        elif kind == JsonType.STRING:
            _put_strings(fragments, memory, of, offset, size)
        elif kind == JsonType.LITERAL:
            literals = fragments.add_values(Bytes.of_values(LITERALS))
            fragments.put(of, literals.take(read_literals(memory, offset)))
        elif kind == JsonType.OPAQUE:
            fragments.put(of, fragments.add_values(opaque_texts(memory, offset, size)))
        elif kind == JsonType.DOUBLE:
            for which, printed in print_doubles(memory.u8[offset].view(np.float64)):
                fragments.put(of[which], fragments.add_values(printed))
        else:
            fragments.put(of, fragments.add_values(_printed(memory.u8[offset])))
    if integers:
        texts = _printed(np.concatenate([values for _, values in integers]))
        fragments.put(np.concatenate([of for of, _ in integers]), fragments.add_values(texts))


def _choose(
    levels: list[Level], numbers: list[Int64Array], kind: JsonType
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return number, offset and size of all values of one type."""
    parts = []
    for level, number in zip(levels, numbers, strict=True):
        if level.present[kind]:
            which = np.flatnonzero(level.type == kind)
            parts.append((number.take(which), level.offset.take(which), level.size.take(which)))
    if len(parts) == 1:
        return parts[0]
    of, offset, size = (np.concatenate(part) for part in zip(*parts, strict=True))
    return of, offset, size


INTEGERS: dict[int, Callable[[Memory, Int64Array], Int64Array]] = {
    JsonType.INT16: lambda memory, offset: memory.u2[offset].view(np.int16).astype(np.int64),
    JsonType.UINT16: lambda memory, offset: memory.u2[offset].astype(np.int64),
    JsonType.INT32: lambda memory, offset: memory.u4[offset].view(np.int32).astype(np.int64),
    JsonType.UINT32: lambda memory, offset: memory.u4[offset].astype(np.int64),
    JsonType.INT64: lambda memory, offset: memory.i8[offset],
}


def _printed(values: npt.NDArray[Any]) -> Bytes:
    """Return numbers as Arrow prints them."""
    return Bytes.of(of_numbers(values).cast(pa.string()))


def _put_strings(
    fragments: Fragments, memory: Memory, number: Int64Array, offset: Int64Array, length: Int64Array
) -> None:
    fragments.put(number, spans(offset, length))
    which = find_special(memory, offset, length)
    if len(which):
        strings = gather_bytes(Values(memory, offset[which], length[which], None))
        fragments.put(number[which], fragments.add_values(escape(strings)))


def read_literals(memory: Memory, offset: Int64Array) -> npt.NDArray[np.uint8]:
    """Return the index of each of `LITERALS`.

    Raises:
        FormatError: One is none.
    """
    literal = memory.u1.take(offset)
    if int(literal.max()) >= len(LITERALS):
        raise FormatError("not a literal of JSON", number=int(literal.max()))
    return literal


def opaque_texts(memory: Memory, offset: Int64Array, size: Int64Array) -> Bytes:
    """Return the texts of opaque values."""
    ends = (offset + size).tolist()
    data = memory.u1.data
    return Bytes.of_values(
        [opaque_text(data[at:end]) for at, end in zip(offset.tolist(), ends, strict=True)]
    )


def print_doubles(values: npt.NDArray[np.float64]) -> Iterator[tuple[Int64Array, Bytes]]:
    """Yield some doubles, by index, and their texts."""
    magnitude = np.abs(values)
    whole = (np.rint(values) == values) & (magnitude < _WHOLE_MAX) & (magnitude >= 1)
    easy = ~whole & (magnitude >= _FRACTION_MIN) & (magnitude < _FRACTION_MAX)
    if easy.any():
        yield np.flatnonzero(easy), _printed(values[easy])
    if whole.any():
        texts = of_numbers(values[whole].astype(np.int64)).cast(pa.string())
        texts = pc.binary_join_element_wise(texts, *of_texts([".0", ""]))
        yield np.flatnonzero(whole), Bytes.of(texts)
    others = ~(easy | whole)
    if others.any():
        printed = [double_text(memoryview(value.tobytes())) for value in values[others]]
        yield np.flatnonzero(others), Bytes.of_values(printed)
