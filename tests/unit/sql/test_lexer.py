"""Words: what stands between quotes and in comments is distinguished from what does not."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.lexer import (
    ANSI_QUOTES,
    Reader,
    Session,
    Word,
    hide_passwords,
    mask_literals,
)
from airflow_provider_binlog.sql.lexer import split_words as split


def split_words(sql: str, flavor: Flavor, sql_mode: int | None = None) -> list[Word]:
    return split(sql, Session(flavor, sql_mode=sql_mode))


BOTH = pytest.mark.parametrize("flavor", list(Flavor))


@BOTH
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DROP\tTABLE\n t1,`a``b`", [*["DROP", "TABLE", "t1", ","], ("a`b", "`")]),
        ('"x""y".z', [('x"y', '"'), ".", "z"]),
        ("'it''s' 'b\"c`'", [("it's", "'"), ('b"c`', "'")]),
        ("a/* b */c/**/d", ["a", "c", "d"]),
        ("a -- b\nc --d", ["a", "c", "-", "-", "d"]),
        ("a#b\nc", ["a", "c"]),
        ("a --", ["a"]),
        ("/*!50000 a */ /*! b*/ c /*! d /* e */ f */", ["a", "b", "c", "d", "f"]),
        ("t$1 _x 2020_a ünö €", ["t$1", "_x", "2020_a", "ünö", "€"]),
        ("a.2020", ["a", ".", "2020"]),
        ("a\u00a0b", ["a\u00a0b"]),
    ],
)
def test_words(flavor: Flavor, sql: str, words: list[str | tuple[str, str]]) -> None:
    expected = [Word(each) if isinstance(each, str) else Word(*each) for each in words]

    assert split_words(sql, flavor) == expected


def is_refused(sql: str, flavor: Flavor) -> bool:
    try:
        split_words(sql, flavor)
    except UnsupportedError:
        return True
    return False


@BOTH
def test_a_comment_that_does_not_end_is_refused(flavor: Flavor) -> None:
    assert is_refused("a /* b", flavor)
    assert split_words("a / * b", flavor) == [*map(Word, "a/*b")]
    # And at once: a search for the end from each of them would take minutes.
    assert is_refused("/* " * 300_000, flavor)


def test_a_comment_of_mariadb_counts_there_alone() -> None:
    assert split_words("a /*M!100100 b */ c", Flavor.MARIADB) == [*map(Word, "abc")]
    assert split_words("a /*M!100100 b */ c", Flavor.MYSQL) == [*map(Word, "ac")]


@BOTH
def test_a_backslash_of_a_session_that_is_not_known_is_refused(flavor: Flavor) -> None:
    assert is_refused(r"'a\'", flavor)


@BOTH
def test_the_session_says_what_a_backslash_is(flavor: Flavor) -> None:
    assert split_words(r"'a\n'", flavor, sql_mode=0) == [Word("a\n", "'")]
    assert split_words(r"'a\n'", flavor, sql_mode=1 << 20) == [Word(r"a\n", "'")]


@BOTH
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (r"'\\'''", "\\'"),
        (r"'\'\''", "''"),
        (r"'\%\_'", r"\%\_"),
        (r"'\0\b\r\t\Z'", "\0\b\r\t\x1a"),
    ],
)
def test_what_a_text_says(flavor: Flavor, sql: str, text: str) -> None:
    assert split_words(sql, flavor, sql_mode=0) == [Word(text, "'")]


@BOTH
@pytest.mark.parametrize("sql", ["'a", '"a', "`a", "`a``", "'a''"])
def test_a_quote_that_does_not_end_is_refused(flavor: Flavor, sql: str) -> None:
    assert is_refused(sql, flavor)


@given(st.text("abAB .,'\"`\\/*!#-\n\x00é", max_size=30), st.sampled_from(list(Flavor)))
def test_any_text_is_words_or_refused(sql: str, flavor: Flavor) -> None:
    for sql_mode in (None, 0, ANSI_QUOTES):
        with contextlib.suppress(UnsupportedError):
            assert split_words(sql, flavor, sql_mode) is not None


def reader(sql: str) -> Reader:
    words = split_words(sql, Flavor.MYSQL)
    return Reader(words)


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("t", ("d", "t")),
        ("a . b", ("a", "b")),
        (".b", ("d", "b")),
        ("`a.b`.`c`", ("a.b", "c")),
        ('"a"."b"', ("a", "b")),
        ("shop.table", ("shop", "table")),
    ],
)
def test_a_table(sql: str, table: tuple[str, str]) -> None:
    assert reader(sql).table("d") == table


@pytest.mark.parametrize("sql", ["", "'t'", "a.", "a.'b'", "@t", "(", ". ."])
def test_what_is_no_table_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot be determined"):
        reader(sql).table("d")


def test_quoted_names_are_no_keywords() -> None:
    assert reader("`DROP` t").take("DROP") is None


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (
            "INSERT INTO `t 1` VALUES (7, -1.5e3, 'o''hara', \"x\")",
            "INSERT INTO `t 1` VALUES (?, -?.?, ?, ?)",
        ),
        (
            "UPDATE t SET a = x'4142', b = 0x41, c1 = _utf8mb4'é'",
            "UPDATE t SET a = x?, b = ?, c1 = _utf8mb4?",
        ),
        ("/* token=7 */ DELETE FROM t -- more\nWHERE id=1", "DELETE FROM t WHERE id=?"),
        ("UPDATE t SET a = 'does not end", "UPDATE t SET a ="),
        ("DELETE FROM t WHERE a IN (" + "1," * 999, "DELETE FROM t WHERE a IN (" + "?," * 87),
    ],
)
def test_messages_show_no_literals(sql: str, shown: str) -> None:
    assert mask_literals(sql, Session(Flavor.MYSQL, sql_mode=0)) == shown


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (
            "CREATE TABLE f (id INT) ENGINE=FEDERATED connection = 'mysql://u:it''s\\'@h/d/t'",
            "CREATE TABLE f (id INT) ENGINE=FEDERATED connection = '?'",
        ),
        (
            'ALTER TABLE s ENGINE=SPIDER COMMENT=\'user "u", password "p"\' , ADD a INT',
            "ALTER TABLE s ENGINE=SPIDER COMMENT='?' , ADD a INT",
        ),
        (
            'ALTER TABLE f CONNECTION "s/t", COMMENT "it"',
            "ALTER TABLE f CONNECTION '?', COMMENT '?'",
        ),
        ("ALTER TABLE t COMMENT 'kept', ADD b INT", "ALTER TABLE t COMMENT 'kept', ADD b INT"),
    ],
)
def test_a_statement_that_is_stored_shows_no_password(sql: str, shown: str) -> None:
    assert hide_passwords(sql) == shown


def test_double_quotes_enclose_names_where_the_session_says_so() -> None:
    session = Session(Flavor.MYSQL, sql_mode=ANSI_QUOTES)

    assert mask_literals("SELECT 'a' FROM \"b\"", session) == 'SELECT ? FROM "b"'
