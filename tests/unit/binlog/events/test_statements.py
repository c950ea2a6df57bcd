"""Statement events: SQL comes out in its own character set, whatever stands before it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.statements import Query, XaPrepare
from airflow_provider_binlog.errors import BinlogError, TruncatedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.lexer import Session
from tests.support import builder

MYSQL = builder.parsed_format()
MARIADB = builder.parsed_format(builder.MARIADB)

# BEGIN as MySQL 9.7 logs it: thread 8, no seconds, database "shop", no error, 0x1d status bytes:
# FLAGS2, SQL_MODE, CATALOG_NZ "std", CHARSET 255 255 255, MICROSECONDS.
BEGIN = bytes.fromhex(
    "08000000 00000000 04 0000 1e00"
    "00 00000000"
    "01 2000a04500000000"
    "06 03 737464"
    "04 ff00ff00ff00"
    "0d a01f0c"
    "73686f70 00 424547494e"
)

# Each status variable once, before CHARSET: code, then what it brings.
STATUS = {
    "FLAGS2": b"\x00" + bytes(4),
    "SQL_MODE": b"\x01" + bytes(8),
    "CATALOG": b"\x02\x03std\x00",
    "AUTO_INCREMENT": b"\x03" + bytes(4),
    "TIME_ZONE": b"\x05\x06SYSTEM",
    "CATALOG_NZ": b"\x06\x03std",
    "LC_TIME_NAMES": b"\x07" + bytes(2),
    "CHARSET_DATABASE": b"\x08" + bytes(2),
    "TABLE_MAP_FOR_UPDATE": b"\x09" + bytes(8),
    "MASTER_DATA_WRITTEN": b"\x0a" + bytes(4),
    "INVOKER": b"\x0b\x04root\x09localhost",
    "UPDATED_DATABASES": b"\x0c\x02shop\x00other\x00",
    "TOO_MANY_DATABASES": b"\x0c\xfe",
    "MICROSECONDS": b"\x0d" + bytes(3),
    "EXPLICIT_DEFAULTS_TS": b"\x10\x01",
    "DDL_LOGGED_WITH_XID": b"\x11" + bytes(8),
    "DEFAULT_COLLATION_FOR_UTF8MB4": b"\x12\xff\x00",
    "SQL_REQUIRE_PRIMARY_KEY": b"\x13\x00",
    "DEFAULT_TABLE_ENCRYPTION": b"\x14\x00",
    "ENABLE_CASCADE_TRIGGERS": b"\x15\x01",
    "HRNOW": b"\x80" + bytes(3),
    "XID": b"\x81" + bytes(8),
    "GTID_FLAGS3": b"\x82\x02",
    "GTID_FLAGS3 with a sequence": b"\x82\x04" + bytes(8),
    "CHARACTER_SET_COLLATIONS": b"\x83\x02" + bytes(8),
}


def test_query() -> None:
    query = Query.parse(BEGIN, MYSQL)

    assert query == Query(
        8, "shop", 0, "BEGIN", 255, 0x45A00020, connection_collation=255, microseconds=794_528
    )
    assert query.session(Flavor.MYSQL) == Session(
        Flavor.MYSQL, "shop", 0x45A00020, None, "utf8mb4", "utf8mb4", microseconds=794_528
    )


@pytest.mark.parametrize(
    ("status", "explicit"),
    [
        (b"\x10\x00", False),
        (b"\x10\x01", True),
        (b"\x00\x00\x40\x00\x0c\x10\x01", True),
        # MariaDB has a flag of it.
        (b"\x00\x00\x40\x00\x0d", True),
        (b"\x00\x00\x40\x00\x0c", None),
    ],
)
def test_explicit_defaults_for_timestamp(status: bytes, explicit: bool | None) -> None:
    query = Query.parse(builder.query("DROP TABLE t", status=status), MYSQL)

    assert query.session(Flavor.MYSQL).explicit_timestamps is explicit


@pytest.mark.parametrize("code", [b"\x0d", b"\x80"], ids=["mysql", "mariadb"])
def test_the_time_at_which_a_statement_started(code: bytes) -> None:
    status = b"\x05\x06+05:30" + code + b"\x40\xe2\x01"

    session = Query.parse(builder.query("ALTER TABLE t", status=status), MYSQL).session(
        Flavor.MYSQL
    )

    assert (session.time_zone, session.microseconds) == ("+05:30", 123_456)


@pytest.mark.parametrize("status", STATUS.values(), ids=STATUS)
def test_the_character_set_is_found_after_every_status_variable(status: bytes) -> None:
    body = builder.query("ALTER TABLE é".encode("latin-1"), client_collation=8, status=status)

    query = Query.parse(body, MYSQL)

    assert query.client_collation == 8
    assert query.sql == "ALTER TABLE é"


def test_after_an_unknown_status_variable_database_and_sql_are_still_found() -> None:
    query = Query.parse(builder.query("BEGIN", status=b"\x77\x01\x02"), MYSQL)

    assert (query.database, query.client_collation, query.sql) == ("shop", None, "BEGIN")


@pytest.mark.parametrize("collation", [63, 9999, None])
def test_sql_without_a_character_set_is_utf8(collation: int | None) -> None:
    body = builder.query("DROP TABLE ü", client_collation=collation)

    assert Query.parse(body, MYSQL).sql == "DROP TABLE ü"


def test_sql_that_is_not_in_its_character_set_is_readable_all_the_same() -> None:
    assert Query.parse(builder.query(b"SET @a = '\xff'"), MYSQL).sql == "SET @a = '\ufffd'"


def test_query_cut_before_its_sql_is_truncated() -> None:
    for size in range(len(BEGIN) - len("BEGIN")):
        with pytest.raises(TruncatedError):
            Query.parse(BEGIN[:size], MYSQL)


# XA PREPARE 'a','b',3
XA_PREPARE = bytes.fromhex("00 03000000 01000000 01000000 61 62")


def test_xa_prepare() -> None:
    prepared = XaPrepare.parse(XA_PREPARE)

    assert prepared == XaPrepare(one_phase=False, xid="X'61',X'62',3")
    assert XaPrepare.parse(b"\x01" + XA_PREPARE[1:]).one_phase


def test_xa_prepare_cut_anywhere_is_truncated() -> None:
    for size in range(len(XA_PREPARE)):
        with pytest.raises(TruncatedError):
            XaPrepare.parse(XA_PREPARE[:size])


@given(st.binary(max_size=80))
def test_any_bytes_give_a_value_or_a_documented_error(body: bytes) -> None:
    with contextlib.suppress(BinlogError):
        Query.parse(body, MYSQL)
    with contextlib.suppress(BinlogError):
        XaPrepare.parse(body)


@given(st.binary(max_size=60), st.text())
def test_any_status_leaves_database_and_sql(status: bytes, sql: str) -> None:
    body = builder.query(sql, status=status, client_collation=None)

    with contextlib.suppress(BinlogError):
        assert Query.parse(body, MYSQL).database == "shop"


@pytest.mark.parametrize(
    ("status", "databases"),
    [
        (STATUS["UPDATED_DATABASES"], ("shop", "other")),
        (STATUS["TOO_MANY_DATABASES"], None),
        (b"\x0c\x00", None),
        (b"\x0c\x01\x00", None),  # a foreign key refers to one of its tables
        (b"", None),
    ],
)
def test_the_databases_of_its_tables(status: bytes, databases: tuple[str, ...] | None) -> None:
    body = builder.query("INSERT INTO t VALUES (1)", status=status)

    assert Query.parse(body, MYSQL).databases == databases
