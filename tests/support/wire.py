"""Writes what an event is made of: the mirror of `airflow_provider_binlog.binlog.buffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def lenenc(value: int) -> bytes:
    """Return a length-encoded integer."""
    if value < 0xFB:
        return bytes((value,))
    for first, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
        if value < 1 << 8 * width:
            return bytes((first,)) + value.to_bytes(width, "little")
    raise OverflowError(value)


def lenenc_bytes(value: bytes) -> bytes:
    """Return bytes after their length."""
    return lenenc(len(value)) + value


def varlen_uint(value: int) -> bytes:
    """Return a self-describing unsigned integer, as GTID_TAGGED holds them."""
    for size in range(1, 9):
        if value < 1 << 7 * size:
            return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")
    return b"\xff" + value.to_bytes(8, "little")


def varlen_sint(value: int) -> bytes:
    """Return a self-describing signed integer."""
    return varlen_uint(value << 1 if value >= 0 else -1 - value << 1 | 1)


def bits(values: Sequence[bool], *, highest_first: bool = False) -> bytes:
    """Return one bit per value; the lowest of each byte first, unless asked otherwise."""
    octets = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            octets[index >> 3] |= 0x80 >> (index & 7) if highest_first else 1 << (index & 7)
    return bytes(octets)
