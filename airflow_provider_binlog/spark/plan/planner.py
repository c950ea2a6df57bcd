"""Plan the merge of one table before Spark reads a row.

A range is one segment, up to the first action that a lake table cannot follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import Schema, TableId, TableName
from airflow_provider_binlog.spark.plan.evolution import (
    Evolution,
    evolve_by_id,
    evolve_by_name,
    initial_value,
    other_type,
)
from airflow_provider_binlog.spark.plan.lifecycle import (
    Lifecycle,
    find_changelog_lifecycle,
    find_lifecycle,
    identify,
)
from airflow_provider_binlog.spark.plan.segment import (
    NewestSchema,
    RangeRows,
    Segment,
    find_changelog_schema,
    find_newest_schema,
    find_position,
    read_changelog_range,
    read_range,
)
from airflow_provider_binlog.spark.plan.stops import StopSearch
from airflow_provider_binlog.spark.plan.table_log import Stop, TableLog
from airflow_provider_binlog.spark.staged.parts import (
    CHANGELOG_COLUMNS,
    SchemaRows,
    StagedPart,
    group_parts,
    read_columns,
    read_rows,
)
from airflow_provider_binlog.spark.staged.types import common_type
from airflow_provider_binlog.spark.target.state import FIELDS, NOTHING, Mark, TargetState
from airflow_provider_binlog.table_options import TableOptions


@dataclass(frozen=True)
class TableRange:
    """One table of the source and its lake table.

    Attributes:
        first: Number of the first manifest that the lake table does not have yet.
        state: The lake table; None if there is none.
        chosen_key: Names of the key columns, if the user chose them.
        reloads: Whether all that the lake table contains is replaced.
    """

    name: TableName
    log: TableLog
    first: int
    state: TargetState | None
    chosen_key: tuple[str, ...] | None
    reloads: bool = False

    @property
    def applied(self) -> Mark:
        """How much of the log the lake table contains that counts."""
        return NOTHING if self.state is None or self.reloads else self.state.applied

    @property
    def is_new(self) -> bool:
        """Whether nothing was committed to the lake table yet."""
        return self.applied == NOTHING

    def since(self, lifecycle: Lifecycle) -> Mark:
        """Return the mark from which on the rows of a table are read."""
        before = Mark(lifecycle.first - 1)
        within = self.applied.sequence == before.sequence and not lifecycle.replaces
        return self.applied if within else before


@dataclass(frozen=True)
class Fold:
    """One segment while it is planned.

    Attributes:
        newest: Its columns; None if the range says nothing of them.
        key: Names of its key's columns; None if it is not known.
        keyed: Whether it is no changelog.
        held_key: The fields of the lake table's key, if its rows count.
    """

    tables: TableRange
    lifecycle: Lifecycle
    rows: RangeRows
    newest: NewestSchema | None
    key: tuple[str, ...] | None
    keyed: bool
    held_key: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        tables: TableRange,
        lifecycle: Lifecycle,
        *,
        keyed: bool,
        stop: Stop | None,
    ) -> Fold:
        """Return the fold of what is before a stop; of the whole range without one."""
        state, log = tables.state, tables.log
        since = tables.since(lifecycle)
        if not keyed:
            rows = read_changelog_range(tables.name, log, since, stop)
            rows = replace(rows, discards=tables.reloads)
            return cls(tables, lifecycle, rows, find_changelog_schema(rows), (), keyed)
        rows = read_range(log, lifecycle, since, stop)
        counts = not (tables.is_new or lifecycle.replaces)
        held = _held_columns(state) if state is not None and counts else {}
        key = None if state is None or tables.reloads else state.key
        ids = {name: id_ for id_, name in held.items()}
        held_key = tuple(ids[name] for name in key or () if name in ids)
        newest = find_newest_schema(log, lifecycle, rows, held=held, held_key=held_key)
        wanted = None if newest is None else tables.chosen_key or newest.key
        key = wanted or key
        if newest is not None and not rows.staged and not newest.has_columns(key or ()):
            # The columns wait for the first row, which shows the key.
            newest = None
        return cls(tables, lifecycle, rows, newest, key, keyed, held_key)

    @property
    def by_name(self) -> bool:
        """Whether names alone say which of its columns the lake table has already.

        Its columns are those of another table, or of none, or of every table of a changelog's name.
        """
        state = self.tables.state
        if not self.keyed:
            return True
        if self.tables.reloads and state is not None:
            return not state.has_ids or state.table != self.lifecycle.table
        return self.tables.is_new or self.lifecycle.replaces

    @property
    def context(self) -> dict[str, str]:
        """What messages say of it."""
        position = find_position(self.tables.log, self.lifecycle, self.rows)
        return {"table": ".".join(self.tables.name), "position": position}

    def find_barred(self) -> Stop | None:
        """Return where the lake table cannot follow a change of its columns; None if nowhere."""
        state = self.tables.state
        if state is None or self.key is None:
            return None
        barrier = state.find_barrier(self._evolution(self.key))
        if barrier is None:
            return None
        for step in self.rows.steps:
            if barrier.concerns(step.action):
                return Stop.at_step(step, barrier.reason)
        first = self.tables.log.manifest(max(self.lifecycle.first, self.tables.log.first))
        return Stop.at_manifest(first, barrier.reason, self.tables.since(self.lifecycle))

    def check_chosen_key(self) -> None:
        """A key of the user's needs the before-image of every update that changes it."""
        chosen = self.tables.chosen_key
        if chosen is None:
            return
        for part in self.rows.staged:
            schema, manifest = part.schema, part.manifest
            unknown = set(chosen) - {field.name for field in schema.fields}
            if unknown:
                raise ConfigurationError(
                    "options={...} names columns that the table does not have",
                    table=self.context["table"],
                    columns=",".join(sorted(unknown)),
                )
            other = schema.key and set(schema.key_names) != set(chosen)
            if other and manifest.before_images is not BeforeImages.ALL:
                raise ConfigurationError(
                    "other key columns than the primary key need before_images='all'",
                    table=self.context["table"],
                    primary_key=",".join(schema.key_names),
                    sequence=manifest.sequence,
                )

    def segment(self) -> Segment | None:
        """Return the segment; None if there is nothing to commit."""
        state, rows, key, stop = self.tables.state, self.rows, self.key, self.rows.stop
        if key is None or (state is None and not rows.staged and not self.tables.reloads):
            return None
        evolution = self._evolution(key)
        ended = self.lifecycle.ended and stop is None
        ends = ended and not (state is not None and state.ended)
        rekeys = state is not None and (self.tables.reloads or state.key != key)
        changes = evolution.changes_columns or rekeys
        if not (rows.staged or rows.discards or rows.removals or ends or changes):
            return None
        columns = self._columns(evolution)
        groups = group_parts(rows.staged)
        reads = tuple(
            self._read(schema, parts, columns, key) for (_, schema), parts in groups.items()
        )
        nullable = {
            name
            for (_, schema), read in zip(groups, reads, strict=True)
            for name, staged in read.names.items()
            if any(field.name == staged and field.nullable for field in schema.fields)
        }
        context = self.context
        return Segment(
            table=context["table"],
            position=context["position"],
            mark=Mark(self.tables.log.last) if stop is None else stop.mark,
            ends=ended,
            columns=columns,
            key=key,
            reads=reads,
            evolution=evolution,
            fields={id_: name for id_, name in evolution.fields.items() if id_ > 0},
            null_safe=bool(nullable.intersection(key)),
            starts_empty=rows.discards and state is not None,
            removals=rows.removals,
        )

    def _columns(self, evolution: Evolution) -> dict[str, str]:
        """Return name and type of the lake table's columns afterwards."""
        state = self.tables.state
        if self.newest is not None and state is None:
            return {column.name: str(column.type) for column in self.newest.wanted}
        held = state.columns if state is not None else {}
        columns = {name: held[old] for name, old in evolution.columns.items()}
        return columns | evolution.widened | evolution.added

    def _evolution(self, key: tuple[str, ...]) -> Evolution:
        """Return how the lake table has to change."""
        state, newest = self.tables.state, self.newest
        if state is None:
            wanted = newest.wanted if newest is not None else ()
            return Evolution(fields={column.field.id: column.name for column in wanted})
        if newest is None:
            names = [name for name in state.columns if key or name not in CHANGELOG_COLUMNS]
            fields = {} if self.by_name else state.fields
            return Evolution(columns={name: name for name in names}, fields=fields)
        if not key:
            columns = {n: t for n, t in state.columns.items() if n not in CHANGELOG_COLUMNS}
            return evolve_by_name(
                newest.wanted, columns=columns, empty=self.rows.discards, context=self.context
            )
        evolution = evolve_by_id(
            newest.wanted,
            columns=state.columns,
            fields={} if self.by_name else state.fields,
            unfilled=() if self.by_name else state.unfilled,
            empty=self.rows.discards or state.is_empty,
            context=self.context,
        )
        self._check_lake_key(state, evolution, key)
        return evolution

    def _check_lake_key(
        self, state: TargetState, evolution: Evolution, key: tuple[str, ...]
    ) -> None:
        """Refuse a lake table whose rows are known by another key than that of the source.

        An empty table, or one without columns of its key, may have got another primary key.
        """
        if self.rows.discards or state.is_empty:
            return
        now = {name: old for old, name in evolution.columns.items()}
        same = state.table is not None and state.table == self.lifecycle.table
        follows = same and self.tables.chosen_key is None
        if not follows and tuple(now.get(name, name) for name in state.key) != key:
            raise MergeError(
                "the lake table's rows have another key: reload the table, or set the property "
                "if you know that it is the key",
                **self.context,
                property="binlog.key",
                found=",".join(state.key),
                wanted=",".join(key),
            )

    def _read(
        self,
        schema: Schema,
        staged: Sequence[StagedPart],
        columns: dict[str, str],
        key: tuple[str, ...],
    ) -> SchemaRows:
        """Return how rows in one schema are read as rows of the newest."""
        table, newest = self.context["table"], self.newest
        types = read_columns(table, schema)
        if not key or newest is None:
            by_name = {fold_name(name): name for name in columns}
            names = {by_name[fold_name(name)]: name for name in types}
            return read_rows(table, schema, staged, names=names, key=(), initial={})
        by_id = {column.id: column for column in schema.fields}
        names, initial = dict[str, str](), dict[str, str]()
        for column in newest.wanted:
            field = by_id.get(column.field.id)
            if field is None:
                value = initial_value(column.field, self.context)
                if value is not None:
                    initial[column.name] = value
                continue
            names[column.name] = field.name
            if common_type(types[field.name], columns[column.name]) != columns[column.name]:
                raise other_type(
                    column.name, field.mysql_type, column.field.mysql_type, self.context
                )
        return read_rows(table, schema, staged, names=names, key=key, initial=initial)


