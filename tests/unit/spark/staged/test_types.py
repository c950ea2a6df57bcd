"""Staged types: what Arrow prints is what Spark reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.staged.types import spark_type, widens

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
