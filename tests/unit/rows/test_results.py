"""Rows of a result set: the values of each form, and what breaks it."""

from __future__ import annotations

import contextlib
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.rows.results import ResultLayout, compile_results
from airflow_provider_binlog.schema_history.completion import describe
from airflow_provider_binlog.sql.columns import Facts, Key, PartialColumn, PartialSchema

_T = ColumnType
_LEAD, _SLACK = 16, 64


def results(*facts: Facts, policies: Policies | None = None) -> ResultLayout:
    """Return how to read columns `a`, `b` ... of these types."""
    columns = tuple(PartialColumn(chr(ord("a") + index), each) for index, each in enumerate(facts))
    schema = PartialSchema(columns, Key((), primary=False, others=False))
    table_map = describe(("shop", "t"), schema, Flavor.MYSQL, (9, 7, 0))
    return compile_results(compile_layout(table_map, policies=policies or Policies()))


def fact(data_type: str, **others: Any) -> Facts:
    return Facts(data_type=data_type, nullable=True, **others)


def decode(layout: ResultLayout, *rows: bytes) -> list[list[Any]]:
    """Return the columns of rows, each of NULL bits and values."""
    data = np.frombuffer(b"".join([bytes(_LEAD), *rows, bytes(_SLACK)]), dtype=np.uint8)
    stop = np.cumsum([len(row) for row in rows], dtype=np.int64) + _LEAD
    start = stop - np.array([len(row) for row in rows], dtype=np.int64)
    columns = layout.decode(data, start, stop).columns
    assert [column.type for column in columns] == [each.arrow_type for each in layout.rows.columns]
    for column in columns:
        column.validate(full=True)
    return [column.to_pylist() for column in columns]


def text(value: bytes) -> bytes:
    return bytes((len(value),)) + value


INT, LONG_TEXT = fact("int", unsigned=False), fact("longtext", charset="utf8mb4")


def test_integers_and_text_with_nulls() -> None:
    layout = results(INT, LONG_TEXT, fact("tinyint", unsigned=True))

    assert decode(
        layout,
        b"\x00" + struct.pack("<i", -7) + text(b"seven") + b"\xff",
        b"\x08" + struct.pack("<i", 8) + b"\x00",
        b"\x1c",
    ) == [[-7, 8, None], ["seven", None, None], [255, 0, None]]


@pytest.mark.parametrize("size", [0, 250, 251, 65_535, 65_536])
def test_text_of_any_length(size: int) -> None:
    value = b"x" * size
    width = 0 if size < 251 else 2 if size < 1 << 16 else 3
    prefix = {0: b"", 2: b"\xfc", 3: b"\xfd"}[width] + size.to_bytes(width or 1, "little")

    assert decode(results(LONG_TEXT), b"\x00" + prefix + value, b"\x00\x01y") == [
        [value.decode(), "y"]
    ]


def test_text_whose_length_takes_eight_bytes() -> None:
    row = b"\x00\xfe" + (3).to_bytes(8, "little") + b"abc"

    assert decode(results(LONG_TEXT), row) == [["abc"]]


def test_dates_and_times() -> None:
    layout = results(
        fact("date"), fact("datetime", fsp=6), fact("timestamp", fsp=0), fact("time", fsp=3)
    )
    moment = struct.pack("<HBBBBBI", 2024, 2, 29, 1, 2, 3, 4)

    assert decode(
        layout,
        b"\x00"
        + text(struct.pack("<HBB", 2024, 2, 29))
        + text(moment)
        + text(moment[:7])
        + text(struct.pack("<BIBBBI", 1, 34, 22, 59, 59, 500_000)),
        b"\x00"
        + text(struct.pack("<HBB", 1000, 1, 1))
        + text(moment[:4])
        + text(moment[:4])
        + text(b""),
        b"\x3c",
    ) == [
        [date(2024, 2, 29), date(1000, 1, 1), None],
        [datetime(2024, 2, 29, 1, 2, 3, 4), datetime(2024, 2, 29), None],
        [datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC), None],
        [-((34 * 24 + 22) * 3600 + 59 * 60 + 59) * 1_000_000 - 500_000, 0, None],
    ]