def _held_columns(state: TargetState) -> dict[int, str]:
    """Return a lake table's columns by field id: one below 0 where the log has none."""
    ids = {name: id_ for id_, name in state.fields.items()}
    return {ids.get(name, -n): name for n, name in enumerate(state.columns, 1)}


@dataclass(frozen=True)
class TablePlan:
    """The next commit to one lake table, and what follows it.

    Attributes:
        table: The table that the lake table follows afterwards; None where it keeps what it has.
        segment: What to commit; None if there is nothing.
        stop: What the lake table cannot follow after that; None if it follows.
        ended: Whether the name stands for no table after the range; the lake keeps the rows.
        more: Whether the next merge has to commit the rest of the range.
        claims: Value of `FIELDS` that the lake table is to get before its columns change, where the
            log says more of them than its properties do; else None.
    """

    table: TableId | None
    segment: Segment | None = None
    stop: Stop | None = None
    ended: bool = False
    more: bool = False
    claims: str | None = None


def plan_table(
    name: TableName,
    log: TableLog,
    *,
    first: int,
    state: TargetState | None,
    options: TableOptions,
) -> TablePlan | None:
    """Plan the merge of one table; None if the manifests do not mention it.

    The lake table does not have those from `first` on yet; others serve tables that were renamed.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
        ConfigurationError: The chosen key columns cannot serve.
    """
    state, before = identify(state, name, log), state
    claims = None if state is None or state is before else state.properties[FIELDS]
    tables = TableRange(name, log, first, state, options.key)
    lifecycle = find_lifecycle(name, log, first, state)
    keyed = lifecycle is None or _is_keyed(tables, lifecycle)
    if not keyed:
        lifecycle = find_changelog_lifecycle(name, log, first)
    if lifecycle is None:
        return None
    if lifecycle.table is None and state is None:
        return TablePlan(None, stop=lifecycle.stop, ended=lifecycle.ended)
    try:
        plan = plan_next(tables, lifecycle, keyed=keyed)
        if plan.stop is None or not lifecycle.ended:
            return replace(plan, claims=claims)
    except MergeError:
        if not lifecycle.ended or state is None:
            raise
    # The table does not exist any more: the lake keeps what it has.
    plan = plan_next(tables, replace(lifecycle, table=None, replaces=False), keyed=keyed)
    return replace(plan, claims=claims)


