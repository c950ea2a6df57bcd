"""Hashes in place of values: those of the text that SELECT prints, whatever the type's digits."""

from __future__ import annotations

import hmac
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.protected_columns import HashSecret
from airflow_provider_binlog.rows.decode import decode_pieces
from airflow_provider_binlog.rows.layout import compile_layout, protect
from airflow_provider_binlog.schema import Field
from tests.unit.rows import wire

SECRET = HashSecret("pepper")
SJIS = 13
POLICIES = [
    Policies(),
    Policies(ZeroDates.TEXT, InvalidText.BINARY),
    Policies(ZeroDates.FAIL, InvalidText.REPLACE),
]


def hashed(logged: Any, values: list[Any], policies: Policies = POLICIES[0]) -> list[str | None]:
    """Return what is staged of the values of a column that is hashed, beside an excluded one."""
    table = wire.table(wire.varchar(40, name="excluded"), logged)
    layout = compile_layout(table, policies=policies)
    origin = ("shop", "orders", "x")
    fields = [
        Field(1, "excluded", "x", "string", nullable=True, origin=origin),
        Field(2, "hashed", "x", "string", nullable=True, origin=origin, hashed=SECRET.id),
    ]
    layout = protect(layout, fields, SECRET)
    images = b"".join(wire.image(table, (b"SECRET", value)) for value in values)
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 2, images))
    columns = [rows.columns for _, _, rows in decode_pieces(layout, events)]
    assert len(layout.schema.names) == 1
    assert {len(each) for each in columns} == {1}
    return [value for (array,) in columns for value in array.to_pylist()]


def of(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hmac.new(b"pepper", data, "sha256").hexdigest()


_T = ColumnType
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 500000)


@pytest.mark.parametrize("policies", POLICIES)
@pytest.mark.parametrize(
    ("column", "values", "texts"),
    [
        (wire.varchar(40, collation=wire.LATIN1), [b"Zo\xeb", b"", b"Zo\xeb"], ["Zoë", "", "Zoë"]),
        (wire.varchar(40, collation=wire.BINARY), [b"\0\xff"], [b"\0\xff"]),
        (wire.column(_T.LONG), [-5, 0], ["-5", "0"]),
        (wire.column(_T.LONGLONG, unsigned=True), [2**64 - 1], ["18446744073709551615"]),
        (wire.column(_T.DOUBLE), [0.1, 1000.0, -2.5e-9], ["0.1", "1000", "-2.5e-09"]),
        (wire.column(_T.FLOAT, b"\4"), [np.float32(0.1)], ["0.1"]),
        (wire.column(_T.NEWDECIMAL, bytes([9, 4])), [Decimal("1.5000")], ["1.5"]),
        (wire.column(_T.NEWDECIMAL, bytes([60, 20])), [Decimal("-0.5")], ["-0.5"]),
        (wire.column(_T.NEWDECIMAL, bytes([60, 20])), [Decimal(10)], ["10"]),
        (wire.column(_T.DATE), [date(2026, 2, 28), (0, 0, 0)], ["2026-02-28", "0000-00-00"]),
        (wire.column(_T.DATETIME2, b"\4"), [MOMENT], ["2026-01-02 03:04:05.5"]),
        (wire.column(_T.TIME2, b"\0"), [-43_200_000_000], ["-12:00:00"]),
        (wire.column(_T.YEAR), [2026, 0], ["2026", "0000"]),
    ],
)  # fmt: skip
def test_values_are_hashed_as_text(
    column: Any, values: list[Any], texts: list[str | bytes], policies: Policies
) -> None:
    expected = [of(text) for text in texts]
    assert hashed(column, values, policies) == expected
    assert hashed(column, [None, *values, None], policies) == [None, *expected, None]
    assert hashed(column, [None, None], policies) == [None, None]


def test_equal_values_have_one_hash_among_many_rows() -> None:
    values = [f"user {number % 7}".encode() if number % 5 else None for number in range(5000)]

    assert hashed(wire.varchar(40), values) == [
        None if value is None else of(value) for value in values
    ]


def test_invalid_text_is_refused_or_replaced_before_it_is_hashed() -> None:
    for collation in (wire.UTF8MB4, SJIS):
        with pytest.raises(FormatError, match="column=@2") as refused:
            hashed(wire.varchar(40, collation=collation), [b"PLANTED\xff"], Policies())
        for shown in ("PLANTED", b"PLANTED".hex()):
            assert shown not in str(refused.value)
    assert hashed(wire.varchar(40), [b"\xff"], POLICIES[1]) == [of("\ufffd")]


def test_nothing_is_staged_in_clear_without_a_secret() -> None:
    layout = compile_layout(wire.table(wire.varchar(40)))
    field = Field(1, "a", "x", "string", nullable=True, origin=("a", "b", "c"), hashed="x")
    with pytest.raises(ConfigurationError):
        protect(layout, [field], None)
