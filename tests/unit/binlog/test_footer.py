"""The checksum of an event: every flipped bit is found."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.format_description import FormatDescription
from airflow_provider_binlog.binlog.footer import body_of, checksum_matches, verify_checksum
from airflow_provider_binlog.errors import FormatError, TruncatedError
from tests.support import builder


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
