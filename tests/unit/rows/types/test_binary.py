"""BINARY, VARBINARY and BLOB."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire
from tests.unit.rows.columns import read


def test_binary_gets_its_trailing_zeros_back() -> None:
    # MySQL 9.7: x'01020000' in a BINARY(4).
    assert read(wire.char(4, collation=wire.BINARY), b"\x02\x01\x02", b"\x00", None) == [
        b"\x01\x02\x00\x00",
        bytes(4),
        None,
    ]


@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 255])
def test_binary_of_any_width(width: int) -> None:
    column = wire.char(width, collation=wire.BINARY)
    full = bytes(range(1, width + 1))

    assert read(column, *(wire.encode(column, full[:size]) for size in range(width + 1))) == [
        full[:size].ljust(width, b"\0") for size in range(width + 1)
    ]


def test_a_value_longer_than_its_column_is_refused() -> None:
    column = wire.char(15, collation=wire.BINARY)
    layout = compile_layout(wire.table(column))
    image = wire.image_of_bytes([b"\x10" + bytes(range(16))])
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 1, image))

    for decoder in (decode, decode_plainly):
        with pytest.raises(FormatError, match="longer than its column"):
            decoder(layout, events)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535])
def test_varbinary_is_exact(size: int) -> None:
    for bytes_max in (255, 65535):
        if size <= bytes_max:
            column = wire.varchar(bytes_max, collation=wire.BINARY)
            data = bytes(size)

            assert read(column, wire.encode(column, data), None) == [data, None]


@pytest.mark.parametrize("prefix", [1, 2, 3, 4])
def test_blob_of_any_size_of_length(prefix: int) -> None:
    column = wire.column(ColumnType.BLOB, bytes([prefix]), collation=wire.BINARY)
    values = [b"", b"\x00\xff", b"x" * 200, *([b"y" * 70_000] if prefix > 2 else [])]

    assert read(column, *(wire.encode(column, value) for value in values), None) == [*values, None]
