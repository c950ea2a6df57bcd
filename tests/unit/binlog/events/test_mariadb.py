"""MariaDB's events: optional fields in every combination, zeros after them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.mariadb import (
    BinlogCheckpoint,
    MariadbGtid,
    MariadbGtidList,
)
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from tests.support import builder

MARIADB = builder.parsed_format(builder.MARIADB)


def parse(body: bytes) -> MariadbGtid:
    return MariadbGtid.parse(body, MARIADB, server_id=3)


def test_gtid() -> None:
    gtid = parse(bytes.fromhex("6400000000000000 07000000 0c 000000000000"))

    assert gtid == MariadbGtid(7, 3, 100, 0x0C)
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

    assert gtid == MariadbGtid(0, 3, 1, 0x4E, 0x15, 2, "X'78',X'',1", 5, 12)


def test_gtid_padded_to_a_page() -> None:
    assert parse(builder.mariadb_gtid(1, padding=3700)) == parse(builder.mariadb_gtid(1))


def test_gtid_cut_before_its_flags_is_truncated() -> None:
    body = builder.mariadb_gtid(1, flags=0x4C, commit_id=2, xa=(1, b"x", b"y"))

    for size in range(13 + 8 + 8):
        with pytest.raises(TruncatedError):
            parse(body[:size])


def test_gtid_list() -> None:
    gtids = ((0, 1, 100), (0, 2, 101), (7, 2, 5))

    assert MariadbGtidList.parse(builder.mariadb_gtid_list(gtids), MARIADB) == MariadbGtidList(
        gtids, until_reached=False
    )
    assert MariadbGtidList.parse(builder.mariadb_gtid_list([], until=True), MARIADB).until_reached


def test_gtid_list_shorter_than_its_count_is_refused() -> None:
    with pytest.raises(FormatError, match="count=268435455"):
        MariadbGtidList.parse(b"\xff\xff\xff\x0f" + bytes(32), MARIADB)


def test_binlog_checkpoint() -> None:
    body = builder.binlog_checkpoint("binlog.000001")

    assert BinlogCheckpoint.parse(body, MARIADB) == BinlogCheckpoint("binlog.000001")
    for size in range(len(body)):
        with pytest.raises(TruncatedError):
            BinlogCheckpoint.parse(body[:size], MARIADB)


@given(st.binary(max_size=80))
def test_any_bytes_give_a_value_or_a_documented_error(body: bytes) -> None:
    with contextlib.suppress(BinlogError):
        parse(body)
    for read in (MariadbGtidList.parse, BinlogCheckpoint.parse):
        with contextlib.suppress(BinlogError):
            read(body, MARIADB)
