"""GTID events of both families: every field that a release writes, and none that it does not."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.gtid import Gtid, read_gtid_list
from airflow_provider_binlog.binlog.header import EventHeader, EventType
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from tests.support import builder
from tests.support.wire import varlen_uint

MYSQL = builder.parsed_format()
UUID = "4f1e6f83-e4ef-11f0-9d0c-0242ac110002"

# flags 0, uuid, number 5, logical clock 2, last committed 4, sequence 5,
# committed 0x0660b648b2afe5, length 0xfc 0x0114 = 276, server 90704.
GTID = bytes.fromhex(
    "00 4f1e6f83e4ef11f09d0c0242ac110002 0500000000000000"
    "02 0400000000000000 0500000000000000"
    "e5afb248b66006 fc1401 50620100"
)

# Of MySQL 9.7.4: version 1, size 58, nothing needed; 0: flags 0, 1: uuid, 2: number 3,
# 3: tag of 5 bytes, 4: last committed 20, 5: sequence 22, 6: committed, 8: length 398,
# 9: server 90704.
TAGGED = bytes.fromhex(
    "02 74 00 0000 02 627d02ea4d0295039822c5034102510304f1030000000204 0c"
    "060a6d79746167 0850 0a58 0c7f27edddbfbf6006 103906 1283120b"
)


def read(kind: EventType, body: bytes) -> Gtid:
    return Gtid.parse(EventHeader(0, kind, 3, 19, 0, 0), body)


def test_gtid() -> None:
    event = read(EventType.GTID, GTID)

    assert event.text == f"{UUID}:5"
    assert event.commit_timestamp_us == 0x0660B648B2AFE5


def test_gtid_of_a_replica_has_two_timestamps() -> None:
    body = builder.gtid(5, commit_timestamp_us=1_000_002, original_timestamp_us=1_000_001)

    event = read(EventType.GTID, body)

    assert event.commit_timestamp_us == 1_000_002


def test_gtid_of_mysql_5_7_ends_after_the_logical_clock() -> None:
    event = read(EventType.GTID, GTID[:42])

    assert event.text == f"{UUID}:5"
    assert event.commit_timestamp_us is None


def test_anonymous_gtid_has_no_name() -> None:
    event = read(EventType.ANONYMOUS_GTID, builder.gtid(0, server=None))

    assert event.text is None
    assert event.commit_timestamp_us == 1_700_000_000_000_000


def test_tagged() -> None:
    event = read(EventType.GTID_TAGGED, TAGGED)

    assert event.text == "319f7593-e54c-11f1-90d4-02fc00000001:mytag:3"
    assert event.commit_timestamp_us == 1_795_226_534_276_391


def test_tagged_without_a_tag() -> None:
    body = builder.gtid_tagged(7, "", server=UUID)

    assert read(EventType.GTID_TAGGED, body).text == f"{UUID}:7"


def test_tagged_with_a_field_of_a_newer_server() -> None:
    newer = b"".join(map(varlen_uint, (7, 12, 90))) + b"\x00 what it writes"

    event = read(EventType.GTID_TAGGED, builder.gtid_tagged(7, "t", more=newer))

    assert event.number == 7


def test_tagged_fields_that_must_not_be_skipped_are_refused() -> None:
    body = bytearray(builder.gtid_tagged(7, "t"))
    body[2] = 14 << 1

    with pytest.raises(UnsupportedError, match="needed_field=13"):
        read(EventType.GTID_TAGGED, bytes(body))


@pytest.mark.parametrize("body", [b"\x04\x08\x00\x00", b"\x02\x10\x00\x00", b"\x02\x08\x00\x00"])
def test_tagged_messages_of_another_form_are_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        read(EventType.GTID_TAGGED, body)


def test_other_events_are_refused() -> None:
    with pytest.raises(FormatError, match="XID"):
        read(EventType.XID, GTID)


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(FormatError, match="number=0"):
        read(EventType.GTID, builder.gtid(0))


def test_gtid_cut_inside_a_field_is_truncated() -> None:
    # Whole fields may be missing at the end: releases before 8.0 did not write them. What follows
    # the commit timestamp is not read.
    ends = {25, 26 + 16} | set(range(26 + 16 + 7, len(GTID)))

    for size in range(len(GTID)):
        if size in ends:
            read(EventType.GTID, GTID[:size])
        else:
            with pytest.raises(TruncatedError):
                read(EventType.GTID, GTID[:size])


def test_tagged_cut_anywhere_is_refused() -> None:
    for size in range(len(TAGGED)):
        with pytest.raises(FormatError):
            read(EventType.GTID_TAGGED, TAGGED[:size])


@given(
    st.binary(max_size=90),
    st.sampled_from([EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED]),
)
def test_any_bytes_give_a_value_or_a_documented_error(body: bytes, kind: EventType) -> None:
    with contextlib.suppress(BinlogError):
        read(kind, body)
    with contextlib.suppress(BinlogError):
        size = varlen_uint(len(body) + 2)
        read(EventType.GTID_TAGGED, b"\x02" + size + body)


MARIADB = builder.parsed_format(builder.MARIADB)


def parse(body: bytes) -> Gtid:
    return read(EventType.MARIADB_GTID, body)


def test_mariadb_gtid() -> None:
    gtid = parse(bytes.fromhex("6400000000000000 07000000 0c 000000000000"))

    assert gtid == Gtid("7-3-", 100, flags=0x0C)
    assert gtid.text == "7-3-100"
    assert not gtid.standalone


def test_gtid_of_a_statement_is_standalone() -> None:
    assert parse(builder.mariadb_gtid(1, flags=0x29)).standalone


def test_gtid_of_a_group_commit() -> None:
    gtid = parse(builder.mariadb_gtid(1, commit_id=77))

    assert (gtid.commit_id, gtid.flags_extra) == (77, 0)


@pytest.mark.parametrize("flags", [0x4C, 0x8D])
def test_gtid_of_an_xa_transaction_has_its_name(flags: int) -> None:
    gtid = parse(builder.mariadb_gtid(1, flags=flags, xa=(3, b"a", b"bc")))

    assert gtid.xid == "X'61',X'6263',3"


def test_gtid_of_an_alter_in_two_phases() -> None:
    begun = parse(builder.mariadb_gtid(9, flags=0x29, extra=b"\x02"))
    done = parse(builder.mariadb_gtid(10, flags=0x29, extra=b"\x04\x09" + bytes(7)))
    failed = parse(builder.mariadb_gtid(10, flags=0x29, extra=b"\x08\x09" + bytes(7)))

    assert [gtid.alters_nothing for gtid in (begun, done, failed)] == [True, False, True]
    assert [gtid.alter_sequence for gtid in (begun, done, failed)] == [None, 9, 9]


def test_gtid_with_every_field() -> None:
    extra = b"\x15\xff" + (5).to_bytes(8, "little") + (12).to_bytes(4, "little")

    gtid = parse(builder.mariadb_gtid(1, flags=0x4C, commit_id=2, xa=(1, b"x", b""), extra=extra))

    assert gtid == Gtid("0-3-", 1, None, 0x4E, 0x15, 2, "X'78',X'',1", 5)
    assert gtid.starts_xa


def test_gtid_padded_to_a_page() -> None:
    assert parse(builder.mariadb_gtid(1, padding=3700)) == parse(builder.mariadb_gtid(1))


def test_gtid_cut_before_its_flags_is_truncated() -> None:
    body = builder.mariadb_gtid(1, flags=0x4C, commit_id=2, xa=(1, b"x", b"y"))

    for size in range(13 + 8 + 8):
        with pytest.raises(TruncatedError):
            parse(body[:size])


def test_gtid_list() -> None:
    gtids = ((0, 1, 100), (0, 2, 101), (7, 2, 5))

    assert read_gtid_list(builder.mariadb_gtid_list(gtids), MARIADB) == list(gtids)
    assert read_gtid_list(builder.mariadb_gtid_list([], until=True), MARIADB) == []


def test_gtid_list_shorter_than_its_count_is_refused() -> None:
    with pytest.raises(FormatError, match="count=268435455"):
        read_gtid_list(b"\xff\xff\xff\x0f" + bytes(32), MARIADB)


@given(st.binary(max_size=80))
def test_any_bytes_of_mariadb_give_a_value_or_a_documented_error(body: bytes) -> None:
    with contextlib.suppress(BinlogError):
        parse(body)
    with contextlib.suppress(BinlogError):
        read_gtid_list(body, MARIADB)
