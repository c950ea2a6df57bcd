"""The headers of rows events, up to the first row image, of many events at once.

    | 19 header | 6 table id | 2 flags | version 2: 2 size + extra data, its own bytes counted |
    | lenenc n columns | (n + 7) / 8 bytes: which are present | updates: the same for after-images |
    | row images |

Source: mysql-server, libs/mysql/binlog/event/rows_event.h, Rows_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.blocks.block import type_mask
from airflow_provider_binlog.errors import FormatError, TruncatedError
from airflow_provider_binlog.rows.images.presence import ColumnSets, read_sets

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array, Memory

_POST_HEADER = 19 + 6 + 2
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
        sets: Which columns the images hold; None where all of them hold all columns.
        partial: Whose after-images begin with options; None where none do.
        nothing: Which events are one image without columns, of no bytes: under MINIMAL, an insert
            that gives no column a value.
        version_1: Which events have no extra data: those of MariaDB, and of a MySQL before 8.4
            under log_bin_use_v1_row_events.
    """

    images: Int64Array
    changes: npt.NDArray[np.uint8]
    sets: ColumnSets | None
    partial: npt.NDArray[np.bool_] | None
    nothing: npt.NDArray[np.bool_]
    version_1: npt.NDArray[np.bool_]

    def slice(self, first: int, last: int) -> RowsHeaders:
        """Return the headers of the events from `first` up to `last`, exclusive."""
        part = slice(first, last)
        return RowsHeaders(
            self.images[part],
            self.changes[part],
            None if self.sets is None else ColumnSets(self.sets.sets, self.sets.number[:, part]),
            None if self.partial is None else self.partial[part],
            self.nothing[part],
            self.version_1[part],
        )

    @property
    def paired(self) -> npt.NDArray[np.bool_]:
        """Which events hold images in pairs: the updates."""
        paired: npt.NDArray[np.bool_] = self.changes[:, 0] == UPDATE_PREIMAGE
        return paired


def parse_headers(
    memory: Memory, start: Int64Array, end: Int64Array, types: npt.NDArray[np.uint8], width: int
) -> RowsHeaders:
    """Read the headers of rows events of a table of `width` columns.

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
    full = _all_present(memory, at, width)
    full[paired] &= _all_present(memory, at[paired] + octets, width)
    partial = types == _PARTIAL
    sets, nothing = None, np.zeros(len(at), dtype=np.bool_)
    if not full.all():
        sets = read_sets(memory, at, width, paired)
        empty = np.array([not each for each in sets.sets])[sets.number].any(axis=0)
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


def _all_present(memory: Memory, at: Int64Array, width: int) -> npt.NDArray[np.bool_]:
    """Return where all bits of the bitmap are set; those above `width` may be either."""
    present = np.ones(len(at), dtype=np.bool_)
    for first in range(0, width, 64):
        mask = np.uint64((1 << min(64, width - first)) - 1)
        present &= memory.u8[at + first // 8] & mask == mask
    return present
