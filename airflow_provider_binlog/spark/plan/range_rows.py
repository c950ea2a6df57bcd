"""The rows of a table in a range that count, and the columns that the table has afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import (
    CreateTable,
    DropField,
    DropTable,
    Field,
    QuarantineTable,
    RenameField,
    RenameTable,
    Schema,
    TruncateTable,
)
from airflow_provider_binlog.spark.plan.evolution import Wanted
from airflow_provider_binlog.spark.staged.parts import StagedPart
from airflow_provider_binlog.spark.staged.types import common_type, expected_arrow_type, spark_type
from airflow_provider_binlog.spark.target.state import Mark

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from airflow_provider_binlog.schema import TableId, TableName
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.segment import Cut
    from airflow_provider_binlog.spark.plan.table_log import LogAction, Point, Span, TableLog


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
        cut: Where the range ends; None for its whole.
    """

    staged: tuple[StagedPart, ...] = ()
    steps: tuple[LogAction, ...] = ()
    discards: bool = False
    removals: tuple[LogAction, ...] = ()
    cut: Cut | None = None


@dataclass(frozen=True)
class NewestSchema:
    """The columns that the lake table is to have.

    Attributes:
        wanted: The columns whose types are known.
        key: Names of the key's columns.
        fields: All columns of the table, also those whose types are not known.
    """

    wanted: tuple[Wanted, ...]
    key: tuple[str, ...]
    fields: tuple[Field, ...]

    def has_columns(self, names: Iterable[str]) -> bool:
        """Whether all of the columns are among those whose types are known."""
        return {*names} <= {column.name for column in self.wanted}


def read_range(log: TableLog, lifecycle: Lifecycle, since: Mark, cut: Cut | None) -> RangeRows:
    """Return the rows of the lifecycle's table before a cut since it was last empty."""
    if lifecycle.table is None:
        return RangeRows(cut=cut)
    steps = _before(log.steps(lifecycle.table, since=since), cut)
    discarding = [n for n, step in enumerate(steps) if isinstance(step.action, _DISCARDING)]
    start = log.point(since)
    if discarding:
        start = steps[discarding[-1]].point
        steps = steps[discarding[-1] + 1 :]
    staged = _parts(log, lifecycle.table, start, None if cut is None else cut.point)
    discards = bool(discarding) or lifecycle.replaces
    return RangeRows(tuple(staged), tuple(steps), discards, cut=cut)


def read_changelog_range(name: TableName, log: TableLog, since: Mark, cut: Cut | None) -> RangeRows:
    """Return the rows that were logged under a name: a changelog keeps what was removed."""
    start = log.point(since)
    staged: list[StagedPart] = []
    steps: list[LogAction] = []
    for span in log.spans(name, since=since.sequence + 1):
        begin = max(span.start, start)
        end = None if cut is None else cut.point
        stops = [point for point in (span.stop, end) if point is not None]
        staged += _parts(log, span.table, begin, min(stops, default=None))
        steps += (
            step
            for step in _before(log.steps(span.table, since=since), cut)
            if _is_quarantine_within(step, span)
            or (step.point >= begin and (span.stop is None or step.point <= span.stop))
        )
    removals = tuple(
        step
        for step in steps
        if isinstance(step.action, TruncateTable | DropTable)
        or (isinstance(step.action, RenameTable) and step.action.old == name)
    )
    return RangeRows(tuple(staged), tuple(steps), removals=removals, cut=cut)


def find_newest_schema(
    log: TableLog,
    lifecycle: Lifecycle,
    rows: RangeRows,
    *,
    held: Mapping[int, str],
    held_key: tuple[int, ...],
) -> NewestSchema | None:
    """Return the columns after the rows; None if the manifests say nothing of them.

    A column whose type is not known yet is left out, unless the lake table has it. As long as no
    row of a table was logged, manifests have those columns only that statements name: the lake
    table, or the snapshot that is loaded, has the others.

    Args:
        log: The manifests.
        lifecycle: What to read of them.
        rows: The rows that count.
        held: The columns that the lake table has, by field id: one below 0 where the log has none.
        held_key: The fields of its key, which stays while the table has none.
    """
    if lifecycle.table is None:
        return None
    known = {field.id: field for part in rows.staged for field in part.schema.fields}
    lake = Schema(0, tuple(_named(id_, name) for id_, name in held.items()), held_key)
    current = _current_schema(log, lifecycle, rows.cut, lake)
    schemas = [] if current is None else [current]
    shown = [(part.first, part.schema) for part in rows.staged[-1:]]
    if rows.cut is not None and (schemas or shown):
        # No manifest says which schema the table has here: actions lead on from the last known one.
        point, schema = max([*schemas, *shown], key=lambda pair: pair[0])
        schemas = [(point, _follow(point, schema, rows))]
    for _, schema in (*schemas, *shown):
        typed = tuple(
            column if column.arrow_type or column.id in held else _with_expected_type(column, log)
            for column in (_with_type(field, known) for field in schema.fields)
        )
        wanted = tuple(
            Wanted(column, _type_in_lake(column, rows.staged) if column.arrow_type else None)
            for column in typed
            if column.arrow_type or column.id in held
        )
        names = {column.field.id: column.name for column in wanted}
        ids = schema.key or (rows.staged[-1].schema.key if rows.staged else held_key)
        if set(ids) <= names.keys():
            key = tuple(names[id_] for id_ in ids)
            others = (field for _, other in schemas for field in other.fields)
            fields = {field.id: field for field in (*others, *typed)}
            return NewestSchema(wanted, key, tuple(fields.values()))
    return None


