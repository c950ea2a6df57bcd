"""Staged types: what Arrow prints is what Spark reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.staged.types import common_type, spark_type, widens

TYPES = [
    (pa.bool_(), "boolean"),
    (pa.int32(), "int"),
    (pa.int64(), "bigint"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.decimal128(20, 0), "decimal(20,0)"),
    (pa.string(), "string"),
    (pa.list_(pa.float32()), "array<float>"),
    (pa.binary(), "binary"),
    (pa.date32(), "date"),
    (pa.timestamp("us"), "timestamp_ntz"),
    (pa.timestamp("us", "UTC"), "timestamp"),
]


@pytest.mark.parametrize(("arrow", "spark"), TYPES, ids=str)
def test_every_staged_type_has_one(arrow: pa.DataType, spark: str) -> None:
    assert spark_type(str(arrow)) == spark


def test_another_type_is_refused() -> None:
    with pytest.raises(MergeError, match="type=list"):
        spark_type("list<item: int32>")


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [("int", "bigint"), ("float", "double"), ("decimal(5,2)", "decimal(9,2)")],
)
def test_widening_has_one_direction(narrow: str, wide: str) -> None:
    assert widens(narrow, wide)
    assert not widens(wide, narrow)
    assert not widens(wide, wide)


@pytest.mark.parametrize("wide", ["decimal(9,3)", "bigint", "string"])
def test_no_other_change_is_a_widening(wide: str) -> None:
    assert not widens("decimal(5,2)", wide)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int", "int", "int"),
        ("int", "bigint", "bigint"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(20,0)", "decimal(20,0)"),
        ("bigint", "decimal(5,4)", "decimal(24,4)"),
        ("decimal(5,2)", "decimal(6,4)", "decimal(7,4)"),
        ("decimal(9,2)", "decimal(5,2)", "decimal(9,2)"),
        ("decimal(38,0)", "decimal(5,2)", None),
        ("bigint", "double", None),
        ("int", "float", None),
        ("int", "string", None),
        ("timestamp", "timestamp_ntz", None),
    ],
)
def test_the_common_type_holds_the_values_of_both(
    one: str, other: str, expected: str | None
) -> None:
    assert common_type(one, other) == common_type(other, one) == expected
