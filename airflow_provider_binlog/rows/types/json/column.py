"""JSON of MySQL: binary documents, read as the text that SELECT prints.

The documents of a column are decoded together, a megabyte of them at a time: those of one structure
as lines of one width, the others level by level, see `walk` and `text`. A document of too many
values for that is decoded by itself, value by value.

Source: mysql-server sql/field.cc, Field_json::pack (a BLOB with 4 bytes of length);
sql-common/json_binary.h; as text.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.binlog.json.document import LITERALS, JsonType, to_text
from airflow_provider_binlog.blocks.arrays import of_numbers, of_octets, unaligned_view
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.json.structures import Scalars, Structure
from airflow_provider_binlog.rows.types.json.text import (
    INTEGERS,
    opaque_texts,
    print_doubles,
    read_literals,
    render,
)
from airflow_provider_binlog.rows.types.json.walk import Keys, escape, escaped, walk
from airflow_provider_binlog.rows.types.strings import checked_utf8
from airflow_provider_binlog.rows.values import (
    OVERREAD_BYTES,
    Array,
    Bytes,
    Int64Array,
    Memory,
    Plan,
    Rows,
    Values,
    batches,
    gather_bytes,
    take_spans,
)

_CELL_MAX = 40
"""No cell is wider. A string is read with so many bytes, of which a memory has spare ones."""

_QUOTE, _BACKSLASH, _MINUS = b'"\\-'
_LITERALS = np.array(LITERALS)
_LITERAL_SIZES = np.array([len(literal) for literal in LITERALS])

_GROUP = 10_000
_GROUP_DIGITS = 4
_DIGITS = np.array([b"%04d" % number for number in range(_GROUP)]).view("<u4")
"""By numbers of four digits: those digits."""
_FRACTIONS = np.array([b".%04d" % number for number in range(_GROUP)])
_FRACTION_SIZES = np.array([max(2, len(digits.rstrip(b"0"))) for digits in _FRACTIONS.tolist()])
_FRACTION_MAX = 1e11
"""Of doubles below it, four digits after the decimal point are among the fifteen that are exact."""


class _Texts(NamedTuple):
    """Texts for a cell.

    Attributes:
        rows: The documents that have them.
        data: uint8[texts, width].
        size: Bytes of each text.
        at_end: Whether it ends where its row of `data` does, or begins there.
    """

    rows: Rows
    data: npt.NDArray[np.uint8]
    size: Int64Array
    at_end: bool = False


class _Long(NamedTuple):
    """Texts that are too long for a cell, and stand after it."""

    rows: Rows
    texts: Bytes


_Cell: TypeAlias = "Sequence[_Texts | _Long]"


def render_alike(memory: Memory, structure: Structure, begin: Int64Array) -> Bytes:
    """Return the text of documents of one structure; that their strings are UTF-8 is left to check.

    Raises:
        FormatError: A value lies outside of its container, or is none of its type.
    """
    lines = _Lines(len(begin), structure.glue[0])
    for scalars, glue in zip(structure.find_scalars(begin), structure.glue[1:], strict=True):
        for cell in _cells(memory, scalars):
            lines.add_cell(cell)
        lines.add_glue(glue)
    return lines.join()


class _Lines:
    """Documents of one structure as lines, to which cells and the text between them are added.

    A scalar has a cell, as wide as the longest one at its place in any document. Its text begins
    where the cell does, or ends there:

        {"id": ···17, "name": "Jo"····, "paid": true·}     · unused
        {"id": 12345, "name": "Joanna", "paid": false}

    So a place is written in all lines at once. Then Arrow copies what is used, and the texts that
    are too long for a cell, end to end.
    """

    def __init__(self, count: int, glue: bytes) -> None:
        self._count = count
        self._blank = bytearray(glue)
        self._texts: list[tuple[int, _Texts]] = []
        self._long = [np.zeros(0, dtype=np.uint8)]
        self._long_size = 0
        # Begin and end of each piece, in turns; whether they count from the beginning of its line,
        # or from that of the long texts.
        self._edges: list[tuple[bool, npt.NDArray[np.int32] | int]] = [(True, 0)]

    def add_glue(self, text: bytes) -> None:
        """Add a text to all lines."""
        self._blank += text

    def add_cell(self, cell: _Cell) -> None:
        """Add a cell; of a document that comes twice, the last text stays."""
        begin = len(self._blank)
        widths = [texts.data.shape[1] for texts in cell if isinstance(texts, _Texts)]
        self._blank += bytes(max(widths, default=0))
        end = len(self._blank)
        stop = np.full(self._count, begin, dtype=np.int32)
        resume = np.full(self._count, end, dtype=np.int32)
        for texts in cell:
            stop[texts.rows], resume[texts.rows] = begin, end
            if isinstance(texts, _Long):
                continue
            if texts.at_end:
                resume[texts.rows] = end - texts.size
            else:
                stop[texts.rows] = begin + texts.size
            self._texts.append((end - texts.data.shape[1] if texts.at_end else begin, texts))
        if (stop != resume).any():
            self._edges += [(True, stop), (True, resume)]
        for texts in cell:
            if isinstance(texts, _Long):
                self._add_long(end, texts)

    def _add_long(self, at: int, texts: _Long) -> None:
        bounds = np.zeros((2, self._count), dtype=np.int32)
        offsets = texts.texts.offsets + self._long_size
        bounds[0, texts.rows], bounds[1, texts.rows] = offsets[:-1], offsets[1:]
        self._edges += [(True, at), (False, bounds[0]), (False, bounds[1]), (True, at)]
        self._long.append(texts.texts.data)
        self._long_size += len(texts.texts.data)

    def join(self) -> Bytes:
        """Return the text of the lines."""
        width, base = len(self._blank), self._long_size
        source = np.empty(base + self._count * width, dtype=np.uint8)
        np.concatenate(self._long, out=source[:base])
        lines = source[base:].reshape(self._count, width)
        lines[:] = np.frombuffer(self._blank, dtype=np.uint8)
        for at, texts in self._texts:
            kind = f"V{texts.data.shape[1]}"
            cells = np.ndarray((self._count,), kind, source.data, base + at, (width,))
            cells[texts.rows] = texts.data.view(kind)[:, 0]
        edges = [*self._edges, (True, width)]
        if len(edges) == 2:
            return Bytes.of_rows(lines)
        begin = np.arange(base, len(source), width, dtype=np.int32)
        bounds = np.zeros(self._count * len(edges) + 1, dtype=np.int32)
        for number, (in_line, edge) in enumerate(edges):
            bounds[number : -1 : len(edges)] = begin + edge if in_line else edge
        pieces = take_spans(bounds, source)
        return Bytes(pieces.offsets[:: len(edges) // 2], pieces.data)


def _cells(memory: Memory, scalars: Sequence[Scalars]) -> Iterator[_Cell]:
    """Yield the cells that the scalars at a place take."""
    if len(scalars) == 1 and scalars[0].type == JsonType.DOUBLE:
        cells = _fractions(memory.u8[scalars[0].offset])
        if cells is not None:
            yield from cells
            return
    cell: list[_Texts | _Long] = []
    for kind, rows, offset, size in scalars:
        if kind == JsonType.STRING:
            cell += _strings(memory, rows, offset, size)
        elif kind == JsonType.LITERAL:
            literal = read_literals(memory, offset)
            data = _LITERALS.take(literal).view(np.uint8).reshape(len(literal), -1)
            cell.append(_Texts(rows, data, _LITERAL_SIZES.take(literal)))
        elif kind == JsonType.OPAQUE:
            cell.append(_placed(rows, opaque_texts(memory, offset, size)))
        elif kind == JsonType.DOUBLE:
            every = np.arange(len(offset)) if isinstance(rows, slice) else rows
            printed = print_doubles(memory.u8[offset].view(np.float64))
            cell += [_placed(every[which], texts) for which, texts in printed]
        elif kind == JsonType.UINT64:
            number = memory.u8[offset]
            cell.append(_numbers(rows, number, np.zeros(len(number), dtype=np.bool_)))
        else:
            values = INTEGERS[kind](memory, offset)
            cell.append(_numbers(rows, np.abs(values).view(np.uint64), values < 0))
    yield cell


def _numbers(
    rows: Rows, magnitude: npt.NDArray[np.uint64], negative: npt.NDArray[np.bool_]
) -> _Texts:
    most = int(magnitude.max())
    digits = len(str(most))
    size = np.ones(len(magnitude), dtype=np.uint8)
    for power in range(1, digits):
        size += (magnitude >= 10**power).view(np.uint8)
    minus = np.flatnonzero(negative)
    width = -(-(digits + bool(len(minus))) // _GROUP_DIGITS)
    groups = np.empty((len(magnitude), width), dtype="<u4")
    for group in reversed(range(width)):
        upper = magnitude // _GROUP
        groups[:, group] = _DIGITS.take((magnitude - upper * _GROUP).view(np.int64))
        magnitude = upper
    data = groups.view(np.uint8)
    if len(minus):
        size[minus] += 1
        data[minus, data.shape[1] - size[minus]] = _MINUS
    return _Texts(rows, data, size.astype(np.int64), at_end=True)


def _fractions(values: npt.NDArray[np.uint64]) -> tuple[_Cell, _Cell] | None:
    """Return a cell of what precedes the decimal point, and one of the rest; None: too many digits.

    A whole number divided by 10,000 that is this double is its shortest text.
    """
    number = values.view(np.float64)
    magnitude = np.abs(number)
    if not (magnitude < _FRACTION_MAX).all():
        return None
    scaled = np.rint(magnitude * _GROUP)
    if (scaled / _GROUP != magnitude).any():
        return None
    whole = scaled.astype(np.uint64)
    upper = whole // _GROUP
    fraction = (whole - upper * _GROUP).view(np.int64)
    data = _FRACTIONS.take(fraction).view(np.uint8).reshape(len(fraction), -1)
    return [_numbers(slice(None), upper, np.signbit(number))], [
        _Texts(slice(None), data, _FRACTION_SIZES.take(fraction))
    ]


def _strings(
    memory: Memory, rows: Rows, offset: Int64Array, size: Int64Array
) -> Iterator[_Texts | _Long]:
    width = int(size.max()) + 2
    if width > _CELL_MAX:
        texts = escaped(gather_bytes(Values(memory, offset, size, None)).array(pa.binary(), None))
        yield _Long(rows, _quoted(texts))
        return
    # With what stands before and after them, where their quotes will be.
    data = unaligned_view(memory.u1, f"V{width}")[offset - 1].view(np.uint8).reshape(-1, width)
    data |= _unused(width).take(size).view(np.uint8).reshape(-1, width)
    special = data < 0x20
    special |= data == _QUOTE
    special |= data == _BACKSLASH
    data[:, 0] = _QUOTE
    data.reshape(-1)[np.arange(1, data.size, width) + size] = _QUOTE
    yield _Texts(rows, data, size + 2)
    if special.any():
        which = np.flatnonzero(special.any(axis=1))
        strings = escape(gather_bytes(Values(memory, offset[which], size[which], None)))
        own = which if isinstance(rows, slice) else rows[which]
        yield _placed(own, _quoted(strings.array(pa.binary(), None)))


@cache
def _unused(width: int) -> npt.NDArray[np.void]:
    """Return, by the size of a string in a cell, 0xFF for each byte that is not one of its own."""
    at, size = np.arange(width), np.arange(width - 1)[:, np.newaxis]
    unused = np.where((at > 0) & (at <= size), 0, 0xFF).astype(np.uint8)
    return unused.view(f"V{width}")[:, 0]


def _quoted(texts: Array) -> Bytes:
    quote, nothing = of_octets([b'"', b""])
    return Bytes.of(pc.binary_join_element_wise(quote, texts, quote, nothing))


def _placed(rows: Rows, texts: Bytes) -> _Texts | _Long:
    """Return texts for a cell, or for after it."""
    size = np.diff(texts.offsets).astype(np.int64)
    width = int(size.max())
    if width > _CELL_MAX:
        return _Long(rows, texts)
    spacious = np.concatenate([texts.data, np.zeros(width, dtype=np.uint8)])
    data = unaligned_view(spacious, f"V{width}")[texts.offsets[:-1]]
    return _Texts(rows, data.view(np.uint8).reshape(-1, width), size)


BATCH_BYTES = 1_000_000
"""As many bytes of documents are decoded at a time, or one document."""
LARGE_BYTES = 16_000_000
"""A larger document is decoded value by value."""
FEW_DOCUMENTS = 16
"""So few documents are not compared for one structure."""
_ROUND_SHARE = 4
"""Documents of one structure are looked for as long as one in so many has that of the first."""
_SPARSE = 2
"""Documents among so many times their own bytes are copied first: each byte is read repeatedly."""
FEW_BYTES = 4_000
"""So few bytes of documents are decoded value by value, which takes less than a batch's vectors."""


