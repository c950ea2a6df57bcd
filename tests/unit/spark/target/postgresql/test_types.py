"""Types of PostgreSQL: which a column gets, and what planning takes others for."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.spark.target.postgresql.types import (
    column_type,
    conversion,
    copied,
    spark_type,
)

TYPES = [
    ("int", "tinyint", "integer"),
    ("int", "year", "integer"),
    ("bigint", "int unsigned", "bigint"),
    ("bigint", "time(6)", "interval"),
    ("decimal(20,0)", "bigint unsigned", "numeric(20,0)"),
    ("decimal(10,2)", "decimal(10,2)", "numeric(10,2)"),
    ("string", "decimal(65,30) unsigned", "numeric(65,30)"),
    ("string", "json", "json"),
    ("string", "enum('json')", "text"),
    # Under zero_dates="text" and invalid_text="binary".
    ("string", "datetime(6)", "text"),
    ("binary", "varchar(20)", "bytea"),
    ("boolean", "bit(1)", "boolean"),
    ("binary", "bit(9)", "bit(9)"),
    ("binary", "point", "bytea"),
    ("timestamp", "timestamp(6)", "timestamp with time zone"),
    ("timestamp_ntz", None, "timestamp without time zone"),
    ("array<float>", "vector(3)", "real[]"),
]


@pytest.mark.parametrize(("spark", "source", "type_"), TYPES)
def test_planning_takes_a_column_for_what_it_was_made_of(
    spark: str, source: str | None, type_: str
) -> None:
    assert column_type(spark, source) == type_
    assert spark_type(type_) == spark


@pytest.mark.parametrize(
    ("type_", "spark"),
    [
        ("jsonb", "string"),
        ("character varying(20)", "string"),
        ("timestamp(3) without time zone", "timestamp_ntz"),
        ("numeric", "string"),
        ("numeric(39,1)", "string"),
        ("numeric(5)", "decimal(5,0)"),
        ("public.geometry(Point,4326)", "public.geometry(Point,4326)"),
    ],
)
def test_types_that_others_chose(type_: str, spark: str) -> None:
    assert spark_type(type_) == spark


def test_numbers_are_converted_as_numbers_and_others_by_their_text() -> None:
    assert conversion('"n"', "integer", "bigint") == '"n"::bigint'
    assert conversion('"n"', "text", "json") == '"n"::text::json'


def test_null_is_not_escaped_for_copy() -> None:
    assert copied("c0", is_text=False) == r"coalesce(replace(c0, '\\', '\\\\'), '\\N')"
