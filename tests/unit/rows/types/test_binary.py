"""BINARY, BLOB and GEOMETRY; VECTOR, INET4, INET6, UUID; COMPRESSED columns of MariaDB."""

from __future__ import annotations

import ipaddress
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import BeforeImages, InvalidText, Policies
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.decode import READ_BYTES, decode_pieces
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.rows.types.strings import GROWTH_MAX, decompress
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire
from tests.unit.rows.columns import decode_column, read

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


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


def column(data_type: str, size: int) -> TableMapColumn:
    return replace(wire.char(size, collation=wire.BINARY), data_type=data_type)


def test_inet6_as_mariadb_prints_it() -> None:
    # Each was inserted into an INET6 of MariaDB 10.11, and selected.
    inet6 = column("inet6", 16)
    texts = [
        "::",
        "::1",
        "::1.2.3.4",
        "::ffff:1.2.3.4",
        "::ffff:0.0.0.1",
        "1::2:3:4:5:6:7",
        "1::2:3:0:0:4",
        "2001:db8::",
        "fe80::1:0:0:1",
        "::0.1.0.0",
        "::fffe:1:2",
        "ff::",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "0:0:0:1::",
        "abcd::ef01",
        "1:2:3:4:5:6:7:8",
    ]
    stored = [ipaddress.IPv6Address(text).packed for text in texts]

    assert read(inet6, *(wire.encode(inet6, each.rstrip(b"\0")) for each in stored), None) == [
        *texts,
        None,
    ]


def test_inet4() -> None:
    inet4 = column("inet4", 4)

    assert read(inet4, b"\x02\x00\x01", b"\x02\xc0\x00", None, b"\x04\xff\xff\xff\xff") == [
        "0.1.0.0",
        "192.0.0.0",
        None,
        "255.255.255.255",
    ]


def test_uuid() -> None:
    uuid = column("uuid", 16)
    text = "123e4567-e89b-12d3-a456-426655440000"

    assert read(uuid, b"\x0e" + bytes.fromhex(text.replace("-", ""))[:14], None, b"\x00") == [
        text,
        None,
        "00000000-0000-0000-0000-000000000000",
    ]


@pytest.mark.parametrize("data_type", ["inet4", "inet6", "uuid"])
def test_they_are_named(data_type: str) -> None:
    size = 4 if data_type == "inet4" else 16

    assert compile_layout(wire.table(column(data_type, size))).columns[0].mysql_type == data_type


@pytest.mark.parametrize(
    "other",
    [
        column("uuid", 15),
        column("inet4", 16),
        column("vector", 16),
        replace(wire.varchar(16, collation=wire.BINARY), data_type="uuid"),
    ],
)
def test_an_information_schema_that_disagrees(other: TableMapColumn) -> None:
    with pytest.raises(FormatError, match="disagree"):
        compile_layout(wire.table(other))


@pytest.mark.parametrize("data_type", ["inet4", "inet6", "uuid"])
def test_an_address_longer_than_its_column_is_refused(data_type: str) -> None:
    size = 4 if data_type == "inet4" else 16
    layout = compile_layout(wire.table(column(data_type, size)))
    image = wire.image_of_bytes([bytes([size + 1]) + bytes(size + 1)])
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 1, image))

    with pytest.raises(FormatError, match="longer than its column"):
        decode(layout, events)


TEXT = wire.column(ColumnType.BLOB_COMPRESSED, b"\x02")
BLOB = wire.column(ColumnType.BLOB_COMPRESSED, b"\x04", collation=wire.BINARY)


def wrapped(value: bytes, size: int | None = None) -> bytes:
    declared = (len(value) if size is None else size).to_bytes(4, "big")
    return b"\x84" + declared + zlib.compress(value)


