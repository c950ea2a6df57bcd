"""The segment that a fold makes: what is read, and how the lake table has to change before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from airflow_provider_binlog.changes import ROW, ChangeType
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.manifest import Part, count_changes
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import Field, Schema, TableId
from airflow_provider_binlog.spark.plan.evolution import (
    Evolution,
    evolve_by_id,
    evolve_by_name,
    evolve_own,
    initial_value,
    names_by_id,
    other_type,
)
from airflow_provider_binlog.spark.plan.fold import Base, Fold, StartWithin
from airflow_provider_binlog.spark.plan.lifecycle import reverse_fields
from airflow_provider_binlog.spark.plan.table_log import LogAction
from airflow_provider_binlog.spark.staged.parts import (
    SchemaRows,
    StagedPart,
    read_columns,
    read_rows,
)
from airflow_provider_binlog.spark.staged.types import Value, common_type
from airflow_provider_binlog.spark.target.modes import SEQUENCE, TableMode
from airflow_provider_binlog.spark.target.state import Comments, Mark, TargetState


@dataclass(frozen=True)
class Segment:
    """Changes that one collapse folds and one commit brings into the lake table.

    Attributes:
        position: Where in the log its columns were last changed, for messages.
        mark: What is committed with it: how much of the log the lake table contains then.
        ends: Whether the table's name stands for no table afterwards.
        columns: Name and Spark type of each column of the source's table in the lake.
        key: Names of the columns that identify a row; empty if it has none.
        evolution: How the lake table has to change before; with no columns if it is to be created.
        null_safe: Whether a key column may be NULL in what is read.
        mode: What the lake table keeps of the table.
        starts_empty: Whether the rows that the lake has are removed at the source.
        removals: The actions that removed all rows of a changelog's table, or its name.
        reloads: Whether it replaces all rows that the lake has.
        start: Where its rows start in one manifest, if not with that.
        source_types: The types of columns at the source, by name, where they are known.
        keeps_rows: Whether the lake table has rows that it keeps, also where all are removed.
        base: The moment at which the rows that the lake has were removed, if any were.
        tracked: Of a history the columns whose change is another version.
        comments: What is known of the comments at the source.
    """

    table: str
    position: str
    mark: Mark
    ends: bool
    columns: dict[str, str]
    key: tuple[str, ...]
    reads: tuple[SchemaRows, ...]
    evolution: Evolution
    mode: TableMode
    null_safe: bool = False
    starts_empty: bool = False
    removals: tuple[LogAction, ...] = ()
    reloads: bool = False
    start: StartWithin | None = None
    source_types: dict[str, str] = field(default_factory=dict)
    keeps_rows: bool = False
    base: Base | None = None
    tracked: tuple[str, ...] = ()
    comments: Comments = field(default_factory=Comments)

    @property
    def key_numbers(self) -> list[int]:
        """Numbers of the key's columns among `columns`."""
        names = list(self.columns)
        return [names.index(name) for name in self.key]

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
        """Growth of the table by the changes, in rows; an update changes nothing of it."""
        changes = self.changes
        return changes.get(ChangeType.INSERT.value, 0) - changes.get(ChangeType.DELETE.value, 0)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The columns that rows may have no value in; together those that the same rows lack.

        Empty if every row is whole; also for a changelog, which keeps them as they are.
        """
        groups: dict[object, list[str]] = {}
        for column in () if self.is_changelog else self.columns:
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

    def replaces_rows(self, state: TargetState | None) -> bool:
        """Whether the lake table has none of its rows afterwards; also if there is none yet."""
        removed = self.reloads or (self.starts_empty and not self.is_changelog)
        return state is None or (removed and not self.keeps_rows)

    @property
    def is_changelog(self) -> bool:
        """Whether changes are appended, for want of a key to merge by."""
        return self.mode.is_changelog

    @property
    def target_columns(self) -> dict[str, str]:
        """Name and Spark type of the target's columns."""
        return self.columns | self.mode.columns

    @property
    def target_key(self) -> tuple[str, ...]:
        """Names of the target's columns that identify a row."""
        return (SEQUENCE, ROW) if self.is_changelog else self.key


def make_segment(fold: Fold) -> Segment | None:
    """Return what is to be committed of a fold; None if there is nothing.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
    """
    tables, key, stop = fold.tables, fold.key, fold.stop
    state = tables.state
    if key is None or (state is None and not fold.staged and not tables.reloads):
        return None
    evolution = find_evolution(fold, key)
    ended = tables.lifecycle.ended and (stop is None or fold.has_rest)
    ends = ended and not (state is not None and state.ended)
    rekeys = state is not None and (tables.reloads or state.key != key)
    changes = evolution.changes_columns or rekeys
    if not (fold.staged or fold.discards or fold.removals or ends or changes or fold.has_rest):
        return None
    columns = _columns(fold, evolution)
    _check_names(fold, columns)
    groups = defaultdict[tuple[TableId, Schema], list[StagedPart]](list)
    for part in fold.staged:
        groups[part.table.id, part.schema].append(part)
    reads = tuple(_read(fold, schema, parts, columns, key) for (_, schema), parts in groups.items())
    nullable = {
        name
        for (_, schema), read in zip(groups, reads, strict=True)
        for name, staged in read.names.items()
        if any(field.name == staged and field.nullable for field in schema.fields)
    }
    context = fold.context
    return Segment(
        table=context["table"],
        position=context["position"],
        mark=Mark(tables.log.last) if stop is None else stop.mark,
        ends=ended,
        columns=columns,
        key=key,
        reads=reads,
        evolution=evolution,
        mode=tables.mode,
        null_safe=bool(nullable.intersection(key)),
        starts_empty=fold.discards and state is not None,
        removals=fold.removals,
        source_types=_by_column(
            fold, columns, lambda field: None if field.hashed is not None else field.mysql_type
        ),
        keeps_rows=tables.keeps_rows,
        base=tables.base if fold.discards else None,
        tracked=_find_tracked(fold, columns) if tables.mode.is_history else (),
        comments=Comments(fold.comment, _by_column(fold, columns, lambda field: field.comment)),
    )


