"""Rows that are computed once and read more than once, and the counts of collapsed ones.

They are kept on the executors or, if they are few, as literals of the plans that read them, which
then need no shuffle. By intervals of a key column's values the target's files are skipped.
"""

# ruff: noqa: SLF001  Literals are made of Java's rows, which PySpark would take apart.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import CHANGE_TYPE, ChangeType
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.staged.changes import CHANGE, ENDS
from airflow_provider_binlog.spark.staged.few_parts import COUNT
from airflow_provider_binlog.spark.target.protocol import DELETED

if TYPE_CHECKING:
    import pyarrow as pa

_BEGINS = (ChangeType.INSERT.value, ChangeType.UPDATE_POSTIMAGE.value)
IS_END = (
    f"CASE WHEN {CHANGE} IN {_BEGINS} THEN false WHEN {CHANGE} IN {ENDS} THEN true"
    f" ELSE CAST(raise_error(concat('not a change type: ', {CHANGE})) AS boolean) END"
)
"""SQL of whether a change leaves its key without a row; it fails if it is no change."""


def is_end() -> Column:
    """Whether a change leaves its key without a row; fails if it is no change."""
    return F.expr(IS_END)


INTERVALS_MAX = 16

Interval: TypeAlias = tuple[str, str]
"""The smallest and the largest value, both included, as `as_text` writes them."""

_Measure: TypeAlias = int | Decimal | bytes

# How to measure a value: equal measures are equal values, in the same order.
_MEASURES = {
    "int": "CAST({} AS bigint)",
    "bigint": "{}",
    "decimal": "{}",
    "date": "unix_date({})",
    "timestamp": "unix_micros({})",
    "timestamp_ntz": "unix_micros(CAST({} AS timestamp))",
    "string": "CAST({} AS binary)",
    "binary": "{}",
}


@dataclass(frozen=True)
class KeyColumn:
    """A column of the source rows whose values are to be known, and its type, with intervals."""

    name: str
    type: str


def has_intervals(type_: str) -> bool:
    """Whether the order of the type's values is that of the files' statistics."""
    return _family(type_) in _MEASURES


def as_text(value: Column, column: KeyColumn | None) -> Column:
    """Return values of a column as text, which `literal` makes values again."""
    if column is not None and column.type == "binary":
        return F.hex(value)
    return value.cast("string")


def measure(column: KeyColumn) -> Column:
    """Return how a column's values are measured: see `find_intervals`."""
    return F.expr(_MEASURES[_family(column.type)].format(column.name))


def condition(column: str, type_: str, intervals: Iterable[Interval]) -> str:
    """Return the SQL condition that a column lies in one of the intervals."""
    return " OR ".join(
        f"{column} = {_literal(low, type_)}"
        if low == high
        else f"{column} BETWEEN {_literal(low, type_)} AND {_literal(high, type_)}"
        for low, high in intervals
    )


def _literal(text: str, type_: str) -> str:
    return f"X'{text}'" if type_ == "binary" else f"CAST({quote_text(text)} AS {type_})"


def find_intervals(values: Iterable[tuple[str, _Measure | bytearray]]) -> tuple[Interval, ...]:
    """Return at most `INTERVALS_MAX` intervals that hold all values, the widest gaps between them.

    Of each value, in any order, there is its text and its measure: a number, or bytes.
    """
    # Spark 4.0 returns a bytearray, and so does a later one with `binaryAsBytes` set to false.
    texts = {bytes(key) if isinstance(key, bytearray) else key: text for text, key in values}
    ordered: list[_Measure] = sorted(texts)
    if not ordered:
        return ()
    gaps = sorted(
        ((_distance(low, high), at) for at, (low, high) in enumerate(pairwise(ordered), 1)),
        reverse=True,
    )
    cuts = [0, *sorted(at for _, at in gaps[: INTERVALS_MAX - 1]), len(ordered)]
    return tuple(
        (texts[ordered[first]], texts[ordered[after - 1]]) for first, after in pairwise(cuts)
    )


def _distance(low: _Measure, high: _Measure) -> Decimal:
    return Decimal(_number(high)) - Decimal(_number(low))


def _number(value: _Measure) -> int | Decimal:
    """Return a number in the order of the values; of text it is that of its first bytes."""
    if isinstance(value, bytes):
        return int.from_bytes(value[:16].ljust(16, b"\0"))
    return value


def _family(type_: str) -> str:
    return type_.partition("(")[0]


