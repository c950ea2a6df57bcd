"""Changes of a lake table's columns, by field ids, before rows in another schema are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import NULL, Default, Field, UnknownDefault
from airflow_provider_binlog.spark.staged.types import (
    Value,
    common_type,
    default_value,
    is_zero_date,
    widens,
)
from airflow_provider_binlog.spark.target.modes import DELETED_AT, END, START, TableMode


@dataclass(frozen=True)
class Evolution:
    """Changes of a lake table's columns, in this order.

    Attributes:
        renamed: Columns to rename, and their new names.
        widened: Columns, by their new names, to give a wider type.
        filled: What rows from before hold in added columns, where that is not NULL.
        columns: The lake table's name of each column that it has and is to have, by the new name.
        fields: The name of each column afterwards, by field id, of those that the log has ids of.
    """

    dropped: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)
    widened: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    filled: dict[str, Value] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    fields: dict[int, str] = field(default_factory=dict)

    @property
    def changes_columns(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.dropped or self.renamed or self.widened or self.added or self.filled)


def evolve_by_id(
    wanted: Mapping[Field, str | None],
    *,
    columns: Mapping[str, str],
    fields: Mapping[int, str],
    unfilled: Iterable[int],
    empty: bool,
    removed: bool = False,
) -> Evolution:
    """Compare the columns of a lake table with those `wanted`, whose Spark types may be its own.

    A column that was added to the lake table by hand, under the name of one that it lacks, is taken
    for that one.

    Of the fields `unfilled` it has the columns, but not yet their values in rows from before, if it
    is not `empty`. If all of its rows are `removed` ones, which it keeps, they lose columns that
    the table does not have, and have those values in new ones that are known.
    """
    held = dict(fields) if removed else match_columns(wanted, columns, fields)
    rest = [name for name in columns if name not in held.values()]
    if rest and not (empty or removed):
        raise MergeError(
            "the lake table has columns that the table does not have: drop them there, or rename "
            "them as at the source",
            column=",".join(rest),
        )
    ids = {column.id for column in wanted}
    dropped = [name for id_, name in held.items() if id_ not in ids]
    dropped += rest
    made = Evolution(fields=names_by_id(wanted))
    for column, known_type in wanted.items():
        name = held.get(column.id)
        type_ = known_type or (columns[name] if name is not None else "")
        if name is not None and empty and not _can_become(columns[name], type_):
            dropped.append(name)
            name = None
        if name is None:
            made.added[column.name] = type_
        else:
            made.columns[column.name] = name
            if name != column.name:
                made.renamed[name] = column.name
            if removed and common_type(columns[name], type_) is None:
                raise _kept_type(column.name, columns[name], type_)
            _widen(made, column.name, columns[name], type_)
        if not empty and (name is None or column.id in unfilled):
            is_known = not removed or is_known_initial(column)
            value = initial_value(column) if is_known else None
            if value is not None:
                made.filled[column.name] = value
    return replace(made, dropped=tuple(dropped))


def evolve_own(
    evolution: Evolution,
    columns: Collection[str],
    before: TableMode,
    after: TableMode,
) -> Evolution:
    """Return an evolution that also changes the columns which a mode adds to those of the table.

    A merge that was killed may have changed some of them.

    Raises:
        MergeError: Somebody dropped one that says which rows are there.
    """
    dropped, renamed = list(evolution.dropped), dict(evolution.renamed)
    added, kept = dict(evolution.added), dict(evolution.columns)
    for held, name in after.names.items():
        old = before.names.get(held, name)
        old = old if old in columns else name
        if old in columns:
            kept[name] = old
            if old != name:
                renamed[old] = name
        elif held in before.names and held in (DELETED_AT, START, END):
            raise MergeError(
                "the lake table lost a column that says which of its rows are there: drop the "
                "lake table, and load it from a snapshot",
                column=before.names[held],
            )
        else:
            added[name] = after.columns[name]
    for held, name in before.names.items():
        if held not in after.names and name in columns:
            dropped.append(name)
    return replace(evolution, dropped=tuple(dropped), renamed=renamed, added=added, columns=kept)


def names_by_id(fields: Iterable[Field]) -> dict[int, str]:
    """Return the names of columns by field id, of those that the log has ids of."""
    return {field.id: field.name for field in fields if field.id > 0}


def match_columns(
    fields: Iterable[Field], columns: Collection[str], by_id: Mapping[int, str]
) -> dict[int, str]:
    """Return the lake table's columns by field id: by their own ids, or else by the name."""
    held = {id_: name for id_, name in by_id.items() if name in columns}
    rest = {fold_name(name): name for name in columns if name not in held.values()}
    for wanted in fields:
        if wanted.id not in held and fold_name(wanted.name) in rest:
            held[wanted.id] = rest.pop(fold_name(wanted.name))
    return held


def evolve_by_name(
    wanted: Mapping[Field, str | None],
    *,
    columns: Mapping[str, str],
    empty: bool,
) -> Evolution:
    """Compare a changelog's columns with those that new rows have: it keeps those that they lack.

    One that has no rows from before, because all are replaced, keeps only the columns that fit.

    Raises:
        MergeError: A column has another type now.
    """
    types = {fold_name(column.name): type_ or "" for column, type_ in wanted.items()}
    held = {
        fold_name(name): name
        for name, current in columns.items()
        if not empty or _can_become(current, types.get(fold_name(name), ""))
    }
    made = Evolution(columns={name: name for name in held.values()})
    for column, type_ in wanted.items():
        name = held.get(fold_name(column.name))
        if name is None:
            made.added[column.name] = type_ or ""
        elif type_ is not None:
            _widen(made, name, columns[name], type_)
        if column.id > 0:
            made.fields[column.id] = name or column.name
    dropped = tuple(name for name in columns if name not in made.columns)
    return replace(made, dropped=dropped)


def is_known_initial(wanted: Field) -> bool:
    """Whether it is known what rows from before a field hold in it."""
    initial = wanted.initial_default
    return isinstance(initial, Default) and not is_zero_date(wanted, initial)


def initial_value(wanted: Field) -> Value:
    """Return what rows from before a field hold in it.

    Raises:
        MergeError: It is not known.
    """
    initial = wanted.initial_default
    if initial == NULL:
        return None
    if not isinstance(initial, Default) or not is_known_initial(wanted):
        reason = initial.reason if isinstance(initial, UnknownDefault) else "no value of the lake"
        raise MergeError(
            "a new column has a value in rows that were there before it, and the log does not say "
            "which: add it to the lake table with that value, or reload the table",
            column=wanted.name,
            reason=f"not known: {reason}" if initial is not None else "not known",
        )
    return default_value(wanted, initial)


def _can_become(current: str, type_: str) -> bool:
    return current == type_ or widens(current, type_)


def _widen(made: Evolution, name: str, current: str, type_: str) -> None:
    """Give a column a type that holds both what it has and what it is to have."""
    both = common_type(current, type_)
    if both is None:
        raise other_type(name, current, type_)
    if both != current:
        made.widened[name] = both


def _kept_type(name: str, before: str, now: str) -> MergeError:
    return MergeError(
        "a column has a type now that does not hold the values of removed rows, which the lake "
        "table keeps: drop the column of the lake table, or the lake table, and reload the table",
        column=name,
        before=before,
        now=now,
    )


def other_type(name: str, before: str | None, now: str | None) -> MergeError:
    """Return the refusal of a column's new type."""
    return MergeError(
        "a column's type changed in a way that the lake table cannot follow: reload the table",
        column=name,
        before=before,
        now=now,
    )
