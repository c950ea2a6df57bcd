"""Write rows events: the mirror of `rows/`, as plain as can be.

`encode(column, value)` gives the bytes of one value.
"""

from __future__ import annotations

import struct
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.binlog.column_types import ColumnType, real_type
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.rows.decode import RowsEvents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

UTF8MB4, LATIN1, BINARY = 255, 8, 63


def column(
    kind: ColumnType, metadata: bytes = b"", *, name: str | None = None, **rest: Any
) -> TableMapColumn:
    """Return a column; text is utf8mb4 and numbers are signed unless `rest` says otherwise."""
    if kind in (ColumnType.ENUM, ColumnType.SET):
        metadata, kind = bytes([kind, metadata[0]]), ColumnType.STRING
    described = {"nullable": True, "unsigned": False, "collation": UTF8MB4, "name": name} | rest
    return TableMapColumn(kind, metadata, real_type(kind, metadata), **described)


def varchar(bytes_max: int, *, collation: int = UTF8MB4, name: str | None = None) -> TableMapColumn:
    return column(ColumnType.VARCHAR, struct.pack("<H", bytes_max), collation=collation, name=name)


def char(bytes_max: int, *, collation: int = UTF8MB4, name: str | None = None) -> TableMapColumn:
    """Return a CHAR or BINARY; bits 8 and 9 of its size stand inverted in the type's byte."""
    metadata = bytes([0xFE ^ (bytes_max >> 8 & 3) << 4, bytes_max & 0xFF])
    return column(ColumnType.STRING, metadata, collation=collation, name=name)


def table(*columns: TableMapColumn, key: Sequence[int] = (), name: str = "orders") -> TableMap:
    primary_key = tuple((index, 0) for index in key) or None
    return TableMap(7, 1, "shop", name, columns, primary_key)


