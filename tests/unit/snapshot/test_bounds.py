"""Conditions on a key: rows after a bound, and up to the next."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema_history.completion import describe
from airflow_provider_binlog.snapshot.bounds import ChunkKey, KeyColumn, condition, find_key
from airflow_provider_binlog.sql.columns import Facts, Key, PartialColumn, PartialSchema
from airflow_provider_binlog.transport.server.tables import ColumnOrder

if TYPE_CHECKING:
    from collections.abc import Collection

INT = Facts(data_type="int", nullable=False, unsigned=False)
TEXT = Facts(data_type="varchar", nullable=False, charset="latin1", octets=40)
BINARY = Facts(data_type="varbinary", nullable=False, charset="binary", octets=40)
ENUM = Facts(data_type="enum", nullable=False, charset="latin1", values=("a", "b"))
DATETIME = Facts(data_type="datetime", nullable=False, fsp=1)
BIT = Facts(data_type="bit", nullable=False, precision=64)
FLOAT = Facts(data_type="float", nullable=False, unsigned=False)


def key_of(
    *facts: Facts, prefix: int = 0, primary: bool = True, descending: Collection[Facts] = ()
) -> ChunkKey:
    """Return the key of a table whose columns `a`, `b` ... are all in it.

    The name of a column's character set stands for its collation.
    """
    names = [chr(ord("a") + index) for index in range(len(facts))]
    columns = tuple(map(PartialColumn, names, facts))
    parts = [(name, 0) for name in names]
    if parts:
        parts[-1] = (names[-1], prefix)
    schema = PartialSchema(columns, Key(tuple(parts), primary=primary, others=False))
    table_map = describe(("shop", "t"), schema, Flavor.MYSQL, (9, 7, 0))
    order = [ColumnOrder(each.charset, each in descending) for each in facts]
    return find_key(compile_layout(table_map), schema, order)


def test_a_key_of_one_column() -> None:
    key = key_of(INT)

    assert condition(key, None, None) == ""
    assert condition(key, ("1",), None) == " WHERE `a` > 1"
    assert condition(key, None, ("9",)) == " WHERE `a` <= 9"
    assert condition(key, ("1",), ("9",), "x OR y") == " WHERE (x OR y) AND `a` > 1 AND `a` <= 9"
    assert key.hint == " FORCE INDEX (PRIMARY)"
    assert key_of(INT, primary=False).hint == ""


def test_a_key_of_three_columns_is_a_range_on_the_first() -> None:
    assert condition(key_of(INT, INT, INT), ("1", "2", "3"), None) == (
        " WHERE `a` >= 1 AND (`a` > 1 OR (`a` = 1 AND `b` >= 2 AND (`b` > 2 OR (`b` = 2 AND"
        " `c` > 3))))"
    )


def test_a_key_ends_before_the_first_column_without_ranges() -> None:
    assert [each.name for each in key_of(INT, ENUM, INT).columns] == ["`a`"]
    assert [each.name for each in key_of(INT, TEXT, prefix=3).columns] == ["`a`"]
    assert key_of(ENUM, INT).columns == ()
    assert key_of(INT, TEXT, descending=[TEXT]).order == ("`a`",)
    assert key_of(INT, TEXT, descending=[INT, TEXT]).order == ("`a`", "`b` latin1")


def test_literals_are_exact() -> None:
    def literal(column: KeyColumn, value: object) -> str:
        return column.literal(column.to_text(value))

    text, binary, number = key_of(TEXT, BINARY, FLOAT).columns
    exact, moment, bits = key_of(INT, DATETIME, BIT).columns

    assert literal(text, "27") == "_latin1 x'27'"
    assert literal(text, b"27") == "_latin1 x'27'"
    assert literal(binary, "00FF") == "x'00FF'"
    assert [literal(number, value) for value in (0.10000000149011612, 1e300, -5.0)] == [
        "0.10000000149011612e0",
        "1e+300",
        "-5.0e0",
    ]
    assert literal(exact, Decimal("1.5E-7")) == "0.00000015"
    assert literal(exact, -(2**63)) == "-9223372036854775808"
    assert literal(moment, b"2026-11-23 10:00:00.5") == "'2026-11-23 10:00:00.5'"
    assert literal(bits, 2**63) == "9223372036854775808"


@pytest.mark.parametrize(
    "edited",
    [
        "1 OR 1=1",
        "1) UNION SELECT password FROM mysql.user -- ",
        "' OR '1'='1",
        "x'00'",
        "(SELECT 1)",
        "SLEEP(9)",
        "1/*",
        "\\",
        "`a`",
        "1\n",
        "é",
    ],
)
def test_an_edited_bound_is_no_part_of_a_statement(edited: str) -> None:
    key = key_of(TEXT, BINARY, FLOAT, INT, DATETIME, BIT)
    bound = ("27", "00", "1.5e0", "1", "2026-11-23", "1")
    assert condition(key, bound, bound)

    for index in range(len(bound)):
        with pytest.raises(ManifestError, match="no value of its column"):
            condition(key, (*bound[:index], edited, *bound[index + 1 :]), None)
    with pytest.raises(ManifestError, match="other columns than the key"):
        condition(key, None, (*bound, "1"))
