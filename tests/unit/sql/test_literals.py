"""Literals: what a DEFAULT clause writes, or that it is an expression."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.defaults import NULL_LITERAL, Literal, LiteralKind, read_literal
from airflow_provider_binlog.sql.lexer import Session, split_words

NUMBER, STRING, BYTES = LiteralKind.NUMBER, LiteralKind.STRING, LiteralKind.BYTES
SESSION = Session(Flavor.MYSQL, sql_mode=0)


def read(sql: str) -> Literal:
    words = split_words(sql, SESSION)
    return read_literal(words)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("NULL", NULL_LITERAL),
        ("(NULL)", NULL_LITERAL),
        ("7", Literal(NUMBER, "7")),
        ("-7", Literal(NUMBER, "-7")),
        ("+ 7.50", Literal(NUMBER, "7.50")),
        ("-.5", Literal(NUMBER, "-0.5")),
        ("7.", Literal(NUMBER, "7")),
        ("true", Literal(NUMBER, "1")),
        ("FALSE", Literal(NUMBER, "0")),
        ("'a'", Literal(STRING, "a")),
        ('"a"', Literal(STRING, "a")),
        ("('a')", Literal(STRING, "a")),
        ("x'4A'", Literal(BYTES, "4a")),
        ("X ''", Literal(BYTES, "")),
        ("0xABC", Literal(BYTES, "0abc")),
        ("b'101'", Literal(BYTES, "05")),
        ("b'100000001'", Literal(BYTES, "0101")),
    ],
)
def test_literals(sql: str, expected: Literal) -> None:
    assert read(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        *("1 + 1", "(1) + (1)", "1e5", "-x'41'", "x'4'", "x'4g'", "b'2'", "- - 1", "-", ".", ""),
        *("NOW()", "UUID()", "a", "`a`", "`NULL`", "_latin1 x'41'", "'a' + 1", "CURRENT_TIMESTAMP"),
        *(
            "((1))",
            "(a)",
            "e'a'",
            "TIME(3)",
            "N'a'",
            "_latin1 'a'",
            "DATE '2024-01-01'",
            "'a' 'b'",
            "('é')",
        ),
    ],
)
def test_expressions(sql: str) -> None:
    assert read(sql).kind is LiteralKind.EXPRESSION


def test_brackets_may_be_nested_as_deep_as_they_like() -> None:
    assert read("(" * 20_000 + "1" + ")" * 20_000).kind is LiteralKind.EXPRESSION


@given(st.text("0x1b'\"()-+.eN_a ", max_size=20))
def test_any_text_is_a_literal_or_an_expression(sql: str) -> None:
    with contextlib.suppress(UnsupportedError):
        assert read_literal(split_words(sql, SESSION)).kind in LiteralKind
