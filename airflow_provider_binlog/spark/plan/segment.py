"""The rows of a table in a range that count, its columns after them, and the segment they make."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_provider_binlog.changes import ROW, ChangeType
from airflow_provider_binlog.manifest import Part, count_changes
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
    TableId,
    TableName,
    TruncateTable,
)
from airflow_provider_binlog.spark.plan.evolution import Evolution, Wanted
from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
from airflow_provider_binlog.spark.plan.table_log import LogAction, Point, Span, Stop, TableLog
from airflow_provider_binlog.spark.staged.parts import (
    CHANGELOG_COLUMNS,
    SEQUENCE,
    SchemaRows,
    StagedPart,
)
from airflow_provider_binlog.spark.staged.types import common_type, expected_arrow_type, spark_type
from airflow_provider_binlog.spark.target.state import Mark


@dataclass(frozen=True)
class StartWithin:
    """Rows of events before these coordinates, in one manifest, do not count."""

    sequence: int
    file_number: int
    offset: int


@dataclass(frozen=True)
class Segment:
    """Changes that one collapse folds and one commit brings into the lake table.

    Attributes:
        position: Where in the log its columns were last changed, for messages.
        mark: What is committed with it: how much of the log the lake table contains then.
        ends: Whether the table's name stands for no table afterwards.
        columns: Name and Spark type of each column of the source's table in the lake.
        key: Names of the columns that identify a row; empty for a changelog.
        evolution: How the lake table has to change before; with no columns if it is to be created.
        null_safe: Whether a key column may be NULL in what is read.
        starts_empty: Whether the rows that the lake has are removed.
        removals: The actions that removed all rows of a changelog's table, or its name.
        reloads: Whether it replaces all rows that the lake has.
        start: Where its rows start in one manifest, if not with that.
    """

    table: str
    position: str
    mark: Mark
    ends: bool
    columns: dict[str, str]
    key: tuple[str, ...]
    reads: tuple[SchemaRows, ...]
    evolution: Evolution
    fields: dict[int, str]
    null_safe: bool = False
    starts_empty: bool = False
    removals: tuple[LogAction, ...] = ()
    reloads: bool = False
    start: StartWithin | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that are read."""
        return tuple(part for rows in self.reads for part in rows.parts)

    @property
    def rows(self) -> int:
        """Change rows in the parts."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """Size of the parts."""
        return sum(part.bytes for part in self.parts)

    @property
    def changes(self) -> dict[str, int]:
        """Change rows in the parts, by type."""
        return count_changes(self.parts)

    @property
    def growth(self) -> int:
        """How many rows more the table has after the changes; an update changes nothing of it."""
        changes = self.changes
        return changes.get(ChangeType.INSERT.value, 0) - changes.get(ChangeType.DELETE.value, 0)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The columns that rows may have no value in; together those that the same rows lack.

        Empty if every row is whole; also for a changelog, which keeps them as they are.
        """
        groups: dict[object, list[str]] = {}
        for column in self.columns if self.key else ():
            if column in self.key:
                # Checked when it is read.
                continue
            given = tuple(rows.gives(column) for rows in self.reads)
            if any(images for images, _ in given):
                groups.setdefault(given, []).append(column)
        return tuple(map(tuple, groups.values()))

    @property
    def has_before_images(self) -> bool:
        """Whether the parts hold before-images of updates."""
        return ChangeType.UPDATE_PREIMAGE.value in self.changes

    @property
    def is_changelog(self) -> bool:
        """Whether changes are appended, for want of a key to merge by."""
        return not self.key

    @property
    def target_columns(self) -> dict[str, str]:
        """Name and Spark type of the target's columns."""
        return self.columns | (CHANGELOG_COLUMNS if self.is_changelog else {})

    @property
    def target_key(self) -> tuple[str, ...]:
        """Names of the target's columns that identify a row."""
        return (SEQUENCE, ROW) if self.is_changelog else self.key


_DISCARDING = (CreateTable, TruncateTable)
_REMOVING = (TruncateTable, DropTable, RenameTable)


@dataclass(frozen=True)
class RangeRows:
    """The rows of a range that count, and what was done to them.

    Attributes:
        steps: The actions since the table was last empty, in order.
        discards: Whether no row from before the range counts.
        removals: The actions that removed all rows, or the name; of a changelog.
        stop: Where the range ends; None for its whole.
    """

    staged: tuple[StagedPart, ...] = ()
    steps: tuple[LogAction, ...] = ()
    discards: bool = False
    removals: tuple[LogAction, ...] = ()
    stop: Stop | None = None


