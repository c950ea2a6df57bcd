"""Defaults: certain as SELECT prints them, or unknown; servers are asked in tests/integration."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Default, UnknownDefault
from airflow_provider_binlog.sql.definitions import initial_default, read_definition
from airflow_provider_binlog.sql.lexer import (
    EMPTY_STRING_IS_NULL,
    STRICT_ALL_TABLES,
    Session,
    split_words,
)

UTF8: Any = {"connection_charset": "utf8mb4", "client_charset": "utf8mb4"}
MYSQL = Session(Flavor.MYSQL, "", STRICT_ALL_TABLES, True, **UTF8)
MARIADB = Session(Flavor.MARIADB, "", STRICT_ALL_TABLES, True, **UTF8)


def read(sql: str, session: Session = MYSQL) -> Default | UnknownDefault:
    words = split_words(sql, session)
    return initial_default(read_definition(words, session), session)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        *(
            ("INT", None),
            ("INT DEFAULT NULL", None),
            ("INT NOT NULL", "0"),
            ("nothing known", None),
        ),
        *(("DECIMAL(10,2) DEFAULT 1", "1.00"), ("DECIMAL(10,2) NOT NULL", "0.00")),
        *(("DECIMAL(5,2) DEFAULT -.5", "-0.50"), ("DECIMAL(5,2) DEFAULT '-0.00'", "0.00")),
        *(
            ("INT DEFAULT '007'", "7"),
            ("BOOL DEFAULT TRUE", "1"),
            ("DOUBLE DEFAULT -0.25", "-0.25"),
        ),
        *(("VARCHAR(9) DEFAULT 'é '", "é "), ("CHAR(9) DEFAULT 'é '", "é"), ("TEXT NOT NULL", "")),
        *(("BINARY(3) DEFAULT 'a'", "610000"), ("VARBINARY(3) DEFAULT 0xABC", "0abc")),
        *(
            ("BIT(9) DEFAULT b'101'", "0005"),
            ("BIT NOT NULL", "00"),
            ("BINARY(2) NOT NULL", "0000"),
        ),
        *(("ENUM('a','b') NOT NULL", "a"), ("SET('x','y') DEFAULT 'y,x'", "x,y")),
        *(("DATE DEFAULT '2024-02-29'", "2024-02-29"), ("YEAR NOT NULL", "0000")),
        ("DATETIME(3) DEFAULT '2024-02-29 01:02:03.5'", "2024-02-29 01:02:03.500"),
        *(("TIME(1) DEFAULT '-001:02:03'", "-01:02:03.0"), ("TIME(2) NOT NULL", "00:00:00.00")),
        *(("JSON NOT NULL", "null"), ("TIMESTAMP", None), ("TIMESTAMP NULL", None)),
    ],
)
def test_what_rows_hold_in_an_added_column(sql: str, value: str | None) -> None:
    assert read(sql) == Default(value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INT DEFAULT (1 + 1)", "it is the result of an expression: ( 1 + 1 )"),
        (
            "DATETIME DEFAULT CURRENT_TIMESTAMP",
            "it is the result of an expression: CURRENT_TIMESTAMP",
        ),
        ("INT AS (a + 1)", "it is generated"),
        ("INT AUTO_INCREMENT UNIQUE", "the server numbers its values"),
        ("SERIAL", "the server numbers its values"),
        ("VARCHAR(9) DEFAULT 'a\ufffd'", "its literal has characters that cannot be read"),
        ("INT DEFAULT 7.5", "its literal does not fit its type as it is: '7.5' for int"),
        ("nothing DEFAULT 5", "its type is not known here"),
        ("DATE NOT NULL", "it is NOT NULL without a default, of type date"),
        ("TIMESTAMP NOT NULL", "it is NOT NULL without a default, of type timestamp"),
    ],
)
def test_what_is_not_certain_is_unknown(sql: str, reason: str) -> None:
    assert read(sql) == UnknownDefault(reason)


def test_a_timestamp_of_a_session_that_is_not_known_may_be_the_current_one() -> None:
    for explicit in (None, False):
        session = Session(Flavor.MYSQL, "", STRICT_ALL_TABLES, explicit)
        assert isinstance(read("TIMESTAMP", session), UnknownDefault)
        assert read("TIMESTAMP NULL", session) == NULL
        assert read("DATETIME", session) == NULL


def test_numbers_that_no_server_allows_are_unknown() -> None:
    for sql in (f"INT DEFAULT 0x{'f' * 9000}", "BINARY(4000000000) NOT NULL", "BIT(65) NOT NULL"):
        assert isinstance(read(sql), UnknownDefault)


def test_an_empty_string_may_be_null() -> None:
    oracle = Session(Flavor.MARIADB, sql_mode=EMPTY_STRING_IS_NULL)

    assert isinstance(read("VARCHAR(9) DEFAULT ''", oracle), UnknownDefault)
    assert read("VARCHAR(9) DEFAULT ''", MARIADB) == Default("")


@pytest.mark.parametrize(
    ("connection", "client", "known"),
    [
        *(("utf8mb4", "utf8mb4", True), ("utf8mb4", "gbk", True), ("latin1", "latin1", True)),
        *(("latin1", "utf8mb4", False), (None, "utf8mb4", False), (None, None, False)),
    ],
)
def test_text_that_the_connection_may_not_hold_is_unknown(
    connection: str | None, client: str | None, known: bool
) -> None:
    session = Session(Flavor.MYSQL, "", STRICT_ALL_TABLES, True, connection, client)

    assert isinstance(read("VARCHAR(9) DEFAULT 'é'", session), Default) == known
    assert read("VARCHAR(9) DEFAULT 'e'", session) == Default("e")


@given(
    st.sampled_from(
        ["INT", "DECIMAL(5,2)", "CHAR(3)", "BINARY(2)", "ENUM('1','')", "TIME", "BIT(3)"]
    ),
    st.text("0123456789.-+:'xbeNULL ()_\"", max_size=15),
)
def test_any_literal_is_a_value_or_unknown(of: str, literal: str) -> None:
    with contextlib.suppress(UnsupportedError):
        assert isinstance(read(f"{of} DEFAULT {literal}", MARIADB), Default | UnknownDefault)
