"""The rows of a table in a range that count, and its columns after them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import (
    AddField,
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
from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
from airflow_provider_binlog.spark.plan.table_log import LogAction, Point, Span, Stop, TableLog
from airflow_provider_binlog.spark.staged.parts import StagedPart
from airflow_provider_binlog.spark.staged.types import common_type, expected_arrow_type, spark_type
from airflow_provider_binlog.spark.target.modes import CURRENT, TableMode
from airflow_provider_binlog.spark.target.state import NOTHING, Mark, TargetState
from airflow_provider_binlog.table_options import TableOptions

_DISCARDING = (CreateTable, TruncateTable)
_REMOVING = (TruncateTable, DropTable, RenameTable)


@dataclass(frozen=True)
class StartWithin:
    """Rows of events before these coordinates, in one manifest, do not count."""

    sequence: int
    file_number: int
    offset: int


@dataclass(frozen=True)
class Base:
    """A moment at which a table has the rows that are known, and no others.

    Attributes:
        until: Rows of the log before this say which rows it has then.
        at: The moment, microseconds since 1970 in UTC.
        change: What made it so: `truncate`, `drop`, `create`, `rename`, `snapshot`.
        file, offset: Where that is in the log.
    """

    until: Point | StartWithin
    at: int
    change: str
    file: str
    offset: int


@dataclass(frozen=True)
class TableRange:
    """One table of the source in a range of the log, and its lake table.

    Attributes:
        state: The lake table; None if there is none.
        options: Those of the table.
        mode: What the lake table is to keep of the table.
        reloads: Whether all that the lake table contains is replaced.
        base: When the lake table's rows were removed, if the range begins with that.
        end: Where another commit of the range begins; None if it is one commit.
    """

    name: TableName
    log: TableLog
    state: TargetState | None
    options: TableOptions
    lifecycle: Lifecycle
    mode: TableMode = CURRENT
    reloads: bool = False
    base: Base | None = None
    end: Stop | None = None

    @property
    def keyed(self) -> bool:
        """Whether the rows of one table are followed: the lake table is no changelog of a name."""
        return not self.mode.is_changelog

    @property
    def columns(self) -> dict[str, str]:
        """Name and type of the lake table's columns that are those of the source's table."""
        if self.state is None:
            return {}
        own = self.state.mode.columns.keys() | self.mode.columns.keys()
        return {name: type_ for name, type_ in self.state.columns.items() if name not in own}

    @property
    def keeps_rows(self) -> bool:
        """Whether the lake table has rows that stay, whatever was removed at the source."""
        state = self.state
        if state is None or state.is_empty or not self.mode.keeps_removed:
            return False
        return state.mode.has_rows_of(self.mode)

    @property
    def chosen_key(self) -> tuple[str, ...] | None:
        """Names of the key columns, if the user chose them."""
        key = self.options.key
        return None if key is None else tuple(key)

    @property
    def applied(self) -> Mark:
        """The end of the log that the lake table contains, as far as that counts."""
        return NOTHING if self.state is None or self.reloads else self.state.applied

    @property
    def since(self) -> Mark:
        """The mark from which on the rows of the table are read."""
        before = Mark(self.lifecycle.first - 1)
        within = self.applied.sequence == before.sequence and not self.lifecycle.replaces
        return self.applied if within else before

    @property
    def has_other_rows(self) -> bool:
        """Whether the lake table has no rows of this table: none, or those of another one."""
        return self.applied == NOTHING or self.lifecycle.replaces

    @property
    def by_name(self) -> bool:
        """Whether names alone say which of its columns the lake table has already.

        Its columns are those of another table, or of none, or of every table of a changelog's name.
        """
        if not self.keyed:
            return True
        if self.reloads and self.state is not None:
            return not self.state.has_ids or self.state.table != self.lifecycle.table
        return self.has_other_rows

    @property
    def held(self) -> dict[int, str]:
        """The lake table's columns by field id, if its rows count; below 0 without an id."""
        state = self.state
        if state is None or self.has_other_rows:
            return {}
        ids = {name: id_ for id_, name in state.fields.items()}
        return {ids.get(name, -n): name for n, name in enumerate(self.columns, 1)}

    @property
    def held_key(self) -> tuple[int, ...]:
        """The fields of the lake table's key, if its rows count."""
        ids = {name: id_ for id_, name in self.held.items()}
        key = self.state.key if self.state is not None and ids else ()
        return tuple(ids[name] for name in key if name in ids)


