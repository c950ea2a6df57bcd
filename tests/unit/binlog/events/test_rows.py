"""RowsHeader: what stands before the row images, in both versions."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import ROWS, EventType
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from tests.reference.rows_header import RowsHeader
from tests.support import builder
from tests.support.wire import lenenc

MYSQL = builder.parsed_format()
MARIADB = builder.parsed_format(builder.MARIADB)

# MySQL 9.7: table 326, STMT_END and USE_SQL_FOREIGN_KEY, no extra data, 2 columns, all present
# (the bits above them set as well), one row.
WRITE = bytes.fromhex("460100000000 1100 0200 02 ff 00 01000000 0178")

# MariaDB: table 23, STMT_END, 16 columns, all present before and after.
UPDATE_V1 = bytes.fromhex("170000000000 0100 10 ffff ffff fcff")


def test_version_2() -> None:
    header = RowsHeader.parse(EventType.WRITE_ROWS, WRITE, MYSQL)

    assert header == RowsHeader(326, 0x11, b"", 2, 0b11, 0b11, 12)
    assert header.ends_statement
    assert header.full
    assert not header.is_dummy
    assert WRITE[header.images_offset :] == bytes.fromhex("00 01000000 0178")


def test_version_1() -> None:
    header = RowsHeader.parse(EventType.UPDATE_ROWS_V1, UPDATE_V1, MARIADB)

    assert header == RowsHeader(23, 1, b"", 16, 0xFFFF, 0xFFFF, 13)


def test_extra_data_is_skipped() -> None:
    # The number of a partition: type 1, then two bytes.
    body = builder.rows(EventType.WRITE_ROWS, 5, 1, b"image", extra=b"\x01\x02\x00")

    header = RowsHeader.parse(EventType.WRITE_ROWS, body, MYSQL)

    assert header.extra == b"\x01\x02\x00"
    assert body[header.images_offset :] == b"image"


def test_a_minimal_image_is_not_full() -> None:
    body = builder.rows(
        EventType.UPDATE_ROWS,
        5,
        3,
        b"",
        present=[True, False, False],
        present_after=[False, False, True],
    )

    header = RowsHeader.parse(EventType.UPDATE_ROWS, body, MYSQL)

    assert (header.present, header.present_after) == (0b001, 0b100)
    assert not header.full


def test_more_than_250_columns() -> None:
    header = RowsHeader.parse(
        EventType.DELETE_ROWS, builder.rows(EventType.DELETE_ROWS, 5, 300, b""), MYSQL
    )

    assert (header.width, header.full) == (300, True)


@pytest.mark.parametrize("table_id", [0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF])
def test_a_dummy_only_ends_its_statement(table_id: int) -> None:
    body = builder.rows(EventType.WRITE_ROWS, table_id, 0, b"")

    assert RowsHeader.parse(EventType.WRITE_ROWS, body, MYSQL).is_dummy


def test_cut_before_the_images_is_truncated() -> None:
    for kind, body, file_format, images in (
        (EventType.WRITE_ROWS, WRITE, MYSQL, 12),
        (EventType.UPDATE_ROWS_V1, UPDATE_V1, MARIADB, 13),
    ):
        for size in range(images):
            with pytest.raises(TruncatedError):
                RowsHeader.parse(kind, body[:size], file_format)


def test_events_that_are_not_decoded_are_refused() -> None:
    with pytest.raises(FormatError, match="PRE_GA_WRITE_ROWS"):
        RowsHeader.parse(EventType.PRE_GA_WRITE_ROWS, WRITE, MYSQL)


def test_extra_data_smaller_than_its_own_size_is_refused() -> None:
    with pytest.raises(FormatError, match="size=1"):
        RowsHeader.parse(EventType.WRITE_ROWS, WRITE[:8] + b"\x01\x00" + WRITE[10:], MYSQL)


@given(st.binary(max_size=60), st.sampled_from(sorted(ROWS)))
def test_any_bytes_give_a_value_or_a_documented_error(body: bytes, kind: int) -> None:
    with contextlib.suppress(BinlogError):
        RowsHeader.parse(kind, body, MYSQL)


@given(st.integers(0, 2**64 - 1))
def test_hostile_widths_cost_nothing(width: int) -> None:
    with contextlib.suppress(BinlogError):
        RowsHeader.parse(EventType.WRITE_ROWS, WRITE[:10] + lenenc(width), MYSQL)
