"""The demo's comparison sees every kind of difference, and only differences."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tests.support.compare import Column, Difference, Table, _plain_source, compare

ORDERS = Table(
    "shop",
    "orders",
    (
        Column("id", "bigint", 20),
        Column("line", "int", 10),
        Column("price", "decimal", 10),
        Column("from", "varchar"),
    ),
    ("id", "line"),
)
SOURCE: list[dict[str, Any]] = [
    {"id": 1, "line": 1, "price": Decimal("1.50"), "from": "é"},
    {"id": 1, "line": 2, "price": None, "from": ""},
    {"id": 2, "line": 1, "price": Decimal("-3.00"), "from": None},
]
LAKE: dict[str, list[Any]] = {
    "id": [Decimal(2), Decimal(1), Decimal(1)],
    "line": [1, 2, 1],
    "price": [Decimal("-3.00"), None, Decimal("1.50")],
    "from": [None, "", "é"],
}


def differences(lake: dict[str, list[Any]]) -> list[Difference]:
    return list(compare(ORDERS, SOURCE, lake))


def test_equal_in_any_order() -> None:
    assert differences(LAKE) == []


@pytest.mark.parametrize(
    ("column", "index", "value"),
    [
        ("price", 0, Decimal("-3.01")),
        ("price", 0, None),
        ("price", 0, "-3.00"),
        ("price", 1, Decimal(0)),
        ("from", 0, ""),
        ("from", 1, None),
        ("from", 2, "e"),
        ("from", 2, "é ".encode()),
    ],
)
def test_a_wrong_value_is_seen(column: str, index: int, value: Any) -> None:
    lake = LAKE | {column: [*LAKE[column][:index], value, *LAKE[column][index + 1 :]]}
    key = int(LAKE["id"][index]), LAKE["line"][index]

    (found,) = differences(lake)
    assert (found.key, found.column, found.lake) == (key, column, value)


def test_a_missing_row_is_seen() -> None:
    lake = {name: values[1:] for name, values in LAKE.items()}

    assert differences(lake) == [Difference((2, 1), "", "there", "absent")]


def test_an_extra_row_is_seen() -> None:
    lake = {name: [*values, values[0]] for name, values in LAKE.items()}
    lake["id"][3] = Decimal(3)

    assert differences(lake) == [Difference((3, 1), "", "absent", "there")]


def test_a_row_that_is_there_twice_is_seen() -> None:
    lake = {name: [*values, values[0]] for name, values in LAKE.items()}

    assert differences(lake) == [Difference((2, 1), "", "there", "there 2 times")]


def test_a_row_under_another_key_is_seen_twice() -> None:
    lake = LAKE | {"line": [7, 2, 1]}

    assert [(each.key, each.source) for each in differences(lake)] == [
        ((2, 1), "there"),
        ((2, 7), "absent"),
    ]


@pytest.mark.parametrize("name", ["price", "id"])
def test_a_missing_column_is_seen(name: str) -> None:
    lake = {each: values for each, values in LAKE.items() if each != name}

    assert [each.column for each in differences(lake)] == [name]


def test_an_extra_column_is_seen() -> None:
    assert [each.column for each in differences(LAKE | {"phone": [None] * 3})] == ["phone"]


def test_an_empty_lake_differs_in_every_row() -> None:
    assert len(differences({name: [] for name in LAKE})) == len(SOURCE)


NOON = datetime(2024, 2, 29, 12, 0, 0, 250_000)
EAST = timezone(timedelta(hours=2))
VALUES: list[tuple[Column, Any, Any, list[Any]]] = [
    (Column("c", "bigint", 20), 2**64 - 1, Decimal(2**64 - 1), [2.0**64, str(2**64 - 1)]),
    (Column("c", "bit"), 5, b"\x00\x05", [b"\x05\x00"]),
    (Column("c", "bit"), 1, True, [False]),
    (Column("c", "time"), timedelta(hours=-1, microseconds=1), -3_599_999_999, [3_600_000_001]),
    (Column("c", "timestamp"), NOON, NOON.replace(tzinfo=UTC), [NOON, NOON.replace(tzinfo=EAST)]),
    (Column("c", "datetime"), NOON, NOON, [NOON.replace(tzinfo=UTC)]),
    (Column("c", "date"), date(2024, 2, 29), date(2024, 2, 29), [datetime(2024, 2, 29)]),
    (Column("c", "float"), 0.10000000149011612, 0.10000000149011612, [0.1]),
    (Column("c", "decimal", 65), Decimal("1E+2"), "100", ["1E+2", Decimal(100)]),
    (Column("c", "binary"), b"a\x00", b"a\x00", [b"a", "a\x00"]),
    (Column("c", "set"), "a,b", "a,b", ["b,a", ""]),
]


@pytest.mark.parametrize(("column", "source", "lake", "others"), VALUES)
def test_a_value_of_each_type(column: Column, source: Any, lake: Any, others: list[Any]) -> None:
    table = Table("shop", "t", (Column("id", "int", 10), column), ("id",))
    rows = [{"id": 1, "c": _plain_source(column, source)}]

    assert list(compare(table, rows, {"id": [1], "c": [lake]})) == []
    for other in others:
        assert len(list(compare(table, rows, {"id": [1], "c": [other]}))) == 1
