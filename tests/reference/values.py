"""How `rows.py` beside this module reads one value: plain code, a case per type.

Source: as in the modules of the column families.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import (
    BINARY_COLLATION,
    charset_of,
    decode_text,
    encode_ascii,
)
from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.json.document import to_text
from airflow_provider_binlog.changes import InvalidText, ZeroDates
from airflow_provider_binlog.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
    from airflow_provider_binlog.changes import Policies

_EXACT = Context(prec=80)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OLD_SIZES = {
    ColumnType.TIME: (3, 4, 4, 5, 5, 5, 6),
    ColumnType.DATETIME: (8, 6, 6, 7, 7, 7, 8),
    ColumnType.TIMESTAMP: (4, 5, 5, 6, 6, 7, 7),
}
_PADDED = ("uuid", "inet4", "inet6")


class Unrepresentable(Exception):  # noqa: N818 - not an error: the value becomes NULL
    """No lake type holds the value."""


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


def value_size(column: TableMapColumn, buffer: Buffer) -> int:
    """Return the next value's size, the length before it read."""
    kind = column.real_type
    if kind in _SIZES:
        return _SIZES[kind](column)
    if column.datetime_precision is not None and kind in _OLD_SIZES:
        return _OLD_SIZES[ColumnType(kind)][column.datetime_precision]
    if kind in (ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VAR_STRING):
        return buffer.uint(2 if column.bytes_max > 255 else 1)
    if kind == ColumnType.VARCHAR_COMPRESSED:
        return buffer.uint(2 if column.bytes_max + 1 > 255 else 1)
    return buffer.uint(column.length_size)


def read_value(column: TableMapColumn, span: bytes, policies: Policies) -> tuple[Any, bool]:
    """Return the value, and whether invalid byte sequences of it were replaced.

    Raises:
        Unrepresentable: It is staged as NULL.
        FormatError, UnsupportedError: As `decode`.
    """
    match ColumnType(column.real_type):
        case ColumnType.ENUM:
            return _read_enum(column, int.from_bytes(span, "little"), policies.invalid_text)
        case ColumnType.SET:
            return _read_set(column, int.from_bytes(span, "little"), policies.invalid_text)
        case (
            ColumnType.DATE
            | ColumnType.NEWDATE
            | ColumnType.DATETIME
            | ColumnType.DATETIME2
            | ColumnType.TIMESTAMP
            | ColumnType.TIMESTAMP2
        ):
            return _read_date(column, span, policies.zero_dates), False
        case (
            ColumnType.STRING
            | ColumnType.VARCHAR
            | ColumnType.VAR_STRING
            | ColumnType.TINY_BLOB
            | ColumnType.MEDIUM_BLOB
            | ColumnType.LONG_BLOB
            | ColumnType.BLOB
            | ColumnType.VARCHAR_COMPRESSED
            | ColumnType.BLOB_COMPRESSED
        ):
            return _read_string(column, span, policies.invalid_text)
        case _:
            return _read_other(column, span), False


def _read_other(  # noqa: C901, PLR0911 - a case per type
    column: TableMapColumn, span: bytes
) -> Any:
    match ColumnType(column.real_type):
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
        case ColumnType.TIME2:
            return _read_time(span)
        case ColumnType.TIME:
            return _read_old_time(column, span)
        case ColumnType.VECTOR:
            return _read_vector(span)
        case ColumnType.GEOMETRY:
            return span
        case ColumnType.JSON:
            return to_text(span).decode()
        case kind:
            raise UnsupportedError("a type that is not decoded", type=kind.name)


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


