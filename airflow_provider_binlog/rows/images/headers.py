"""The headers of rows events and of their images: which columns there are, and which are NULL.

A column that an image does not hold takes no room in it, like one that is NULL. So images of any
sets of columns are walked along one route together, once their NULL bits stand where the route's
columns do and those of absent columns are set: the *missing* ones.

Source: mysql-server, libs/mysql/binlog/event/rows_event.h, Rows_event (columns_before_image) and
enum_binlog_row_value_options; sql/rpl_record.cc, unpack_row and start_partial_bits_reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.blocks.block import type_mask
from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError
from airflow_provider_binlog.rows.values import Int64Array, Memory

WORD_BITS = 64

PARTIAL_JSON = 1
"""The option that some JSON columns hold differences, not documents."""


@dataclass(frozen=True)
class ColumnSets:
    """The sets of columns that the images of some events hold.

    Attributes:
        sets: The sets that occur, in no order; bit c is set where column c is in the set.
        number: int64[2, events]; index into `sets`: of an event's first image, and of its second,
            which is the same where images do not come in pairs.
    """

    sets: tuple[int, ...]
    number: npt.NDArray[np.int64]

    @classmethod
    def whole(cls, width: int, events: int) -> ColumnSets:
        """Return the sets of events whose images all hold all columns."""
        return cls(((1 << width) - 1,), np.zeros((2, events), dtype=np.int64))

    @property
    def union(self) -> int:
        """The columns that some image holds, as bits."""
        union = 0
        for column_set in self.sets:
            union |= column_set
        return union


def read_sets(
    memory: Memory, at: Int64Array, width: int, paired: npt.NDArray[np.bool_]
) -> ColumnSets:
    """Read the bitmaps at these offsets, one per event or, of the `paired` ones, two.

    Bits above the last of `width` columns may be either.
    """
    both = np.concatenate([at, at + (width + 7) // 8 * paired])
    number = np.zeros(len(both), dtype=np.int64)
    words = []
    for first in range(0, width, WORD_BITS):
        mask = np.uint64((1 << min(WORD_BITS, width - first)) - 1)
        word = memory.u8[both + first // 8] & mask
        words.append(word)
        if (word != word[0]).any():
            distinct, which = np.unique(word, return_inverse=True)
            _, number = np.unique(number * len(distinct) + which, return_inverse=True)
    _, examples = np.unique(number, return_index=True)
    sets = tuple(
        sum(int(word[example]) << WORD_BITS * number for number, word in enumerate(words))
        for example in examples.tolist()
    )
    return ColumnSets(sets, number.reshape(2, -1))


def bits_of(sets: Sequence[int], width: int) -> npt.NDArray[np.bool_]:
    """Return bool[sets, width]: which columns each set holds."""
    octets = (width + 7) // 8
    joined = b"".join(column_set.to_bytes(octets, "little") for column_set in sets)
    bits = np.unpackbits(
        np.frombuffer(joined, dtype=np.uint8).reshape(len(sets), octets),
        axis=1,
        count=width,
        bitorder="little",
    )
    return bits.astype(np.bool_)


def columns_of(column_set: int) -> tuple[int, ...]:
    """Return the columns in a set, in their order."""
    return tuple(c for c in range(column_set.bit_length()) if column_set >> c & 1)


@dataclass(frozen=True)
class Options:
    """The options before the after-images of PARTIAL_UPDATE_ROWS events.

        | options, one byte | if 1: a bit per JSON column of the table | NULL bits | values |

    Attributes:
        has: bool[events]; whose after-images have them.
        bits_bytes: Bytes of their bits, one per JSON column of the table.
    """

    has: npt.NDArray[np.bool_]
    bits_bytes: int

    def read(
        self, memory: Memory, cursor: Int64Array, event: Int64Array, bits: Int64Array
    ) -> Int64Array:
        """Set the offsets of the bits, 0 where there are none, and return those after them.

        Raises:
            UnsupportedError: The options are not known.
        """
        has = self.has[event]
        value = memory.u1.take(cursor) * has
        unknown = value > PARTIAL_JSON
        if unknown.any():
            at = int(unknown.argmax())
            raise _unknown_options(int(value[at]), int(event[at]))
        np.multiply(cursor + 1, value, out=bits)
        stop: Int64Array = cursor + has + self.bits_bytes * value.astype(np.int64)
        return np.minimum(stop, memory.size, out=stop)

    def read_one(self, data: memoryview, at: int, event: int) -> tuple[int, int]:
        """Return the offset after the options of one image, and that of their bits."""
        value = int.from_bytes(data[at : at + 1], "little")
        if value > PARTIAL_JSON:
            raise _unknown_options(value, event)
        return (at + 1 + self.bits_bytes, at + 1) if value else (at + 1, 0)


def _unknown_options(value: int, event: int) -> UnsupportedError:
    return UnsupportedError(
        "row images with unknown options: upgrade this package, or set "
        "binlog_row_value_options='' on the server and in the sessions that write",
        options=value,
        event=event,
    )


@dataclass(frozen=True)
class Presence:
    """The columns of a route that the images of some events hold.

        | NULL bits: bit k is that of the k-th column which the image holds | values |

    Attributes:
        number: int64[2, events]; which set an event's images hold, by turns.
        absent: int64[words, sets]; for each 64 columns of the route, those not in a set.
        null_bytes: int64[sets]; bytes of NULL bits.
        counted: int64[words, sets]; of each 64 NULL bits, those that stand for a column.
        columns: uint16[sets, columns]; the route's column that each NULL bit stands for.
        nothing: bool[events]; the event is one image that holds no column, of no bytes.
        options: Options of the after-images; None where there are none.
    """

    number: npt.NDArray[np.int64]
    absent: npt.NDArray[np.int64]
    null_bytes: npt.NDArray[np.int64]
    counted: npt.NDArray[np.int64]
    columns: npt.NDArray[np.uint16]
    nothing: npt.NDArray[np.bool_]
    options: Options | None

    @classmethod
    def of(
        cls,
        number: npt.NDArray[np.int64],
        held: npt.NDArray[np.bool_],
        nothing: npt.NDArray[np.bool_],
        options: Options | None,
    ) -> Presence:
        """Return it; `held` is bool[sets, columns]: which columns of the route each set holds."""
        count = held.sum(axis=1)
        return cls(
            number=number,
            absent=_words(~held),
            null_bytes=(count + 7) // 8,
            counted=_words(np.arange(held.shape[1]) < count[:, None]),
            columns=np.argsort(~held, axis=1, kind="stable").astype(np.uint16),
            nothing=nothing,
            options=options,
        )

    def read_missing(
        self, memory: Memory, cursor: Int64Array, number: Int64Array, missing: npt.NDArray[np.int64]
    ) -> Int64Array:
        """Set the bits of the columns that are NULL or absent, and return the offsets after.

        `cursor` and `number` say where images begin and which sets they hold. `missing` is
        int64[words, images], overwritten.
        """
        np.take(self.absent, number, axis=1, out=missing)
        for word, counted in enumerate(self.counted):
            at = cursor if not word else np.minimum(cursor + 8 * word, memory.size)
            null = memory.i8[at] & counted[number]
            bits = any_bit(null)
            while bits:
                bit = bits.bit_length() - 1
                bits ^= 1 << bit
                which = np.flatnonzero(null >> bit & 1)
                column = self.columns[number[which], WORD_BITS * word + bit].astype(np.int64)
                missing[column // WORD_BITS, which] |= np.left_shift(1, column % WORD_BITS)
        return cursor + self.null_bytes[number]

    def reader(self, event: int) -> Callable[[memoryview, int, int], tuple[int, int, int]]:
        """Return what reads the header of each image of one event.

        It takes the bytes, the offset of an image and its number in the event, and returns the
        offset of its values, which columns are NULL or absent as bits, and the offset of the bits
        of its options.
        """
        turns = [
            (
                int(self.null_bytes[number]),
                int.from_bytes(self.counted[:, number].tobytes(), "little"),
                int.from_bytes(self.absent[:, number].tobytes(), "little"),
                self.columns[number].tolist(),
            )
            for number in self.number[:, event]
        ]
        options = self.options if self.options and self.options.has[event] else None

        def read(data: memoryview, at: int, image: int) -> tuple[int, int, int]:
            bits = 0
            if options and image & 1:
                at, bits = options.read_one(data, at, event)
            size, counted, missing, columns = turns[image & 1]
            null = int.from_bytes(data[at : at + size], "little") & counted
            while null:
                bit = null.bit_length() - 1
                null ^= 1 << bit
                missing |= 1 << columns[bit]
            return at + size, missing, bits

        return read


def any_bit(words: npt.NDArray[np.int64]) -> int:
    """Return the bits that are set in some word."""
    if not np.count_nonzero(words):
        return 0  # Known at a fifth of the time.
    return int(np.bitwise_or.reduce(words)) & (1 << WORD_BITS) - 1


def _words(bits: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return int64[words, sets] with 64 of each set's bits in a word."""
    sets, width = bits.shape
    words = -(-width // WORD_BITS)
    octets = np.zeros((sets, 8 * words), dtype=np.uint8)
    octets[:, : (width + 7) // 8] = np.packbits(bits, axis=1, bitorder="little")
    return np.ascontiguousarray(octets.view(np.int64).T)


_POST_HEADER = 19 + 6 + 2
# A table has at most 4,096 columns: their length-encoded number takes one byte or three.
_TWO_BYTE_WIDTH = 0xFC
_ONE_BYTE_WIDTH_MAX = 0xFA

_VERSION_1 = (EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1)
_VERSION_2 = (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS)
_PARTIAL = EventType.PARTIAL_UPDATE_ROWS

INSERT, UPDATE_PREIMAGE, UPDATE_POSTIMAGE, DELETE = range(4)
"""Codes of `DecodedRows.change`, in the order of `ChangeType`."""

# By type code: the change that an event's first image is, and the one that its second is.
_NO_ROWS = 255
_HAS_EXTRA = type_mask([*_VERSION_2, _PARTIAL])
_CHANGES = np.full((256, 2), _NO_ROWS, dtype=np.uint8)
for _insert, _update, _delete in (_VERSION_1, _VERSION_2):
    _CHANGES[_insert] = INSERT
    _CHANGES[_update] = UPDATE_PREIMAGE, UPDATE_POSTIMAGE
    _CHANGES[_delete] = DELETE
_CHANGES[_PARTIAL] = UPDATE_PREIMAGE, UPDATE_POSTIMAGE


@dataclass(frozen=True)
class RowsHeaders:
    """The headers of some rows events, one entry per event.

    Attributes:
        images: Where the first row image begins.
        changes: uint8[events, 2]; the changes that an event's images are, in turns.
        sets: Which columns the images hold; None where every image holds every column.
        partial: bool; the event's after-images begin with options. None where no event has any.
        nothing: Which events are one image of no bytes: a MINIMAL insert that gives no values.
        version_1: Which events have no extra data: MariaDB's, or log_bin_use_v1_row_events.
    """

    images: Int64Array
    changes: npt.NDArray[np.uint8]
    sets: ColumnSets | None
    partial: npt.NDArray[np.bool_] | None
    nothing: npt.NDArray[np.bool_]
    version_1: npt.NDArray[np.bool_]

    @property
    def paired(self) -> npt.NDArray[np.bool_]:
        """Whether each event holds images in pairs: the updates."""
        paired: npt.NDArray[np.bool_] = self.changes[:, 0] == UPDATE_PREIMAGE
        return paired


def parse_headers(
    memory: Memory, start: Int64Array, end: Int64Array, types: npt.NDArray[np.uint8], width: int
) -> RowsHeaders:
    """Read the headers of rows events of a table of `width` columns.

        | 19 header | 6 table id | 2 flags | version 2: 2 size + extra data, its bytes counted |
        | lenenc n columns | (n + 7) / 8 bytes: bit c is set where the images hold column c |
        | updates: the same for after-images | row images |

    Raises:
        TruncatedError: An event ends inside its header.
        FormatError: An event is no rows event, or of a table of another width.
    """
    changes = _CHANGES[types]
    _refuse(changes[:, 0] == _NO_ROWS, FormatError("not a rows event that is decoded"))
    truncated = TruncatedError("a rows event ends inside its header")
    at = start + _POST_HEADER
    _refuse(at + 2 > end, truncated)
    has_extra = _HAS_EXTRA[types]
    extra = memory.u2[at].astype(np.int64) * has_extra
    _refuse(
        has_extra & (extra < 2),
        FormatError("extra data of a rows event is smaller than its own size"),
    )
    at += extra
    _refuse(at >= end, truncated)
    at = _after_width(memory, at, width)
    octets = (width + 7) // 8
    paired = changes[:, 0] == UPDATE_PREIMAGE
    images = at + octets * (1 + paired)
    _refuse(images > end, truncated)
    partial = types == _PARTIAL
    nothing = np.zeros(len(at), dtype=np.bool_)
    logged = read_sets(memory, at, width, paired)
    sets = None if logged.sets == ((1 << width) - 1,) else logged
    if sets is not None:
        empty = np.array([not column_set for column_set in sets.sets])[sets.number].any(axis=0)
        nothing = empty & (images == end) & (changes[:, 0] == INSERT)
        _refuse(empty & ~nothing, FormatError("row images without any column"))
    return RowsHeaders(
        images, changes, sets, partial if partial.any() else None, nothing, version_1=~has_extra
    )


def _refuse(wrong: npt.NDArray[np.bool_], error: Exception) -> None:
    """Raise `error` if anything is wrong, with the index of the first event that is."""
    if wrong.any():
        raise type(error)(*error.args, event=int(wrong.argmax()))  # type: ignore[call-arg]


def _after_width(memory: Memory, at: Int64Array, width: int) -> Int64Array:
    """Return the offsets after the number of columns, which must be `width`."""
    first = memory.u1.take(at)
    long = first == _TWO_BYTE_WIDTH
    _refuse((first > _ONE_BYTE_WIDTH_MAX) & ~long, FormatError("not a number of columns"))
    logged = np.where(long, memory.u2[at + 1], first)
    _refuse(
        logged != width,
        FormatError("a rows event of another number of columns than its table has", columns=width),
    )
    return at + np.where(long, 3, 1)