def _is_keyed(tables: TableRange, lifecycle: Lifecycle) -> bool:
    """Whether rows are merged by a key: as the lake table says, or else as the log does."""
    if tables.state is not None:
        return bool(tables.state.key)
    if tables.chosen_key is not None:
        return True
    log = tables.log
    rows = read_range(log, lifecycle, tables.since(lifecycle), None)
    if rows.staged:
        return bool(rows.staged[0].schema.key)
    for span in reversed(log.spans(tables.name, since=tables.first)):
        for _, entry in reversed(log.entries(span.table, since=tables.first)):
            if entry.current is not None:
                return bool(entry.schema(entry.current).key)
    return True


def plan_next(tables: TableRange, lifecycle: Lifecycle, *, keyed: bool) -> TablePlan:
    """Plan a commit: what is before the first action that the lake table cannot follow."""
    fold = Fold.of(tables, lifecycle, keyed=keyed, stop=lifecycle.stop)
    while stop := StopSearch(fold).find_first() or fold.find_barred():
        fold = Fold.of(tables, lifecycle, keyed=keyed, stop=stop)
    plan = TablePlan(lifecycle.table, stop=fold.rows.stop, ended=lifecycle.ended)
    if plan.stop is not None and plan.stop.mark <= tables.applied:
        return plan
    fold.check_chosen_key()
    return replace(plan, segment=fold.segment())
