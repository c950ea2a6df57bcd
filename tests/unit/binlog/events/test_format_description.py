"""FORMAT_DESCRIPTION and checksums: who wrote the file, the fixed parts of events, flipped bits."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.control import (
    ChecksumAlgorithm,
    FormatDescription,
    body_of,
    checksum_matches,
    verify_checksum,
)
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Flavor
from tests.support import builder


def written(server_version: str = builder.MYSQL, *, checksum: bool = True) -> bytes:
    body = builder.format_description(server_version, checksum=checksum, created=5)
    return builder.event(EventType.FORMAT_DESCRIPTION, body)


def test_mysql() -> None:
    described = FormatDescription.parse(written())

    assert described.server_version == "9.7.4"
    assert described.flavor is Flavor.MYSQL
    assert described.created == 1_700_000_000  # the header's, since the body's may be 0
    assert described.checksum_size == 4
    assert len(described.post_header_lengths) == 42
    assert [described.post_header_length(code) for code in (2, 4, 19, 30)] == [13, 8, 8, 10]


def test_mariadb() -> None:
    described = FormatDescription.parse(written(builder.MARIADB))

    assert described.flavor is Flavor.MARIADB
    assert len(described.post_header_lengths) == 171
    assert [described.post_header_length(code) for code in (23, 161, 162, 163)] == [8, 4, 19, 4]


def test_without_checksums_the_trailer_is_there_all_the_same() -> None:
    described = FormatDescription.parse(written(checksum=False))

    assert described.checksum_algorithm is ChecksumAlgorithm.OFF
    assert described.checksum_size == 0
    assert len(described.post_header_lengths) == 42


def test_a_type_beyond_the_table_is_refused() -> None:
    described = FormatDescription.parse(written())

    with pytest.raises(FormatError, match="MARIADB_GTID"):
        described.post_header_length(EventType.MARIADB_GTID)


def test_a_longer_post_header_is_skipped() -> None:
    described = FormatDescription("9.9.9", 0, ChecksumAlgorithm.OFF, bytes([9] * 42))

    fixed, rest = described.split(EventType.ROTATE, b"12345678+file")

    assert (bytes(fixed.rest()), bytes(rest.rest())) == (b"12345678+", b"file")


def test_other_header_sizes_are_refused() -> None:
    event = bytearray(written())
    event[19 + 56] = 27

    with pytest.raises(FormatError, match="header_size=27"):
        FormatDescription.parse(bytes(event))


def test_unknown_checksum_algorithms_are_refused() -> None:
    event = bytearray(written())
    event[-5] = 2

    with pytest.raises(FormatError, match="algorithm=2"):
        FormatDescription.parse(bytes(event))


def test_another_event_is_refused() -> None:
    with pytest.raises(FormatError, match="event=XID"):
        FormatDescription.parse(builder.event(EventType.XID, builder.xid(1)))


@pytest.mark.parametrize("version", ["5.5.62", "5.1.73-log"])
def test_servers_without_checksums_are_too_old(version: str) -> None:
    with pytest.raises(UnsupportedError, match=f"server={version}"):
        FormatDescription.parse(written(version))


def test_cut_anywhere_is_refused_or_has_fewer_lengths() -> None:
    event = written()

    for size in range(len(event)):
        with contextlib.suppress(BinlogError):
            assert len(FormatDescription.parse(event[:size]).post_header_lengths) < 42


@given(st.binary(max_size=200))
def test_any_body_gives_a_value_or_a_documented_error(body: bytes) -> None:
    with contextlib.suppress(BinlogError):
        FormatDescription.parse(builder.event(EventType.FORMAT_DESCRIPTION, body))


def test_every_flipped_bit_is_found() -> None:
    event = builder.event(EventType.XID, builder.xid(7))
    described = FormatDescription.parse(
        builder.event(EventType.FORMAT_DESCRIPTION, builder.format_description())
    )

    for bit in range(8 * len(event)):
        damaged = bytearray(event)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(FormatError):
            verify_checksum(bytes(damaged), described)


def test_an_artificial_rotate_shows_whether_it_has_a_checksum() -> None:
    body = builder.rotate("binlog.000001")

    assert checksum_matches(builder.event(EventType.ROTATE, body, flags=0x20))
    assert not checksum_matches(builder.event(EventType.ROTATE, body, flags=0x20, checksum=False))


def test_a_body_is_between_header_and_checksum() -> None:
    described = FormatDescription.parse(
        builder.event(EventType.FORMAT_DESCRIPTION, builder.format_description())
    )

    assert bytes(body_of(builder.event(EventType.XID, b"12345678"), described)) == b"12345678"
    with pytest.raises(TruncatedError):
        body_of(bytes(22), described)
