"""Rows that change their key in images that lack columns: which change belongs to which row.

With whole images a new key starts with all its columns. With a part of the columns it continues
with those of the old key's row, as they were at that moment. So the rows are followed from key to
key, one change after the other: over all changes of the keys that meet in such updates, and of
those only the change, the point and the key. The changes of one row are its *lineage*; the collapse
then groups by lineages instead of keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.staged.changes import CHANGE, EVENT, ORDER
from airflow_provider_binlog.spark.target.protocol import source_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LINEAGE = "lineage"
"""Column of a change: the number of the row lineage it belongs to; NULL where its key says it."""

ROLE = "role"
"""Column of a change that has a lineage: its `Role`."""

CHANGES_MAX = 1_000_000
"""Changes of keys that are followed in one merge: they are held in memory."""

Key = tuple[str | None, ...]


class Role(IntEnum):
    """What a change is in the lineage of a row."""

    IMAGE = 0
    """Gives values."""
    ROOT = 1
    """Says by its key which row of the target the lineage started with."""
    END = 2
    """Leaves its key without a row: a lineage of its own."""
    NOTHING = 3
    """Has no part in what is there at the end."""


@dataclass
class _Lineage:
    """The changes of one row, by index."""

    changes: list[tuple[int, Role]] = field(default_factory=list)


def trace_lineages(changes: Iterable[tuple[str, Key]]) -> Iterator[tuple[int, int, Role]]:
    """Yield index, lineage and role of the changes that say what is there at the end.

    Args:
        changes: Change type and key of every change of a set of keys that no update leaves, in
            order. An update's before-image stands directly before its after-image.

    Raises:
        MergeError: A row is changed that is not there.
    """
    # What each key holds: a lineage, or the index of the change that ended the last one.
    holds: dict[Key, _Lineage | int] = {}
    before: tuple[int, Key] | None = None
    for index, (change, key) in enumerate(changes):
        if change == ChangeType.UPDATE_PREIMAGE:
            before = index, key
            continue
        if change == ChangeType.INSERT:
            holds[key] = _Lineage([(index, Role.IMAGE)])
        elif change == ChangeType.DELETE:
            holds[key] = index
        elif before is None or before[1] == key:
            _lineage(holds, key).changes.append((index, Role.IMAGE))
        else:
            lineage = _lineage(holds, before[1])
            if not lineage.changes:
                lineage.changes.append((before[0], Role.ROOT))
            lineage.changes.append((index, Role.IMAGE))
            holds[before[1]], holds[key] = before[0], lineage
        before = None
    for number, last in enumerate(holds.values()):
        if isinstance(last, int):
            yield last, number, Role.END
        else:
            for index, role in last.changes:
                yield index, number, role


def _lineage(holds: dict[Key, _Lineage | int], key: Key) -> _Lineage:
    """Return the lineage that a key holds: one that starts in the target if it has no change."""
    lineage = holds.setdefault(key, _Lineage())
    if isinstance(lineage, int):
        raise MergeError(
            "a row is changed after its delete: the staged changes are not those of one table",
            key=",".join(map(str, key)),
        )
    return lineage


def follow_key_changes(session: SparkSession, changes: DataFrame, key: Sequence[int]) -> DataFrame:
    """Return the changes with `LINEAGE` and `ROLE`, a change once for each lineage it belongs to.

    Left out are before-images that end no key, and changes of rows that were deleted. Changes of
    keys that no update leaves or enters have neither lineage nor role; if no update does, none has
    these
    columns.

    Args:
        session: The table's session.
        changes: What `read_changes` returns.
        key: Which columns identify a row.

    Raises:
        MergeError: Too many changes would have to be followed.
    """
    columns = [source_column(index) for index in key]
    moved = _keys_that_change(changes, columns).localCheckpoint()
    same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"moved_{name}")) for name in columns))
    of_moved = changes.join(F.broadcast(moved), same, "left_semi")
    texts = [_as_text(name, type_) for name, type_ in changes.dtypes if name in columns]
    found = of_moved.select(f"{ORDER}.*", CHANGE, *texts).limit(CHANGES_MAX + 1).collect()
    if len(found) > CHANGES_MAX:
        raise MergeError(
            "too many rows changed their key in row images that lack columns: merge fewer "
            "manifests at once (--through), or set binlog_row_image=FULL at the source",
            changes_max=CHANGES_MAX,
        )
    found.sort(key=lambda row: (row[0], row[1]))
    unmoved = F.col(CHANGE) != ChangeType.UPDATE_PREIMAGE.value
    if not found:
        return changes.where(unmoved)
    lineages = [
        ((found[index][0], found[index][1]), lineage, int(role))
        for index, lineage, role in trace_lineages((row[2], tuple(row[3:])) for row in found)
    ]
    seen = {point for point, _, _ in lineages}
    lineages += [
        ((row[0], row[1]), -1, int(Role.NOTHING)) for row in found if (row[0], row[1]) not in seen
    ]
    schema = f"followed struct<sequence: bigint, row: bigint>, {LINEAGE} bigint, {ROLE} int"
    known = session.createDataFrame(lineages, schema)
    joined = changes.join(F.broadcast(known), F.col(ORDER) == F.col("followed"), "left")
    stays = F.when(F.col(ROLE).isNull(), unmoved).otherwise(F.col(ROLE) != int(Role.NOTHING))
    return joined.where(stays).drop("followed")


def _keys_that_change(changes: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return every key that an update leaves or enters, in columns called `moved_...`."""
    is_before = F.col(CHANGE) == ChangeType.UPDATE_PREIMAGE.value
    events = changes.where(is_before).select(EVENT).distinct()
    in_event = Window.partitionBy(EVENT).orderBy(ORDER)
    pairs = changes.join(F.broadcast(events), EVENT, "left_semi").select(
        CHANGE,
        *columns,
        *(F.lead(name).over(in_event).alias(f"next_{name}") for name in (CHANGE, *columns)),
    )
    same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"next_{name}")) for name in columns))
    is_pair = F.col(f"next_{CHANGE}") == ChangeType.UPDATE_POSTIMAGE.value
    alone = F.raise_error(F.lit("a before-image is staged without its after-image"))
    moves = pairs.where(is_before).where(F.when(is_pair, ~same).otherwise(alone.cast("boolean")))
    old = moves.select(*(F.col(name).alias(f"moved_{name}") for name in columns))
    new = moves.select(*(F.col(f"next_{name}") for name in columns))
    return old.unionAll(new).distinct()


def _as_text(name: str, type_: str) -> Column:
    """Return a column's value as text, the same for values that are equal as keys."""
    column = F.col(name)
    if type_ == "binary":
        return F.hex(column)
    if type_ in ("float", "double"):
        # Negative zero becomes zero.
        column = column + F.lit(0.0)
    return column.cast("string")