def test_what_mariadb_logs() -> None:
    # MariaDB 11.8: REPEAT('a', 500) in a TEXT COMPRESSED, a raw stream.
    value = bytes.fromhex("8a01f44b4c1c05230d0000")

    assert read(TEXT, wire.encode(TEXT, value), b"\0\0", b"\2\0\0x", None) == [
        "a" * 500,
        "",
        "x",
        None,
    ]


def test_binary_and_other_character_sets() -> None:
    latin1 = wire.column(ColumnType.VARCHAR_COMPRESSED, b"\x2c\x01", collation=wire.LATIN1)
    value = wrapped(b"\xfc" * 100)

    assert read(BLOB, wire.encode(BLOB, value)) == [b"\xfc" * 100]
    assert read(latin1, wire.encode(latin1, value)) == ["ü" * 100]


@pytest.mark.parametrize(("bytes_max", "prefix"), [(254, 1), (255, 2)])
def test_the_byte_of_the_way_counts_in_the_lengths_size(bytes_max: int, prefix: int) -> None:
    column = wire.column(ColumnType.VARCHAR_COMPRESSED, (bytes_max + 1).to_bytes(2, "little"))

    assert column.bytes_max == bytes_max
    assert read(column, (2).to_bytes(prefix, "little") + b"\0x") == ["x"]


def test_replaced_and_as_bytes() -> None:
    stored = wire.encode(TEXT, wrapped(b"a\xffb"))
    decoded = decode_column(TEXT, stored, policies=Policies(invalid_text=InvalidText.REPLACE))

    assert decoded.columns[1].to_pylist() == ["a\ufffdb"]
    assert decoded.invalid_text == {"@2": 1}
    as_bytes = Policies(invalid_text=InvalidText.BINARY)
    assert read(TEXT, stored, policies=as_bytes) == [b"a\xffb"]


@pytest.mark.parametrize(
    "value",
    [
        b"\x01",
        b"\x90\x01x",
        b"\x80",
        b"\x84\x00",
        b"\x81\x05" + zlib.compress(b"four"),
        b"\x81\x03" + zlib.compress(b"four"),
        b"\x81\x04" + zlib.compress(b"four")[:-1],
        b"\x81\x04" + b"\xff" * 12,
        b"\x89\x04" + zlib.compress(b"four"),
    ],
)
def test_what_is_not_compressed_so(value: bytes) -> None:
    with pytest.raises(FormatError):
        decompress(memoryview(value), 1000)
    with pytest.raises(FormatError, match="column=@2"):
        read(TEXT, wire.encode(TEXT, value))


def test_a_size_is_believed_only_as_far_as_it_can_be() -> None:
    bomb = zlib.compress(bytes(10_000_000))

    with pytest.raises(FormatError, match="declares a size that it cannot have"):
        decompress(memoryview(b"\x87" + b"\xff" * 7 + bomb), 2**32 - 1)
    with pytest.raises(FormatError, match="declares a size that it cannot have"):
        decompress(memoryview(b"\x84" + (10_000_000).to_bytes(4, "big") + bomb), 65_535)
    with pytest.raises(FormatError, match="not have the size"):
        decompress(memoryview(b"\x81\x10" + bomb), 65_535)


def test_values_that_grow_are_read_in_small_groups() -> None:
    layout = compile_layout(wire.table(TEXT))
    image = wire.image_of_bytes([wire.encode(TEXT, wrapped(b"a" * 60_000))])
    events = wire.rows_events(*[wire.event(EventType.WRITE_ROWS, 1, image * 100)] * 25)
    pieces = decode_pieces(layout, events, before_images=BeforeImages.ALL, rows_max=1 << 30)
    sizes = [rows.columns[0].nbytes for _, _, rows in pieces]

    assert sum(sizes) > 25 * 100 * 60_000
    assert max(sizes) < 2 * READ_BYTES


def test_no_stream_grows_more() -> None:
    size = 50_000_000

    assert size / len(zlib.compress(bytes(size), 9)) < GROWTH_MAX
