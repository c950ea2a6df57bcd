"""BIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.unit.rows import wire
from tests.unit.rows.columns import read

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


def bit(width: int) -> TableMapColumn:
    return wire.column(ColumnType.BIT, bytes([width % 8, width // 8]))


def test_one_bit_is_a_boolean() -> None:
    assert read(bit(1), b"\x00", b"\x01", None) == [False, True, None]


@pytest.mark.parametrize(
    ("width", "value"), [(2, "03"), (8, "ff"), (9, "01ff"), (10, "0200"), (64, "8000000000000001")]
)
def test_more_bits_are_bytes_with_the_highest_first(width: int, value: str) -> None:
    data = bytes.fromhex(value)

    assert read(bit(width), data, None, data) == [data, None, data]


@pytest.mark.parametrize("metadata", [b"\x00\x00", b"\x01\x08", b"\xff\xff"])
def test_no_such_type(metadata: bytes) -> None:
    with pytest.raises(FormatError, match="not a BIT"):
        compile_layout(wire.table(wire.column(ColumnType.BIT, metadata)))
