"""Tables and rows of every kind, for Hypothesis: what is written, and what must be read."""

from __future__ import annotations

import ipaddress
import struct
import uuid
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from tests.support.json_documents import document, text, trees
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A column, and a strategy of (what `wire.encode` takes, what a decoded array must hold)."""

    column: TableMapColumn
    values: st.SearchStrategy[tuple[Any, Any]]


def _same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return values.map(lambda value: (value, value))


def _integer(kind: ColumnType, bits: int, *, unsigned: bool) -> Kind:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    values = st.integers(low, high) | st.sampled_from([low, high, 0, 1])
    column = wire.column(kind, unsigned=unsigned)
    if unsigned and bits == 64:
        return Kind(column, values.map(lambda value: (value, Decimal(value))))
    return Kind(column, _same(values))


def _decimal(precision: int, scale: int) -> Kind:
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)

    def pair(number: int) -> tuple[Decimal, Any]:
        sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
        value = Decimal((sign, digits, -scale))
        return value, f"{value:f}" if precision > 38 else value

    column = wire.column(ColumnType.NEWDECIMAL, bytes([precision, scale]))
    return Kind(column, unscaled.map(pair))


def _bit(width: int) -> Kind:
    def pair(number: int) -> tuple[int, Any]:
        return number, bool(number) if width == 1 else number.to_bytes((width + 7) // 8, "big")

    column = wire.column(ColumnType.BIT, bytes([width % 8, width // 8]))
    return Kind(column, st.integers(0, 2**width - 1).map(pair))


def _cut(fsp: int) -> int:
    return int(10 ** (6 - fsp))


def _temporal(kind: ColumnType, fsp: int) -> Kind:
    unit = _cut(fsp)
    column = wire.column(kind, bytes([fsp]))
    if kind == ColumnType.TIME2:
        limit = (838 * 3600 + 59 * 60 + 59) * 1_000_000
        micros = st.integers(-limit, limit).map(lambda value: value - value % unit)
        return Kind(column, _same(micros.filter(lambda value: value >= -limit)))
    if kind == ColumnType.TIMESTAMP2:
        micros = st.integers(1_000_000, (2**32 - 1) * 1_000_000)
        whole = micros.map(lambda value: value - value % unit)
        return Kind(column, whole.map(lambda value: (value, EPOCH + timedelta(microseconds=value))))
    moments = st.datetimes().map(
        lambda value: value.replace(microsecond=value.microsecond - value.microsecond % unit)
    )
    none = st.sampled_from([(0, 0, 0), (2024, 0, 0), (2024, 2, 31), (2023, 2, 29), (0, 1, 1)])
    return Kind(column, _same(moments) | none.map(lambda value: (value, None)))


def _text(column: TableMapColumn, codec: str, alphabet: st.SearchStrategy[str], size: int) -> Kind:
    text = st.text(alphabet, max_size=size // 4)
    return Kind(column, text.map(lambda value: (value.encode(codec), value)))


def _labelled(kind: ColumnType, count: int) -> Kind:
    values = tuple(f"l{number}é".encode() for number in range(count))
    texts = [value.decode() for value in values]
    if kind == ColumnType.ENUM:
        column = wire.column(kind, b"\x02" if count > 255 else b"\x01", enum_values=values)
        numbers = st.integers(0, count)
        return Kind(column, numbers.map(lambda value: (value, ["", *texts][value])))
    size = (count + 7) // 8
    column = wire.column(kind, bytes([size if size <= 4 else 8]), set_members=values)

    def pair(mask: int) -> tuple[int, str]:
        return mask, ",".join(text for bit, text in enumerate(texts) if mask >> bit & 1)

    return Kind(column, st.integers(0, 2**count - 1).map(pair))


_UNICODE = st.characters(exclude_categories=["Cs"])
_PLAIN = st.characters(min_codepoint=32, max_codepoint=126)
_LATIN = st.characters(min_codepoint=0xA0, max_codepoint=0xFF) | _PLAIN
_CHINESE = st.characters(min_codepoint=0x4E00, max_codepoint=0x4FFF) | _PLAIN
_BMP = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])

_INTEGERS = [
    (ColumnType.TINY, 8),
    (ColumnType.SHORT, 16),
    (ColumnType.INT24, 24),
    (ColumnType.LONG, 32),
    (ColumnType.LONGLONG, 64),
]
_DATES = st.dates().map(lambda value: (value, value)) | st.sampled_from(
    [
        ((0, 0, 0), None),
        ((2023, 2, 29), None),
        ((1900, 2, 29), None),
        ((2000, 2, 29), date(2000, 2, 29)),
    ]
)


def _pads(size: int) -> Kind:
    data = st.binary(max_size=size)
    column = wire.char(size, collation=wire.BINARY)
    return Kind(column, data.map(lambda value: (value.rstrip(b"\0"), value.ljust(size, b"\0"))))


def _known_from_information_schema(data_type: str, size: int, show: Callable[[bytes], str]) -> Kind:
    column = replace(wire.char(size, collation=wire.BINARY), data_type=data_type)
    data = st.binary(min_size=size, max_size=size) | st.sampled_from([bytes(size), b"\xff" * size])
    return Kind(column, data.map(lambda value: (value.rstrip(b"\0"), show(value))))


def _vector(column: TableMapColumn) -> Kind:
    floats = st.lists(st.floats(width=32, allow_nan=False), max_size=column_floats(column))
    return Kind(column, floats.map(lambda value: (struct.pack(f"<{len(value)}f", *value), value)))


def column_floats(column: TableMapColumn) -> int:
    return column.vector_dimension or column.bytes_max // 4


def _compressed(column: TableMapColumn, *, is_text: bool) -> Kind:
    def stored(value: bytes, way: int) -> bytes:
        if not value or not way:
            return b"\0" + value if value else b""
        raw = zlib.compressobj(wbits=-15)
        stream = raw.compress(value) + raw.flush() if way == 2 else zlib.compress(value)
        size = len(value).to_bytes((len(value).bit_length() + 7) // 8, "big")
        return bytes([0x80 | (8 if way == 2 else 0) | len(size)]) + size + stream

    texts = st.text(_UNICODE, max_size=10) | st.builds(lambda t: t * 20, st.text(max_size=2))
    return Kind(
        column,
        st.builds(
            lambda text, way: (stored(text.encode(), way), text if is_text else text.encode()),
            texts,
            st.integers(0, 2),
        ),
    )


def _old(kind: ColumnType, fsp: int) -> Kind:
    column = wire.column(kind, datetime_precision=fsp)
    unit = _cut(fsp)
    if kind == ColumnType.TIME:
        limit = (838 * 3600 + 59 * 60 + 59) * 1_000_000
        micros = st.integers(-limit, limit).map(lambda value: value - value % unit)
        return Kind(column, micros.map(lambda value: (_old_time(value, fsp), value)))
    if kind == ColumnType.TIMESTAMP:
        micros = st.integers(1_000_000, (2**32 - 1) * 1_000_000)
        whole = micros.map(lambda value: value - value % unit)
        return Kind(
            column,
            whole.map(
                lambda value: (_old_timestamp(value, fsp), EPOCH + timedelta(microseconds=value))
            ),
        )
    moments = st.datetimes().map(
        lambda value: value.replace(microsecond=value.microsecond - value.microsecond % unit)
    )
    return Kind(column, moments.map(lambda value: (_old_datetime(value, fsp), value)))


def _old_time(micros: int, fsp: int) -> bytes:
    if fsp:
        units = (micros + 839 * 3600 * 1_000_000) // _cut(fsp)
        return units.to_bytes((0, 4, 4, 5, 5, 5, 6)[fsp], "big")
    seconds = abs(micros) // 1_000_000
    clock = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
    return (-clock if micros < 0 else clock).to_bytes(3, "little", signed=True)


def _old_timestamp(micros: int, fsp: int) -> bytes:
    seconds, rest = divmod(micros, 1_000_000)
    if not fsp:
        return seconds.to_bytes(4, "little")
    return seconds.to_bytes(4, "big") + (rest // _cut(fsp)).to_bytes((fsp + 1) // 2, "big")


def _old_datetime(value: datetime, fsp: int) -> bytes:
    if not fsp:
        return int(f"{value.year:04}{value:%m%d%H%M%S}").to_bytes(8, "little")
    days = (value.year * 13 + value.month) * 32 + value.day
    seconds = ((days * 24 + value.hour) * 60 + value.minute) * 60 + value.second
    units = int(seconds * 10**fsp) + value.microsecond // _cut(fsp)
    return units.to_bytes((0, 6, 6, 7, 7, 7, 8)[fsp], "big")


@cache
def kinds() -> st.SearchStrategy[Kind]:
    """Return columns of every type that is decoded."""
    fixed: list[Kind] = [
        _integer(kind, bits, unsigned=unsigned)
        for kind, bits in _INTEGERS
        for unsigned in (False, True)
    ]
    fixed += [
        Kind(wire.column(ColumnType.FLOAT, b"\x04"), _same(st.floats(width=32, allow_nan=False))),
        Kind(wire.column(ColumnType.DOUBLE, b"\x08"), _same(st.floats(allow_nan=False))),
        Kind(wire.column(ColumnType.YEAR), _same(st.sampled_from([0, *range(1901, 2156)]))),
        Kind(wire.column(ColumnType.DATE), _DATES),
        _text(wire.varchar(80), "utf-8", _UNICODE, 80),
        _text(wire.varchar(800), "utf-8", _PLAIN, 800),
        _text(wire.char(1020), "utf-8", _UNICODE, 60),
        _text(wire.varchar(80, collation=wire.LATIN1), "latin-1", _LATIN, 80),
        _text(wire.varchar(80, collation=28), "gbk", _CHINESE, 80),
        _text(wire.varchar(80, collation=35), "utf-16-be", _BMP, 80),
        _text(wire.varchar(80, collation=60), "utf-32-be", _UNICODE, 80),
        _pads(4),
        _pads(17),
        _pads(255),
        Kind(wire.varchar(40, collation=wire.BINARY), _same(st.binary(max_size=40))),
    ]
    fixed += [
        Kind(
            wire.column(ColumnType.BLOB, bytes([size]), collation=wire.BINARY),
            _same(st.binary(max_size=70)),
        )
        for size in (1, 2, 3, 4)
    ]
    fixed += [
        _known_from_information_schema("uuid", 16, lambda value: str(uuid.UUID(bytes=value))),
        _known_from_information_schema("inet4", 4, lambda value: str(ipaddress.IPv4Address(value))),
        _vector(wire.column(ColumnType.VECTOR, b"\x04", vector_dimension=5)),
        _vector(replace(wire.varchar(12, collation=wire.BINARY), data_type="vector")),
        _vector(replace(wire.varchar(400, collation=wire.BINARY), data_type="vector")),
        Kind(wire.column(ColumnType.GEOMETRY, b"\x04"), _same(st.binary(max_size=40))),
        Kind(wire.column(ColumnType.JSON, b"\x04"), trees.map(lambda t: (document(t), text(t)))),
        _compressed(wire.column(ColumnType.VARCHAR_COMPRESSED, b"\xff\x00"), is_text=True),
        _compressed(wire.column(ColumnType.VARCHAR_COMPRESSED, b"\x00\x01"), is_text=True),
        _compressed(wire.column(ColumnType.BLOB_COMPRESSED, b"\x02"), is_text=True),
        _compressed(
            wire.column(ColumnType.BLOB_COMPRESSED, b"\x04", collation=wire.BINARY), is_text=False
        ),
    ]
    return st.one_of(
        st.sampled_from(fixed),
        st.builds(
            _old,
            st.sampled_from([ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP]),
            st.integers(0, 6),
        ),
        st.integers(1, 65).flatmap(
            lambda precision: st.integers(0, min(30, precision)).map(
                lambda scale: _decimal(precision, scale)
            )
        ),
        st.integers(1, 64).map(_bit),
        st.builds(
            _temporal,
            st.sampled_from([ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2]),
            st.integers(0, 6),
        ),
        st.builds(_labelled, st.just(ColumnType.ENUM), st.sampled_from([1, 3, 255, 256, 300])),
        st.builds(_labelled, st.just(ColumnType.SET), st.integers(1, 64)),
    )
