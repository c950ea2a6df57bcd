"""COMPRESSED columns of MariaDB."""

from __future__ import annotations

import zlib

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.changes import BeforeImages, InvalidText, Policies
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.decode import READ_BYTES, decode_pieces
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.rows.types.compressed import GROWTH_MAX, decompress
from tests.unit.rows import wire
from tests.unit.rows.columns import decode_column, read

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
