"""A table's columns and key as a value, and what a statement makes of them, forwards and backwards.

Forwards a shape becomes one other shape. Backwards it may have come from several: a dropped column
may have stood anywhere. All of them are told, and the TABLE_MAPs say which of them it was.

Source: mysql-server, sql/sql_table.cc, prepare_fields_and_keys; mariadb, mysql_prepare_alter_table.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.facts import UNKNOWN, Facts, facts_of
from airflow_provider_binlog.sql.alterations import (
    FIRST,
    AddColumn,
    AddPrimaryKey,
    ChangeColumn,
    ChangeIndexes,
    ConvertCharset,
    DropColumn,
    DropPrimaryKey,
    Opaque,
    RenameColumn,
    SetDefault,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.sql.alterations import Alteration

_MADE_UP = "my_row_id"
"""The column that MySQL adds under `sql_generate_invisible_primary_key`."""

CANDIDATES_MAX = 4096
"""With more pasts than these, a shape's past counts as unknown."""


class ShapeColumn(NamedTuple):
    """A column of a shape.

    Attributes:
        name: Known in every shape.
        facts: What else is known.
        perhaps_key: Whether it may have been in the primary key, unless it was nullable.
        field: Its field id; 0 where it has none.
    """

    name: str
    facts: Facts = UNKNOWN
    perhaps_key: bool = False
    field: int = 0


@dataclass(frozen=True)
class Key:
    """By which columns the log would name the rows of a table.

    Attributes:
        columns: (name, characters of a prefix or 0) in key order; empty where there is no key.
        primary: Whether it is a primary key; else a unique one stands in for it, or nothing does.
        others: Whether there are unique keys beside it, or there may be.
    """

    columns: tuple[tuple[str, int], ...]
    primary: bool
    others: bool


@dataclass(frozen=True)
class Shape:
    """A table's columns in order, and its key; None where the key is not known."""

    columns: tuple[ShapeColumn, ...]
    key: Key | None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


NO_SHAPE = Shape((), Key((), primary=False, others=False))
"""Of a table that is being made."""


def same(name: str, other: str) -> bool:
    """Whether two names are of one column: case makes no difference."""
    return name.casefold() == other.casefold()


# ------------------------------------------------------------------- forwards


def alter(shape: Shape, alterations: Sequence[Alteration]) -> Shape | None:
    """Return what a statement makes of a shape; None where that is not known.

    Columns are looked up as the server does it: those that are dropped and changed in the table as
    it was, those behind which others are put in what the table has become so far.
    """
    if any(isinstance(each, Opaque) for each in alterations):
        return None
    columns = _altered(shape.columns, alterations)
    if columns is None:
        return None
    for each in alterations:
        if isinstance(each, ConvertCharset):
            columns = [_converted(column, each.charset) for column in columns]
        if isinstance(each, AddPrimaryKey):
            keyed = {name.casefold() for name, _ in each.columns}
            columns = [_not_null(c) if c.name.casefold() in keyed else c for c in columns]
    columns = _without_defaults(columns, alterations)
    return Shape(tuple(columns), _key_after(shape, alterations))


def _altered(
    before: Sequence[ShapeColumn], alterations: Sequence[Alteration]
) -> list[ShapeColumn] | None:
    """Return the columns that a statement makes of others; None where it cannot have."""
    own = {column.name.casefold() for column in before}
    changes = _changes_by_name(own, alterations)
    if changes is None:
        return None
    columns = [
        column
        for each in before
        if (column := _changed(each, changes.get(each.name.casefold()))) is not None
    ]
    for each in alterations:
        if isinstance(each, AddColumn):
            done = _add(columns, each, own, changes)
        elif isinstance(each, ChangeColumn) and each.after is not None:
            done = each.old.casefold() not in changes or _move(columns, each)
        else:
            continue
        if not done:
            return None
    unlike = {column.name.casefold() for column in columns}
    return _made_up_first(columns) if len(unlike) == len(columns) else None


def _made_up_first(columns: list[ShapeColumn]) -> list[ShapeColumn] | None:
    """Put the key that MySQL made up before what came FIRST; None where it may be a user's own."""
    at = _find(columns, _MADE_UP)
    if not at:
        return columns
    visible = columns[at].facts.visible
    if visible is None:
        return None
    return columns if visible else [columns[at], *columns[:at], *columns[at + 1 :]]


_Change = DropColumn | ChangeColumn | RenameColumn


def _changes_by_name(own: set[str], alterations: Sequence[Alteration]) -> dict[str, _Change] | None:
    """Return what becomes of columns by their former names; None where one is not there."""
    changes: dict[str, _Change] = {}
    for each in alterations:
        if isinstance(each, _Change):
            name = (each.name if isinstance(each, DropColumn) else each.old).casefold()
            optional = not isinstance(each, RenameColumn) and each.optional
            if name in changes or (name not in own and not optional):
                return None
            if name in own:
                changes[name] = each
    return changes


