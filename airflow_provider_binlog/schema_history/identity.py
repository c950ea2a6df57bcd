"""What statements and rows do to one table's schema: typed actions, with field ids.

A statement names columns, and is followed in the schema that the table has by then. Rows confirm
the schema: their TABLE_MAP names every column with its type. Where the two differ, a statement was
not logged, or not understood, and actions say so as well.

Source: as shapes.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.schema import (
    AddField,
    AlterField,
    DropField,
    Field,
    RenameField,
    RewriteRows,
    Schema,
    SetKey,
    UnknownDefault,
)
from airflow_provider_binlog.schema_history.alterations import (
    AddColumn,
    AddPrimaryKey,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropPrimaryKey,
    RenameColumn,
)
from airflow_provider_binlog.schema_history.completion import shape_of_schema
from airflow_provider_binlog.schema_history.shapes import NO_SHAPE, alter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_provider_binlog.schema import Action, TableState
    from airflow_provider_binlog.schema_history.alterations import Alteration
    from airflow_provider_binlog.schema_history.facts import Facts
    from airflow_provider_binlog.schema_history.shapes import Shape

NOT_UNDERSTOOD = "is not understood"
_NOTHING = Schema(0, (), ())


# ------------------------------------------------------------------- rows


def confirm(
    state: TableState, fields: Sequence[Field], key: tuple[int, ...]
) -> tuple[TableState, Schema, tuple[Action, ...]]:
    """Return the table as its rows show it, with its schema, and what no statement has said of it.

    Args:
        state: As statements and earlier rows left it.
        fields: Its columns by the TABLE_MAP, their ids counting from 1 in the table's order.
        key: Ids of those of the primary key, in key order.
    """
    matched = _Matched(state, fields)
    key = tuple(matched.fields[index - 1].id for index in key)
    before = state.schema
    if before is not None and (before.fields, before.key) == (matched.fields, key):
        confirmed = state if state.is_confirmed else replace(state, logged=before.id)
        return confirmed, before, ()
    actions = list(matched.actions())
    if matched.seen and before is not None and before.key != key:
        actions.append(SetKey(state.id, key))
    schema = Schema(_next_id(state), matched.fields, key)
    now = replace(state, schema=schema, last_field_id=matched.last_field_id, logged=schema.id)
    return now, schema, tuple(actions)


class _Matched:
    """The columns of a TABLE_MAP, matched by name to a table's fields.

    Attributes:
        fields: The columns with the ids that they have in the table.
        last_field_id: The highest id, with those of new fields.
        seen: Whether rows were logged before: only then do differences mean something.
    """

    def __init__(self, state: TableState, fields: Sequence[Field]) -> None:
        self.seen = state.logged is not None
        self.last_field_id = state.last_field_id
        self._table = state.id
        self._old = () if state.schema is None else state.schema.fields
        by_name = {field.name.casefold(): field for field in self._old}
        self._known: list[tuple[Field, Field]] = []
        self._new: list[Field] = []
        self.fields = tuple(self._match(each, by_name.get(each.name.casefold())) for each in fields)

    def _match(self, logged: Field, known: Field | None) -> Field:
        if known is not None:
            field = replace(logged, id=known.id, initial_default=known.initial_default)
            self._known.append((known, field))
            return field
        self.last_field_id += 1
        unknown = UnknownDefault("no statement in the log adds the column") if self.seen else None
        field = replace(logged, id=self.last_field_id, initial_default=unknown)
        self._new.append(field)
        return field

    def actions(self) -> Iterator[Action]:
        if not self.seen:
            return
        kept = {field.id for _, field in self._known}
        for field in self._old:
            if field.id not in kept:
                yield DropField(self._table, field.id, field.name)
        for known, field in self._known:
            if known.name != field.name:
                yield RenameField(self._table, field.id, known.name, field.name)
            yield from _confirmed(self._table, known, field)
        for field in self._new:
            yield AddField(self._table, field.id, field.name)


def _confirmed(table: str, known: Field, field: Field) -> Iterator[Action]:
    """Yield what the type that rows show says of a field: nothing if it is the one expected."""
    if known.mysql_type is None or _type(known) == _type(field):
        return
    if known.arrow_type is not None:
        yield AlterField(table, field.id, field.name, known.mysql_type, field.mysql_type)
    if rewrites(known, field):
        yield RewriteRows(table, "changed values, or another one that is not in the log", field.id)


def _type(field: Field) -> tuple[str | None, str | None]:
    return field.mysql_type, field.charset


def rewrites(before: Field, after: Field) -> bool:
    """Whether a change of type may have changed values."""
    return _type(before) != _type(after)


# ------------------------------------------------------------------- statements


def create(state: TableState, elements: Sequence[Alteration]) -> TableState:
    """Return a new table with the columns that its statement lists."""
    shape = alter(NO_SHAPE, elements)
    if shape is None:
        return state
    fields = _fields(shape, (), elements, state.last_field_id)
    fields = tuple(replace(field, initial_default=None) for field in fields)
    schema = Schema(_next_id(state), fields, _key(fields, (), elements))
    return replace(state, schema=schema, last_field_id=state.last_field_id + len(fields))


def create_like(state: TableState, other: Schema | None) -> TableState:
    """Return a new table with the columns of another one; None where they are not known."""
    if other is None:
        return state
    ids = {field.id: number for number, field in enumerate(other.fields, start=1)}
    fields = tuple(
        replace(field, id=ids[field.id], arrow_type=None, initial_default=None)
        for field in other.fields
    )
    schema = Schema(1, fields, tuple(ids[each] for each in other.key))
    return replace(state, schema=schema, last_field_id=len(fields))


def follow(
    state: TableState, alterations: Sequence[Alteration]
) -> tuple[TableState, tuple[Action, ...]]:
    """Return the table as ALTER TABLE leaves it, and what the statement does to it."""
    state = _with_named(state, alterations)
    before = state.schema or _NOTHING
    shape = alter(shape_of_schema(before), alterations)
    if shape is None:
        return _rewritten(state, NOT_UNDERSTOOD)
    fields = _fields(shape, before.fields, alterations, state.last_field_id)
    key = _key(fields, before.key, alterations)
    actions = tuple(_actions(state, fields, alterations))
    if key != before.key:
        actions = (*actions, SetKey(state.id, key))
    is_same = (fields, key) == (before.fields, before.key)
    if is_same and not actions and (shape.key is not None or state.schema is None):
        return state, ()
    schema = Schema(_next_id(state), fields, key)
    last = max([state.last_field_id, *(field.id for field in fields)])
    return replace(state, schema=schema, last_field_id=last), actions


def _rewritten(state: TableState, reason: str) -> tuple[TableState, tuple[Action, ...]]:
    """Return a table whose rows, and perhaps columns, may be others now."""
    schema = None if state.schema is None else replace(state.schema, id=_next_id(state))
    rewrite = RewriteRows(state.id, reason)
    return replace(state, schema=schema, created=None), (rewrite,)


def _next_id(state: TableState) -> int:
    return 1 if state.schema is None else state.schema.id + 1


def _with_named(state: TableState, alterations: Sequence[Alteration]) -> TableState:
    """Return the table with the columns that a statement names, as long as no row shows them all.

    Its statements say which columns there are: nobody else has.
    """
    if state.logged is not None:
        return state
    schema = state.schema or _NOTHING
    known = {field.name.casefold() for field in schema.fields}
    known |= {each.name.casefold() for each in alterations if isinstance(each, _MAKES)}
    missing: dict[str, str] = {}
    for name in _named(alterations):
        if name.casefold() not in known:
            missing.setdefault(name.casefold(), name)
    if not missing:
        return state
    numbers = range(state.last_field_id + 1, state.last_field_id + 1 + len(missing))
    added = (
        Field(number, name, None, None, nullable=True)
        for number, name in zip(numbers, missing.values(), strict=True)
    )
    named = Schema(_next_id(state), (*schema.fields, *added), schema.key)
    return replace(state, schema=named, last_field_id=numbers[-1])


_MAKES = (AddColumn, ChangeColumn, RenameColumn)


def _named(alterations: Sequence[Alteration]) -> Iterator[str]:
    """Yield the columns that must be there already, unless the statement itself makes them."""
    for each in alterations:
        if isinstance(each, DropColumn):
            yield each.name
        elif isinstance(each, ChangeColumn | RenameColumn):
            yield each.old
        elif isinstance(each, AddPrimaryKey):
            yield from (name for name, _ in each.columns)
        if isinstance(each, AddColumn | ChangeColumn) and each.after:
            yield each.after


def _fields(
    shape: Shape,
    before: Iterable[Field],
    alterations: Sequence[Alteration],
    last_field_id: int,
) -> tuple[Field, ...]:
    """Return the fields of a table behind a statement; new ones count from the last id on."""
    old = {field.id: field for field in before}
    changes = {each.old.casefold(): each for each in alterations if isinstance(each, ChangeColumn)}
    added = {each.name.casefold(): each for each in alterations if isinstance(each, AddColumn)}
    converts = [each for each in alterations if isinstance(each, ConvertCharset)]
    fields = []
    for column in shape.columns:
        known = old.get(column.field)
        if known is None:
            last_field_id += 1
            field = _added(last_field_id, added[column.name.casefold()])
        else:
            field = replace(known, name=column.name, write_default=column.facts.default)
            change = changes.get(known.name.casefold())
            if change is not None:
                field = _changed(field, change)
        for each in converts:
            field = _converted(field, each)
        fields.append(field)
    return tuple(fields)


def _added(number: int, column: AddColumn) -> Field:
    mysql_type, charset = _written(column.facts)
    return Field(
        id=number,
        name=column.name,
        mysql_type=mysql_type,
        arrow_type=None,
        nullable=column.facts.nullable is not False,
        charset=charset,
        initial_default=UnknownDefault("what the column was added with is not understood"),
        write_default=column.facts.default,
    )


def _changed(field: Field, change: ChangeColumn) -> Field:
    facts = change.facts
    mysql_type, charset = _written(facts)
    known = mysql_type is not None and mysql_type == field.mysql_type
    if known and field.charset is None and charset is None:
        return replace(field, write_default=facts.default)
    return replace(
        field,
        mysql_type=mysql_type,
        arrow_type=None,
        # Where the definition names none, it is most often the one from before: rows will show it.
        charset=charset or field.charset,
        write_default=facts.default,
    )


def _converted(field: Field, convert: ConvertCharset) -> Field:
    if field.charset is None and field.mysql_type is not None:
        return field
    charset = convert.charset or field.charset
    return replace(field, mysql_type=None, arrow_type=None, charset=charset)


def _written(facts: Facts) -> tuple[str | None, str | None]:
    """Return a type and a character set as a definition has them; None where they are not clear."""
    return None, None if facts.charset == "binary" else facts.charset


def _key(
    fields: Sequence[Field], before: Sequence[int], alterations: Sequence[Alteration]
) -> tuple[int, ...]:
    """Return the primary key behind a statement: of a unique key beside it rows will tell."""
    ids = {field.name.casefold(): field.id for field in fields}
    added = [each for each in alterations if isinstance(each, AddPrimaryKey)]
    if added:
        return tuple(ids[name.casefold()] for name, _ in added[0].columns if name.casefold() in ids)
    if any(isinstance(each, DropPrimaryKey) for each in alterations):
        return ()
    kept = set(ids.values())
    return tuple(each for each in before if each in kept)


def _actions(
    state: TableState, fields: Sequence[Field], alterations: Sequence[Alteration]
) -> Iterator[Action]:
    before = () if state.schema is None else state.schema.fields
    now = {field.id: field for field in fields}
    moved = {
        each.old.casefold()
        for each in alterations
        if isinstance(each, ChangeColumn) and each.after is not None
    }
    for field in before:
        if field.id not in now:
            yield DropField(state.id, field.id, field.name)
    for field in before:
        after = now.get(field.id)
        if after is None:
            continue
        if after.name != field.name:
            yield RenameField(state.id, field.id, field.name, after.name)
        if after.arrow_type != field.arrow_type or _type(after) != _type(field):
            yield from _retyped(state, field, after)
        elif field.name.casefold() in moved:
            yield AlterField(state.id, field.id, after.name, field.mysql_type, after.mysql_type)
    old = {field.id for field in before}
    for field in fields:
        if field.id not in old:
            yield AddField(state.id, field.id, field.name)


def _retyped(state: TableState, before: Field, after: Field) -> Iterator[Action]:
    yield AlterField(state.id, after.id, after.name, before.mysql_type, after.mysql_type)
    # A table that was created without rows, and got none since, has no values to change.
    is_empty = state.created is not None and state.logged is None
    if not is_empty and rewrites(before, after):
        yield RewriteRows(
            state.id, "changed the type of a column in a way that changes values", after.id
        )
