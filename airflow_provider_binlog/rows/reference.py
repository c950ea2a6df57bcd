"""The same result as `rows/decode.py`, one value at a time: slow, plain, not for production.

It shares with the vectorised decoder what a column is, and no line of how its bytes are read. Tests
hold the one against the other.

Source: as in the modules of the column families.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import BINARY_COLLATION, charset_of, decode_text
from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.decode import DecodedRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.table_map import TableMapColumn
    from airflow_provider_binlog.rows.events import RowsEvents
    from airflow_provider_binlog.rows.layout import RowLayout

_CHANGES: dict[int, tuple[int, ...]] = {
    EventType.WRITE_ROWS: (0,),
    EventType.WRITE_ROWS_V1: (0,),
    EventType.UPDATE_ROWS: (1, 2),
    EventType.UPDATE_ROWS_V1: (1, 2),
    EventType.DELETE_ROWS: (3,),
    EventType.DELETE_ROWS_V1: (3,),
}
_EXACT = Context(prec=80)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Unrepresentable(Exception):  # noqa: N818 - not an error: the value becomes NULL
    """No lake type holds the value."""


@dataclass
class _Rows:
    """Rows as they are found: per row its values, and what stands beside them."""

    values: list[list[Any]] = field(default_factory=list)
    event: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    change: list[int] = field(default_factory=list)
    unrepresentable: dict[str, int] = field(default_factory=dict)


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
    return DecodedRows(
        columns=arrays,
        event=np.array(rows.event, dtype=np.int32),
        offset=np.array(rows.offset, dtype=np.int64),
        change=np.array(rows.change, dtype=np.uint8),
        image=np.zeros(len(rows.event), dtype=np.int16),
        unrepresentable=rows.unrepresentable,
    )


def _decode_event(  # noqa: C901, PLR0917 - from an event's head to its last row
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
    if type_code in (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS):
        size = buffer.uint(2)
        if size < 2:
            raise FormatError("extra data smaller than its own size")
        buffer.take(size - 2)
    if buffer.lenenc() != width:
        raise FormatError("another number of columns")
    changes = _CHANGES.get(type_code)
    if changes is None:
        raise FormatError("not a rows event")
    full = (1 << width) - 1
    for _ in changes:
        if int.from_bytes(buffer.take((width + 7) // 8), "little") & full != full:
            raise UnsupportedError("a row image without some of the columns")
    while buffer.remaining:
        images = []
        for change in changes:
            offset = len(event) - buffer.remaining
            images.append((change, offset, _spans(layout, buffer)))
        if len(images) == 2 and before_images == BeforeImages.KEY_CHANGES and layout.key:
            before, after = images[0][2], images[1][2]
            if all(before[column] == after[column] for column in layout.key):
                del images[0]
        for change, offset, spans in images:
            rows.values.append(_read_row(layout, spans, rows.unrepresentable))
            rows.event.append(index)
            rows.offset.append(offset)
            rows.change.append(change)


def _spans(layout: RowLayout, buffer: Buffer) -> list[bytes | None]:
    """Return the bytes of each value of the next image, None for NULL."""
    width = len(layout.columns)
    null = int.from_bytes(buffer.take((width + 7) // 8), "little")
    return [
        None if null >> index & 1 else bytes(buffer.take(_size(column.logged, buffer)))
        for index, column in enumerate(layout.columns)
    ]


_SIZES: dict[int, Callable[[TableMapColumn], int]] = {
    ColumnType.TINY: lambda _: 1,
    ColumnType.SHORT: lambda _: 2,
    ColumnType.INT24: lambda _: 3,
    ColumnType.LONG: lambda _: 4,
    ColumnType.LONGLONG: lambda _: 8,
    ColumnType.FLOAT: lambda _: 4,
    ColumnType.DOUBLE: lambda _: 8,
    ColumnType.YEAR: lambda _: 1,
    ColumnType.DATE: lambda _: 3,
    ColumnType.NEWDATE: lambda _: 3,
    ColumnType.TIME2: lambda column: 3 + (column.fsp + 1) // 2,
    ColumnType.DATETIME2: lambda column: 5 + (column.fsp + 1) // 2,
    ColumnType.TIMESTAMP2: lambda column: 4 + (column.fsp + 1) // 2,
    ColumnType.BIT: lambda column: (column.bits + 7) // 8,
    ColumnType.ENUM: lambda column: column.pack_size,
    ColumnType.SET: lambda column: column.pack_size,
    ColumnType.NEWDECIMAL: lambda column: sum(size for size, _ in _decimal_groups(column)),
}


def _size(column: TableMapColumn, buffer: Buffer) -> int:
    """Return the next value's size, the length before it read."""
    if column.real_type in _SIZES:
        return _SIZES[column.real_type](column)
    if column.real_type in (ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VAR_STRING):
        return buffer.uint(2 if column.bytes_max > 255 else 1)
    return buffer.uint(column.length_size)


def _read_row(
    layout: RowLayout, spans: list[bytes | None], unrepresentable: dict[str, int]
) -> list[Any]:
    row: list[Any] = []
    for column, span in zip(layout.columns, spans, strict=True):
        try:
            row.append(None if span is None else _read(column.logged, span))
        except _Unrepresentable:
            unrepresentable[column.name] = unrepresentable.get(column.name, 0) + 1
            row.append(None)
    return row


