"""What was done to a table behind the rows that the lake has of it, in manifests merged already.

An ALTER TABLE counts once rows of the new shape come, and these may come in a later merge than the
last rows of the old shape. Where it matters, a merge looks back at what stood behind those.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ManifestError, MergeError
from airflow_provider_binlog.manifest import Schema, Statement
from airflow_provider_binlog.spark.plan.remade_columns import read_remade_columns
from airflow_provider_binlog.spark.plan.renames import RENAMING, begins, origin_of
from airflow_provider_binlog.spark.plan.statements import TableName, names
from airflow_provider_binlog.spark.plan.table_plan import (
    TablePlan,
    doubt_additions,
    refuse_remade_columns,
)
from airflow_provider_binlog.spark.staged.files import read_manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.spark.lake.table_format import TargetState
    from airflow_provider_binlog.spark.staged.files import SourceFiles


@dataclass(frozen=True)
class Late:
    """What stands behind the last row of a table.

    Attributes:
        alterations: The ALTER TABLEs, in order.
        columns: Names of the row's columns, in small letters; None if no row was found.
    """

    alterations: tuple[Statement, ...]
    columns: frozenset[str] | None


def look_back(files: SourceFiles, plan: TablePlan, state: TargetState) -> TablePlan:
    """Return the plan, in doubt of new columns that statements merged already may have filled.

    Raises:
        MergeError: Columns of the lake are other ones now; or there are new columns, and manifests
            that tell how they were added cannot be read.
    """
    if not plan.columns or plan.is_changelog or plan.fate.emptied_at is not None:
        return plan
    held = {name.lower() for name in state.columns}
    added = [name for name in plan.columns if name.lower() not in held]
    altered = plan.fate.alterations
    remade = read_remade_columns(altered)
    # Other columns than before, or added to the lake by hand.
    perhaps = held & remade.names
    if not added and not perhaps:
        return plan
    # From the marker's manifest to the range no statement has altered the table.
    merged = chain.from_iterable(
        read_manifests(files, [sequence]) for sequence in range(state.marker, 0, -1)
    )
    try:
        late = read_late(plan.name, merged)
    except ManifestError as error:
        if added:
            raise MergeError(
                "how a new column was added cannot be told, because manifests from before it "
                "cannot be read: add it to the lake table with the value that it has in older "
                "rows, or load the table anew",
                table=plan.table,
                column=",".join(added),
                cause=str(error),
            ) from error
        late = Late((), None)
    if perhaps and late.columns is not None:
        perhaps &= read_remade_columns([*late.alterations, *altered]).names & late.columns
    else:
        perhaps &= remade.left
    refuse_remade_columns(sorted(perhaps), {"table": plan.table, "position": plan.position})
    return doubt_additions(plan, late.alterations)


def read_late(name: TableName, manifests: Iterable[Manifest]) -> Late:
    """Return what stands behind a table's last row: nothing if it has been empty since.

    Args:
        name: What the table is called behind the newest of the manifests.
        manifests: The newest first. No more of them are taken than it needs.
    """
    current, found = name, list[Statement]()
    for step in _backwards(manifests):
        if not isinstance(step, Statement):
            of, schema = step
            if of == current:
                columns = frozenset(each.name.lower() for each in schema.columns)
                return Late(tuple(reversed(found)), columns)
        elif names(step, current):
            before = origin_of(current, step) if step.kind == RENAMING else current
            if before is None or begins(current, step):
                return Late((), frozenset())
            current = before
            if step.kind == "ALTER TABLE":
                found.append(step)
    return Late(tuple(reversed(found)), None)


def _backwards(manifests: Iterable[Manifest]) -> Iterator[Statement | tuple[TableName, Schema]]:
    """Yield statements, and for the last row of each part table and shape, the last one first."""
    for manifest in manifests:
        steps: list[tuple[int, bool, Statement | tuple[TableName, Schema]]] = [
            (each.row, False, each) for each in manifest.statements
        ]
        steps += [
            # A statement stands before the row of its own place.
            (part.last_row, True, ((table.database, table.table), table.schemas[part.schema]))
            for table in manifest.tables
            for part in table.parts
        ]
        for _, _, step in sorted(steps, key=lambda each: each[:2], reverse=True):
            yield step
