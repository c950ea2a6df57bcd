"""Columns that are mostly NULL: the other values are read alone, and come out where they were."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.rows import layout
from airflow_provider_binlog.rows.layout import compile_layout
from tests.support.decoded import decode
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.rows.decode import DecodedRows

TABLE_MAP = wire.table(
    wire.column(ColumnType.LONG),
    wire.column(ColumnType.NEWDECIMAL, b"\x05\x02"),
    wire.varchar(20),
    wire.column(ColumnType.NEWDATE),
)
DECIMAL = b"\x80\x07\x19"
ROWS = 400


def decoded(rows: Sequence[Sequence[bytes | None]], zero_dates: ZeroDates) -> DecodedRows:
    """Decode rows, each in an event of its own."""
    layout = compile_layout(TABLE_MAP, policies=Policies(zero_dates=zero_dates))
    events = [wire.event(EventType.WRITE_ROWS, 4, wire.image_of_bytes(row)) for row in rows]
    return decode(layout, wire.rows_events(*events))


def rows_with(few: dict[int, list[bytes | None]]) -> list[list[bytes | None]]:
    """Return rows of which only these have more than a number."""
    return [[number.to_bytes(4, "little"), *few.get(number, [None] * 3)] for number in range(ROWS)]


def test_values_come_out_where_they_were() -> None:
    few = {0: [DECIMAL, b"\2hi", None], 7: [None, b"\0", b"\0\0\0"], 399: [DECIMAL, None, None]}

    rows = decoded(rows_with(few), ZeroDates.NULL)
    expected: list[list[Any]] = [[None] * ROWS for _ in range(3)]
    expected[0][0] = expected[0][399] = Decimal("7.25")
    expected[1][0], expected[1][7] = "hi", ""
    assert [array.to_pylist() for array in rows.columns] == [list(range(ROWS)), *expected]
    assert rows.unrepresentable == {"@4": 1}
    for array in rows.columns:
        array.validate(full=True)


def test_a_column_of_nothing_but_nulls_has_its_type() -> None:
    rows = decoded(rows_with({}), ZeroDates.NULL)

    assert [array.type for array in rows.columns] == compile_layout(TABLE_MAP).schema.types
    assert [array.null_count for array in rows.columns] == [0, ROWS, ROWS, ROWS]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([b"\xff\xff\xff", None, None], FormatError("not a DECIMAL")),
        ([None, b"\1\xff", None], FormatError("text is not UTF-8")),
        ([None, None, b"\0\0\0"], UnsupportedError("a zero or invalid date")),
    ],
)
@pytest.mark.parametrize("few", [1, 1000])
def test_a_refused_value_names_its_event(
    value: list[bytes | None], error: BinlogError, few: int
) -> None:
    good: list[bytes | None] = [DECIMAL, b"\2hi", b"\x21\xd0\x0f"]

    with (
        patch.object(layout, "FEW_VALUES", few),
        pytest.raises(type(error), match=rf"{error.args[0]}.*event=311"),
    ):
        decoded(rows_with({5: good, 311: value, 312: good}), ZeroDates.FAIL)