@dataclass(frozen=True)
class NewestSchema:
    """The columns that the lake table is to have.

    Those `wanted` have types that are known, or that the lake has; `fields` are all of the table.
    """

    wanted: tuple[Wanted, ...]
    key: tuple[str, ...]
    fields: tuple[Field, ...]

    def has_columns(self, names: Iterable[str]) -> bool:
        """Whether all of the columns are among those whose types are known."""
        return {*names} <= {column.name for column in self.wanted}


def read_range(log: TableLog, lifecycle: Lifecycle, since: Mark, stop: Stop | None) -> RangeRows:
    """Return the rows of the lifecycle's table before a stop since it was last empty."""
    if lifecycle.table is None:
        return RangeRows(stop=stop)
    steps = _before(log.steps(lifecycle.table, since=since), stop)
    discarding = [n for n, step in enumerate(steps) if isinstance(step.action, _DISCARDING)]
    start = log.point(since)
    if discarding:
        start = steps[discarding[-1]].point
        steps = steps[discarding[-1] + 1 :]
    staged = _parts(log, lifecycle.table, start, None if stop is None else stop.point)
    discards = bool(discarding) or lifecycle.replaces
    return RangeRows(tuple(staged), tuple(steps), discards, stop=stop)


def read_changelog_range(
    name: TableName, log: TableLog, since: Mark, stop: Stop | None
) -> RangeRows:
    """Return the rows that were logged under a name: a changelog keeps what was removed."""
    start = log.point(since)
    staged: list[StagedPart] = []
    steps: list[LogAction] = []
    for span in log.spans(name, since=since.sequence + 1):
        begin = max(span.start, start)
        end = None if stop is None else stop.point
        ends = [point for point in (span.stop, end) if point is not None]
        staged += _parts(log, span.table, begin, min(ends, default=None))
        steps += (
            step
            for step in _before(log.steps(span.table, since=since), stop)
            if _is_quarantine_within(step, span)
            or (step.point >= begin and (span.stop is None or step.point <= span.stop))
        )
    removals = tuple(
        step
        for step in steps
        if isinstance(step.action, TruncateTable | DropTable)
        or (isinstance(step.action, RenameTable) and step.action.old == name)
    )
    return RangeRows(tuple(staged), tuple(steps), removals=removals, stop=stop)


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

    The lake table has the columns `held`, by field id: one below 0 where the log has none. The
    fields of its key, `held_key`, stay while the table has none.
    """
    if lifecycle.table is None:
        return None
    known = {field.id: field for part in rows.staged for field in part.schema.fields}
    lake = Schema(0, tuple(_named(id_, name) for id_, name in held.items()), held_key)
    current = _current_schema(log, lifecycle, rows.stop, lake)
    schemas = [] if current is None else [current]
    shown = [(part.first, part.schema) for part in rows.staged[-1:]]
    if rows.stop is not None and (schemas or shown):
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
    log: TableLog, lifecycle: Lifecycle, stop: Stop | None, lake: Schema
) -> tuple[Point, Schema] | None:
    """Return the last schema that a manifest before a stop says, and from where on it holds."""
    table = str(lifecycle.table)
    steps = _before(log.steps(table, since=Mark(lifecycle.first - 1)), stop)
    dropped = {step.action.field for step in steps if isinstance(step.action, DropField)}
    newest, whole = None, lake
    for manifest, entry in log.entries(table, since=lifecycle.first):
        if entry.current is None or (stop is not None and manifest.sequence >= stop.point[0]):
            continue
        schema = entry.schema(entry.current)
        if entry.is_partial:
            schema = _complete(schema, whole, dropped)
        else:
            whole = schema
        newest = (manifest.sequence + 1, 0), schema
    return newest


def _complete(named: Schema, before: Schema, dropped: Container[int]) -> Schema:
    """Return a schema of the columns that statements named with those that none has named."""
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


def _before(steps: list[LogAction], stop: Stop | None) -> list[LogAction]:
    return [step for step in steps if stop is None or step.mark < stop.mark]


def _parts(log: TableLog, table: TableId, start: Point, stop: Point | None) -> list[StagedPart]:
    """Return the parts of a table from a point on, and before another one."""
    parts = (
        StagedPart(manifest, entry, part)
        for manifest, entry in log.entries(table, since=start[0])
        for part in entry.parts
        if part.rows
    )
    between = (part for part in parts if part.first >= start and (not stop or part.first < stop))
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
