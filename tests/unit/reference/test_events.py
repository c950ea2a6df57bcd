"""The reference reader of binlog files: to the end, or to the offset where a file breaks."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.event_types import IN_USE, EventType
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from tests.reference.events import frames, read_file
from tests.support import builder


def small_file(*, checksum: bool = True) -> builder.BinlogFile:
    file = builder.BinlogFile(checksum=checksum)
    file.add_transaction(1, [])
    file.add(EventType.ROTATE, builder.rotate("binlog.000002"))
    return file


@pytest.mark.parametrize("checksum", [True, False])
def test_a_file_is_read_to_its_end(checksum: bool) -> None:
    file = small_file(checksum=checksum)

    events = list(read_file(bytes(file)))

    assert [event.header.type for event in events] == [15, 33, 2, 16, 4]
    assert [event.offset for event in events] == file.offsets
    assert [event.end & 0xFFFFFFFF for event in events] == [e.header.log_pos for e in events]
    assert bytes(events[-1].body) == builder.rotate("binlog.000002")


def test_a_file_cut_anywhere_is_truncated_except_between_events() -> None:
    data, whole = bytes(small_file()), 0

    for size in range(len(data)):
        try:
            whole = max(whole, len(list(read_file(data[:size]))))
        except TruncatedError:
            continue
        assert size in {4, *small_file().offsets}

    assert whole == 4


def test_a_damaged_event_is_named_by_its_offset() -> None:
    file = small_file()
    data = bytearray(bytes(file))
    data[file.offsets[2] + 30] ^= 1

    with pytest.raises(ChecksumError, match=f"event=QUERY, offset={file.offsets[2]}"):
        list(read_file(bytes(data)))


def test_the_file_in_use_has_the_checksum_of_the_closed_file() -> None:
    data = bytearray(bytes(builder.BinlogFile()))
    data[4 + 17] |= IN_USE

    (event,) = read_file(bytes(data))

    assert event.header.flags == IN_USE


def test_without_checksums_only_the_format_description_is_checked() -> None:
    data = bytearray(bytes(small_file(checksum=False)))
    data[40] ^= 1

    with pytest.raises(ChecksumError, match="FORMAT_DESCRIPTION"):
        list(read_file(bytes(data)))


def test_encrypted_files_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="encrypted"):
        list(read_file(b"\xfdbin" + bytes(600)))
    file = builder.BinlogFile(builder.MARIADB)
    file.add(EventType.START_ENCRYPTION, bytes(17), flags=0x80)
    with pytest.raises(UnsupportedError, match="encrypted"):
        list(read_file(bytes(file) + bytes(range(100))))


def test_other_files_are_refused() -> None:
    with pytest.raises(FormatError, match="first_bytes=50415231"):
        list(read_file(b"PAR1"))
    event = builder.event(EventType.XID, builder.xid(1))
    with pytest.raises(FormatError, match="begins with FORMAT_DESCRIPTION"):
        list(read_file(b"\xfebin" + event))


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_documented_error(data: bytes) -> None:
    with contextlib.suppress(BinlogError):
        list(read_file(b"\xfebin" + data))


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_frames_follow_the_sizes(bodies: list[bytes]) -> None:
    data = b"".join(builder.event(EventType.XID, body) for body in bodies)

    found = list(frames(data))

    assert [header.size for _, header in found] == [23 + len(body) for body in bodies]
    assert all(EventHeader.parse(data, offset) == header for offset, header in found)
