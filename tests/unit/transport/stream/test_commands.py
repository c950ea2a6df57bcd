"""Commands: the bytes a server expects, field by field."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.transport.stream.commands import (
    NON_BLOCK,
    binlog_dump,
    binlog_dump_gtid,
    dump_flags,
    register_slave,
    session_statements,
)

A = "4f1e6f83-e4ef-11f0-9d0c-0242ac110002"


def test_register_slave() -> None:
    assert register_slave(0x01020304, host="me") == bytes.fromhex(
        "15 04030201 02 6d65 00 00 0000 00000000 00000000"
    )


@pytest.mark.parametrize("offset", [4, 1 << 32])
def test_binlog_dump_reads_a_file_from_its_start_if_the_offset_is_after_4_gib(offset: int) -> None:
    command = binlog_dump(Position("b.000001", offset), server_id=7, flags=3)

    assert command == bytes.fromhex("12 04000000 0300 07000000 622e303030303031")


def test_binlog_dump_gtid_counts_servers_in_eight_bytes() -> None:
    command = binlog_dump_gtid(GtidSet.parse(f"{A}:1-5"), server_id=7, flags=3)

    assert command == bytes.fromhex(
        "1e 0300 07000000 00000000 0400000000000000 30000000"
        "0100000000000000 4f1e6f83e4ef11f09d0c0242ac110002"
        "0100000000000000 0100000000000000 0600000000000000"
    )


def test_binlog_dump_gtid_writes_tags_where_there_are_some() -> None:
    command = binlog_dump_gtid(GtidSet.parse(f"{A}:t:1"), server_id=7, flags=3)

    assert command[23:31] == bytes.fromhex("01 010000000000 01")


@pytest.mark.parametrize("flavor", Flavor)
def test_flags_request_everything(flavor: Flavor) -> None:
    assert dump_flags(flavor) == 2 | NON_BLOCK


def test_session_of_mysql() -> None:
    assert session_statements(Flavor.MYSQL, heartbeat_seconds=0.5) == [
        "SET @source_binlog_checksum = @@global.binlog_checksum",
        "SET @master_binlog_checksum = @@global.binlog_checksum",
        "SET @source_heartbeat_period = 500000000, @master_heartbeat_period = 500000000",
        "SET SESSION net_write_timeout = 3600",
    ]


def test_session_of_mariadb() -> None:
    statements = session_statements(
        Flavor.MARIADB,
        heartbeat_seconds=1,
        connect_state=MariadbGtidPosition.parse("0-1-5,3-2-1"),
    )

    assert statements[-3:] == [
        "SET @mariadb_slave_capability = 4",
        "SET @slave_connect_state = '0-1-5,3-2-1'",
        "SET @slave_gtid_strict_mode = 1",
    ]
