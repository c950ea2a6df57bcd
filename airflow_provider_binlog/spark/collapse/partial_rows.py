"""Collapse of row images that lack columns: each column is what the last image that has it says.

What no image has since the row began stays what it is in the target. A value that is not there, or
is known under a row's old key alone, is not guessed: the table becomes stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any, NoReturn

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import ReloadNeededError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.spark.collapse.kept_rows import CHANGES, is_end
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.staged.changes import BASED, CHANGE, EVENT, ORDER
from airflow_provider_binlog.spark.target.protocol import (
    DELETED,
    LACKS,
    KeyedRows,
    TableChange,
    VersionedRows,
    held,
    source_column,
)

ROW = "row"
"""`LACKS`: columns that did not change in the range. The row must be in the target."""

DEFAULT = "default"
"""`LACKS`: columns that the row's insert left out, and whose default is not known."""

END = "end"
"""`LACKS`: what the row was before it was deleted, and then changed."""

REMOVED = "removed"
"""`LACKS`: of a deleted row that is kept; where the target does not have it, it is left out."""

MOVED = "moved"
"""`LACKS`: of a key that a row left, and whose next image does not have all of the row."""

_REPEATS = "repeats"
_MOVES = "moves"

_MESSAGES = {
    MOVED: "rows got another key in images that lack their other columns: set "
    "binlog_row_image=FULL at the source, and reload the table",
    DEFAULT: "rows were inserted without all of their columns, and what the others took is not "
    "known: set binlog_row_image=FULL at the source, and reload the table",
    END: "a row is changed after its delete: the staged changes are not those of one table",
    ROW: "the log holds only changed columns of rows that the lake table does not have: reload "
    "the table from a snapshot",
}


def collapse_images(
    changes: DataFrame, segment: Segment, *, running: Sequence[str] = ()
) -> DataFrame:
    """Return what `collapse_parts` does of a segment's changes."""
    key, names = segment.key_numbers, list(segment.columns)
    groups = [[names.index(name) for name in group] for group in segment.groups]
    if segment.has_before_images:
        changes = mark_before_images(changes, key=key, groups=groups)
    return collapse_parts(
        changes,
        width=len(segment.target_columns),
        key=key,
        groups=groups,
        deletes=segment.mode.deletes,
        running=running,
    )


def refuse_lacking(rows: DataFrame, segment: Segment, *, has_rows: bool) -> None:
    """Refuse collapsed rows with values that are neither in the range nor in the target.

    `has_rows` says whether the target has rows that patches may be of.
    """
    lacking = {row[LACKS] for row in rows.select(LACKS).distinct().collect()}
    for what in (MOVED, DEFAULT, END) if has_rows else _MESSAGES:
        if what in lacking:
            _refuse(
                rows.where(F.col(LACKS) == what), what, segment.columns, segment.key, segment.groups
            )


def refuse_orphans(change: TableChange[Any]) -> None:
    """Refuse changes of rows that the target does not have: on such a row the MERGE failed."""
    changes = change.rows
    if not (isinstance(changes, KeyedRows | VersionedRows) and changes.groups):
        return
    rows, numbers = changes.rows.frame, {name: n for n, name in enumerate(change.columns)}
    table = rows.sparkSession.table(change.table)
    if isinstance(changes, VersionedRows):
        table = table.where(F.col(quote_identifier(changes.end)).isNull())
    own = {name: f"k{numbers[name]}" for name in changes.key}
    there = table.select(*(F.col(quote_identifier(name)).alias(at) for name, at in own.items()))
    patches = rows.where((F.col(LACKS) == ROW) & ~F.col(DELETED))
    pairs = ((patches[source_column(numbers[name])], there[at]) for name, at in own.items())
    same = reduce(and_, (given.eqNullSafe(held_by) for given, held_by in pairs))
    orphans = patches.join(there, same, "left_anti")
    if not orphans.isEmpty():
        _refuse(orphans, ROW, change.columns, changes.key, changes.groups)


def mark_before_images(
    changes: DataFrame, *, key: Sequence[int], groups: Sequence[Sequence[int]]
) -> DataFrame:
    """Return changes with what their before-images are to `collapse_parts`.

    One that is followed by the same key repeats what is there. One that is followed by another key
    ends its own; where that image lacks columns, the row cannot be followed. The changes have
    `EVENT`.
    """
    # Both images of an update are in one event, one directly after the other.
    in_event = Window.partitionBy(EVENT).orderBy(ORDER)

    def after(name: str) -> Column:
        return F.lead(name).over(in_event)

    is_before = F.col(CHANGE) == ChangeType.UPDATE_PREIMAGE.value
    names = map(source_column, key)
    is_same = reduce(and_, (F.col(name).eqNullSafe(after(name)) for name in names))
    is_whole = reduce(and_, (F.coalesce(after(held(n)), F.lit(False)) for n in range(len(groups))))  # noqa: FBT003
    return changes.withColumns(
        {_REPEATS: is_before & is_same, _MOVES: is_before & ~is_same & ~is_whole}
    )


