"""How the changes of one table are folded: its columns, its key, and what the lake table becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    RewriteRows,
    SetKey,
    TruncateTable,
)
from airflow_provider_binlog.spark.plan.evolution import (
    Evolution,
    Wanted,
    evolve_by_id,
    evolve_by_name,
    initial_value,
)
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.staged.parts import (
    CHANGELOG_COLUMNS,
    StagedPart,
    StagedRows,
    group_parts,
    read_columns,
    read_rows,
)
from airflow_provider_binlog.spark.staged.types import spark_type, widens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.schema import Field, Schema, TableId, TableName
    from airflow_provider_binlog.spark.lake.table_format import TargetState
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.table_log import Step, TableLog

_EMPTYING = (CreateTable, TruncateTable)
_REMOVING = (TruncateTable, DropTable, RenameTable)


@dataclass(frozen=True)
class _Newest:
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


@dataclass(frozen=True)
class _Rows:
    """The rows of a range that count, and what was done to them.

    Attributes:
        staged: The parts, in order.
        steps: The actions since the table was last empty, in order.
        empties: Whether no row from before the range counts.
        removals: The actions that removed all rows, or the name; of a changelog.
    """

    staged: tuple[StagedPart, ...]
    steps: tuple[Step, ...]
    empties: bool
    removals: tuple[Step, ...] = ()


@dataclass(frozen=True)
class SegmentPlanner:
    """Plans one table's segments: for now one, and what no single collapse folds is refused.

    Attributes:
        name: Database and table.
        log: The manifests.
        first: Number of the first manifest that the lake table does not have yet.
        state: The lake table; None if there is none.
        chosen_key: Names of the key columns, if the user chose them.
    """

    name: TableName
    log: TableLog
    first: int
    state: TargetState | None
    chosen_key: tuple[str, ...] | None

    def plan(self, lifecycle: Lifecycle) -> tuple[Segment, ...]:
        """Return what to commit.

        Raises:
            MergeError: The range holds what cannot be followed.
            ConfigurationError: The chosen key columns cannot serve.
        """
        rows = self._rows(lifecycle)
        newest = self._newest(lifecycle, rows)
        if self._key(newest) == ():
            rows = self._changelog_rows(lifecycle, rows)
        context = {"table": ".".join(self.name), "position": self._position(lifecycle, rows)}
        self._refuse_rewrites(lifecycle, rows, newest, context)
        self._check_chosen_key(rows)
        key = self._key(newest)
        if key is None or (self.state is None and not rows.staged):
            return ()
        evolution = self._evolution(lifecycle, rows, newest, context)
        segment = self._segment(rows, newest, key, evolution, context)
        ends = lifecycle.ended is not None and not (self.state is not None and self.state.ended)
        if segment.reads or rows.empties or rows.removals or ends or evolution.changes_columns:
            return (segment,)
        return (segment,) if self._rekeys(segment) else ()

    @property
    def _is_new(self) -> bool:
        """Whether nothing was committed to the lake table yet."""
        return self.state is None or not self.state.applied_sequence

    def _rekeys(self, segment: Segment) -> bool:
        return self.state is not None and self.state.key != segment.key

    def _rows(self, lifecycle: Lifecycle) -> _Rows:
        """Return the rows of the lifecycle's table since it was last empty."""
        if lifecycle.table is None:
            return _Rows((), (), empties=False)
        steps = self.log.steps(lifecycle.table, since=lifecycle.first)
        emptied = [n for n, each in enumerate(steps) if isinstance(each.action, _EMPTYING)]
        staged = _parts(self.log, [lifecycle.table], lifecycle.first)
        if emptied:
            since = steps[emptied[-1]].point
            staged = [each for each in staged if each.first >= since]
            steps = steps[emptied[-1] + 1 :]
        empties = bool(emptied) or lifecycle.replaces
        return _Rows(tuple(staged), tuple(steps), empties)

    def _changelog_rows(self, lifecycle: Lifecycle, rows: _Rows) -> _Rows:
        """Return the rows that were logged under the name: a changelog keeps what was removed."""
        tables: dict[TableId, None] = {}
        for holding in self.log.holdings(self.name, since=self.first):
            step = holding.step
            if step is not None:
                tables[step.action.table] = None
                if isinstance(step.action, RenameTable) and lifecycle.table is not None:
                    raise MergeError(
                        "a table without a primary key was renamed: leave it out with --tables, or "
                        "name its key with --keys",
                        table=".".join(self.name),
                        position=step.position,
                    )
            elif holding.table is not None:
                tables[holding.table] = None
        steps = [step for each in tables for step in self.log.steps(each, since=self.first)]
        removals = sorted(
            (each for each in steps if isinstance(each.action, _REMOVING)),
            key=lambda each: each.point,
        )
        staged = [] if lifecycle.table is None else _parts(self.log, list(tables), self.first)
        return replace(rows, staged=tuple(staged), empties=False, removals=tuple(removals))

    def _newest(self, lifecycle: Lifecycle, rows: _Rows) -> _Newest | None:
        """Return the columns after the range; None if the manifests say nothing of them."""
        if lifecycle.table is None:
            return None
        known = {f.id: f for each in rows.staged for f in each.schema.fields}
        held = {} if self._is_new or lifecycle.replaces else self._held()
        entries = self.log.entries(lifecycle.table, since=lifecycle.first)
        currents = [e.schema(e.current) for _, e in entries if e.current is not None]
        for schema in (*currents[-1:], *(each.schema for each in rows.staged[-1:])):
            wanted = [
                Wanted(each, spark_type(each.arrow_type) if each.arrow_type else None)
                for each in (_with_type(each, known) for each in schema.fields)
                if each.arrow_type or each.id in held
            ]
            names = {each.field.id: each.name for each in wanted}
            if set(schema.key) <= names.keys():
                key = tuple(names[each] for each in schema.key)
                ids = frozenset(f.id for each in (*currents[-1:], schema) for f in each.fields)
                return _Newest(tuple(wanted), key, schema.key, ids)
        return None

    def _held(self) -> dict[int, str]:
        return {} if self.state is None else self.state.fields

    def _key(self, newest: _Newest | None) -> tuple[str, ...] | None:
        """Return the columns that identify a row; empty for a changelog, None if not known."""
        if newest is None:
            return None if self.state is None else self.state.key
        return newest.key if self.chosen_key is None else self.chosen_key

    def _position(self, lifecycle: Lifecycle, rows: _Rows) -> str:
        """Return where the columns were last changed, as far as the range says."""
        other = (*_REMOVING, CreateTable)
        changed = [each for each in rows.steps if not isinstance(each.action, other)]
        if changed:
            return changed[-1].position
        manifests = [each for each in self.log.manifests if each.sequence >= lifecycle.first]
        return f"{manifests[0].start}..{manifests[-1].stop}"

    def _refuse_rewrites(
        self, lifecycle: Lifecycle, rows: _Rows, newest: _Newest | None, context: dict[str, str]
    ) -> None:
        """Refuse changes of rows without row events, unless there was no row that they concern."""
        in_lake = not self._is_new and not rows.empties and bool(self.state and self.state.files)
        is_changelog = self._key(newest) == ()
        for step in rows.steps:
            action = step.action
            if not isinstance(action, RewriteRows):
                continue
            had_rows = in_lake or any(each.first < step.point for each in rows.staged)
            if action.field is None:
                concerned = had_rows or self.log.created(action.table) is None
            else:
                # A changelog keeps the values that were logged.
                kept = newest is None or action.field in newest.ids
                concerned = had_rows and kept and not is_changelog
            if concerned:
                raise MergeError(
                    f"the table's rows changed without row events, because the statement "
                    f"{action.reason}: leave the table out with --tables and reload it",
                    **context | {"position": step.position},
                    statement=step.statement.text[:200],
                )

    def _check_chosen_key(self, rows: _Rows) -> None:
        """A key of the user's needs the before-image of every update that changes it."""
        chosen = self.chosen_key
        if chosen is None:
            return
        for each in rows.staged:
            schema, manifest = each.schema, each.manifest
            unknown = set(chosen) - {field.name for field in schema.fields}
            if unknown:
                raise ConfigurationError(
                    "--keys names columns the table does not have",
                    table=".".join(self.name),
                    columns=",".join(sorted(unknown)),
                )
            other = schema.key and set(schema.key_names) != set(chosen)
            if other and manifest.before_images is not BeforeImages.ALL:
                raise ConfigurationError(
                    "other key columns than the primary key need before_images='all'",
                    table=".".join(self.name),
                    primary_key=",".join(schema.key_names),
                    sequence=manifest.sequence,
                )

    def _evolution(
        self, lifecycle: Lifecycle, rows: _Rows, newest: _Newest | None, context: dict[str, str]
    ) -> Evolution:
        """Return how the lake table has to change.

        Raises:
            MergeError: It cannot be followed.
        """
        state = self.state
        if state is None:
            fields = {each.field.id: each.name for each in newest.wanted} if newest else {}
            return Evolution(fields=fields)
        by_name = self._is_new or lifecycle.replaces
        if newest is None:
            names = [name for name in state.columns if state.key or name not in CHANGELOG_COLUMNS]
            fields = {} if by_name else state.fields
            return Evolution(columns={name: name for name in names}, fields=fields)
        if bool(state.key) != bool(self._key(newest)):
            raise _other_key(state.key, newest.key, context)
        if not state.key:
            columns = {n: t for n, t in state.columns.items() if n not in CHANGELOG_COLUMNS}
            return evolve_by_name(newest.wanted, columns=columns, context=context)
        fields = _fields_by_name(newest.wanted, state) if by_name else state.fields
        evolution = evolve_by_id(
            newest.wanted,
            columns=state.columns,
            fields=fields,
            unfilled=() if by_name else state.unfilled,
            empty=rows.empties or by_name or not state.files,
            context=context,
        )
        self._check_lake_key(evolution, newest, rows, context)
        return evolution

    def _check_lake_key(
        self, evolution: Evolution, newest: _Newest, rows: _Rows, context: dict[str, str]
    ) -> None:
        """Refuse a lake table whose rows are known by another key than that of the source.

        The same rows may get another primary key, if the range has them under one key alone.
        """
        state, key = self.state, self._key(newest)
        if state is None or rows.empties or self._is_new or not state.files:
            return
        now = {name: each for each, name in evolution.columns.items()}
        rekeyed = any(isinstance(each.action, SetKey) for each in rows.steps)
        if tuple(now.get(name, name) for name in state.key) != key:
            if self.chosen_key is not None or not rekeyed:
                raise MergeError(
                    "the lake table's rows have another key: reload the table, or set the property "
                    "if you know that it is the key",
                    **context,
                    property="binlog.key",
                    found=",".join(state.key),
                    wanted=",".join(key or ()),
                )

    def _segment(
        self,
        rows: _Rows,
        newest: _Newest | None,
        key: tuple[str, ...],
        evolution: Evolution,
        context: dict[str, str],
    ) -> Segment:
        held = self.state.columns if self.state is not None else {}
        columns = {name: held[old] for name, old in evolution.columns.items()}
        columns |= evolution.widened | evolution.added
        if newest is not None and self.state is None:
            columns = {each.name: str(each.type) for each in newest.wanted}
        groups = group_parts(rows.staged)
        wanted = newest.wanted if newest is not None else ()
        reads = tuple(
            self._read(schema, staged, wanted, newest, key, columns, context)
            for (_, schema), staged in groups.items()
        )
        nullable = {
            name
            for (_, schema), each in zip(groups, reads, strict=True)
            for name, staged in each.names.items()
            if any(f.name == staged and f.nullable for f in schema.fields)
        }
        return Segment(
            table=context["table"],
            position=context["position"],
            columns=columns,
            key=key,
            reads=reads,
            evolution=evolution,
            fields=evolution.fields,
            null_safe=bool(nullable.intersection(key)),
            starts_empty=rows.empties and self.state is not None,
            removals=rows.removals,
        )

    def _read(
        self,
        schema: Schema,
        staged: Sequence[StagedPart],
        wanted: Sequence[Wanted],
        newest: _Newest | None,
        key: tuple[str, ...],
        columns: dict[str, str],
        context: dict[str, str],
    ) -> StagedRows:
        """Return how rows in one schema are read as rows of the newest.

        Raises:
            MergeError: They cannot be.
        """
        table = context["table"]
        types = read_columns(table, schema)
        if not key:
            by_name = {name.lower(): name for name in columns}
            names = {by_name[name.lower()]: name for name in types}
            return read_rows(table, schema, staged, names=names, key=(), initial={})
        if newest is not None and self.chosen_key is None and schema.key != newest.key_ids:
            raise _other_key(schema.key_names, newest.key, context)
        by_id = {each.id: each for each in schema.fields}
        names, initial = dict[str, str](), dict[str, str]()
        for each in wanted:
            field = by_id.get(each.field.id)
            if field is None:
                value = initial_value(each.field, context)
                if value is not None:
                    initial[each.name] = value
                continue
            names[each.name] = field.name
            before, now = types[field.name], columns[each.name]
            if before != now and not widens(before, now):
                raise MergeError(
                    "a column's type changed in a way that the lake table cannot follow: reload "
                    "the table",
                    **context,
                    column=each.name,
                    before=field.mysql_type,
                    now=each.field.mysql_type,
                )
        return read_rows(table, schema, staged, names=names, key=key, initial=initial)


def _parts(log: TableLog, tables: Sequence[TableId], first: int) -> list[StagedPart]:
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


def _fields_by_name(wanted: Sequence[Wanted], state: TargetState) -> dict[int, str]:
    """Return field ids for the columns of a lake table whose rows are all replaced.

    Those that it is not to have get ids that no field has.
    """
    lake = {name.lower(): name for name in state.columns}
    found = {
        each.field.id: lake.pop(each.name.lower()) for each in wanted if each.name.lower() in lake
    }
    return found | {-number: name for number, name in enumerate(lake.values(), 1)}


def _other_key(before: Sequence[str], now: Sequence[str], context: dict[str, str]) -> MergeError:
    return MergeError(
        "the primary key changed: reload the table",
        **context,
        before=",".join(before),
        now=",".join(now),
    )