@dataclass(frozen=True)
class Fold:
    """The part of a range before a stop: its rows that count, and the columns after them.

    Attributes:
        stop: Where it ends; None for the end of the range.
        staged: The rows since the table was last empty, part by part.
        steps: The actions since then, in order.
        discards: Whether no row from before the range counts.
        removals: The actions that removed all rows of a changelog's table, or its name.
        wanted: The columns that the lake table is to have, in a Spark type, or None in the one that
            it has. None if the range says nothing of the columns.
        fields: All columns of the table: also those whose types are not known yet.
        key: Names of the key's columns; None if it is not known.
        comment: The table's comment; None if it is not known.
    """

    tables: TableRange
    stop: Stop | None = None
    staged: tuple[StagedPart, ...] = ()
    steps: tuple[LogAction, ...] = ()
    discards: bool = False
    removals: tuple[LogAction, ...] = ()
    wanted: dict[Field, str | None] | None = None
    fields: tuple[Field, ...] = ()
    key: tuple[str, ...] | None = None
    comment: str | None = None

    @classmethod
    def of(cls, tables: TableRange, stop: Stop | None) -> Fold:
        """Return what is before a stop; the whole range without one."""
        if not tables.keyed:
            return _with_all_columns(_read_changelog(tables, stop))
        fold = _with_newest_columns(read_rows_of(tables, stop))
        state, key = tables.state, fold.key
        if fold.wanted is not None:
            key = tables.chosen_key or key
        if not key and state is not None and not tables.reloads:
            key = state.key
        if tables.mode.is_multiset:
            key = ()
        names = {field.name for field in fold.wanted or ()}
        if not fold.staged and not names.issuperset(key or ()):
            # The columns wait for the first row, which shows the key.
            fold = replace(fold, wanted=None, fields=())
        return replace(fold, key=key)

    @property
    def has_rest(self) -> bool:
        """Whether another commit brings what comes after it."""
        return self.stop is not None and self.stop is self.tables.end

    @property
    def context(self) -> dict[str, str]:
        """Context of messages: the table, and where its columns were last changed."""
        other = (*_REMOVING, CreateTable)
        changed = [step for step in self.steps if not isinstance(step.action, other)]
        log = self.tables.log
        first = log.manifest(max(self.tables.lifecycle.first, log.first))
        position = f"{first.start}..{log.manifests[-1].stop}"
        return {
            "table": ".".join(self.tables.name),
            "position": changed[-1].position if changed else position,
        }


def read_rows_of(tables: TableRange, stop: Stop | None) -> Fold:
    """Return the rows of the lifecycle's table before a stop since it was last empty."""
    log, table = tables.log, tables.lifecycle.table
    if table is None:
        return Fold(tables, stop)
    steps = _before(log.steps(table, since=tables.since), stop)
    kinds = (*_DISCARDING, DropTable) if tables.mode.keeps_removed else _DISCARDING
    discarding = [n for n, step in enumerate(steps) if isinstance(step.action, kinds)]
    start = log.point(tables.since)
    if discarding:
        start = steps[discarding[-1]].point
        steps = steps[discarding[-1] + 1 :]
    staged = _parts(log, table, start, None if stop is None else stop.point)
    discards = bool(discarding) or tables.lifecycle.replaces
    return Fold(tables, stop, tuple(staged), tuple(steps), discards)


def _read_changelog(tables: TableRange, stop: Stop | None) -> Fold:
    """Return the rows that were logged under a name: a changelog keeps what was removed."""
    log, since, name = tables.log, tables.since, tables.name
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
    return Fold(tables, stop, tuple(staged), tuple(steps), tables.reloads, removals)


