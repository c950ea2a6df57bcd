"""Row images: the numbers of many manifests, and the defaults that fill what inserts leave out."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import Column, ColumnDefault, Schema
from airflow_provider_binlog.spark.staged.row_images import (
    ShapeImages,
    default_values,
    maybe_images,
)
from tests.unit.spark.plans import schema


def test_images_of_many_manifests_are_numbered_anew() -> None:
    listed = {
        4: [("id", "n", "m"), ("id",)],
        6: [("id",), ("id", "m"), ("id", "m", "gone"), ("id", "n", "m")],
    }

    found = maybe_images(schema("id", "n", "m"), listed)

    sets = (frozenset({"id", "n", "m"}), frozenset({"id"}), frozenset({"id", "m"}))
    assert found == ShapeImages(4, ((0, 1), (), (1, 2, 2, 0)), sets)
    assert found.holds("m") == (True, False, True)


def test_whole_images_need_no_numbers() -> None:
    assert maybe_images(schema("id", "n"), {4: [("id", "n")], 5: [("n", "id", "gone")]}) is None


DEFAULTS = [
    ("int", "int32", "-7", "-7"),
    ("bigint unsigned", "decimal128(20, 0)", "18446744073709551615", "18446744073709551615"),
    ("decimal(5,2)", "decimal128(5, 2)", "1.50", "1.50"),
    ("double", "double", "1e10", "1.0E10"),
    ("bit(1)", "bool", "1", "true"),
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


@pytest.mark.spark
def test_defaults_are_values_of_their_type(spark: SparkSession) -> None:
    columns = tuple(
        Column(f"c{number}", mysql, arrow, True, default=Default(text))
        for number, (mysql, arrow, text, _) in enumerate(DEFAULTS)
    )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    values = default_values(Schema((*columns, Column("unknown", "int", "int32", True)), ()))

    found = session.range(1).select(*(F.expr(each).alias(name) for name, each in values.items()))
    texts = [
        F.hex(name) if type_ == "binary" else F.col(name).cast("string")
        for name, type_ in found.dtypes
    ]
    (row,) = found.select(*texts).collect()

    assert list(row) == [expected for *_, expected in DEFAULTS]


def test_a_time_that_is_none_is_refused() -> None:
    column = Column("at", "time", "int64", True, default=Default("noon"))

    with pytest.raises(MergeError, match="column=at, default=noon"):
        default_values(Schema((column,), ()))