def _changed(column: ShapeColumn, change: _Change | None) -> ShapeColumn | None:
    """Return what becomes of a column; None where it goes."""
    if isinstance(change, ChangeColumn):
        return ShapeColumn(change.name, facts_of(change.definition), field=column.field)
    if isinstance(change, RenameColumn):
        return column._replace(name=change.name)
    return column if change is None else None


def _add(
    columns: list[ShapeColumn], each: AddColumn, own: set[str], changes: dict[str, _Change]
) -> bool:
    name = each.name.casefold()
    if each.optional and name in own:
        return name not in changes
    return _place(columns, ShapeColumn(each.name, facts_of(each.definition)), each.after)


def _move(columns: list[ShapeColumn], each: ChangeColumn) -> bool:
    at = _find(columns, each.name)
    return at is not None and _place(columns, columns.pop(at), each.after)


def _find(columns: Sequence[ShapeColumn], name: str) -> int | None:
    return next((i for i, column in enumerate(columns) if same(column.name, name)), None)


def _place(columns: list[ShapeColumn], column: ShapeColumn, after: str | None) -> bool:
    """Put a column behind another one; False where there is none of that name."""
    if after is None:
        columns.append(column)
        return True
    at = -1 if after == FIRST else _find(columns, after)
    if at is None:
        return False
    columns.insert(at + 1, column)
    return True


def _converted(column: ShapeColumn, charset: str | None) -> ShapeColumn:
    """Return a column of text in another character set; TEXT may become MEDIUMTEXT by that."""
    facts = column.facts
    known_text = facts.charset not in (None, "binary")
    if not known_text and facts.data_type not in (None, "enum", "set"):
        return column
    if facts.data_type in ("enum", "set"):
        return column._replace(facts=replace(facts, charset=charset))
    if facts.charset == "binary":
        return column
    return column._replace(facts=replace(facts, charset=charset, octets=None, data_type=None))


def _not_null(column: ShapeColumn) -> ShapeColumn:
    return column._replace(facts=replace(column.facts, nullable=False, default=None))


def _without_defaults(
    columns: Sequence[ShapeColumn], alterations: Sequence[Alteration]
) -> list[ShapeColumn]:
    """Return columns without the defaults that a statement changed, by former names or new."""
    changed = {
        name.casefold()
        for each in alterations
        if isinstance(each, SetDefault)
        for name in (each.name, _renamed(each.name, alterations), _former(each.name, alterations))
    }
    return [
        column._replace(facts=replace(column.facts, default=None))
        if column.name.casefold() in changed
        else column
        for column in columns
    ]


def _key_after(shape: Shape, alterations: Sequence[Alteration]) -> Key | None:
    made = [each for each in alterations if isinstance(each, AddPrimaryKey)]
    key = shape.key
    others = key is None or key.others or _touches_indexes(alterations)
    if len(made) > 1:
        return None
    if made:
        return Key(made[0].columns, primary=True, others=others)
    if key is None:
        return None
    dropped = any(isinstance(each, DropPrimaryKey) for each in alterations)
    if dropped:
        return None if others else Key((), primary=False, others=False)
    lost = [each.name for each in alterations if isinstance(each, DropColumn)]
    left = tuple(
        (_renamed(name, alterations), prefix)
        for name, prefix in key.columns
        if not any(same(name, each) for each in lost)
    )
    if key.primary:
        return replace(key, columns=left, others=others) if len(left) == len(key.columns) else None
    # Whichever unique key comes first, of those that hold no NULL, stands in for the missing one.
    unchanged = len(left) == len(key.columns) and not _touches_unique(alterations)
    return replace(key, columns=left) if unchanged or not others else None


def _renamed(name: str, alterations: Sequence[Alteration]) -> str:
    for each in alterations:
        if isinstance(each, ChangeColumn | RenameColumn) and same(each.old, name):
            return each.name
    return name


def _touches_indexes(alterations: Sequence[Alteration]) -> bool:
    return any(isinstance(each, ChangeIndexes) for each in alterations)


def _touches_unique(alterations: Sequence[Alteration]) -> bool:
    """Whether another unique key may come first now."""
    kinds = (ChangeIndexes, ChangeColumn, DropColumn, AddPrimaryKey, DropPrimaryKey)
    return any(isinstance(each, kinds) for each in alterations)


# ------------------------------------------------------------------- backwards


def pasts(shape: Shape, alterations: Sequence[Alteration], flavor: Flavor) -> list[Shape] | None:
    """Return every shape that the statement may have made this one of.

    Of columns that the statement changed no more is known than their former names. None where there
    may be any, or too many; empty where the statement cannot have made this shape.
    """
    if any(isinstance(each, Opaque) for each in alterations):
        return None
    candidates = _candidates(shape, alterations, flavor)
    if candidates is None:
        return None
    key = _key_before(shape, alterations)
    found: dict[tuple[ShapeColumn, ...], Shape] = {}
    names = [name.casefold() for name in shape.names]
    for columns in candidates:
        altered = _altered(columns, alterations)
        if altered is not None and [each.name.casefold() for each in altered] == names:
            found[columns] = Shape(columns, key)
    return list(found.values())


