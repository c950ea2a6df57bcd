"""EventHeader: nineteen bytes, or an error that says where they are missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.errors import FormatError, TruncatedError

# A QUERY of MySQL 9.7: timestamp, type, server id, size, end, flags.
WIRE = bytes.fromhex("b02365650201000000790000002c01000008 00")
HEADER = EventHeader(0x656523B0, 2, 1, 0x79, 0x12C, 8)


def test_header() -> None:
    assert EventHeader.parse(WIRE) == HEADER
    assert EventHeader.parse(WIRE + b"body") == HEADER


def test_header_writes_what_it_read() -> None:
    assert HEADER.encode() == WIRE


def test_header_cut_anywhere_is_truncated() -> None:
    for size in range(len(WIRE)):
        with pytest.raises(TruncatedError, match=f"left={size}"):
            EventHeader.parse(WIRE[:size])


def test_a_size_below_the_header_is_refused() -> None:
    with pytest.raises(FormatError, match="size=18"):
        EventHeader.parse(EventHeader(0, 2, 1, 18, 0, 0).encode())


@pytest.mark.parametrize(
    ("flags", "artificial", "ignorable"),
    [(0, False, False), (0x20, True, False), (0x80, False, True), (0xA1, True, True)],
)
def test_flags(flags: int, artificial: bool, ignorable: bool) -> None:
    header = EventHeader(0, 4, 1, 19, 0, flags)

    assert (header.artificial, header.ignorable) == (artificial, ignorable)


@given(st.binary(min_size=19, max_size=19))
def test_any_bytes_give_a_header_or_a_documented_error(wire: bytes) -> None:
    try:
        header = EventHeader.parse(wire)
    except FormatError:
        return

    assert header.encode() == wire
