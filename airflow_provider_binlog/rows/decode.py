"""Rows events in, columns out, in groups whose vectors stay in the processor's cache.

The decoded rows do not depend on where groups end.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, Rows_event; sql/log_event.cc,
Rows_log_event::do_apply_event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from airflow_provider_binlog.rows.images.headers import (
    UPDATE_PREIMAGE,
    parse_headers,
)
from airflow_provider_binlog.rows.images.located import Images
from airflow_provider_binlog.rows.images.partial import RowImages
from airflow_provider_binlog.rows.layout import RowLayout, convert_columns
from airflow_provider_binlog.rows.values import (
    OFFSET_MAX,
    OVERREAD_BYTES,
    Array,
    Memory,
    Rows,
    batches,
)


@dataclass(frozen=True)
class RowsEvents:
    """Some rows events of one table, all of the same columns, in log order.

    Attributes:
        data: uint8; holds the events, whatever is between them, and spare bytes after the last
            one (64, else a copy is made).
        start: int64; where each event's header begins in `data`, rising.
        end: int64; where its body ends, checksum excluded.
        type: uint8; WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS or their v1 forms, PARTIAL_UPDATE_ROWS.
    """

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, block: EventBlock, events: npt.NDArray[np.int64]) -> RowsEvents:
        """Return some events of a block, by their indexes: views of its bytes."""
        start = block.start[events]
        end = start + block.size[events] - block.format.checksum_size
        return cls(data=block.data, start=start, end=end, type=block.type[events])

    def __len__(self) -> int:
        """Count the events."""
        return len(self.start)

    def slice(self, first: int, last: int) -> RowsEvents:
        """Return the events from `first` up to `last`, exclusive: views of the same bytes."""
        part = slice(first, last)
        return RowsEvents(self.data, self.start[part], self.end[part], self.type[part])


GROUP_BYTES = 4_250_000
"""Four groups are a part of the usual size, without a remainder."""

READ_BYTES = 64_000_000
"""The most bytes that a group of more than one event may take when its values are read, where they
take more than in the log: see `Plan.growth`."""


# Of more bytes a row, rows are read one by one: what they hold is then not copied.
_LARGE_ROW_BYTES = 1 << 20

# So many times the rows that are decoded together are located together: that takes less room.
_LOCATED_TOGETHER = 4


@dataclass(frozen=True)
class DecodedRows:
    """Change rows of one table, all of the same columns, in log order.

    Attributes:
        columns: One array per column that the layout reads, of its type.
        event: int32; index of each row's event.
        offset: int64; where the row's image begins, in bytes from the start of its event.
        change: uint8; 0 insert, 1 update_preimage, 2 update_postimage, 3 delete.
        image: int32; number of the set of columns that the row holds, an update_postimage with what
            its before-image has: what it left out did not change.
        images: The sets, as indexes of `columns`; 0 is all of them, the others come as their rows
            do. Columns outside a row's set are NULL in `columns`.
        unrepresentable: By column, how many values no lake type holds: they are NULL here.
        invalid_text: By column, in how many values U+FFFD replaces invalid byte sequences.
    """

    columns: list[Array]
    event: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    change: npt.NDArray[np.uint8]
    image: npt.NDArray[np.int32]
    images: list[tuple[int, ...]]
    unrepresentable: dict[str, int]
    invalid_text: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.event)


def decode_pieces(
    layout: RowLayout,
    events: RowsEvents,
    *,
    before_images: BeforeImages = BeforeImages.ALL,
    rows_max: int = OFFSET_MAX,
) -> Iterator[tuple[int, int, DecodedRows]]:
    """Yield the rows of these events piece by piece, each with the range of its events.

    `DecodedRows.event` counts from the first of all events. A piece is of one event, or has at most
    `rows_max` rows; large rows are a piece each. Under KEY_CHANGES the before-images of equal key
    are left out.

    Raises:
        FormatError: The events break the format, or are not of this table; `event=` says which one.
        UnsupportedError: The values of a column exceed 2 GiB, or a JSON column holds differences
            to a document that was not logged.
    """
    for first, last in _groups(layout, events, rows_max):
        try:
            yield from _decode_group(
                layout, events.slice(first, last), first, before_images, rows_max
            )
        except BinlogError as error:
            _add_context(error, layout, first)
            raise


def _add_context(error: BinlogError, layout: RowLayout, first: int) -> None:
    """Add the table, and count the event from the first of all."""
    if isinstance(event := error.context.get("event"), int):
        error.context["event"] = event + first
    error.context = {"table": f"{layout.database}.{layout.table}", **error.context}


def _groups(layout: RowLayout, events: RowsEvents, rows_max: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of events, each of about `GROUP_BYTES` and in less than 2 GiB of memory.

    They are smaller for a table whose values grow when read, see `READ_BYTES`, or whose images may
    be so short that there are too many.
    """
    if not len(events):
        return
    growth = max(column.plan.growth for column in layout.columns)
    sizes = (0 if c.nullable else c.plan.size or c.plan.prefix for c in layout.columns)
    least_image = sum(sizes, start=layout.route.null_bytes)
    rows_bytes = _LOCATED_TOGETHER * rows_max * least_image
    group_bytes = min(GROUP_BYTES, READ_BYTES // growth, rows_bytes)
    upto = np.cumsum(events.end - events.start)
    first = 0
    while first < len(events):
        done = int(upto[first - 1]) if first else 0
        by_bytes = int(np.searchsorted(upto, done + group_bytes))
        by_span = (
            int(np.searchsorted(events.end, events.start[first] + OFFSET_MAX - OVERREAD_BYTES)) - 1
        )
        last = min(max(first, min(by_bytes, by_span)) + 1, len(events))
        yield first, last
        first = last


def _decode_group(
    layout: RowLayout, events: RowsEvents, before: int, before_images: BeforeImages, rows_max: int
) -> Iterator[tuple[int, int, DecodedRows]]:
    """Yield the rows of `rows_max` images at most, or of one event, each with its events' range.

    Those of large images are yielded one by one; `before` events are before these.
    """
    base, stop = int(events.start[0]), int(events.end[-1])
    if not (np.diff(events.start) > 0).all() or (events.end < events.start).any():
        raise FormatError("events are not in log order")
    # One byte more than the last event: a cursor held there is past the end of every event.
    memory = Memory(events.data[base:], stop - base + 1)
    start, end = events.start - base, events.end - base
    headers = parse_headers(memory, start, end, events.type, layout.width)
    row_images = RowImages(layout, memory, headers, end)
    _check_pairs(row_images.images, headers.paired)
    counts = np.bincount(row_images.images.event, minlength=len(end))
    bounds = np.append(0, np.cumsum(counts))
    for first, last in batches(counts, rows_max):
        begin, stop = int(bounds[first]), int(bounds[last])
        # Without what is between the events: that is not the same in other blocks.
        size = int((end[first:last] - start[first:last]).sum())
        count = 1 if size > _LARGE_ROW_BYTES * (stop - begin) else max(1, stop - begin)
        for at in range(begin, max(stop, begin + 1), count):
            some = slice(at, min(at + count, stop))
            rows = _decode_rows(layout, row_images, start, some, before_images)
            yield before + first, before + last, replace(rows, event=rows.event + np.int32(before))


def _decode_rows(
    layout: RowLayout,
    row_images: RowImages,
    start: npt.NDArray[np.int64],
    some: slice,
    before_images: BeforeImages,
) -> DecodedRows:
    rows: Rows = some
    if before_images == BeforeImages.KEY_CHANGES and layout.key:
        before = some.start + np.flatnonzero(row_images.change[some] == UPDATE_PREIMAGE)
        if len(dropped := before[~row_images.key_changed(before)]):
            rows = np.delete(np.arange(some.start, some.stop), dropped - some.start)
    event = row_images.images.event[rows]
    converted = convert_columns(layout, row_images.each_column(rows), event)
    image, images = row_images.number_sets(rows)
    return DecodedRows(
        columns=converted.columns,
        event=event.astype(np.int32),
        offset=row_images.images.begin[rows] - start[event],
        change=row_images.change[rows],
        image=image,
        images=images,
        unrepresentable=converted.unrepresentable,
        invalid_text=converted.invalid_text,
    )


def _check_pairs(images: Images, paired: npt.NDArray[np.bool_]) -> None:
    """Refuse an update whose last before-image has no after-image."""
    if not paired.any():
        return
    odd = paired & (np.bincount(images.event, minlength=len(paired)) % 2 == 1)
    if odd.any():
        raise TruncatedError("an update ends after a before-image", event=int(odd.argmax()))
