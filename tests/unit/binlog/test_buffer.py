"""Buffer: every read is exact, or says how many bytes were missing."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from tests.support.wire import lenenc, varlen_sint, varlen_uint

LENENC = [
    (b"\x00", 0),
    (b"\xfa", 250),
    (b"\xfc\xfb\x00", 251),
    (b"\xfd\x00\x00\x01", 65_536),
    (b"\xfe" + b"\xff" * 8, 2**64 - 1),
]

# Of a GTID_TAGGED of MySQL 9.7: its version, its size, a length, a server version, a timestamp.
VARLEN = [
    (b"\x02", 1),
    (b"\x74", 58),
    (b"\x51\x04", 276),
    (b"\x83\x12\x0b", 90_704),
    (b"\x7f\xe5\xaf\xb2\x48\xb6\x60\x06", 0x0660B648B2AFE5),
    (b"\xff" * 9, 2**64 - 1),
]


@pytest.mark.parametrize(("wire", "value"), LENENC)
def test_lenenc(wire: bytes, value: int) -> None:
    buffer = Buffer(wire + b"next")

    assert buffer.lenenc() == value
    assert bytes(buffer.take(4)) == b"next"


@pytest.mark.parametrize("wire", [wire for wire, _ in LENENC])
def test_lenenc_cut_anywhere_is_truncated(wire: bytes) -> None:
    for size in range(len(wire)):
        with pytest.raises(TruncatedError):
            Buffer(wire[:size]).lenenc()


@pytest.mark.parametrize("first", [b"\xfb", b"\xff"])
def test_lenenc_rejects_bytes_that_start_no_integer(first: bytes) -> None:
    with pytest.raises(FormatError, match="first_byte"):
        Buffer(first + b"\x00" * 8).lenenc()


@given(st.integers(0, 2**64 - 1))
def test_lenenc_reads_what_was_written(value: int) -> None:
    assert Buffer(lenenc(value)).lenenc() == value


@pytest.mark.parametrize(("wire", "value"), VARLEN)
def test_varlen(wire: bytes, value: int) -> None:
    buffer = Buffer(wire + b"next")

    assert buffer.varlen_uint() == value
    assert bytes(buffer.rest()) == b"next"


@pytest.mark.parametrize("wire", [wire for wire, _ in VARLEN])
def test_varlen_cut_anywhere_is_truncated(wire: bytes) -> None:
    for size in range(len(wire)):
        with pytest.raises(TruncatedError):
            Buffer(wire[:size]).varlen_uint()


@given(st.integers(0, 2**64 - 1))
def test_varlen_reads_what_was_written(value: int) -> None:
    assert Buffer(varlen_uint(value)).varlen_uint() == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlen_reads_a_sign(value: int) -> None:
    assert Buffer(varlen_sint(value)).varlen_sint() == value


def test_integers_are_little_endian_and_signed_on_request() -> None:
    buffer = Buffer(b"\x01\x02\xfe\xff")

    assert buffer.uint(2) == 0x0201
    assert buffer.sint(2) == -2
    assert (buffer.offset, buffer.remaining) == (4, 0)


def test_a_name_ends_in_a_nul() -> None:
    assert bytes(Buffer(b"shop\x00").terminated(4)) == b"shop"
    with pytest.raises(FormatError, match="at=4, byte=0x21"):
        Buffer(b"shop!").terminated(4)


def test_a_slice_is_a_view() -> None:
    data = bytearray(b"abc")

    slice_ = Buffer(memoryview(data)).take(2)
    data[0] = ord("x")

    assert bytes(slice_) == b"xb"


@given(st.binary(), st.sampled_from(["lenenc", "lenenc_bytes", "varlen_uint", "varlen_sint"]))
def test_any_bytes_give_a_value_or_a_documented_error(wire: bytes, read: str) -> None:
    with contextlib.suppress(BinlogError):
        getattr(Buffer(wire), read)()
