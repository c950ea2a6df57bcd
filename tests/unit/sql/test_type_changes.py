"""Changes of type: which keep every value; servers are asked in tests/integration."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.columns import SqlType, parse_type
from airflow_provider_binlog.sql.definitions import Definition, read_definition
from airflow_provider_binlog.sql.lexer import (
    NO_AUTO_VALUE_ON_ZERO,
    PAD_CHAR_TO_FULL_LENGTH,
    STRICT_ALL_TABLES,
    STRICT_TRANS_TABLES,
    Session,
    split_words,
)
from airflow_provider_binlog.sql.type_changes import rewrites, rewrites_charset, rewrites_column

STRICT = Session(Flavor.MYSQL, sql_mode=STRICT_TRANS_TABLES, explicit_timestamps=True)
LAX = Session(Flavor.MYSQL, sql_mode=0, explicit_timestamps=True)
LATIN1 = SqlType("varchar", 10, charset="latin1")


def definition(sql: str, session: Session = STRICT) -> Definition:
    words = split_words(sql, session)
    return read_definition(words, session)


def reason(before: str, after: str, session: Session = STRICT) -> str | None:
    return rewrites(definition(before).type, definition(after).type, session)


# As they once passed for kept.
@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(("binary(4)", "binary(8)"), ("bit(8)", "bit(16)"), ("text charset utf8mb4", "json")),
        *(("inet4", "inet6"), ("decimal(65,30)", "decimal(60,20)"), ("datetime(6)", "datetime")),
        *(("enum('a','b')", "enum('x','y')"), ("enum('a','b')", "enum('b')")),
        *(("set('a','b')", "set('a')"), ("set('a','b')", "set('b','a')")),
        *(("timestamp", "datetime"), ("float", "decimal(10,2)")),
        *(("varchar(5) charset ascii", "char(5) charset ascii"), ("bigint", "double")),
    ],
)
def test_what_may_change_values(before: str, after: str) -> None:
    assert reason(before, after) is not None


def test_strict_mode_fails_rather_than_lose_a_number() -> None:
    for before, after in (("bigint", "tinyint"), ("int", "int unsigned"), ("int", "decimal(3,0)")):
        assert reason(before, after) is None
        assert reason(before, after, LAX) is not None


def test_strict_mode_keeps_the_values_of_an_enum_in_another_order() -> None:
    assert reason("enum('a','b')", "enum('b','c','a')") is None
    assert reason("enum('a','b')", "enum('b','c','a')", LAX) is not None


def test_an_enum_becomes_text_that_holds_its_values() -> None:
    assert reason("enum('a','bcd')", "varchar(3)") is None
    assert reason("enum('a','bcd')", "varchar(2)", LAX) is not None
    assert reason("enum('a','bcd')", "text") is None
    assert reason("set('a','b')", "varchar(9)") is not None


def test_without_sql_mode_nothing_is_strict() -> None:
    assert reason("int", "tinyint", Session(Flavor.MYSQL)) is not None
    assert reason("int", "tinyint", Session(Flavor.MYSQL, sql_mode=STRICT_ALL_TABLES)) is None


def test_a_type_that_is_not_known_may_be_any() -> None:
    assert rewrites(None, SqlType("int"), STRICT) is not None
    assert rewrites(SqlType("int"), None, STRICT) is not None


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        *(("ascii", "latin1", True), ("ascii", "ucs2", True), ("ascii", "swe7", False)),
        *(("latin1", "utf8mb4", True), ("utf8mb3", "utf8mb4", True), ("utf8", "utf8mb4", True)),
        *(("utf8mb4", "utf8mb3", False), ("latin1", "latin2", False), ("ucs2", "utf8mb4", False)),
        *(("latin1", None, False), ("ascii", None, True), (None, "utf8mb4", False)),
    ],
)
def test_conversion_of_character_sets(before: str | None, after: str | None, kept: bool) -> None:
    of = SqlType("text", charset=before)

    assert (rewrites_charset(of, after) is None) == kept
    assert rewrites_charset(SqlType("int"), after) is None
    assert rewrites_charset(None, after) is not None


def test_a_character_set_that_is_not_written_may_be_another_outside_of_strict_mode() -> None:
    longer = SqlType("varchar", 20)

    assert rewrites(LATIN1, longer, STRICT) is None
    assert rewrites(LATIN1, longer, LAX) is not None
    assert rewrites(SqlType("varchar", 10, charset="ascii"), longer, LAX) is None


def test_char_under_pad_char_to_full_length() -> None:
    padding = Session(Flavor.MYSQL, sql_mode=STRICT_TRANS_TABLES | PAD_CHAR_TO_FULL_LENGTH)
    before, after = SqlType("char", 5, charset="ascii"), SqlType("varchar", 9, charset="ascii")

    assert rewrites(before, after, STRICT) is None
    assert rewrites(before, after, padding) == "sql_mode has PAD_CHAR_TO_FULL_LENGTH"


@pytest.mark.parametrize(
    ("sql", "nullable", "session", "expected"),
    [
        ("int", True, STRICT, None),
        ("int NOT NULL", True, STRICT, None),
        ("int NOT NULL", True, LAX, "NULL became another value"),
        ("int NOT NULL", None, LAX, "NULL became another value"),
        ("int NOT NULL", False, LAX, None),
        ("bigint AUTO_INCREMENT", False, STRICT, None),
        ("bigint AUTO_INCREMENT", True, STRICT, "the column is numbered"),
        ("int AUTO_INCREMENT", False, STRICT, "the column is numbered"),
        ("bigint NOT NULL AUTO_INCREMENT", True, STRICT, "NULL became another value"),
        ("int AS (a + 1) STORED", False, STRICT, "the column is generated"),
    ],
)
def test_columns(sql: str, nullable: bool | None, session: Session, expected: str | None) -> None:
    found = rewrites_column(parse_type("int"), definition(sql), session, nullable=nullable)

    assert found == expected


@pytest.mark.parametrize(
    ("sql", "sql_mode", "auto_increment", "expected"),
    [
        ("int AUTO_INCREMENT", STRICT_TRANS_TABLES, True, None),
        ("int NOT NULL AUTO_INCREMENT", NO_AUTO_VALUE_ON_ZERO, False, None),
        ("int NOT NULL AUTO_INCREMENT", 0, False, "the column is numbered"),
    ],
)
def test_zeros_are_numbered_where_a_column_becomes_auto_increment(
    sql: str, sql_mode: int, *, auto_increment: bool, expected: str | None
) -> None:
    session = Session(Flavor.MYSQL, sql_mode=sql_mode)
    found = rewrites_column(
        parse_type("int"),
        definition(sql),
        session,
        nullable=False,
        auto_increment=auto_increment,
    )

    assert found == expected


def test_null_in_a_timestamp_becomes_now() -> None:
    before = SqlType("timestamp")
    implicit = Session(Flavor.MYSQL, sql_mode=STRICT_TRANS_TABLES)

    for sql, session in (("timestamp NOT NULL", STRICT), ("timestamp", implicit)):
        found = rewrites_column(before, definition(sql), session, nullable=True)
        assert found == "NULL became another value"
    assert rewrites_column(before, definition("timestamp"), STRICT, nullable=True) is None


def test_json_of_mariadb_is_text() -> None:
    mariadb = Session(Flavor.MARIADB, sql_mode=STRICT_TRANS_TABLES)
    text = SqlType("longtext", charset="utf8mb4")

    assert rewrites(text, SqlType("json"), mariadb) is None
    assert rewrites(text, SqlType("json"), STRICT) is not None