def plan(prefix: int) -> Plan:
    """Return how to read JSON with lengths of `prefix` bytes: text."""
    return Plan(pa.string(), _json, prefix=prefix)


def _json(values: Values) -> Array:
    ranges = batches(values.lengths, BATCH_BYTES)
    pieces = [_convert(values.choose(slice(first, last))) for first, last in ranges]
    return Bytes.join(pieces).array(pa.string(), values.null)


def _convert(values: Values) -> Bytes:
    """Return the text of some documents, nothing for NULL."""
    if not FEW_BYTES < int(values.lengths.sum()) <= LARGE_BYTES:
        return _plainly(values)
    try:
        return _together(values)
    except FormatError:
        # The plain decoder says what is wrong with which document, if anything is.
        return _plainly(values)


def _plainly(values: Values) -> Bytes:
    null = np.zeros(len(values), dtype=np.bool_) if values.null is None else values.null
    data, begin, length = values.memory.u1.data, values.offset.tolist(), values.lengths.tolist()
    return Bytes.of_values(
        [
            b"" if is_null else to_text(data[at : at + size])
            for at, size, is_null in zip(begin, length, null.tolist(), strict=True)
        ]
    )


def _together(values: Values) -> Bytes:
    present = np.flatnonzero(values.lengths)
    if len(present) < len(values) - (0 if values.null is None else np.count_nonzero(values.null)):
        raise FormatError("a document of no bytes")
    if not len(present):
        return Bytes(np.zeros(len(values) + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8))
    documents = values if len(present) == len(values) else values.choose(present)
    span = int(documents.offset[-1] - documents.offset[0])
    if span > _SPARSE * int(documents.lengths.sum()):
        documents = _end_to_end(documents)
    text = checked_utf8(_render(documents))
    if len(present) == len(values):
        return text
    sizes = np.zeros(len(values) + 1, dtype=np.int32)
    sizes[present + 1] = np.diff(text.offsets)
    return Bytes(np.cumsum(sizes, dtype=np.int32), text.data)