def test_zero_and_invalid_dates_follow_their_policy() -> None:
    rows = [b"\x00" + text(b""), b"\x00" + text(struct.pack("<HBB", 2023, 2, 31))]

    assert decode(results(fact("date")), *rows) == [[None, None]]
    assert decode(results(fact("date"), policies=Policies(ZeroDates.TEXT)), *rows) == [
        ["0000-00-00", "2023-02-31"]
    ]
    with pytest.raises(UnsupportedError, match="zero or invalid date") as raised:
        decode(results(fact("date"), policies=Policies(ZeroDates.FAIL)), *rows)
    assert raised.value.context == {"column": "a"}


@given(st.data())
def test_decimals_of_any_precision(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 38))
    scale = data.draw(st.integers(0, min(30, precision)))
    numbers = data.draw(st.lists(st.integers(1 - 10**precision, 10**precision - 1), max_size=5))
    # Not `scaleb`, which rounds to 28 digits.
    values = [Decimal(f"{number}E-{scale}") for number in numbers]
    layout = results(fact("decimal", precision=precision, scale=scale, unsigned=False))

    found = decode(layout, *(b"\x00" + text(f"{value:f}".encode()) for value in values), b"\x04")

    assert found == [[*values, None]]


def test_a_decimal_of_more_digits_is_text() -> None:
    layout = results(fact("decimal", precision=65, scale=2, unsigned=False))

    assert decode(layout, b"\x00" + text(b"-1.50")) == [["-1.50"]]


def test_what_the_log_has_as_bytes_is_read_as_in_the_log() -> None:
    layout = results(
        fact("float", unsigned=False),
        fact("year"),
        fact("bit", precision=10),
        # As where information_schema does not print all of its characters.
        fact("enum", values=None, charset="latin1"),
        fact("set", values=("x", "y"), charset="latin1"),
        fact("json"),
    )
    row = struct.pack("<f", 0.1) + struct.pack("<H", 2155) + text(b"\x02\x01")
    row += text(b"gr\xfcn") + text(b"x,y") + text(b'{"a": 1}')

    assert decode(layout, b"\x00" + row) == [
        [struct.unpack("<f", struct.pack("<f", 0.1))[0]],
        [2155],
        [b"\x02\x01"],
        ["grün"],
        ["x,y"],
        ['{"a": 1}'],
    ]
    assert layout.expressions[3:5] == ("`d`", "`e`")
    assert layout.rows.columns[3].mysql_type == "enum"


def test_a_column_that_is_sent_in_another_form_is_refused() -> None:
    layout = results(INT, fact("enum", values=("new",), charset="latin1"))

    layout.check_types([_T.LONG, _T.STRING])
    for codes in ([_T.LONGLONG, _T.STRING], [_T.LONG, _T.LONG], [_T.LONG], [_T.LONG, _T.NULL]):
        with pytest.raises(FormatError):
            layout.check_types(codes)


@pytest.mark.parametrize(
    "facts", [(INT, LONG_TEXT), (fact("bit", precision=10), fact("datetime", fsp=6))]
)
def test_a_row_cut_anywhere_is_refused(facts: tuple[Facts, ...]) -> None:
    layout = results(*facts)
    moment = text(struct.pack("<HBBBBBI", 2024, 2, 29, 1, 2, 3, 4))
    whole = b"\x00" + (
        struct.pack("<i", -7) + text(b"seven") if facts[0] is INT else text(b"\x02\x01") + moment
    )

    decode(layout, whole)
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            decode(layout, whole[:size])
    with pytest.raises(FormatError, match="does not end with its last value"):
        decode(layout, whole + b"x")


def test_a_hostile_length_is_refused() -> None:
    for length in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1000):
        with pytest.raises(TruncatedError):
            decode(results(LONG_TEXT), b"\x00\xfe" + length.to_bytes(8, "little") + b"abc")
    for first in (b"\xfb", b"\xff"):
        with pytest.raises(FormatError):
            decode(results(LONG_TEXT), b"\x00" + first)


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=4))
def test_any_bytes_give_values_or_a_documented_error(rows: list[bytes]) -> None:
    layout = results(
        INT,
        LONG_TEXT,
        fact("datetime", fsp=3),
        fact("time", fsp=0),
        fact("decimal", precision=12, scale=2, unsigned=False),
        fact("bit", precision=3),
        fact("enum", values=("new", "old"), charset="latin1"),
    )
    with contextlib.suppress(BinlogError, pa.ArrowInvalid):
        decode(layout, *rows)
