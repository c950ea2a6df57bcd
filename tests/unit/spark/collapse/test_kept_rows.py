"""Kept rows: literals are the rows that stay on the executors, whoever reads the parts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.spark.collapse.kept_rows import (
    KeyColumn,
    as_literals,
    checkpoint,
    checkpoint_counted,
    count_last,
    count_literals,
)
from airflow_provider_binlog.spark.collapse.source_rows import collapse
from airflow_provider_binlog.spark.job.session import configure
from airflow_provider_binlog.spark.plan.planner import plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.staged.changes import (
    can_take_last,
    read_changes,
    read_last,
    select_last,
)
from airflow_provider_binlog.spark.staged.files import HadoopFiles
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.spark.staged_changes import ColumnType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_binlog.spark.plan.segment import Segment
    from tests.unit.spark.workplace import Workplace

pytestmark = pytest.mark.spark

_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "number": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    "whole": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38)]),
    "unsigned": (pa.decimal128(20, 0), [Decimal((1 << 64) - 1), Decimal(0)]),
    "money": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-9999999999.99")]),
    "single": (pa.float32(), [-0.0, 3.4028234663852886e38]),
    "double": (pa.float64(), [-0.0, 5e-324]),
    "text": (pa.string(), ["", "a\u0000b'\"\\ \U0001f600 \ufffd ü"]),
    "json": (pa.string(), ['{"a": [1, 2.50, null], "é": "\\u0000"}', "null"]),
    "bytes": (pa.binary(), [b"", bytes(range(256))]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "old": (pa.date32(), [date(1582, 10, 4), date(1582, 10, 15)]),
    "local": (
        pa.timestamp("us"),
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    ),
    "instant": (
        pa.timestamp("us", "UTC"),
        [datetime(1582, 10, 4, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    ),
    "vector": (pa.list_(pa.field("item", pa.float32())), [[-0.0, 1.5, None], []]),
}


def test_literals_are_the_rows_of_the_executors(quick_workplace: Workplace) -> None:
    workplace = quick_workplace
    session = workplace.spark.newSession()
    configure(session, {}, few=True)
    files, segment = _stage(workplace)
    changes = read_changes(session, files, segment)
    rows = collapse(changes.coalesce(1), width=len(_VALUES) + 2, key=(0, 1))

    literals, kept = as_literals(rows), checkpoint(rows)

    assert literals.dtypes == kept.dtypes
    assert len(_texts(kept)) == 4
    assert _texts(literals) == _texts(kept)
    assert "LocalRelation" in literals._jdf.queryExecution().optimizedPlan().toString()


def test_both_count_the_same(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES (5, false, 2L), (9, true, 1L), (7, false, 4L)"
        " AS v(c0, deleted, changes)"
    )
    column = KeyColumn("c0", "int")

    kept, counted = checkpoint_counted(frame, column)
    literal = count_literals(as_literals(frame), column)

    assert kept.count() == 3
    assert (counted.changes, counted.deletes, counted.upserts) == (7, 1, 2)
    assert (literal.changes, literal.deletes, literal.upserts) == (7, 1, 2)
    assert counted.intervals == (("5", "9"),)
    assert literal.intervals == (("5", "5"), ("7", "7"), ("9", "9"))


def test_a_null_key_lies_in_no_interval(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES (5, false, 2L), (NULL, true, 1L) AS v(c0, deleted, changes)"
    )
    column = KeyColumn("c0", "int")

    assert checkpoint_counted(frame, column)[1].intervals == ()
    assert count_literals(as_literals(frame), column).intervals == ()


@pytest.mark.parametrize("key", [("id", "part"), ("id",), *((name,) for name in _VALUES)], ids=str)
def test_the_last_changes_by_arrow_are_those_by_spark(
    quick_workplace: Workplace, key: tuple[str, ...]
) -> None:
    workplace = quick_workplace
    session = workplace.spark.newSession()
    configure(session, {}, few=True)
    files, segment = _stage(workplace)
    segment = replace(segment, key=key, null_safe=True)
    names = [*segment.columns]
    columns = [f"c{index}" for index in range(len(names))]

    assert can_take_last(segment) == (key != ("vector",))
    if not can_take_last(segment):
        return
    last = read_last(files, segment, memory=1 << 20)
    assert last is not None
    by_arrow = select_last(session, last, segment)

    changes = read_changes(session, files, segment).coalesce(1)
    by_spark = collapse(changes, width=len(names), key=[names.index(name) for name in key])
    assert by_arrow._jdf.queryExecution().optimizedPlan().nodeName() == "LocalRelation"
    assert _texts(by_arrow) == _texts(by_spark.select(*columns, "deleted"))
    column = KeyColumn("c0", "int")
    assert count_last(last, by_arrow, column) == count_literals(as_literals(by_spark), column)


def _stage(workplace: Workplace) -> tuple[HadoopFiles, Segment]:
    """Stage changes of every type, and return what is to be read of them."""
    source = workplace.new_source()
    types = {
        "id": ColumnType("int", pa.int32(), nullable=False),
        "part": ColumnType("varchar(10)", pa.string()),
    }
    types |= {name: ColumnType(name, type_) for name, (type_, _) in _VALUES.items()}
    table = source.create(workplace.database, "types", types, ("id", "part"))
    for number in range(2):
        values = {name: known[number] for name, (_, known) in _VALUES.items()}
        table.insert(id=number, part="a", **values)
    table.insert(id=7, part=None)
    table.insert(id=8, part="b")
    table.delete((8, "b"))
    source.commit()
    log = TableLog([source.log.load(1)])
    plan = plan_table(table.name, log, first=1, state=None, options=TableOptions())
    assert plan is not None
    assert plan.segment is not None
    files = HadoopFiles(workplace.spark, f"{workplace.root}/staging", source.name)
    return files, plan.segment


def _texts(rows: DataFrame) -> list[tuple[Any, ...]]:
    """Return every value as text that no two values share."""
    columns = [
        f"hex({name})" if type_ == "binary" else f"CAST({name} AS string)"
        for name, type_ in rows.dtypes
    ]
    return sorted((tuple(row) for row in rows.selectExpr(*columns).collect()), key=repr)
