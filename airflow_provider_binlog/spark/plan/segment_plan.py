"""How the changes of one table are folded: its key, its reads, and what the lake table becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.schema import RewriteRows, SetKey
from airflow_provider_binlog.spark.mark import NOTHING
from airflow_provider_binlog.spark.plan.evolution import (
    Evolution,
    evolve_by_id,
    evolve_by_name,
    initial_value,
    other_type,
)
from airflow_provider_binlog.spark.plan.range_rows import (
    NewestSchema,
    RangeRows,
    find_newest_schema,
    find_position,
    read_changelog_range,
    read_range,
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
from airflow_provider_binlog.spark.staged.types import widens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.schema import Schema, TableName
    from airflow_provider_binlog.spark.lake.table_format import TargetState
    from airflow_provider_binlog.spark.plan.evolution import Wanted
    from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle
    from airflow_provider_binlog.spark.plan.table_log import TableLog


@dataclass(frozen=True)
class Tables:
    """One table of the source and its lake table.

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

    @property
    def is_new(self) -> bool:
        """Whether nothing was committed to the lake table yet."""
        return self.state is None or self.state.applied == NOTHING


def plan_segments(tables: Tables, lifecycle: Lifecycle) -> tuple[Segment, ...]:
    """Return what to commit: for now one segment, and what no single collapse folds is refused.

    Raises:
        MergeError: The range holds what cannot be followed.
        ConfigurationError: The chosen key columns cannot serve.
    """
    state, name, log = tables.state, tables.name, tables.log
    rows = read_range(log, lifecycle)
    by_name = tables.is_new or lifecycle.replaces
    held = {} if by_name or state is None else state.fields
    newest = find_newest_schema(log, lifecycle, rows, held=held)
    if newest is None:
        key = None if state is None else state.key
    else:
        key = newest.key if tables.chosen_key is None else tables.chosen_key
    if key == ():
        rows = read_changelog_range(name, log, lifecycle, rows, first=tables.first)
    if key is None or (state is None and not rows.staged):
        return ()
    position = find_position(log, lifecycle, rows)
    fold = _Fold(
        tables, rows, newest, key, by_name, {"table": ".".join(name), "position": position}
    )
    fold.refuse_rewrites()
    fold.check_chosen_key()
    segment = fold.segment()
    ends = lifecycle.ended is not None and not (state is not None and state.ended)
    rekeys = state is not None and state.key != key
    changes = segment.evolution.changes_columns or rekeys
    return (segment,) if rows.staged or rows.discards or rows.removals or ends or changes else ()


