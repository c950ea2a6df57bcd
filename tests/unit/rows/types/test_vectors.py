"""VECTOR."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.support.decoded import decode
from tests.unit.rows import wire
from tests.unit.rows.columns import read

MYSQL = wire.column(ColumnType.VECTOR, b"\x04", vector_dimension=3, collation=wire.BINARY)
MARIADB = replace(wire.varchar(12, collation=wire.BINARY), data_type="vector")


def test_a_vector_may_be_shorter_than_its_column() -> None:
    values = [wire.encode(MYSQL, struct.pack("<2f", 1.5, -2)), b"\0\0\0\0"]

    assert read(MYSQL, *values, None) == [[1.5, -2.0], [], None]


def test_every_bit_is_kept() -> None:
    # An infinity, a signalling NaN, the least number and a negative zero.
    bits = bytes.fromhex("0000807f0100a07f0100000000000080")
    table_map = wire.table(wire.column(ColumnType.VECTOR, b"\x01"))
    event = wire.event(EventType.WRITE_ROWS, 1, wire.image_of_bytes([b"\x10" + bits]))
    vectors: Any = decode(compile_layout(table_map), wire.rows_events(event)).columns[0]

    assert vectors.type == pa.list_(pa.float32())
    assert vectors.flatten().buffers()[1].to_pybytes() == bits


def test_mariadb_has_one_if_information_schema_says_so() -> None:
    data = b"\x0c" + struct.pack("<3f", 1, 2, 3)

    assert read(MARIADB, data, None) == [[1.0, 2.0, 3.0], None]
    assert read(replace(MARIADB, data_type="varbinary"), data) == [data[1:]]
    assert compile_layout(wire.table(MARIADB)).columns[0].mysql_type == "vector(3)"


def test_half_a_number() -> None:
    with pytest.raises(FormatError, match=r"inside a number.*column=@2"):
        read(MYSQL, b"\x05\0\0\0" + bytes(5))