def collapse_parts(
    changes: DataFrame,
    *,
    width: int,
    key: Sequence[int],
    groups: Sequence[Sequence[int]],
    deletes: str = "hard",
    running: Sequence[str] = (),
) -> DataFrame:
    """Return one row per key: what `collapse` returns, `held` for each group, and `LACKS`.

    Columns without a value are NULL, and their group is not held. A deleted row that is kept has
    the values that it had; where deletes are ignored, a key without any other change is deleted.

    Args:
        changes: Columns `c0` to `c{width - 1}`, `CHANGE`, `ORDER`, and `held` for each group; if
            there are before-images, what `mark_before_images` adds; `BASED` if the segment has a
            base.
        width: How many columns the table has.
        key: Which of them identify a row; none of them is in a group.
        groups: Columns that images may lack, those together that the same ones do.
        deletes: As of `TableMode`.
        running: Columns of the changes. With them there is a row for each change, not for each key,
            of all changes of the key up to that one, which has them.
    """
    names = [source_column(index) for index in range(width)]
    optional = {names[index] for group in groups for index in group}
    always = [name for name in names if name not in optional]
    based = [BASED] if BASED in changes.columns else []
    grouped = _group_changes(
        changes,
        always=[*always, *based],
        key=key,
        groups=groups,
        deletes=deletes,
        running=running,
    )
    flags = [_is_held(f"part{number}", deletes) for number in range(len(groups))]
    ended = F.coalesce(F.col("last.ended"), F.lit(True))  # noqa: FBT003
    values = {name: F.col(f"last.{name}") for name in always}
    for number, (group, flag) in enumerate(zip(groups, flags, strict=True)):
        for index in group:
            values[names[index]] = F.when(flag, F.col(f"part{number}.{names[index]}"))
    lacks = (
        F.when(F.col(_MOVES), MOVED)
        .when(_needs_nothing(flags, ended, deletes), F.lit(None).cast("string"))
        .when(_lacks_defaults(deletes), DEFAULT)
        .when(ended, REMOVED)
        .when(F.col("base").isNotNull(), END)
        .otherwise(ROW)
    )
    return grouped.select(
        *(values[name].alias(name) for name in names),
        ended.alias(DELETED),
        *(flag.alias(held(number)) for number, flag in enumerate(flags)),
        lacks.alias(LACKS),
        CHANGES,
        *(F.col(f"last.{name}") for name in based),
        *running,
    )


def _is_held(part: str, deletes: str) -> Column:
    """Whether a value counts: not if it is from before the row began."""
    at, base = F.col(f"{part}.at"), F.col("base")
    # A delete may hold what the row had, but nothing of a row that is there again.
    since = (at > F.col("base.at")) | ((at == F.col("base.at")) & F.col("base.begun"))
    counts = base.isNull() | since
    if deletes == "soft":
        birth = F.col("birth")
        counts = F.when(F.col("last.ended"), birth.isNull() | (at >= birth)).otherwise(counts)
    return at.isNotNull() & counts


def _needs_nothing(flags: Sequence[Column], ended: Column, deletes: str) -> Column:
    held = reduce(and_, flags)
    return held if deletes == "soft" else ended | held


def _lacks_defaults(deletes: str) -> Column:
    if deletes != "soft":
        return F.col("base.begun")
    return F.when(F.col("last.ended"), F.col("birth").isNotNull()).otherwise(F.col("base.begun"))


def _group_changes(
    changes: DataFrame,
    *,
    always: Sequence[str],
    key: Sequence[int],
    groups: Sequence[Sequence[int]],
    deletes: str,
    running: Sequence[str],
) -> DataFrame:
    """Return one row per key: what the `last` change holds, whether it `_MOVES`, and `CHANGES`.

    And where the row began, as `base`, or, if it is deleted, as `birth`; and the last values of
    each group, as `part0` and so on. With `running` columns there is one row per change.
    """
    order = F.col(ORDER)
    begins, ends = F.col(CHANGE) == ChangeType.INSERT.value, is_end()
    is_marked = _REPEATS in changes.columns
    counts = ~F.col(_REPEATS) if is_marked else F.expr("true")
    if deletes == "ignore":
        # Of a key without another change the last is none.
        counts &= ~ends
    moves = F.bool_or(_MOVES) if is_marked else F.bool_or(F.lit(False))  # noqa: FBT003

    def last(where: Column, *values: str | Column) -> Column:
        """Return what the last change of some holds."""
        return F.max_by(F.struct(*values), F.when(where, order))

    keys = [source_column(index) for index in key]
    held_by = counts if deletes == "soft" else counts & ~ends
    values = {
        "last": last(counts, *always, ends.alias("ended")),
        "base": last(counts & (begins | ends), order.alias("at"), begins.alias("begun")),
        "birth": F.max(F.when(counts & begins, order)),
        _MOVES: moves,
        CHANGES: F.count(F.lit(1)),
    }
    for number, group in enumerate(groups):
        values[f"part{number}"] = last(
            held_by & F.col(held(number)),
            *(source_column(index) for index in group),
            order.alias("at"),
        )
    if running:
        so_far = Window.partitionBy(*keys).orderBy(ORDER)
        return changes.select(
            *running, *(value.over(so_far).alias(name) for name, value in values.items())
        )
    return changes.groupBy(*(F.col(name).alias(f"by_{name}") for name in keys)).agg(
        *(value.alias(name) for name, value in values.items())
    )


def _refuse(
    rows: DataFrame,
    what: str,
    columns: Iterable[str],
    key: Iterable[str],
    groups: Iterable[Iterable[str]],
) -> NoReturn:
    """Refuse source rows: how many they are, the key of one, and what they lack."""
    names = [*columns]
    flags = {held(number): group for number, group in enumerate(groups)}
    texts = (F.col(source_column(names.index(name))).cast("string") for name in key)
    row = rows.agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(F.struct(*texts)).alias("key"),
        *(F.count_if(~F.col(flag)).alias(flag) for flag in flags),
    ).collect()[0]
    lacked = {name for flag, group in flags.items() if row[flag] for name in group}
    raise ReloadNeededError(
        _MESSAGES[what],
        rows=row["rows"],
        key=",".join(map(str, row["key"] or ())),
        columns=",".join(name for name in names if name in lacked),
    )
