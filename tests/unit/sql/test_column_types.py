"""Types: printed and parsed, one is the inverse of the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.sql.columns import SqlType, parse_type

# As MySQL 9.7 and MariaDB 10.11 and 11.8 print the same ENUM.
PRINTED = r"""enum('a\\b','it''s','new\nline','c,d','tab	','dq"','%','é','z\0y','\r')"""


def values_of(text: str) -> tuple[str, ...] | None:
    found = parse_type(text, escapes=True)
    return None if found is None else found.values


def test_values_as_information_schema_prints_them() -> None:
    assert values_of(PRINTED) == (
        *("a\\b", "it's", "new\nline", "c,d", "tab\t", 'dq"', "%", "é", "z\0y", "\r"),
    )
    assert values_of("set('x')") == ("x",)
    assert values_of("enum('')") == ("",)


@pytest.mark.parametrize("text", ["enum('a", "enum('a''", "enum(a)", "enum('a'x'b')", "enum('a')x"])
def test_values_that_cannot_be_read_are_none(text: str) -> None:
    assert values_of(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", SqlType("int")),
        ("int(10) unsigned zerofill", SqlType("int", unsigned=True)),
        ("decimal(10,2)", SqlType("decimal", 10, 2)),
        ("float(7,3)", SqlType("float", 7, 3)),
        ("datetime(6)", SqlType("datetime", fsp=6)),
        ("datetime /* mariadb-5.3 */", SqlType("datetime")),
        ("varchar(40)", SqlType("varchar", 40)),
        ("varchar(40) /*M!100301 COMPRESSED*/", SqlType("varchar", 40, compressed=True)),
        ("blob compressed", SqlType("blob", compressed=True)),
        ("vector(3)", SqlType("vector", 3)),
        ("enum('a','b''c')", SqlType("enum", values=("a", "b'c"))),
        (r"set('a\b')", SqlType("set", values=(r"a\b",))),
        ("multipolygon", SqlType("multipolygon")),
        ("", None),
        ("null", None),
        ("decimal(10,2) of sorts", None),
        ("varchar(40", None),
    ],
)
def test_types(text: str, expected: SqlType | None) -> None:
    assert parse_type(text) == expected


SIZES = st.integers(0, 65535)
VALUES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")))
TYPES = st.one_of(
    st.builds(SqlType, st.sampled_from(["tinyint", "bigint", "float"]), unsigned=st.booleans()),
    st.builds(SqlType, st.just("decimal"), st.integers(1, 65), st.integers(0, 65)),
    st.builds(SqlType, st.just("bit"), st.integers(0, 64)),
    st.builds(SqlType, st.just("binary"), st.integers(0, 255)),
    st.builds(SqlType, st.just("varchar"), SIZES),
    st.builds(SqlType, st.sampled_from(["time", "timestamp"]), fsp=st.integers(0, 6)),
    st.builds(
        SqlType,
        st.sampled_from(["enum", "set"]),
        values=VALUES.map(lambda values: tuple(each.rstrip(" ") for each in values) or ("",)),
    ),
)


@given(TYPES)
def test_a_printed_type_is_parsed_back(of: SqlType) -> None:
    assert parse_type(str(of)) == of


@given(st.text("decimalnuset(),' \\12", max_size=30), st.booleans())
def test_any_text_is_a_type_or_none(text: str, escapes: bool) -> None:
    parse_type(text, escapes=escapes)
