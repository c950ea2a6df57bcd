"""What a range says of one table: the rows that count, and the columns it has afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.schema import CreateTable, DropTable, RenameTable, TruncateTable
from airflow_provider_binlog.spark.plan.evolution import Wanted
from airflow_provider_binlog.spark.staged.parts import StagedPart
from airflow_provider_binlog.spark.staged.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from airflow_provider_binlog.schema import Field, TableId, TableName
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.table_log import Step, TableLog

_DISCARDING = (CreateTable, TruncateTable)
_REMOVING = (TruncateTable, DropTable, RenameTable)


@dataclass(frozen=True)
class RangeRows:
    """The rows of a range that count, and what was done to them.

    Attributes:
        staged: The parts, in order.
        steps: The actions since the table was last empty, in order.
        discards: Whether no row from before the range counts.
        removals: The actions that removed all rows, or the name; of a changelog.
    """

    staged: tuple[StagedPart, ...] = ()
    steps: tuple[Step, ...] = ()
    discards: bool = False
    removals: tuple[Step, ...] = ()


@dataclass(frozen=True)
class NewestSchema:
    """The columns that the lake table is to have.

    Attributes:
        wanted: The columns whose types are known.
        key: Names of the key's columns.
        key_ids: Their field ids.
        ids: The field ids of all columns of the table, also of those whose types are not known.
    """

    wanted: tuple[Wanted, ...]
    key: tuple[str, ...]
    key_ids: tuple[int, ...]
    ids: frozenset[int]


def read_range(log: TableLog, lifecycle: Lifecycle) -> RangeRows:
    """Return the rows of the lifecycle's table since it was last empty."""
    if lifecycle.table is None:
        return RangeRows()
    steps = log.steps(lifecycle.table, since=lifecycle.first)
    discarding = [n for n, each in enumerate(steps) if isinstance(each.action, _DISCARDING)]
    staged = _parts(log, [lifecycle.table], lifecycle.first)
    if discarding:
        since = steps[discarding[-1]].point
        staged = [each for each in staged if each.first >= since]
        steps = steps[discarding[-1] + 1 :]
    discards = bool(discarding) or lifecycle.replaces
    return RangeRows(tuple(staged), tuple(steps), discards)


def read_changelog_range(
    name: TableName, log: TableLog, lifecycle: Lifecycle, rows: RangeRows, *, first: int
) -> RangeRows:
    """Return the rows that were logged under a name: a changelog keeps what was removed.

    Raises:
        MergeError: The name was given to another table, or its table has another name.
    """
    tables: dict[TableId, None] = {}
    for holding in log.holdings(name, since=first):
        step = holding.step
        if step is not None:
            tables[step.action.table] = None
            if isinstance(step.action, RenameTable) and lifecycle.table is not None:
                raise MergeError(
                    "a table without a primary key was renamed: leave it out with --tables, or "
                    "name its key with --keys",
                    table=".".join(name),
                    position=step.position,
                )
        elif holding.table is not None:
            tables[holding.table] = None
    steps = [step for each in tables for step in log.steps(each, since=first)]
    removals = [each for each in steps if isinstance(each.action, _REMOVING)]
    removals.sort(key=lambda each: each.point)
    staged = [] if lifecycle.table is None else _parts(log, tables, first)
    return replace(rows, staged=tuple(staged), discards=False, removals=tuple(removals))


def find_newest_schema(
    log: TableLog, lifecycle: Lifecycle, rows: RangeRows, *, held: Container[int]
) -> NewestSchema | None:
    """Return the columns after the range; None if the manifests say nothing of them.

    A column whose type no row has shown yet is left out, unless the lake table has it.

    Args:
        log: The manifests.
        lifecycle: What to read of them.
        rows: The rows that count.
        held: Fields that the lake table has columns of.
    """
    if lifecycle.table is None:
        return None
    known = {field.id: field for each in rows.staged for field in each.schema.fields}
    entries = log.entries(lifecycle.table, since=lifecycle.first)
    currents = [each.schema(each.current) for _, each in entries if each.current is not None]
    for schema in (*currents[-1:], *(each.schema for each in rows.staged[-1:])):
        typed = (_with_type(each, known) for each in schema.fields)
        wanted = tuple(
            Wanted(each, spark_type(each.arrow_type) if each.arrow_type else None)
            for each in typed
            if each.arrow_type or each.id in held
        )
        names = {each.field.id: each.name for each in wanted}
        if set(schema.key) <= names.keys():
            key = tuple(names[each] for each in schema.key)
            ids = frozenset(field.id for each in (*currents[-1:], schema) for field in each.fields)
            return NewestSchema(wanted, key, schema.key, ids)
    return None


def find_position(log: TableLog, lifecycle: Lifecycle, rows: RangeRows) -> str:
    """Return where a table's columns were last changed, as far as the range says."""
    other = (*_REMOVING, CreateTable)
    changed = [each for each in rows.steps if not isinstance(each.action, other)]
    if changed:
        return changed[-1].position
    manifests = [each for each in log.manifests if each.sequence >= lifecycle.first]
    return f"{manifests[0].start}..{manifests[-1].stop}"


def _parts(log: TableLog, tables: Iterable[TableId], first: int) -> list[StagedPart]:
    found = (
        StagedPart(manifest, entry, part)
        for table in tables
        for manifest, entry in log.entries(table, since=first)
        for part in entry.parts
        if part.rows
    )
    return sorted(found, key=lambda each: each.first)


def _with_type(field: Field, known: dict[int, Field]) -> Field:
    """Return a field with the type of the last rows that have it, if its own is not known."""
    if field.arrow_type is not None or field.id not in known:
        return field
    typed = known[field.id]
    return replace(field, mysql_type=typed.mysql_type, arrow_type=typed.arrow_type)