def find_changelog_schema(rows: RangeRows) -> NewestSchema | None:
    """Return every column of the rows, by its name: a changelog keeps what is dropped or renamed.

    None without rows.
    """
    columns: dict[str, Wanted] = {}
    for schema in dict.fromkeys(part.schema for part in reversed(rows.staged)):
        for field in schema.fields:
            now = spark_type(str(field.arrow_type))
            known = columns.setdefault(fold_name(field.name), Wanted(field, now))
            both = common_type(str(known.type), now)
            columns[fold_name(field.name)] = replace(known, type=both or known.type)
    fields = tuple(column.field for column in columns.values())
    return NewestSchema(tuple(columns.values()), (), fields) if columns else None


def find_position(log: TableLog, lifecycle: Lifecycle, rows: RangeRows) -> str:
    """Return where a table's columns were last changed, as far as the range says."""
    other = (*_REMOVING, CreateTable)
    changed = [step for step in rows.steps if not isinstance(step.action, other)]
    if changed:
        return changed[-1].position
    first = log.manifest(max(lifecycle.first, log.first))
    return f"{first.start}..{log.manifests[-1].stop}"


def _current_schema(
    log: TableLog, lifecycle: Lifecycle, cut: Cut | None, lake: Schema
) -> tuple[Point, Schema] | None:
    """Return the last schema that a manifest before a cut says, and from where on it holds.

    Args:
        log: The manifests.
        lifecycle: What to read of them.
        cut: Where the range ends.
        lake: The columns that the lake table has.
    """
    table = str(lifecycle.table)
    steps = _before(log.steps(table, since=Mark(lifecycle.first - 1)), cut)
    dropped = {step.action.field for step in steps if isinstance(step.action, DropField)}
    found, whole = None, lake
    for manifest, entry in log.entries(table, since=lifecycle.first):
        if entry.current is None or (cut is not None and manifest.sequence >= cut.point[0]):
            continue
        schema = entry.schema(entry.current)
        if entry.is_partial:
            schema = _complete(schema, whole, dropped)
        else:
            whole = schema
        found = (manifest.sequence + 1, 0), schema
    return found


def _complete(named: Schema, before: Schema, dropped: Container[int]) -> Schema:
    """Return a schema of named columns with those that no statement has named.

    Args:
        named: The columns that statements have named, as these left them.
        before: All columns before the statements.
        dropped: Fields that the statements drop.
    """
    fields = {field.id: field for field in before.fields if field.id not in dropped}
    for field in named.fields:
        known = fields.get(field.id)
        fields[field.id] = (
            replace(known, name=field.name) if known and field.mysql_type is None else field
        )
    key = before.key if fields.keys() >= {*before.key} else ()
    return replace(named, fields=tuple(fields.values()), key=named.key or key)


def _named(id_: int, name: str) -> Field:
    return Field(id_, name, None, None, nullable=True)


def _follow(point: Point, schema: Schema, rows: RangeRows) -> Schema:
    """Return a schema without what was dropped after a point, and with new names."""
    fields = {field.id: field for field in schema.fields}
    for step in rows.steps:
        action = step.action
        if step.point <= point:
            continue
        if isinstance(action, DropField):
            fields.pop(action.field, None)
        elif isinstance(action, RenameField) and action.field in fields:
            fields[action.field] = replace(fields[action.field], name=action.new)
    return replace(schema, fields=tuple(fields.values()))


def _is_quarantine_within(step: LogAction, span: Span) -> bool:
    """Whether a table was quarantined in a manifest in which a name stands for it."""
    sequence, stop = step.point[0], span.stop
    return (
        isinstance(step.action, QuarantineTable)
        and span.start[0] <= sequence
        and (stop is None or sequence <= stop[0])
    )


def _before(steps: list[LogAction], cut: Cut | None) -> list[LogAction]:
    return [step for step in steps if cut is None or step.mark < cut.mark]


def _parts(log: TableLog, table: TableId, start: Point, stop: Point | None) -> list[StagedPart]:
    """Return the parts of a table from a point on, and before another one."""
    found = (
        StagedPart(manifest, entry, part)
        for manifest, entry in log.entries(table, since=start[0])
        for part in entry.parts
        if part.rows
    )
    between = (part for part in found if part.first >= start and (not stop or part.first < stop))
    return sorted(between, key=lambda part: part.first)


def _with_type(field: Field, known: dict[int, Field]) -> Field:
    """Return a field with the type of the last rows that have it, if its own is not known."""
    if field.arrow_type is not None or field.id not in known:
        return field
    typed = known[field.id]
    return replace(field, mysql_type=typed.mysql_type, arrow_type=typed.arrow_type)


def _with_expected_type(field: Field, log: TableLog) -> Field:
    return replace(field, arrow_type=expected_arrow_type(field, log.manifests[-1]))


def _type_in_lake(field: Field, staged: Iterable[StagedPart]) -> str:
    """Return a type that holds the values of all rows, if there is one, else that of the field."""
    type_ = spark_type(str(field.arrow_type))
    for schema in dict.fromkeys(part.schema for part in staged):
        for other in schema.fields:
            if other.id == field.id:
                type_ = common_type(type_, spark_type(str(other.arrow_type))) or type_
    return type_
