"""Decoded values in JSON, as MySQL prints them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.rows.layout import ColumnLayout, compile_layout
from airflow_provider_binlog.rows.types.printed import format_moments
from airflow_provider_binlog.rows.types.registry import to_json_values

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR = 3_600_000_000


def column(real_type: int, metadata: bytes = b"", **more: Any) -> ColumnLayout:
    logged = TableMapColumn(real_type, metadata, real_type, nullable=True, name="c", **more)
    table_map = TableMap(1, 0, "d", "t", (logged,), None)
    return compile_layout(table_map, allow_missing_metadata=True).columns[0]


@pytest.mark.parametrize(
    ("layout", "values", "printed"),
    [
        (column(ColumnType.LONG, unsigned=False), [-1, None], [-1, None]),
        (
            column(ColumnType.LONGLONG, unsigned=True),
            [Decimal(2**64 - 1), None],
            [2**64 - 1, None],
        ),
        (column(ColumnType.LONGLONG, unsigned=False), [-(2**63)], [-(2**63)]),
        (column(ColumnType.FLOAT, b"\4"), [1.100000023841858, None], [1.1, None]),
        (column(ColumnType.DOUBLE, b"\x08"), [0.1, 1e300], [0.1, 1e300]),
        (
            column(ColumnType.NEWDECIMAL, b"\x1e\x0a"),
            [Decimal("0E-10"), Decimal("-12.5"), None],
            ["0.0000000000", "-12.5000000000", None],
        ),
        (column(ColumnType.BIT, b"\1\0"), [True, False, None], [1, 0, None]),
        (column(ColumnType.BIT, b"\1\1"), [b"\1\5", None], [261, None]),
        (column(ColumnType.YEAR), [1999, 0, None], [1999, 0, None]),
        (
            column(ColumnType.DATE),
            [date(2024, 2, 29), date(1, 1, 1), None],
            ["2024-02-29", "0001-01-01", None],
        ),
        (
            column(ColumnType.TIME2, b"\2"),
            [-12 * HOUR - 1_500_000, 838 * HOUR + 3_599_999_999, 10_000, None],
            ["-12:00:01.50", "838:59:59.99", "00:00:00.01", None],
        ),
        (column(ColumnType.TIME2, b"\0"), [-1_000_000], ["-00:00:01"]),
        (
            column(ColumnType.DATETIME2, b"\3"),
            [1_704_164_645_678_000, None],
            ["2024-01-02 03:04:05.678", None],
        ),
        (column(ColumnType.DATETIME2, b"\0"), [-62_167_219_200_000_000], ["0000-01-01 00:00:00"]),
        (column(ColumnType.TIMESTAMP2, b"\6"), [-1], ["1969-12-31 23:59:59.999999"]),
        (column(ColumnType.VARCHAR, b"\x50\0", collation=255), ['é"\n😀', ""], ['é"\n😀', ""]),
        (
            column(ColumnType.BLOB, b"\2", collation=63),
            [b"\0\xff", b"", None],
            [{"base64": "AP8="}, {"base64": ""}, None],
        ),
        (
            column(ColumnType.BLOB, b"\2", collation=None),
            ["é".encode(), b"\0\xff", b"", None],
            ["é", {"base64": "AP8="}, "", None],
        ),
        (
            column(ColumnType.GEOMETRY, b"\4"),
            [bytes.fromhex("e61000000101000000"), None],
            [{"srid": 4326, "wkb": "0101000000"}, None],
        ),
        (column(ColumnType.VECTOR, b"\4"), [[1.1, -2.5], [], None], [[1.1, -2.5], [], None]),
        (
            column(ColumnType.DATETIME, datetime_precision=2),
            [1_704_164_645_670_000, None],
            ["2024-01-02 03:04:05.67", None],
        ),
        (column(ColumnType.TIMESTAMP, datetime_precision=0), [1_000_000], ["1970-01-01 00:00:01"]),
        (column(ColumnType.TIME, datetime_precision=0), [-1_000_000], ["-00:00:01"]),
    ],
)
def test_values(layout: ColumnLayout, values: Sequence[Any], printed: list[Any]) -> None:
    array = pa.array(values, layout.arrow_type)

    assert to_json_values(array, layout.logged) == printed


def test_a_moment_has_as_many_digits_as_asked_for() -> None:
    moments = np.array([1_704_164_645_000_007, 1_704_164_645_999_999])

    assert format_moments(moments, 6) == [
        "2024-01-02 03:04:05.000007",
        "2024-01-02 03:04:05.999999",
    ]
    assert format_moments(moments, 0) == ["2024-01-02 03:04:05"] * 2
