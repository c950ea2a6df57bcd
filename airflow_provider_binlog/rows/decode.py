"""Rows events in, columns out: the one path that row images take in production.

Events are decoded in groups of about `GROUP_BYTES`, so that the vectors of one group stay in the
processor's cache; what comes out does not depend on where groups end.

Source: mysql-server sql/log_event.cc, Rows_log_event::do_apply_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.rows.images import UPDATE_PREIMAGE, parse_heads
from airflow_provider_binlog.rows.keys import key_changed
from airflow_provider_binlog.rows.memory import SLACK, Memory
from airflow_provider_binlog.rows.values import OFFSET_MAX, Array, Values
from airflow_provider_binlog.rows.walk import Images, locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.rows.events import RowsEvents
    from airflow_provider_binlog.rows.layout import ColumnLayout, RowLayout

GROUP_BYTES = 4_000_000


@dataclass(frozen=True)
class DecodedRows:
    """Change rows of one table in one shape, in log order.

    Attributes:
        columns: One array per column of the layout, of the layout's types.
        event: int32; index of each row's event.
        offset: int64; where the row's image begins, in bytes from the start of its event.
        change: uint8; 0 insert, 1 update_preimage, 2 update_postimage, 3 delete.
        image: int16; number of the set of columns in the image; 0 is all of them.
        unrepresentable: By column, values that no lake type holds and that are NULL here; columns
            without any are left out.
    """

    columns: list[Array]
    event: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    change: npt.NDArray[np.uint8]
    image: npt.NDArray[np.int16]
    unrepresentable: dict[str, int]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.event)


def decode(
    layout: RowLayout, events: RowsEvents, *, before_images: BeforeImages = BeforeImages.ALL
) -> DecodedRows:
    """Return the rows of these events; under KEY_CHANGES without the before-images of equal key.

    Raises:
        FormatError: The events break the format, or are not of this table; `event=` says which one.
        UnsupportedError: An image lacks columns, or the values of a column exceed 2 GiB.
    """
    pieces = []
    for first, last in _groups(events):
        try:
            pieces.append(_decode_group(layout, events.slice(first, last), first, before_images))
        except BinlogError as error:
            _add_context(error, layout, first)
            raise
    return _join(layout, pieces)


def _add_context(error: BinlogError, layout: RowLayout, first: int) -> None:
    """Name the table, and count the event from the first of all."""
    if isinstance(event := error.context.get("event"), int):
        error.context["event"] = event + first
    error.context = {"table": f"{layout.database}.{layout.table}", **error.context}


def _groups(events: RowsEvents) -> Iterator[tuple[int, int]]:
    """Yield ranges of events, each of about `GROUP_BYTES` and of less than 2 GiB of memory."""
    if not len(events):
        return
    upto = np.cumsum(events.end - events.start)
    first = 0
    while first < len(events):
        done = int(upto[first - 1]) if first else 0
        by_bytes = int(np.searchsorted(upto, done + GROUP_BYTES))
        by_span = int(np.searchsorted(events.end, events.start[first] + OFFSET_MAX - SLACK)) - 1
        last = min(max(first, min(by_bytes, by_span)) + 1, len(events))
        yield first, last
        first = last


def _decode_group(
    layout: RowLayout, events: RowsEvents, first: int, before_images: BeforeImages
) -> DecodedRows:
    base, stop = int(events.start[0]), int(events.end[-1])
    if not (np.diff(events.start) > 0).all() or (events.end < events.start).any():
        raise FormatError("events are not in log order")
    # A place behind the last event, so that a cursor held there has run over every end.
    memory = Memory(events.data[base:], stop - base + 1)
    start, end = events.start - base, events.end - base
    heads = parse_heads(memory, start, end, events.type, len(layout.columns))
    images = locate(layout.route, memory, heads.images, end)
    _check_pairs(images, heads.paired)
    change = heads.changes[images.event, images.number & 1]
    if before_images == BeforeImages.KEY_CHANGES and layout.key:
        before = np.flatnonzero(change == UPDATE_PREIMAGE)
        dropped = before[~key_changed(images, layout.key, before)]
        if len(dropped):
            kept = np.ones(len(images), dtype=np.bool_)
            kept[dropped] = False
            images, change = images.select(kept), change[kept]
    columns, unrepresentable = _convert(layout, images)
    return DecodedRows(
        columns=columns,
        event=(images.event + first).astype(np.int32),
        offset=images.begin - start[images.event],
        change=change,
        image=np.zeros(len(images), dtype=np.int16),
        unrepresentable=unrepresentable,
    )


def _check_pairs(images: Images, paired: npt.NDArray[np.bool_]) -> None:
    """Refuse an update whose last before-image has no after-image."""
    if not paired.any():
        return
    odd = paired & (np.bincount(images.event, minlength=len(paired)) % 2 == 1)
    if odd.any():
        raise TruncatedError("an update ends behind a before-image", event=int(odd.argmax()))


def _convert(layout: RowLayout, images: Images) -> tuple[list[Array], dict[str, int]]:
    """Return the columns, and how many values of each became NULL."""
    arrays: dict[int, Array] = {}
    became_null: dict[int, int] = {}
    for index, values in images.each_column():
        array = _convert_column(layout.columns[index], values)
        nulls = 0 if values.null is None else int(np.count_nonzero(values.null))
        if array.null_count > nulls:
            became_null[index] = array.null_count - nulls
        arrays[index] = array
    columns = range(len(layout.columns))
    return [arrays[index] for index in columns], {
        layout.columns[index].name: became_null[index] for index in columns if index in became_null
    }


def _convert_column(column: ColumnLayout, values: Values) -> Array:
    try:
        return column.plan.convert(values)
    except FormatError as error:
        error.context["column"] = column.name
        raise
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        _raise_if_too_large(error, column)
        raise


def _raise_if_too_large(error: Exception, column: ColumnLayout) -> None:
    """Translate Arrow's error about its 32-bit offsets, which it raises in two ways."""
    if "overflow" in str(error) or isinstance(error, pa.ArrowCapacityError):
        raise UnsupportedError(
            "the values of a column exceed 2 GiB in one batch: set binlog_row_event_max_size "
            "lower, or leave the table out",
            column=column.name,
        ) from error


def _nothing(arrow_type: pa.DataType) -> Array:
    """Return no values; `pa.array` knows no unions, which is what may be text or not is read as."""
    array: Array = pa.nulls(0, arrow_type)  # type: ignore[call-overload]  # of any type
    return array


def _join(layout: RowLayout, pieces: list[DecodedRows]) -> DecodedRows:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return DecodedRows(
            columns=[_nothing(column.arrow_type) for column in layout.columns],
            event=np.zeros(0, dtype=np.int32),
            offset=np.zeros(0, dtype=np.int64),
            change=np.zeros(0, dtype=np.uint8),
            image=np.zeros(0, dtype=np.int16),
            unrepresentable={},
        )
    columns = []
    for index, column in enumerate(layout.columns):
        try:
            columns.append(pa.concat_arrays([piece.columns[index] for piece in pieces]))
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            _raise_if_too_large(error, column)
            raise
    counts: dict[str, int] = {}
    for piece in pieces:
        for name, count in piece.unrepresentable.items():
            counts[name] = counts.get(name, 0) + count
    return DecodedRows(
        columns=columns,
        event=np.concatenate([piece.event for piece in pieces]),
        offset=np.concatenate([piece.offset for piece in pieces]),
        change=np.concatenate([piece.change for piece in pieces]),
        image=np.concatenate([piece.image for piece in pieces]),
        unrepresentable=counts,
    )
