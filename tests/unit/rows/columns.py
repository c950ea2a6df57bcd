"""Read the values of one column with both decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.rows.decode import DecodedRows
from airflow_provider_binlog.rows.layout import compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


def decode_column(
    column: TableMapColumn, *values: bytes | None, policies: Policies = DEFAULT_POLICIES
) -> DecodedRows:
    """Return the rows of a table that has `column` between two others, one row per value."""
    number = wire.column(ColumnType.TINY)
    layout = compile_layout(wire.table(number, column, number), policies=policies)
    images = [wire.image_of_bytes([b"\x07", value, b"\x2a"]) for value in values]
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 3, b"".join(images)))
    decoded, plain = decode(layout, events), decode_plainly(layout, events)

    for array in decoded.columns:
        array.validate(full=True)
    assert decoded.columns == plain.columns
    assert decoded.unrepresentable == plain.unrepresentable
    assert decoded.invalid_text == plain.invalid_text
    assert decoded.columns[0].to_pylist() == [7] * len(values)
    assert decoded.columns[2].to_pylist() == [42] * len(values)
    return decoded


def read(
    column: TableMapColumn, *values: bytes | None, policies: Policies = DEFAULT_POLICIES
) -> list[Any]:
    """Return what both decoders make of a column's values, as Python has it."""
    decoded = decode_column(column, *values, policies=policies)
    values_read: list[Any] = decoded.columns[1].to_pylist()
    return values_read
