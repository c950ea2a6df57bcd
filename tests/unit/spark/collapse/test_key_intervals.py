"""Key intervals: all values lie in them, and the widest gaps lie between them."""

from __future__ import annotations

import random
from decimal import Decimal

from airflow_provider_binlog.spark.collapse.kept_rows import (
    INTERVALS_MAX,
    condition,
    find_intervals,
    has_intervals,
)


def test_one_old_row_beside_many_new_ones_is_an_interval_of_its_own() -> None:
    values = [3, *range(1_000_000, 1_000_100, 2)]

    intervals = find_intervals((str(value), value) for value in values)

    assert len(intervals) == INTERVALS_MAX
    assert intervals[0] == ("3", "3")
    assert intervals[-1][1] == "1000098"


def test_every_value_lies_in_an_interval() -> None:
    chance = random.Random(5)
    for _ in range(200):
        values = [chance.randint(-1000, 1000) for _ in range(chance.randint(1, 60))]

        intervals = find_intervals((str(value), value) for value in values)

        pairs = [(int(low), int(high)) for low, high in intervals]
        assert all(any(low <= value <= high for low, high in pairs) for value in values)
        assert len(pairs) == min(len(set(values)), INTERVALS_MAX)
        assert pairs == sorted(pairs)


def test_no_value_is_no_interval() -> None:
    assert find_intervals([]) == ()


def test_text_is_cut_by_its_first_bytes() -> None:
    values = [f"user-{number:04}" for number in range(40)] + ["", "~", "é"]

    intervals = find_intervals((value, value.encode()) for value in values)

    assert ("", "") in intervals
    assert ("~", "~") in intervals
    assert ("é", "é") in intervals


def test_bytes_are_measured_in_whichever_type_spark_returns_them() -> None:
    values = [b"", b"a", b"a\x00", b"\xff" * 20]

    intervals = find_intervals((value.hex(), bytearray(value)) for value in values)

    assert intervals == tuple((value.hex(), value.hex()) for value in values)


def test_decimals_are_measured_as_they_are() -> None:
    values = [Decimal("0.01"), Decimal("-5.50"), Decimal("99999999999999999999999999999999999.99")]

    intervals = find_intervals((str(value), value) for value in values)

    assert intervals == tuple((str(value), str(value)) for value in sorted(values))


def test_a_condition_quotes_its_literals() -> None:
    assert condition("t.`a`", "string", [("a'b", "c")]) == (
        "t.`a` BETWEEN CAST('a\\'b' AS string) AND CAST('c' AS string)"
    )
    assert condition("t.`a`", "int", [("1", "1"), ("5", "7")]) == (
        "t.`a` = CAST('1' AS int) OR t.`a` BETWEEN CAST('5' AS int) AND CAST('7' AS int)"
    )
    assert condition("t.`a`", "binary", [("0A", "0A")]) == "t.`a` = X'0A'"


def test_floats_have_no_intervals() -> None:
    assert not has_intervals("float")
    assert has_intervals("decimal(38,0)")
