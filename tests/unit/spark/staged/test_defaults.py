"""Defaults: values that no row image has, and their SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.errors import MergeError, ReloadNeededError
from airflow_provider_binlog.schema import Default, Field, Schema
from airflow_provider_binlog.spark.job.session import configure
from airflow_provider_binlog.spark.staged.types import default_value, spark_type, write_defaults
from airflow_provider_binlog.spark.target.sql import literal
from tests.unit.spark.plans import column

DEFAULTS = [
    ("int", "int32", "-7", "-7"),
    ("bigint unsigned", "decimal128(20, 0)", "18446744073709551615", "18446744073709551615"),
    ("decimal(5,2)", "decimal128(5, 2)", "1.50", "1.50"),
    ("double", "double", "1e10", "1.0E10"),
    ("bit(1)", "bool", "01", "true"),
    ("bit(1)", "bool", "00", "false"),
    ("varchar(20)", "string", "it's \\n 100%", "it's \\n 100%"),
    ("varbinary(3)", "binary", "00ff", "00FF"),
    ("date", "date32[day]", "1000-01-31", "1000-01-31"),
    ("datetime(6)", "timestamp[us]", "2026-11-21 01:02:03.000004", "2026-11-21 01:02:03.000004"),
    ("timestamp", "timestamp[us, tz=UTC]", "2026-11-21 01:02:03", "2026-11-21 01:02:03"),
    ("time", "int64", "08:00:01", "28801000000"),
    ("time(2)", "int64", "-838:59:59.5", "-3020399500000"),
    ("int", "int32", None, None),
    ("bit(3)", "binary", None, None),
]


@pytest.mark.parametrize(
    ("mysql_type", "charset", "text", "data"),
    [
        ("varchar(9)", "utf8mb4", "é", "é".encode()),
        ("enum('ab')", "latin1", "ab", b"ab"),
        ("varbinary(9)", None, "ab", b"\xab"),
        ("text compressed", None, "", b""),
    ],
)
def test_text_that_is_staged_as_bytes_has_those_of_its_character_set(
    mysql_type: str, charset: str | None, text: str, data: bytes
) -> None:
    field = Field(1, "t", mysql_type, "binary", nullable=True, charset=charset)

    assert default_value(field, Default(text)) == data


@pytest.mark.parametrize(("charset", "text"), [("latin1", "é"), ("utf16", "a"), (None, "ab")])
def test_text_whose_bytes_are_not_known_is_refused(charset: str | None, text: str) -> None:
    field = Field(1, "t", "varchar(9)", "binary", nullable=True, charset=charset)

    with pytest.raises(ReloadNeededError, match=f"charset={charset}"):
        default_value(field, Default(text))


@pytest.mark.spark
def test_defaults_are_values_of_their_type(spark: SparkSession) -> None:
    fields = tuple(
        Field(number, f"c{number}", mysql, arrow, nullable=True, write_default=Default(text))
        for number, (mysql, arrow, text, _) in enumerate(DEFAULTS)
    )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    configure(session, {}, few=True)
    types = {field.name: spark_type(str(field.arrow_type)) for field in fields}
    values = write_defaults(Schema(1, (*fields, column(99, "unknown")), ()))

    found = session.range(1).select(
        *(F.expr(literal(value, types[name])).alias(name) for name, value in values.items())
    )
    texts = [
        F.hex(name) if type_ == "binary" else F.col(name).cast("string")
        for name, type_ in found.dtypes
    ]
    (row,) = found.select(*texts).collect()

    assert list(row) == [expected for *_, expected in DEFAULTS]


def test_a_float_is_the_nearest_value_of_its_type_in_a_wider_column_too() -> None:
    field = Field(1, "f", "float", "float", nullable=True)

    assert default_value(field, Default("0.1")) == 0.10000000149011612


@pytest.mark.parametrize(
    ("mysql_type", "arrow_type", "text"),
    [("time", "int64", "noon"), ("int", "int32", "7.5"), ("float", "float", "1e39")],
)
def test_a_default_that_is_no_value_of_its_type_is_refused(
    mysql_type: str, arrow_type: str, text: str
) -> None:
    at = Field(1, "at", mysql_type, arrow_type, nullable=True, write_default=Default(text))

    with pytest.raises(MergeError, match=f"column=at, type={mysql_type}, default={text}"):
        write_defaults(Schema(1, (at,), ()))


def test_a_zero_date_is_not_known() -> None:
    day = Field(
        1, "day", "date", "date32[day]", nullable=False, write_default=Default("2026-00-00")
    )
    text = Field(2, "text", "date", "string", nullable=False, write_default=Default("2026-00-00"))

    assert write_defaults(Schema(1, (day, text), ())) == {"text": "2026-00-00"}