def _find_tracked(fold: Fold, columns: dict[str, str]) -> tuple[str, ...]:
    """Return the columns whose change is another version of a row."""
    chosen, by_name = fold.tables.options.track_columns, {fold_name(name): name for name in columns}
    if chosen is None:
        return tuple(columns)
    if unknown := [name for name in chosen if fold_name(name) not in by_name]:
        raise ConfigurationError(
            "track_columns names columns that the table does not have (any more)",
            columns=",".join(unknown),
        )
    return tuple(by_name[fold_name(name)] for name in chosen)


def _check_names(fold: Fold, columns: Iterable[str]) -> None:
    """Refuse a column of the table that Spark takes for one which the mode adds."""
    added = {name.lower() for name in fold.tables.mode.columns}
    for name in columns:
        if name.lower() in added:
            raise ConfigurationError(
                "a column of the table has the name of one that options={...} add to the lake "
                "table: give these another prefix, or other history_columns",
                column=name,
            )


def find_evolution(fold: Fold, key: tuple[str, ...]) -> Evolution:
    """Return how the lake table has to change, to be merged by a key.

    Raises:
        MergeError: The lake table does not fit, or a column cannot be merged.
    """
    tables, wanted = fold.tables, fold.wanted
    state = tables.state
    if state is None:
        return Evolution(fields=names_by_id(wanted or ()))
    if wanted is None:
        fields = {} if tables.by_name else state.fields
        evolution = Evolution(columns={name: name for name in tables.columns}, fields=fields)
    elif not tables.keyed:
        evolution = evolve_by_name(wanted, columns=tables.columns, empty=fold.discards)
    else:
        removed = fold.discards and tables.keeps_rows
        fields = {} if tables.by_name else state.fields
        evolution = evolve_by_id(
            wanted,
            columns=tables.columns,
            fields=_fields_at_base(fold) if removed and tables.by_name else fields,
            unfilled=() if tables.by_name else state.unfilled,
            empty=state.is_empty or (fold.discards and not removed),
            removed=removed,
        )
        _check_lake_key(fold, state, evolution, key)
    return evolve_own(evolution, state.columns, state.mode, tables.mode)


def _fields_at_base(fold: Fold) -> dict[int, str]:
    """Return the lake table's columns that another table had, too, when it took its place."""
    ids = {fold_name(field.name): field.id for field in fold.fields}
    base = fold.tables.base
    if base is not None:
        until = base.until
        later = [
            step for step in fold.steps if isinstance(until, StartWithin) or step.point > until
        ]
        reverse_fields(ids, later)
    columns = {fold_name(name): name for name in fold.tables.columns}
    return {id_: columns[name] for name, id_ in ids.items() if name in columns}


def _check_lake_key(
    fold: Fold, state: TargetState, evolution: Evolution, key: tuple[str, ...]
) -> None:
    """Refuse a lake table whose rows are known by another key than that of the source.

    An empty table, or one without columns of its key, may have got another primary key.
    """
    if fold.discards or state.is_empty:
        return
    now = {name: old for old, name in evolution.columns.items()}
    same = state.table is not None and state.table == fold.tables.lifecycle.table
    follows = same and fold.tables.chosen_key is None
    if not follows and tuple(now.get(name, name) for name in state.key) != key:
        raise MergeError(
            "the lake table's rows have another key: reload the table, or set the property "
            "if you know that it is the key",
            property="binlog.key",
            found=",".join(state.key),
            wanted=",".join(key),
        )


def _columns(fold: Fold, evolution: Evolution) -> dict[str, str]:
    """Return name and type of the lake table's columns afterwards."""
    state = fold.tables.state
    if state is None:
        return {column.name: str(type_) for column, type_ in (fold.wanted or {}).items()}
    columns = {name: state.columns[old] for name, old in evolution.columns.items()}
    columns |= evolution.widened | evolution.added
    own = fold.tables.mode.columns
    return {name: type_ for name, type_ in columns.items() if name not in own}


def _by_column(
    fold: Fold, columns: dict[str, str], read: Callable[[Field], str | None]
) -> dict[str, str]:
    """Return a text of each field by the lake table's column, where there is one, and a text."""
    names = {fold_name(name): name for name in columns}
    texts = ((names.get(fold_name(field.name)), read(field)) for field in fold.wanted or ())
    return {name: text for name, text in texts if name is not None and text is not None}


def _read(
    fold: Fold,
    schema: Schema,
    staged: Sequence[StagedPart],
    columns: dict[str, str],
    key: tuple[str, ...],
) -> SchemaRows:
    """Return how rows in one schema are read as rows of the newest."""
    types = read_columns(schema)
    if not fold.tables.keyed or fold.wanted is None:
        by_name = {fold_name(name): name for name in columns}
        names = {by_name[fold_name(name)]: name for name in types}
        return read_rows(schema, staged, columns=types, names=names, key=(), initial={})
    by_id = {column.id: column for column in schema.fields}
    names, initial = dict[str, str](), dict[str, Value]()
    for column in fold.wanted:
        field = by_id.get(column.id)
        if field is None:
            value = initial_value(column)
            if value is not None:
                initial[column.name] = value
            continue
        names[column.name] = field.name
        if common_type(types[field.name], columns[column.name]) != columns[column.name]:
            raise other_type(column.name, field.mysql_type, column.mysql_type)
    return read_rows(schema, staged, columns=types, names=names, key=key, initial=initial)