def _with_newest_columns(fold: Fold) -> Fold:
    """Return rows with the columns after them, if the manifests say anything of these.

    A column whose type is not known yet is left out, unless the lake table has it. As long as no
    row of a table was logged, manifests have those columns only that statements name: the lake
    table, or the snapshot that is loaded, has the others. The fields of the lake table's key stay
    while the table has none.
    """
    tables, log = fold.tables, fold.tables.log
    if tables.lifecycle.table is None:
        return fold
    held, held_key = tables.held, tables.held_key
    known = {field.id: field for part in fold.staged for field in part.schema.fields}
    current = _current_schema(fold)
    schemas = [] if current is None else [current]
    shown = [(part.first, part.schema) for part in fold.staged[-1:]]
    if tables.end is not None and not (schemas or shown) and held:
        # What the log says next is of columns after the stop.
        schemas = [(log.point(tables.since), _lake_schema(tables))]
    if fold.stop is not None and (schemas or shown):
        # No manifest says which schema the table has here: actions lead on from the last known one.
        point, schema = max([*schemas, *shown], key=lambda pair: pair[0])
        entries = log.entries(str(tables.lifecycle.table), since=log.first) if tables.end else ()
        said = (field for _, entry in entries for own in entry.schemas for field in own.fields)
        added = {field.id: field for field in said}
        schemas = [(point, _follow(point, schema, fold.steps, added))]
    for _, schema in (*schemas, *shown):
        typed = tuple(
            column if column.arrow_type or column.id in held else _with_expected_type(column, log)
            for column in (_with_type(field, known) for field in schema.fields)
        )
        wanted = {
            column: _type_in_lake(column, fold.staged) if column.arrow_type else None
            for column in typed
            if column.arrow_type or column.id in held
        }
        names = {column.id: column.name for column in wanted}
        ids = schema.key or (fold.staged[-1].schema.key if fold.staged else held_key)
        if set(ids) <= names.keys():
            key = tuple(names[id_] for id_ in ids)
            others = (field for _, other in schemas for field in other.fields)
            fields = {field.id: field for field in (*others, *typed)}
            return replace(
                fold,
                wanted=wanted,
                fields=tuple(fields.values()),
                key=key,
                comment=_find_comment(schema, fold.staged),
            )
    return fold


def _with_all_columns(fold: Fold) -> Fold:
    """Return rows with every column of theirs: a changelog keeps what is dropped or renamed."""
    columns: dict[str, tuple[Field, str]] = {}
    for schema in dict.fromkeys(part.schema for part in reversed(fold.staged)):
        for field in schema.fields:
            type_ = spark_type(str(field.arrow_type))
            newest, before = columns.setdefault(fold_name(field.name), (field, type_))
            columns[fold_name(field.name)] = newest, common_type(before, type_) or before
    wanted: dict[Field, str | None] = dict(columns.values())
    comment = _find_comment(fold.staged[-1].schema, fold.staged) if fold.staged else None
    return replace(fold, wanted=wanted or None, fields=tuple(wanted), key=(), comment=comment)


def _find_comment(newest: Schema, staged: Iterable[StagedPart]) -> str | None:
    """Return the table's comment: what rows alone show of a table has none, and a snapshot has."""
    known = [part.schema.comment for part in staged if part.schema.comment is not None]
    return known[-1] if newest.comment is None and known else newest.comment


def _current_schema(fold: Fold) -> tuple[Point, Schema] | None:
    """Return the last schema that a manifest before the stop says, and from where on it holds."""
    tables, log, stop = fold.tables, fold.tables.log, fold.stop
    table, first = str(tables.lifecycle.table), tables.lifecycle.first
    steps = _before(log.steps(table, since=Mark(first - 1)), stop)
    dropped = {step.action.field for step in steps if isinstance(step.action, DropField)}
    newest, whole = None, _lake_schema(tables)
    for manifest, entry in log.entries(table, since=first):
        if entry.current is None or (stop is not None and manifest.sequence >= stop.point[0]):
            continue
        schema = entry.schema(entry.current)
        if entry.is_partial:
            schema = _complete(schema, whole, dropped)
        else:
            whole = schema
        newest = (manifest.sequence + 1, 0), schema
    return newest


def _lake_schema(tables: TableRange) -> Schema:
    """Return what is known of the columns from the lake table."""
    named = tuple(Field(id_, name, None, None, nullable=True) for id_, name in tables.held.items())
    return Schema(0, named, tables.held_key)


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


def _follow(
    point: Point, schema: Schema, steps: Iterable[LogAction], added: Mapping[int, Field]
) -> Schema:
    """Return a schema without what was dropped after a point, and with new names.

    Also with those of the fields `added` that were added.
    """
    fields = {field.id: field for field in schema.fields}
    for step in steps:
        action = step.action
        if step.point <= point:
            continue
        if isinstance(action, DropField):
            fields.pop(action.field, None)
        elif isinstance(action, RenameField) and action.field in fields:
            fields[action.field] = replace(fields[action.field], name=action.new)
        elif isinstance(action, AddField) and action.field in added:
            fields[action.field] = replace(added[action.field], name=action.name)
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