def _end_to_end(documents: Values) -> Values:
    """Return a copy of the documents in a memory of their own."""
    # And of some bytes after them, which a memory needs.
    offset, length = np.append(documents.offset, 0), np.append(documents.lengths, OVERREAD_BYTES)
    copied = gather_bytes(Values(documents.memory, offset, length, None))
    bounds = copied.offsets.astype(np.int64)
    memory = Memory(copied.data, int(bounds[-2]))
    return Values(memory, bounds[:-2], documents.lengths, None)


def _render(documents: Values) -> Bytes:
    """Return the text of documents: of those of one structure together, then of what is left."""
    memory, begin, end = documents.memory, documents.offset, documents.offset + documents.lengths
    left = np.arange(len(begin))
    pieces: list[Bytes] = []
    order: list[Int64Array] = []
    while len(left) >= FEW_DOCUMENTS:
        try:
            structure = Structure(memory, int(begin[left[0]]), int(end[left[0]]))
        except FormatError:
            break  # Of no structure that is followed, if it is a document.
        alike = structure.find_alike(begin[left], end[left])
        if np.count_nonzero(alike) * _ROUND_SHARE < len(left):
            break
        own = left[alike]
        pieces.append(render_alike(memory, structure, begin[own]))
        order.append(own)
        left = left[~alike]
    if len(left):
        pieces.append(_render_level_by_level(gather_bytes(documents.choose(left))))
        order.append(left)
    if len(pieces) == 1:
        return pieces[0]
    at = np.empty(len(begin), dtype=np.int64)
    at[np.concatenate(order)] = np.arange(len(begin))
    return Bytes.of(Bytes.join(pieces).array(pa.binary(), None).take(of_numbers(at)))


def _render_level_by_level(documents: Bytes) -> Bytes:
    memory, keys = Memory(documents.data, len(documents.data)), Keys()
    bounds = documents.offsets.astype(np.int64)
    return render(memory, walk(memory, bounds[:-1], bounds[1:], keys), keys)
