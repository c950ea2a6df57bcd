"""Tables and rows of every kind, for Hypothesis: what is written, and what must be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from tests.unit.rows import wire

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.table_map import TableMapColumn

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
    labels = tuple(f"l{number}é".encode() for number in range(count))
    texts = [label.decode() for label in labels]
    if kind == ColumnType.ENUM:
        column = wire.column(kind, b"\x02" if count > 255 else b"\x01", enum_labels=labels)
        numbers = st.integers(0, count)
        return Kind(column, numbers.map(lambda value: (value, ["", *texts][value])))
    size = (count + 7) // 8
    column = wire.column(kind, bytes([size if size <= 4 else 8]), set_labels=labels)

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
    return st.one_of(
        st.sampled_from(fixed),
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