Keep: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""Computes rows, and returns them as they are kept."""

CHANGES = "changes"
"""Column of a collapsed row: how many changes it stands for."""


@dataclass(frozen=True)
class Collapsed:
    """Counts of rows that were collapsed; by default of rows that nobody counted.

    Attributes:
        changes: Change rows that were read.
        deletes: Keys that are to be deleted.
        upserts: Keys that are to be there; None if unknown.
        intervals: Intervals of the first key column that hold all rows; none if there are no keys,
            or if NULL is one.
    """

    changes: int = 0
    deletes: int = 0
    upserts: int | None = None
    intervals: tuple[Interval, ...] = ()

    @property
    def keys(self) -> int:
        """Keys that are to be deleted, and to be there."""
        return self.deletes + (self.upserts or 0)


def count_columns(range_of: KeyColumn | None) -> list[Column]:
    """Return the aggregates of a collapse's rows that `counted` reads."""
    bounded = F.lit(None) if range_of is None else F.col(range_of.name)
    low, high = F.min(bounded), F.max(bounded)
    return [
        F.coalesce(F.sum(CHANGES), F.lit(0)).alias("changes"),
        F.count_if(F.col(DELETED)).alias("deletes"),
        F.count_if(~F.col(DELETED)).alias("upserts"),
        F.count_if(bounded.isNull()).alias("nulls"),
        as_text(low, range_of).alias("low"),
        as_text(high, range_of).alias("high"),
    ]


def counted(aggregates: Mapping[str, Any]) -> Collapsed:
    """Return the counts from the aggregates of `count_columns`."""
    bounds = aggregates["low"], aggregates["high"]
    bounded = not aggregates["nulls"] and None not in bounds
    changes, deletes, upserts = (aggregates[name] for name in ("changes", "deletes", "upserts"))
    return Collapsed(changes, deletes, upserts, (bounds,) if bounded else ())


def count_actions(collapsed: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count collapsed rows, and find the range of one of their columns."""
    return counted(collapsed.agg(*count_columns(range_of)).collect()[0].asDict())


def checkpoint(rows: DataFrame) -> DataFrame:
    """Keep rows on the executors, while they are referred to."""
    return rows.localCheckpoint()


def checkpoint_counted(rows: DataFrame, range_of: KeyColumn | None) -> tuple[DataFrame, Collapsed]:
    """Keep collapsed rows on the executors, and count them on the way."""
    counts = Observation()
    kept = checkpoint(rows.observe(counts, *count_columns(range_of)))
    return kept, counted(counts.get)


def as_literals(rows: DataFrame) -> DataFrame:
    """Keep few rows in the plan; one task computes those that come from one partition."""
    session: Any = rows.sparkSession._jsparkSession
    frame = session.createDataFrame(rows._jdf.collectAsList(), rows._jdf.schema())
    return DataFrame(frame, rows.sparkSession)


def count_literals(rows: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count collapsed rows that are literals, without a job."""
    literals = rows.select(CHANGES, DELETED, *_select_key(range_of)).collect()
    changes, deletes = sum(row[0] for row in literals), sum(row[1] for row in literals)
    intervals = () if range_of is None else _find_all(row[2:] for row in literals)
    return Collapsed(changes, deletes, len(literals) - deletes, intervals)


def count_last(last: pa.Table, rows: DataFrame, range_of: KeyColumn | None) -> Collapsed:
    """Count the last changes of `read_last`, whose source rows are literals, without a job."""
    types, counts = last[CHANGE_TYPE].to_pylist(), cast("list[int]", last[COUNT].to_pylist())
    deletes = sum(type_ in ENDS for type_ in types)
    intervals: tuple[Interval, ...] = ()
    if range_of is not None:
        intervals = _find_all(rows.select(*_select_key(range_of)).collect())
    return Collapsed(sum(counts), deletes, len(types) - deletes, intervals)


def _select_key(range_of: KeyColumn | None) -> list[Column]:
    if range_of is None:
        return []
    return [as_text(F.col(range_of.name), range_of), measure(range_of)]


def _find_all(keys: Iterable[Any]) -> tuple[Interval, ...]:
    """Return the intervals of keys, each its text and its measure; none if one is NULL."""
    known = [*keys]
    return () if any(text is None for text, _ in known) else find_intervals(known)


def size_in_bytes(rows: DataFrame) -> int:
    """Return the bytes that a query reads, as its plan estimates them, without running it."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    # A big integer of Scala, which Py4J may have made one of Python.
    return int(str(plan.stats().sizeInBytes()))