def encode(logged: TableMapColumn, value: Any) -> bytes:  # noqa: C901, PLR0911, PLR0912
    """Return a value's bytes.

    Numbers, dates, datetimes and Decimals as they are; TIME in microseconds; TIMESTAMP in
    microseconds since 1970; ENUM and SET as their number; text and binary as bytes; zero and
    invalid dates as (year, month, day) or (year, month, day, hour, minute, second, microsecond);
    the old TIME, DATETIME and TIMESTAMP as bytes.
    """
    kind = ColumnType(logged.real_type)
    match kind:
        case ColumnType.TINY | ColumnType.SHORT | ColumnType.INT24 | ColumnType.LONG:
            size = {1: 1, 2: 2, 9: 3, 3: 4}[kind]
            return int(value).to_bytes(size, "little", signed=not logged.unsigned)
        case ColumnType.LONGLONG:
            return int(value).to_bytes(8, "little", signed=not logged.unsigned)
        case ColumnType.FLOAT:
            return struct.pack("<f", value)
        case ColumnType.DOUBLE:
            return struct.pack("<d", value)
        case ColumnType.YEAR:
            return bytes([value and value - 1900])
        case ColumnType.BIT:
            return int(value).to_bytes((logged.bits + 7) // 8, "big")
        case ColumnType.NEWDECIMAL:
            return _encode_decimal(logged.precision, logged.scale, value)
        case ColumnType.DATE:
            year, month, day = _parts(value)[:3]
            return (year << 9 | month << 5 | day).to_bytes(3, "little")
        case ColumnType.DATETIME2:
            year, month, day, hour, minute, second, micros = _parts(value)
            packed = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
            return (packed | 1 << 39).to_bytes(5, "big") + _fraction(micros, logged.fsp)
        case ColumnType.TIMESTAMP2:
            seconds, micros = divmod(value, 1_000_000)
            return int(seconds).to_bytes(4, "big") + _fraction(micros, logged.fsp)
        case ColumnType.TIME2:
            return _encode_time(value, logged.fsp)
        case ColumnType.ENUM | ColumnType.SET:
            return int(value).to_bytes(logged.pack_size, "little")
        case ColumnType.TIME | ColumnType.DATETIME | ColumnType.TIMESTAMP:
            return bytes(value)
        case ColumnType.STRING | ColumnType.VARCHAR | ColumnType.VARCHAR_COMPRESSED:
            data = bytes(value)
            bytes_max = logged.bytes_max + (kind == ColumnType.VARCHAR_COMPRESSED)
            return len(data).to_bytes(1 if bytes_max <= 255 else 2, "little") + data
        case _:
            data = bytes(value)
            return len(data).to_bytes(logged.length_size, "little") + data


def _parts(value: Any) -> tuple[int, ...]:
    if isinstance(value, datetime):
        return (*value.timetuple()[:6], value.microsecond)
    if isinstance(value, date):
        return (value.year, value.month, value.day, 0, 0, 0, 0)
    return (*value, 0, 0, 0, 0)[:7]


def _fraction(micros: int, fsp: int) -> bytes:
    size = (fsp + 1) // 2
    return (micros // (1, 10_000, 100, 1)[size]).to_bytes(size, "big") if size else b""


def _encode_time(micros: int, fsp: int) -> bytes:
    size = (fsp + 1) // 2
    seconds, rest = divmod(abs(micros), 1_000_000)
    clock = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    packed = clock << 8 * size | rest // (1_000_000, 10_000, 100, 1)[size]
    half = 1 << (8 * (3 + size) - 1)
    return (half - packed if micros < 0 else half + packed).to_bytes(3 + size, "big")


def _encode_decimal(precision: int, scale: int, value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)) + "0" * (int(exponent) + scale)
    text = text.zfill(precision)
    whole, fraction = text[: precision - scale], text[precision - scale :]
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    first = len(whole) % 9
    groups = [whole[:first], *(whole[at : at + 9] for at in range(first, len(whole), 9))]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    data = bytearray(b"".join(int(each or 0).to_bytes(sizes[len(each)], "big") for each in groups))
    data[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in data) if sign else bytes(data)


def image(table_map: TableMap, row: Sequence[Any], *, padding: bool = False) -> bytes:
    """Return a full row image; with `padding` the unused NULL bits are set, as MariaDB does."""
    return image_of_bytes(
        [
            None if value is None else encode(each, value)
            for each, value in zip(table_map.columns, row, strict=True)
        ],
        padding=padding,
    )


def some_image(
    table_map: TableMap, row: Sequence[Any], held: Sequence[int], *, padding: bool = False
) -> bytes:
    """Return the image of a row that holds these columns only."""
    values = [
        None if row[column] is None else encode(table_map.columns[column], row[column])
        for column in held
    ]
    return image_of_bytes(values, padding=padding)


def image_of_bytes(row: Sequence[bytes | None], *, padding: bool = False) -> bytes:
    """Return a row image of values that are bytes already."""
    width = len(row)
    null = sum(1 << index for index, value in enumerate(row) if value is None)
    octets = (width + 7) // 8
    if padding:
        null |= (1 << 8 * octets) - (1 << width)
    return null.to_bytes(octets, "little") + b"".join(value or b"" for value in row)


VERSION_2 = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
    }
)
UPDATES = frozenset(
    {EventType.UPDATE_ROWS, EventType.UPDATE_ROWS_V1, EventType.PARTIAL_UPDATE_ROWS}
)


def event(
    kind: EventType,
    width: int,
    images: bytes,
    *,
    extra: bytes = b"",
    present: int | None = None,
    present_after: int | None = None,
) -> bytes:
    """Return a whole rows event without its checksum; the header is zeros but for the type.

    `present` is the bitmap of columns, all of them by default; `present_after` that of the
    after-images of an update, the same by default.
    """
    octets = (width + 7) // 8
    first = (1 << 8 * octets) - 1 if present is None else present
    second = first if present_after is None else present_after
    bitmap = first.to_bytes(octets, "little")
    if kind in UPDATES:
        bitmap += second.to_bytes(octets, "little")
    header = bytes(4) + bytes([kind]) + bytes(14) + (7).to_bytes(6, "little") + b"\x01\x00"
    if kind in VERSION_2:
        header += (len(extra) + 2).to_bytes(2, "little") + extra
    size = bytes([width]) if width < 251 else b"\xfc" + width.to_bytes(2, "little")
    return header + size + bitmap + images


def rows_events(*events: bytes, slack: int = 64) -> RowsEvents:
    """Return events laid one after another, 4 bytes of another's between them."""
    gap = b"\xde\xad\xbe\xef"
    sizes = np.array([len(each) for each in events], dtype=np.int64)
    start = np.cumsum(sizes + len(gap)) - sizes
    joined = gap + gap.join(events) + gap * (slack // 4)
    return RowsEvents(
        data=np.frombuffer(joined, dtype=np.uint8),
        start=start,
        end=start + sizes,
        type=np.array([each[4] for each in events], dtype=np.uint8),
    )