def _candidates(
    shape: Shape, alterations: Sequence[Alteration], flavor: Flavor
) -> Iterator[tuple[ShapeColumn, ...]] | None:
    """Return what may have been, some of which cannot; None where it is too much."""
    doubtful = [i for i, each in enumerate(alterations) if getattr(each, "optional", False)]
    if 1 << len(doubtful) > CANDIDATES_MAX:
        return None
    former = []
    for chosen in itertools.product((True, False), repeat=len(doubtful)):
        done = dict(zip(doubtful, chosen, strict=True))
        stay, move = _former_columns(
            shape, [each for i, each in enumerate(alterations) if done.get(i, True)], flavor
        )
        # A change that was not carried out did not find its column.
        lacked = {
            each.old.casefold()
            for i, each in enumerate(alterations)
            if isinstance(each, ChangeColumn) and not done.get(i, True)
        }
        if lacked.isdisjoint(column.name.casefold() for column in (*stay, *move)):
            former.append((stay, move))
    count = sum(math.perm(len(stay) + len(move), len(move)) for stay, move in former)
    if count > CANDIDATES_MAX:
        return None
    return itertools.chain.from_iterable(itertools.starmap(_interleaved, former))


def _former_columns(
    shape: Shape, alterations: Sequence[Alteration], flavor: Flavor
) -> tuple[tuple[ShapeColumn, ...], list[ShapeColumn]]:
    """Return the columns before, where every one of the alterations was carried out.

    Those that stay stand in their order, the others stood anywhere.
    """
    added = {each.name.casefold() for each in alterations if isinstance(each, AddColumn)}
    changed = {
        each.name.casefold(): each
        for each in alterations
        if isinstance(each, ChangeColumn | RenameColumn)
    }
    converted = any(isinstance(each, ConvertCharset) for each in alterations)
    keyed = {
        name.casefold()
        for each in alterations
        if isinstance(each, AddPrimaryKey)
        for name, _ in each.columns
    }
    stay: list[ShapeColumn] = []
    move: list[ShapeColumn] = []
    for column in _without_defaults(shape.columns, alterations):
        name = column.name.casefold()
        if name in added:
            continue
        former = _converted(column, None) if converted else column
        if name in keyed:  # it became NOT NULL
            former = former._replace(facts=replace(former.facts, nullable=None, default=None))
        change = changed.get(name)
        if isinstance(change, RenameColumn):
            former = former._replace(name=change.old)
        elif change is not None:
            former = ShapeColumn(change.old, perhaps_key=former.perhaps_key)
        moved = isinstance(change, ChangeColumn) and change.after is not None
        (move if moved else stay).append(former)
    # MariaDB drops no column that is part of a key of several.
    perhaps_key = flavor is Flavor.MYSQL
    move += [
        ShapeColumn(each.name, perhaps_key=perhaps_key)
        for each in alterations
        if isinstance(each, DropColumn)
    ]
    return tuple(stay), move


def _interleaved(
    stay: tuple[ShapeColumn, ...], move: Sequence[ShapeColumn]
) -> Iterator[tuple[ShapeColumn, ...]]:
    """Yield the columns that stay in their order, the others in every place."""
    if not move:
        yield stay
        return
    for columns in _interleaved(stay, move[1:]):
        for at in range(len(columns) + 1):
            yield (*columns[:at], move[0], *columns[at:])


def _key_before(shape: Shape, alterations: Sequence[Alteration]) -> Key | None:
    key = shape.key
    made = any(isinstance(each, AddPrimaryKey) for each in alterations)
    dropped = any(isinstance(each, DropPrimaryKey) for each in alterations)
    if key is None or dropped:
        return None
    lost = any(isinstance(each, DropColumn) for each in alterations)
    if made:
        # There was none before: did a unique one stand in for it?
        others = key.others or _touches_indexes(alterations) or lost
        return None if others else Key((), primary=False, others=False)
    columns = tuple((_former(name, alterations), prefix) for name, prefix in key.columns)
    if key.primary:
        return replace(key, columns=columns, others=True)
    unknown = _touches_indexes(alterations) or lost
    changes = any(isinstance(each, ChangeColumn) for each in alterations)
    if unknown or (changes and key.others):
        return None
    return replace(key, columns=columns)


def _former(name: str, alterations: Sequence[Alteration]) -> str:
    for each in alterations:
        if isinstance(each, ChangeColumn | RenameColumn) and same(each.name, name):
            return each.old
    return name