@dataclass
class _Moment:
    """A date with a time of day, in parts; it need not be one."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    micros: int = 0

    def check(self) -> None:
        if self.year > 9999 or self.micros >= 1_000_000:
            raise FormatError("not a date")

    def text(self, fsp: int | None) -> str:
        """Return what SELECT prints; `fsp` is None for a DATE."""
        text = f"{self.year:04}-{self.month:02}-{self.day:02}"
        if fsp is None:
            return text
        text += f" {self.hour:02}:{self.minute:02}:{self.second:02}"
        return f"{text}.{self.micros:06}"[: len(text) + 1 + fsp] if fsp else text

    def datetime(self) -> datetime:
        try:
            return datetime(
                *(self.year, self.month, self.day, self.hour, self.minute, self.second, self.micros)
            )
        except ValueError:
            raise Unrepresentable from None


def _read_date(column: TableMapColumn, span: bytes, zero_dates: ZeroDates) -> Any:
    kind = ColumnType(column.real_type)
    try:
        return _date_or_text(column, span, as_text=zero_dates is ZeroDates.TEXT)
    except Unrepresentable:
        if zero_dates is ZeroDates.FAIL:
            raise UnsupportedError("a zero date or an invalid date", type=kind.name) from None
        raise


def _date_or_text(column: TableMapColumn, span: bytes, *, as_text: bool) -> Any:
    match ColumnType(column.real_type):
        case ColumnType.DATE | ColumnType.NEWDATE:
            stored = int.from_bytes(span, "little")
            moment = _Moment(stored >> 9, stored >> 5 & 15, stored & 31)
            fsp = None
        case ColumnType.DATETIME2:
            moment, fsp = _moment(span), column.fsp
        case ColumnType.DATETIME:
            fsp = _old_fsp(column)
            moment = _old_moment(span, fsp)
        case ColumnType.TIMESTAMP2:
            fraction = _fraction(span[4:])
            return _instant(int.from_bytes(span[:4], "big"), fraction, column.fsp, as_text=as_text)
        case _:
            fsp = _old_fsp(column)
            order: Any = "big" if fsp else "little"
            fraction = int.from_bytes(span[4:], "big") * 10 ** (6 - fsp) if fsp else 0
            seconds = int.from_bytes(span[:4], order)
            return _instant(seconds, fraction, fsp, as_text=as_text)
    if as_text:
        moment.check()
        return moment.text(fsp)
    return moment.datetime() if fsp is not None else moment.datetime().date()


def _fraction(span: bytes) -> int:
    """Return microseconds from a fraction's 0 to 3 bytes."""
    return int.from_bytes(span, "big") * (0, 10_000, 100, 1)[len(span)]


def _moment(span: bytes) -> _Moment:
    packed = int.from_bytes(span[:5], "big") ^ 0x8000000000
    days, clock = packed >> 17, packed & 0x1FFFF
    year, month = divmod(days >> 5, 13)
    return _Moment(
        year, month, days & 31, clock >> 12, clock >> 6 & 63, clock & 63, _fraction(span[5:])
    )


def _instant(seconds: int, micros: int, fsp: int, *, as_text: bool) -> datetime | str:
    if not as_text:
        if not (seconds or micros) or micros >= 1_000_000:
            raise Unrepresentable
        return _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    if not (seconds or micros):
        return _Moment(0, 0, 0).text(fsp)
    moment = _EPOCH + timedelta(seconds=seconds)
    parts = _Moment(*moment.timetuple()[:6], micros)
    parts.check()
    return parts.text(fsp)