@dataclass(frozen=True)
class _Fold:
    """One segment while it is planned.

    Attributes:
        tables: The table and its lake table.
        rows: Its rows.
        newest: Its columns; None if the range says nothing of them.
        key: Names of its key's columns.
        by_name: Whether the lake table's columns are those of another table, or of none.
        context: For messages.
    """

    tables: Tables
    rows: RangeRows
    newest: NewestSchema | None
    key: tuple[str, ...]
    by_name: bool
    context: dict[str, str]

    def refuse_rewrites(self) -> None:
        """Refuse changes of rows without row events, unless there was no row that they concern."""
        state, newest = self.tables.state, self.newest
        in_lake = state is not None and not state.is_empty and not self.rows.discards
        for step in self.rows.steps:
            action = step.action
            if not isinstance(action, RewriteRows):
                continue
            had_rows = in_lake or any(each.first < step.point for each in self.rows.staged)
            if action.field is None:
                # Rows may have come as well, unless the log has all of them.
                concerned = had_rows or self.tables.log.created(action.table) is None
            else:
                # A changelog keeps the values that were logged.
                kept = newest is None or action.field in newest.ids
                concerned = had_rows and kept and bool(self.key)
            if concerned:
                raise MergeError(
                    f"the table's rows changed without row events, because the statement "
                    f"{action.reason}: leave the table out with --tables and reload it",
                    **self.context | {"position": step.position},
                    statement=step.statement.text[:200],
                )

    def check_chosen_key(self) -> None:
        """A key of the user's needs the before-image of every update that changes it."""
        chosen = self.tables.chosen_key
        if chosen is None:
            return
        for each in self.rows.staged:
            schema, manifest = each.schema, each.manifest
            unknown = set(chosen) - {field.name for field in schema.fields}
            if unknown:
                raise ConfigurationError(
                    "--keys names columns the table does not have",
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

    def segment(self) -> Segment:
        """Return the segment.

        Raises:
            MergeError: The lake table cannot become what the rows need.
        """
        evolution, state = self._evolution(), self.tables.state
        if self.newest is not None and state is None:
            columns = {each.name: str(each.type) for each in self.newest.wanted}
        else:
            held = state.columns if state is not None else {}
            columns = {name: held[old] for name, old in evolution.columns.items()}
            columns |= evolution.widened | evolution.added
        groups = group_parts(self.rows.staged)
        reads = tuple(self._read(schema, each, columns) for (_, schema), each in groups.items())
        nullable = {
            name
            for (_, schema), each in zip(groups, reads, strict=True)
            for name, staged in each.names.items()
            if any(field.name == staged and field.nullable for field in schema.fields)
        }
        return Segment(
            table=self.context["table"],
            position=self.context["position"],
            columns=columns,
            key=self.key,
            reads=reads,
            evolution=evolution,
            fields=evolution.fields,
            null_safe=bool(nullable.intersection(self.key)),
            starts_empty=self.rows.discards and state is not None,
            removals=self.rows.removals,
        )

    def _evolution(self) -> Evolution:
        """Return how the lake table has to change."""
        state, newest = self.tables.state, self.newest
        if state is None:
            wanted = newest.wanted if newest is not None else ()
            return Evolution(fields={each.field.id: each.name for each in wanted})
        if newest is None:
            names = [name for name in state.columns if self.key or name not in CHANGELOG_COLUMNS]
            fields = {} if self.by_name else state.fields
            return Evolution(columns={name: name for name in names}, fields=fields)
        if bool(state.key) != bool(self.key):
            raise _other_key(state.key, self.key, self.context)
        if not state.key:
            columns = {n: t for n, t in state.columns.items() if n not in CHANGELOG_COLUMNS}
            return evolve_by_name(newest.wanted, columns=columns, context=self.context)
        evolution = evolve_by_id(
            newest.wanted,
            columns=state.columns,
            fields=_fields_by_name(newest.wanted, state) if self.by_name else state.fields,
            unfilled=() if self.by_name else state.unfilled,
            empty=self.rows.discards or state.is_empty,
            context=self.context,
        )
        self._check_lake_key(state, evolution)
        return evolution

    def _check_lake_key(self, state: TargetState, evolution: Evolution) -> None:
        """Refuse a lake table whose rows are known by another key than that of the source.

        The same rows may get another primary key, if the range has them under one key alone.
        """
        if self.rows.discards or state.is_empty:
            return
        now = {name: each for each, name in evolution.columns.items()}
        rekeyed = any(isinstance(each.action, SetKey) for each in self.rows.steps)
        follows = rekeyed and self.tables.chosen_key is None
        if not follows and tuple(now.get(name, name) for name in state.key) != self.key:
            raise MergeError(
                "the lake table's rows have another key: reload the table, or set the property "
                "if you know that it is the key",
                **self.context,
                property="binlog.key",
                found=",".join(state.key),
                wanted=",".join(self.key),
            )

    def _read(
        self, schema: Schema, staged: Sequence[StagedPart], columns: dict[str, str]
    ) -> StagedRows:
        """Return how rows in one schema are read as rows of the newest.

        Raises:
            MergeError: They cannot be.
        """
        table, newest = self.context["table"], self.newest
        types = read_columns(table, schema)
        if not self.key or newest is None:
            by_name = {name.lower(): name for name in columns}
            names = {by_name[name.lower()]: name for name in types}
            return read_rows(table, schema, staged, names=names, key=(), initial={})
        if self.tables.chosen_key is None and schema.key != newest.key_ids:
            raise _other_key(schema.key_names, newest.key, self.context)
        by_id = {each.id: each for each in schema.fields}
        names, initial = dict[str, str](), dict[str, str]()
        for each in newest.wanted:
            field = by_id.get(each.field.id)
            if field is None:
                value = initial_value(each.field, self.context)
                if value is not None:
                    initial[each.name] = value
                continue
            names[each.name] = field.name
            before, now = types[field.name], columns[each.name]
            if before != now and not widens(before, now):
                raise other_type(each.name, field.mysql_type, each.field.mysql_type, self.context)
        return read_rows(table, schema, staged, names=names, key=self.key, initial=initial)


def _fields_by_name(wanted: Sequence[Wanted], state: TargetState) -> dict[int, str]:
    """Return field ids for the columns of a lake table that does not follow the table yet."""
    lake = {name.lower(): name for name in state.columns}
    return {each.field.id: lake[each.name.lower()] for each in wanted if each.name.lower() in lake}


def _other_key(before: Sequence[str], now: Sequence[str], context: dict[str, str]) -> MergeError:
    return MergeError(
        "the primary key changed: reload the table",
        **context,
        before=",".join(before),
        now=",".join(now),
    )
