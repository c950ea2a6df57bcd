"""Checksums of a block: right where every event's is, and the first wrong one is found."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.blocks import block
from airflow_provider_binlog.blocks.block import INTACT, NEUTRAL, first_damaged

RUN = block._RUN_BYTES


def checksummed(*bodies: bytes, front: bytes = b"") -> tuple[bytearray, list[int], list[int]]:
    """Return events with their checksums, and where they begin and how long they are."""
    data, start, size = bytearray(), [], []
    for body in bodies:
        event = front + body + zlib.crc32(body).to_bytes(4, "little")
        start.append(len(data))
        size.append(len(event))
        data += event
    return data, start, size


def check(data: bytearray, start: list[int], size: list[int]) -> int | None:
    return first_damaged(
        np.frombuffer(bytes(data), dtype=np.uint8),
        np.array(start, dtype=np.int64),
        np.array(size, dtype=np.int64),
    )


def test_a_crc_over_its_own_trailer_is_a_constant() -> None:
    data, _, _ = checksummed(b"123456789")

    # The check value of CRC-32/ISO-HDLC.
    assert data[-4:] == (0xCBF43926).to_bytes(4, "little")
    assert zlib.crc32(data) == INTACT == 0x2144DF1C


def test_neutral_bytes_leave_the_crc_of_what_follows() -> None:
    assert zlib.crc32(NEUTRAL) == 0
    assert zlib.crc32(NEUTRAL + b"event") == zlib.crc32(b"event")


def test_no_events_are_intact() -> None:
    assert check(*checksummed()) is None


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=60))
def test_intact_events_pass(bodies: list[bytes]) -> None:
    assert check(*checksummed(*bodies)) is None
    assert check(*checksummed(*bodies, front=NEUTRAL)) is None


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=60), st.data())
def test_one_damaged_byte_is_found_in_its_event(bodies: list[bytes], draw: st.DataObject) -> None:
    data, start, size = checksummed(*bodies)
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] ^= draw.draw(st.integers(1, 255))

    damaged = check(data, start, size)

    assert damaged is not None
    assert start[damaged] <= at < start[damaged] + size[damaged]


@pytest.mark.parametrize(
    "lengths",
    [
        [RUN - 4, 10, 10],
        [10, RUN - 14, 10],
        [10, RUN, 10],
        [RUN + 1, RUN + 1],
        [10, RUN - 30, RUN - 4, 20, 3 * RUN, 5, 5],
        [100] * 3000,
    ],
)
def test_events_around_the_bounds_of_a_run(lengths: list[int]) -> None:
    data, start, size = checksummed(*(bytes(length) for length in lengths))

    assert check(data, start, size) is None
    for index in {0, len(lengths) // 2, len(lengths) - 1}:
        damaged = bytearray(data)
        damaged[start[index] + size[index] - 1] ^= 0x80
        assert check(damaged, start, size) == index


def test_the_first_of_several_damaged_events_is_named() -> None:
    data, start, size = checksummed(*(bytes(1000) for _ in range(200)))
    data[start[150]] ^= 1
    data[start[70]] ^= 1

    assert check(data, start, size) == 70
