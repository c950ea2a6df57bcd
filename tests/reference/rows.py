"""The result of `rows/decode.py`, one value at a time: slow and plain.

It shares with the vectorised decoder what a column is, and no line of how its bytes are read. Tests
compare the two.

Source: as in the modules of the column families.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.column_types import BLOBS, ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.binlog.json.diff import apply_diffs
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.decode import DecodedRows
from tests.reference.values import Unrepresentable, read_value, value_size

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.decode import RowsEvents
    from airflow_provider_binlog.rows.layout import RowLayout

_CHANGES: dict[int, tuple[int, ...]] = {
    EventType.WRITE_ROWS: (0,),
    EventType.WRITE_ROWS_V1: (0,),
    EventType.UPDATE_ROWS: (1, 2),
    EventType.UPDATE_ROWS_V1: (1, 2),
    EventType.PARTIAL_UPDATE_ROWS: (1, 2),
    EventType.DELETE_ROWS: (3,),
    EventType.DELETE_ROWS_V1: (3,),
}
_VERSION_2 = (
    EventType.WRITE_ROWS,
    EventType.UPDATE_ROWS,
    EventType.DELETE_ROWS,
    EventType.PARTIAL_UPDATE_ROWS,
)
_LARGE = BLOBS | {ColumnType.JSON, ColumnType.GEOMETRY}


class _Absent:
    """In place of the bytes of a value that an image does not hold."""


_ABSENT = _Absent()
_Spans: TypeAlias = "list[bytes | _Absent | None]"
"""The bytes of each value of an image; None for NULL."""


@dataclass
class _Rows:
    """Rows as they are found: per row its values, and what stands beside them."""

    values: list[list[Any]] = field(default_factory=list)
    event: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    change: list[int] = field(default_factory=list)
    image: list[tuple[int, ...]] = field(default_factory=list)
    unrepresentable: Counter[str] = field(default_factory=Counter)
    invalid_text: Counter[str] = field(default_factory=Counter)


def decode_plainly(
    layout: RowLayout, events: RowsEvents, *, before_images: BeforeImages = BeforeImages.ALL
) -> DecodedRows:
    """Return what `decode` returns.

    Raises:
        FormatError, UnsupportedError: As `decode`.
    """
    rows = _Rows()
    for index in range(len(events)):
        event = events.data.data[int(events.start[index]) : int(events.end[index])]
        _decode_event(layout, bytes(event), int(events.type[index]), index, before_images, rows)
    arrays = [
        pa.array([row[number] for row in rows.values], column.arrow_type)
        for number, column in enumerate(layout.columns)
    ]
    images = list(dict.fromkeys([tuple(range(len(layout.columns))), *rows.image]))
    return DecodedRows(
        columns=arrays,
        event=np.array(rows.event, dtype=np.int32),
        offset=np.array(rows.offset, dtype=np.int64),
        change=np.array(rows.change, dtype=np.uint8),
        image=np.array([images.index(each) for each in rows.image], dtype=np.int32),
        images=images,
        unrepresentable=dict(rows.unrepresentable),
        invalid_text=dict(+rows.invalid_text),
    )


def _decode_event(  # noqa: C901, PLR0917 - from an event's header to its last row
    layout: RowLayout,
    event: bytes,
    type_code: int,
    index: int,
    before_images: BeforeImages,
    rows: _Rows,
) -> None:
    buffer = Buffer(event)
    buffer.take(19 + 8)
    width = len(layout.columns)
    if type_code in _VERSION_2:
        size = buffer.uint(2)
        if size < 2:
            raise FormatError("extra data smaller than its own size")
        buffer.take(size - 2)
    if buffer.lenenc() != width:
        raise FormatError("another number of columns")
    changes = _CHANGES.get(type_code)
    if changes is None:
        raise FormatError("not a rows event")
    bitmaps = [int.from_bytes(buffer.take((width + 7) // 8), "little") for _ in changes]
    held = [[bool(bitmap >> column & 1) for column in range(width)] for bitmap in bitmaps]
    nothing = changes == (0,) and not buffer.remaining and not any(held[0])
    if not all(map(any, held)) and not nothing:
        raise FormatError("images without any column")
    if type_code not in _VERSION_2 and not all(held[-1]):
        _refuse_unlogged(layout, changes, held)
    while buffer.remaining or nothing:
        nothing = False
        images = []
        for change, columns in zip(changes, held, strict=True):
            offset = len(event) - buffer.remaining
            partial = type_code == EventType.PARTIAL_UPDATE_ROWS and change == 2
            diffs = _partial_columns(layout, buffer) if partial else set()
            images.append((change, offset, _spans(layout, buffer, columns)))
            if partial:
                _apply_diffs(images[0][2], images[1][2], diffs)
        if len(images) == 2:
            _complete(layout, images, before_images)
        for change, offset, spans in images:
            rows.values.append(_read_row(layout, spans, rows))
            rows.event.append(index)
            rows.offset.append(offset)
            rows.change.append(change)
            rows.image.append(tuple(c for c in range(width) if spans[c] is not _ABSENT))


def _refuse_unlogged(layout: RowLayout, changes: tuple[int, ...], held: list[list[bool]]) -> None:
    """Refuse what MariaDB logs without the values of generated columns."""
    lacks = changes != (3,) and any(
        column.logged.generated and not is_held
        for column, is_held in zip(layout.columns, held[-1], strict=True)
    )
    if lacks or (len(held) == 2 and layout.named and _shows_generated(layout, *held)):
        raise UnsupportedError("the values of generated columns are not in the log")


def _shows_generated(layout: RowLayout, before: list[bool], after: list[bool]) -> bool:
    """Whether a column is missing that neither `MINIMAL` nor `NOBLOB` leaves out."""
    if not layout.key:
        return not all(before)
    more = any(is_held and c not in layout.key for c, is_held in enumerate(before))
    return more and any(
        column.logged.real_type not in _LARGE and not (one or other)
        for column, one, other in zip(layout.columns, before, after, strict=True)
    )


def _spans(layout: RowLayout, buffer: Buffer, held: list[bool]) -> _Spans:
    """Return the next image, which holds these columns."""
    null = int.from_bytes(buffer.take((sum(held) + 7) // 8), "little")
    spans: _Spans = []
    for column, is_held in zip(layout.columns, held, strict=True):
        if not is_held:
            spans.append(_ABSENT)
            continue
        spans.append(None if null & 1 else bytes(buffer.take(value_size(column.logged, buffer))))
        null >>= 1
    return spans


def _partial_columns(layout: RowLayout, buffer: Buffer) -> set[int]:
    """Read an after-image's options: return which columns hold differences."""
    options = buffer.uint(1)
    if options > 1:
        raise UnsupportedError("unknown options")
    json = [c for c, each in enumerate(layout.columns) if each.logged.real_type == ColumnType.JSON]
    bits = int.from_bytes(buffer.take((len(json) + 7) // 8 * options), "little")
    return {column for number, column in enumerate(json) if bits >> number & 1}


def _apply_diffs(before: _Spans, after: _Spans, diffs: set[int]) -> None:
    """Put whole documents into an after-image."""
    for column in diffs:
        document, differences = before[column], after[column]
        if not isinstance(differences, bytes):
            continue
        if isinstance(document, _Absent):
            raise UnsupportedError("differences to a document that was not logged")
        if document is None:
            raise FormatError("differences to a NULL")
        after[column] = apply_diffs(document, differences) if differences else document


def _complete(
    layout: RowLayout, images: list[tuple[int, int, _Spans]], before_images: BeforeImages
) -> None:
    """Take into an update's after-image what did not change; drop the other one if it may go."""
    before, after = images[0][2], images[1][2]
    unchanged = {column for column, span in enumerate(after) if span is _ABSENT}
    for column in unchanged:
        after[column] = before[column]
    same = (column in unchanged or before[column] == after[column] for column in layout.key)
    if before_images == BeforeImages.KEY_CHANGES and layout.key and all(same):
        del images[0]


def _read_row(layout: RowLayout, spans: _Spans, rows: _Rows) -> list[Any]:
    row: list[Any] = []
    for column, span in zip(layout.columns, spans, strict=True):
        value, replaced = None, False
        if isinstance(span, bytes):
            try:
                value, replaced = read_value(column.logged, span, layout.policies)
            except Unrepresentable:
                rows.unrepresentable[column.name] += 1
        rows.invalid_text[column.name] += replaced
        row.append(value)
    return row
