"""The values of a key column as a few intervals, by which the target's files are skipped.

A range from the smallest to the largest value spares no file as soon as one old row changes beside
many new ones. So the values are cut where the gaps between them are the widest.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.spark.names import quote_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

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
    """A column of the source rows whose values are to be known.

    Attributes:
        name: The source column's name.
        type: Its Spark type, one that `has_intervals`.
    """

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


def find_intervals(values: Iterable[tuple[str, _Measure]]) -> tuple[Interval, ...]:
    """Return at most `INTERVALS_MAX` intervals that hold all values, the widest gaps between them.

    Args:
        values: Text and measure of each, in any order: whole or decimal numbers, or bytes.
    """
    texts = {known: text for text, known in values}
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
    if isinstance(value, bytes | bytearray):
        return int.from_bytes(bytes(value[:16]).ljust(16, b"\0"))
    return value


def _family(type_: str) -> str:
    return type_.partition("(")[0]
