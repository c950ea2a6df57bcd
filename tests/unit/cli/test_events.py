"""The words of SHOW BINLOG EVENTS.

Vectors: what MySQL 9.7.4 and MariaDB 10.11.18 and 11.8.6 printed for events that say the same.
Whole logs are compared in tests/integration/test_surface_cli.py.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.binlog.header import EventHeader, EventType
from airflow_provider_binlog.cli.events import describe
from airflow_provider_binlog.errors import BinlogError
from tests.support import builder

SUPPRESS_USE = 0x08
MYSQL = builder.parsed_format(builder.MYSQL)
MYSQL_80 = builder.parsed_format("8.0.46")
MARIADB = builder.parsed_format(builder.MARIADB)

# Status variable 17 of QUERY: the number of a DDL statement's transaction.
DDL_XID = b"\x11" + (9).to_bytes(8, "little")
ROWS = builder.rows(EventType.WRITE_ROWS, 85, 1, b"", flags=0x13)

VECTORS = [
    (EventType.FORMAT_DESCRIPTION, b"", MYSQL, "Server ver: 9.7.4, Binlog ver: 4"),
    (EventType.QUERY, builder.query("drop table t"), MYSQL, "use `shop`; drop table t"),
    (EventType.QUERY, builder.query("x", database="a`b"), MYSQL, "use `a``b`; x"),
    (EventType.QUERY, builder.query("flush", database=""), MYSQL, "flush"),
    (
        EventType.QUERY,
        builder.query("alter table t", status=b"\x00\x01\x00\x00\x00" + DDL_XID),
        MYSQL,
        "use `shop`; alter table t /* xid=9 */",
    ),
    (EventType.QUERY, builder.query("x", status=DDL_XID), MARIADB, "use `shop`; x"),
    (EventType.ROTATE, builder.rotate("binlog.000003"), MYSQL, "binlog.000003;pos=4"),
    (EventType.STOP, b"", MYSQL, ""),
    (EventType.XID, builder.xid(10), MYSQL, "COMMIT /* xid=10 */"),
    (EventType.XA_PREPARE, builder.xa_prepare(b"a", b"b", 7), MYSQL, "XA PREPARE X'61',X'62',7"),
    (
        EventType.XA_PREPARE,
        builder.xa_prepare(b"c", one_phase=True),
        MYSQL,
        "XA COMMIT X'63',X'',1 ONE PHASE",
    ),
    (EventType.ROWS_QUERY, builder.rows_query("insert 1"), MYSQL, "# insert 1"),
    (EventType.ANNOTATE_ROWS, b"insert 1", MARIADB, "insert 1"),
    (
        EventType.GTID,
        builder.gtid(5),
        MYSQL,
        f"SET @@SESSION.GTID_NEXT= '{builder.SERVER_UUID}:5'",
    ),
    (
        EventType.GTID_TAGGED,
        builder.gtid_tagged(1, "tagx"),
        MYSQL,
        f"SET @@SESSION.GTID_NEXT= '{builder.SERVER_UUID}:tagx:1'",
    ),
    (
        EventType.ANONYMOUS_GTID,
        builder.gtid(0, server=None),
        MYSQL,
        "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'",
    ),
    (
        EventType.PREVIOUS_GTIDS,
        builder.previous_gtids(
            GtidSet.parse(
                f"{builder.SERVER_UUID}:1-13,{'f' * 8}-{'f' * 4}-{'f' * 4}-{'f' * 4}-{'f' * 12}:2"
            )
        ),
        MYSQL,
        f"{builder.SERVER_UUID}:1-13,\nffffffff-ffff-ffff-ffff-ffffffffffff:2",
    ),
    (EventType.WRITE_ROWS, ROWS, MYSQL_80, "table_id: 85 flags: STMT_END_F"),
    (
        EventType.WRITE_ROWS,
        ROWS,
        MYSQL,
        "table_id: 85 flags: STMT_END_F NO_FOREIGN_KEY_CHECKS_F USE_SQL_FOREIGN_KEY_F",
    ),
    (
        EventType.DELETE_ROWS_V1,
        builder.rows(EventType.DELETE_ROWS_V1, 22, 1, b"", flags=0),
        MARIADB,
        "table_id: 22",
    ),
    (EventType.MARIADB_GTID, builder.mariadb_gtid(5), MARIADB, "BEGIN GTID 0-1-5"),
    (EventType.MARIADB_GTID, builder.mariadb_gtid(5, flags=1), MARIADB, "GTID 0-1-5"),
    (
        EventType.MARIADB_GTID,
        builder.mariadb_gtid(5, commit_id=99),
        MARIADB,
        "BEGIN GTID 0-1-5 cid=99",
    ),
    (
        EventType.MARIADB_GTID,
        builder.mariadb_gtid(23, flags=0x40, xa=(7, b"a", b"b")),
        MARIADB,
        "XA START X'61',X'62',7 GTID 0-1-23",
    ),
    (
        EventType.MARIADB_GTID,
        builder.mariadb_gtid(9, flags=1, extra=b"\x04" + (8).to_bytes(8, "little")),
        MARIADB,
        "GTID 0-1-9 COMMIT ALTER id=8",
    ),
    (
        EventType.MARIADB_GTID_LIST,
        builder.mariadb_gtid_list([(0, 1, 12), (7, 2, 5)]),
        MARIADB,
        "[0-1-12,7-2-5]",
    ),
    (EventType.MARIADB_GTID_LIST, builder.mariadb_gtid_list([]), MARIADB, "[]"),
    (
        EventType.BINLOG_CHECKPOINT,
        builder.binlog_checkpoint("binlog.000002"),
        MARIADB,
        "binlog.000002",
    ),
    (EventType.INCIDENT, builder.incident("oh"), MYSQL, "#1 (LOST_EVENTS): oh"),
    (EventType.INTVAR, b"\x02" + (7).to_bytes(8, "little"), MYSQL, ""),
    (200, b"anything", MYSQL, ""),
]


@pytest.mark.parametrize(("code", "body", "file_format", "words"), VECTORS)
def test_words(code: int, body: bytes, file_format: FormatDescription, words: str) -> None:
    assert describe(EventHeader(0, code, 1, 0, 0, 0), body, file_format) == words


def test_a_statement_that_needs_no_database_is_not_preceded_by_use() -> None:
    header = EventHeader(0, EventType.QUERY, 1, 0, 0, SUPPRESS_USE)

    assert describe(header, builder.query("BEGIN"), MYSQL) == "BEGIN"


def test_a_compressed_transaction_says_how_large_it_is() -> None:
    # 2: compression 0, ZSTD; 3: 278 bytes; 1: size of the payload; 0: end.
    body = bytes.fromhex("0201000303fc16010103fcd80000") + bytes(0xD8)
    header = EventHeader(0, EventType.TRANSACTION_PAYLOAD, 1, 0, 0, 0)

    assert describe(header, body, MYSQL) == "compression='ZSTD', decompressed_size=278 bytes"


@given(st.integers(0, 255), st.binary(max_size=64), st.sampled_from([MYSQL, MYSQL_80, MARIADB]))
def test_any_bytes_give_words_or_a_documented_error(
    code: int, body: bytes, file_format: FormatDescription
) -> None:
    with contextlib.suppress(BinlogError):
        assert isinstance(describe(EventHeader(0, code, 1, 0, 0, 0), body, file_format), str)