def _read_time(span: bytes) -> int:
    bits = 8 * (len(span) - 3)
    stored = int.from_bytes(span, "big") - (1 << (8 * len(span) - 1))
    clock, fraction = abs(stored) >> bits, abs(stored) & ((1 << bits) - 1)
    seconds = (clock >> 12 & 0x3FF) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
    micros = seconds * 1_000_000 + fraction * (0, 10_000, 100, 1)[bits // 8]
    return -micros if stored < 0 else micros


def _old_fsp(column: TableMapColumn) -> int:
    if column.datetime_precision is None:
        raise UnsupportedError("an old date or time of unknown precision")
    return column.datetime_precision


def _old_moment(span: bytes, fsp: int) -> _Moment:
    if not fsp:
        digits = f"{int.from_bytes(span, 'little'):014}"
        if len(digits) > 14:
            return _Moment(10_000, 0, 0)
        return _Moment(int(digits[:4]), *(int(digits[at : at + 2]) for at in range(4, 14, 2)))
    rest, units = divmod(int.from_bytes(span, "big"), 10**fsp)
    rest, second = divmod(rest, 60)
    rest, minute = divmod(rest, 60)
    rest, hour = divmod(rest, 24)
    rest, day = divmod(rest, 32)
    year, month = divmod(rest, 13)
    return _Moment(year, month, day, hour, minute, second, units * 10 ** (6 - fsp))


def _read_old_time(column: TableMapColumn, span: bytes) -> int:
    fsp = _old_fsp(column)
    if fsp:
        unit = (1_000_000, 100_000, 10_000, 1_000, 100, 10, 1)[fsp]
        return int.from_bytes(span, "big") * unit - 839 * 3600 * 1_000_000
    number = int.from_bytes(span, "little", signed=True)
    clock = abs(number)
    seconds = clock // 10_000 * 3600 + clock // 100 % 100 * 60 + clock % 100
    return (-seconds if number < 0 else seconds) * 1_000_000


def _read_vector(span: bytes) -> list[float]:
    if len(span) % 4:
        raise FormatError("a VECTOR ends inside a number")
    return list(struct.unpack(f"<{len(span) // 4}f", span))


def _text(data: bytes, collation: int | None, invalid_text: InvalidText) -> tuple[Any, bool]:
    if collation == BINARY_COLLATION:
        return data, False
    if collation is None:
        raise UnsupportedError("the reference decoder does not guess at text")
    if invalid_text is InvalidText.BINARY:
        return data, False
    charset = charset_of(collation)
    try:
        text = decode_text(data, charset)
        text.encode()
    except (UnicodeError, FormatError) as error:
        if invalid_text is InvalidText.FAIL:
            raise FormatError("text is not valid in its character set") from error
        return decode_text(data, charset, errors="replace"), True
    return text, False


def _read_enum(column: TableMapColumn, index: int, invalid_text: InvalidText) -> tuple[Any, bool]:
    if column.enum_values is None or column.collation is None:
        return index, False
    values = (b"", *column.enum_values)
    if index >= len(values):
        raise FormatError("no such value")
    return _text(values[index], column.collation, invalid_text)


def _read_set(column: TableMapColumn, mask: int, invalid_text: InvalidText) -> tuple[Any, bool]:
    if column.set_members is None or column.collation is None:
        return mask, False
    if mask >> len(column.set_members):
        raise FormatError("no such value")
    values = [
        _text(each, column.collation, invalid_text)
        for bit, each in enumerate(column.set_members)
        if mask >> bit & 1
    ]
    as_bytes = column.collation == BINARY_COLLATION or invalid_text is InvalidText.BINARY
    comma: Any = ","
    if as_bytes:
        comma = encode_ascii(",", charset_of(column.collation))
    return comma.join(value for value, _ in values), any(replaced for _, replaced in values)


def _read_string(
    column: TableMapColumn, span: bytes, invalid_text: InvalidText
) -> tuple[Any, bool]:
    pads = column.collation == BINARY_COLLATION and column.real_type == ColumnType.STRING
    if (pads or column.data_type in _PADDED) and len(span) > column.bytes_max:
        raise FormatError("a value is longer than its column")
    match column.data_type:
        case "uuid":
            return str(uuid.UUID(bytes=span.ljust(16, b"\0"))), False
        case "inet4":
            return str(ipaddress.IPv4Address(span.ljust(4, b"\0"))), False
        case "inet6":
            return _inet6(span.ljust(16, b"\0")), False
        case "vector":
            return _read_vector(span), False
    if column.real_type in (ColumnType.VARCHAR_COMPRESSED, ColumnType.BLOB_COMPRESSED):
        span = _decompress(column, span)
    if pads:
        span = span.ljust(column.bytes_max, b"\0")
    return _text(span, column.collation, invalid_text)


def _inet6(span: bytes) -> str:
    words = struct.unpack(">8H", span)
    runs = [
        (first, size)
        for size in range(8, 0, -1)
        for first in range(9 - size)
        if not any(words[first : first + size])
    ]
    first, size = runs[0] if runs else (8, 0)
    shown = [f"{word:x}" for word in words]
    if first == 0 and (size == 6 or (size == 5 and words[5] == 0xFFFF)):
        shown[6:] = [str(ipaddress.IPv4Address(span[12:]))]
    if not size:
        return ":".join(shown)
    return f"{':'.join(shown[:first])}::{':'.join(shown[first + size :])}"


def _decompress(column: TableMapColumn, span: bytes) -> bytes:
    if not span or not span[0]:
        return span[1:]
    size = span[0] & 7
    declared = int.from_bytes(span[1 : 1 + size], "big")
    is_varchar = column.real_type == ColumnType.VARCHAR_COMPRESSED
    most = column.bytes_max if is_varchar else 256**column.length_size - 1
    if span[0] >> 4 != 8 or not size or len(span) < 1 + size or declared > most:
        raise FormatError("not a compressed value")
    try:
        reader = zlib.decompressobj(-15 if span[0] & 8 else 15)
        plain = reader.decompress(span[1 + size :], declared + 1)
    except zlib.error as error:
        raise FormatError("a compressed value is damaged") from error
    if len(plain) != declared or not reader.eof:
        raise FormatError("a compressed value does not have the size that it declares")
    return plain