def _read(  # noqa: C901, PLR0911, PLR0912 - a case per type
    column: TableMapColumn, span: bytes
) -> Any:
    kind = ColumnType(column.real_type)
    match kind:
        case (
            ColumnType.TINY
            | ColumnType.SHORT
            | ColumnType.INT24
            | ColumnType.LONG
            | ColumnType.LONGLONG
        ):
            number = int.from_bytes(span, "little", signed=not column.unsigned)
            return Decimal(number) if column.unsigned and len(span) == 8 else number
        case ColumnType.FLOAT:
            return np.frombuffer(span, "<f4")[0]
        case ColumnType.DOUBLE:
            return np.frombuffer(span, "<f8")[0]
        case ColumnType.YEAR:
            return span[0] and 1900 + span[0]
        case ColumnType.BIT:
            return bool(span[0] & 1) if column.bits == 1 else span
        case ColumnType.NEWDECIMAL:
            return _read_decimal(column, span)
        case ColumnType.DATE | ColumnType.NEWDATE:
            stored = int.from_bytes(span, "little")
            return _date(stored >> 9, stored >> 5 & 15, stored & 31)
        case ColumnType.DATETIME2:
            return _read_datetime(span)
        case ColumnType.TIMESTAMP2:
            return _read_timestamp(span)
        case ColumnType.TIME2:
            return _read_time(span)
        case ColumnType.ENUM:
            return _read_enum(column, int.from_bytes(span, "little"))
        case ColumnType.SET:
            return _read_set(column, int.from_bytes(span, "little"))
        case _:
            return _read_text(column, span)


def _decimal_groups(column: TableMapColumn) -> list[tuple[int, int]]:
    """Return (bytes, digits) of each group."""
    whole, scale = column.precision - column.scale, column.scale
    digits = [whole % 9] + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9]
    return [((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[count], count) for count in digits]


def _read_decimal(column: TableMapColumn, span: bytes) -> Decimal | str:
    negative = not span[0] & 0x80
    data = bytes([span[0] ^ 0x80, *span[1:]])
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    buffer, text = Buffer(data), ""
    for size, digits in _decimal_groups(column):
        group = int.from_bytes(buffer.take(size), "big")
        if group >= 10**digits:
            raise FormatError("a group of digits is too large")
        text += str(group).zfill(digits) if digits else ""
    whole, fraction = text[: len(text) - column.scale], text[len(text) - column.scale :]
    plain = (whole.lstrip("0") or "0") + ("." + fraction if fraction else "")
    signed = "-" + plain if negative else plain
    return signed if column.precision > 38 else _EXACT.create_decimal(signed)


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise _Unrepresentable from None


def _micros(span: bytes) -> int:
    """Return microseconds from a fraction's 0 to 3 bytes."""
    micros = int.from_bytes(span, "big") * (0, 10_000, 100, 1)[len(span)]
    if micros >= 1_000_000:
        raise _Unrepresentable
    return micros


def _read_datetime(span: bytes) -> datetime:
    packed = int.from_bytes(span[:5], "big") - 0x8000000000
    if packed < 0:
        raise _Unrepresentable
    days, clock = packed >> 17, packed & 0x1FFFF
    year, month = divmod(days >> 5, 13)
    day = _date(year, month, days & 31)
    try:
        whole = datetime(  # noqa: DTZ001 - a DATETIME has no zone
            day.year,
            day.month,
            day.day,
            clock >> 12,
            clock >> 6 & 63,
            clock & 63,
        )
    except ValueError:
        raise _Unrepresentable from None
    return whole + timedelta(microseconds=_micros(span[5:]))


def _read_timestamp(span: bytes) -> datetime:
    since = timedelta(seconds=int.from_bytes(span[:4], "big"), microseconds=_micros(span[4:]))
    if not since:
        raise _Unrepresentable
    return _EPOCH + since


def _read_time(span: bytes) -> int:
    bits = 8 * (len(span) - 3)
    stored = int.from_bytes(span, "big") - (1 << (8 * len(span) - 1))
    clock, fraction = abs(stored) >> bits, abs(stored) & ((1 << bits) - 1)
    seconds = (clock >> 12 & 0x3FF) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
    micros = seconds * 1_000_000 + fraction * (0, 10_000, 100, 1)[bits // 8]
    return -micros if stored < 0 else micros


def _label(column: TableMapColumn, label: bytes) -> bytes | str:
    if column.collation is None or column.collation == BINARY_COLLATION:
        return label
    return decode_text(label, charset_of(column.collation))


def _read_enum(column: TableMapColumn, index: int) -> int | bytes | str:
    if column.enum_labels is None or column.collation is None:
        return index
    labels = (b"", *column.enum_labels)
    if index >= len(labels):
        raise FormatError("no such label")
    return _label(column, labels[index])


def _read_set(column: TableMapColumn, mask: int) -> int | bytes | str:
    if column.set_labels is None or column.collation is None:
        return mask
    if mask >> len(column.set_labels):
        raise FormatError("no such label")
    chosen = [_label(column, each) for bit, each in enumerate(column.set_labels) if mask >> bit & 1]
    comma: Any = b"," if column.collation == BINARY_COLLATION else ","
    return comma.join(chosen)  # type: ignore[no-any-return]


def _read_text(column: TableMapColumn, span: bytes) -> bytes | str:
    if column.collation == BINARY_COLLATION:
        fixed = column.real_type == ColumnType.STRING
        return span.ljust(column.bytes_max, b"\0") if fixed else span
    if column.collation is None:
        raise UnsupportedError("the reference decoder does not guess at text")
    try:
        text = decode_text(span, charset_of(column.collation))
        text.encode()
    except UnicodeError as error:
        raise FormatError("text is not valid in its character set") from error
    return text
