"""Collapse of row images that lack columns: each column is what the last image that has it says.

What no image has since the row began stays what it is in the target: such a source row is a patch
of the target's row. One shuffle, as with whole images; columns that the same images lack are kept
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.spark.collapse.key_changes import LINEAGE, ROLE, Role
from airflow_provider_binlog.spark.collapse.whole_rows import CHANGES, is_end
from airflow_provider_binlog.spark.staged.changes import CHANGE, ORDER
from airflow_provider_binlog.spark.target.protocol import DELETED, LACKS, held, source_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROW = "row"
"""`LACKS`: columns that did not change in the range. The row must be in the target."""

ROOT = "root"
"""`LACKS`: the same, of a row whose key changed. The row of its first key must be in the target."""

DEFAULT = "default"
"""`LACKS`: columns that the row's insert left out, and whose default is not known."""

END = "end"
"""`LACKS`: what the row was before it was deleted, and then changed."""


def root_column(index: int) -> str:
    """Return the name of the source column with a key column as it was when the range began."""
    return f"root{index}"


def collapse_parts(
    changes: DataFrame, *, width: int, key: Sequence[int], groups: Sequence[Sequence[int]]
) -> DataFrame:
    """Return one row per key: what `collapse` returns, `held` for each group, and `LACKS`.

    Columns without a value are NULL, and their group is not held. Rows that lack their `ROOT` have
    its key in `root_column`s.

    Args:
        changes: Columns `c0` to `c{width - 1}`, `CHANGE`, `ORDER`, and `held` for each group;
            where keys change, `LINEAGE` and `ROLE`.
        width: How many columns the table has.
        key: Which of them identify a row; none of them is in a group.
        groups: Columns that images may lack, those together that the same ones do.
    """
    names = [source_column(index) for index in range(width)]
    optional = {names[index] for group in groups for index in group}
    always = [name for name in names if name not in optional]
    grouped = _group_changes(changes, always=always, key=key, groups=groups)
    # Of a column nothing counts from before the row began.
    flags = [
        F.col(f"part{number}.at").isNotNull()
        & (F.col("base").isNull() | (F.col(f"part{number}.at") >= F.col("base.at")))
        for number in range(len(groups))
    ]
    values = {name: F.col(f"last.{name}") for name in always}
    for number, (group, flag) in enumerate(zip(groups, flags, strict=True)):
        for index in group:
            values[names[index]] = F.when(flag, F.col(f"part{number}.{names[index]}"))
    moved = ~reduce(
        and_,
        (F.col(f"first.{root_column(i)}").eqNullSafe(values[names[i]]) for i in key),
    )
    lacks = (
        F.when(F.col("last.ended") | reduce(and_, flags), F.lit(None).cast("string"))
        .when(F.col("base.begun"), DEFAULT)
        .when(F.col("base").isNotNull(), END)
        .when(moved, ROOT)
        .otherwise(ROW)
    )
    return grouped.select(
        *(values[name].alias(name) for name in names),
        F.col("last.ended").alias(DELETED),
        *(flag.alias(held(number)) for number, flag in enumerate(flags)),
        lacks.alias(LACKS),
        "first.*",
        CHANGES,
    )


def _group_changes(
    changes: DataFrame,
    *,
    always: Sequence[str],
    key: Sequence[int],
    groups: Sequence[Sequence[int]],
) -> DataFrame:
    """Return one row per key: its `first` key, what the `last` change holds, and `CHANGES`.

    And where the row began, as `base`, and the last values of each group, as `part0` and so on.

    Args:
        changes: As for `collapse_parts`.
        always: The columns that every image has.
        key: As for `collapse_parts`.
        groups: As for it.
    """
    order = F.col(ORDER)
    begins, ends = F.col(CHANGE) == ChangeType.INSERT.value, is_end()
    keys = [F.col(source_column(index)) for index in key]
    by = {source_column(index): each for index, each in zip(key, keys, strict=True)}
    counts = F.expr("true")
    if LINEAGE in changes.columns:
        # A lineage is a group of its own, whatever keys it has had.
        by = {name: F.when(F.col(LINEAGE).isNull(), each) for name, each in by.items()}
        by[LINEAGE] = F.col(LINEAGE)
        counts = F.coalesce(F.col(ROLE) != int(Role.ROOT), counts)
    first = F.struct(*(each.alias(root_column(i)) for i, each in zip(key, keys, strict=True)))

    def last(where: Column, *values: str | Column) -> Column:
        """Return what the last change of some holds."""
        return F.max_by(F.struct(*values), F.when(where, order))

    return changes.groupBy(*(each.alias(f"by_{name}") for name, each in by.items())).agg(
        last(counts, *always, ends.alias("ended")).alias("last"),
        last(counts & (begins | ends), order.alias("at"), begins.alias("begun")).alias("base"),
        *(
            last(
                counts & F.col(held(number)) & ~ends,
                *(source_column(index) for index in group),
                order.alias("at"),
            ).alias(f"part{number}")
            for number, group in enumerate(groups)
        ),
        F.min_by(first, order).alias("first"),
        F.count(F.lit(1)).alias(CHANGES),
    )


def complete_moved(
    collapsed: DataFrame,
    target: DataFrame,
    *,
    width: int,
    key: Sequence[int],
    groups: Sequence[Sequence[int]],
) -> DataFrame:
    """Give the rows whose key changed what they do not hold, from the target's rows.

    Args:
        collapsed: What `collapse_parts` returned.
        target: The target's rows as they are, as columns `c0` to `c{width - 1}`.
        width: As for `collapse_parts`.
        key: As for it.
        groups: As for it.
    """
    old = target.select(*(F.col(source_column(i)).alias(f"old{i}") for i in range(width)))
    rooted = F.coalesce(F.col(LACKS) == ROOT, F.expr("false"))
    moved = collapsed.where(rooted)
    same = reduce(and_, (moved[root_column(i)].eqNullSafe(old[f"old{i}"]) for i in key))
    # Few rows of many.
    old = old.join(F.broadcast(moved), same, "left_semi").withColumn("found", F.expr("true"))
    joined = moved.join(old, same, "left")
    flags = {index: held(number) for number, group in enumerate(groups) for index in group}
    found = F.coalesce(F.col("found"), F.expr("false"))
    changed = {
        source_column(index): F.when(F.col(flag), F.col(source_column(index))).otherwise(
            F.col(f"old{index}")
        )
        for index, flag in flags.items()
    }
    changed |= {flag: found | F.col(flag) for flag in flags.values()}
    changed[LACKS] = F.when(~found, F.col(LACKS))
    filled = joined.select(
        *(changed.get(name, F.col(name)).alias(name) for name in collapsed.columns)
    )
    return collapsed.where(~rooted).unionAll(filled)


@dataclass(frozen=True)
class Lacking:
    """Rows that a merge cannot make whole.

    Attributes:
        rows: How many.
        key: The key of one of them, as text.
        columns: Numbers of the columns that any of them lacks.
    """

    rows: int
    key: tuple[str | None, ...]
    columns: tuple[int, ...]


def count_lacking(
    rows: DataFrame, *, key: Sequence[int], groups: Sequence[Sequence[int]]
) -> Lacking:
    """Count source rows of which each lacks something."""
    texts = F.struct(*(F.col(source_column(index)).cast("string") for index in key))
    row = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(texts).alias("key"),
        *(F.count_if(~F.col(held(n))).alias(held(n)) for n in range(len(groups))),
    ).collect()[0]
    columns = [i for n, group in enumerate(groups) if row[held(n)] for i in group]
    return Lacking(row["rows"], tuple(row["key"] or ()), tuple(sorted(columns)))


def counts_by_lack(collapsed: DataFrame) -> Mapping[str, int]:
    """Return how many source rows lack something, by what it is."""
    found = collapsed.where(F.col(LACKS).isNotNull()).groupBy(LACKS).count().collect()
    return {row[LACKS]: row["count"] for row in found}
