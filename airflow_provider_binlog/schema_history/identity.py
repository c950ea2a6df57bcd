"""Turn statements and TABLE_MAPs into typed actions on one table's schema, with field ids.

A statement names columns, and is followed in the schema that the table has by then. Rows confirm
the schema: their TABLE_MAP names every column with its type. Where the two differ, a statement was
not logged, or not understood, and actions say so as well.

Source: as partial_schemas.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import (
    Action,
    AddField,
    AlterField,
    DropField,
    Field,
    RenameField,
    RewriteRows,
    Schema,
    SetKey,
    TableState,
    UnknownDefault,
)
from airflow_provider_binlog.schema_history.fields import (
    actions_of,
    changes_form,
    comment_after,
    fields_after,
    key_after,
    sql_type,
)
from airflow_provider_binlog.schema_history.partial_schemas import (
    alter,
    partial_from_schema,
)
from airflow_provider_binlog.sql import definitions as sql
from airflow_provider_binlog.sql.columns import NO_COLUMNS
from airflow_provider_binlog.sql.lexer import Session
from airflow_provider_binlog.sql.type_changes import rewrites

_NOTHING = Schema(0, (), ())
_NOT_FOUND = "does not fit the table: an earlier one is not in the log, or was not understood"


# ------------------------------------------------------------------- rows


def confirm(
    state: TableState, fields: Sequence[Field], key: tuple[int, ...], flavor: Flavor
) -> tuple[TableState, Schema, tuple[Action, ...]]:
    """Return the table as its rows show it, with its schema, and what no statement has said of it.

    `fields` are by the TABLE_MAP, their ids counting from 1 in the table's order; `key` has those
    of the primary key, in key order.
    """
    before, shown = state.schema, (tuple(fields), key)
    is_new = before is None and state.logged is None and not state.last_field_id
    if is_new or (before is not None and (before.fields, before.key) == shown):
        # Most tables are so. Those of the same columns share the fields of their TABLE_MAPs.
        schema = Schema(1, *shown) if before is None else replace(before, fields=shown[0])
        last = max(state.last_field_id, len(fields))
        return replace(state, schema=schema, last_field_id=last, logged=schema.id), schema, ()
    matched = _Matched(state, fields)
    key = tuple(matched.fields[index - 1].id for index in key)
    if before is not None and (before.fields, before.key) == (matched.fields, key):
        confirmed = state if state.is_confirmed else replace(state, logged=before.id)
        return confirmed, before, ()
    actions = list(matched.actions(flavor))
    if matched.seen and before is not None and before.key != key:
        actions.append(SetKey(state.id, key))
    comment = None if before is None else before.comment
    schema = Schema(_next_id(state), matched.fields, key, comment=comment)
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
        self._table = state
        self._old = {} if state.schema is None else {f.id: f for f in state.schema.fields}
        by_name = {fold_name(field.name): field for field in self._old.values()}
        self.fields = tuple(self._match(f, by_name.get(fold_name(f.name))) for f in fields)

    def _match(self, logged: Field, known: Field | None) -> Field:
        if known is not None:
            return replace(
                logged,
                id=known.id,
                initial_default=known.initial_default,
                write_default=logged.write_default or known.write_default,
                generated=logged.generated or known.generated,
                auto_increment=logged.auto_increment or known.auto_increment,
                primary=logged.primary or known.primary,
                comment=known.comment if logged.comment is None else logged.comment,
            )
        self.last_field_id += 1
        unknown = UnknownDefault("no statement in the log adds the column") if self.seen else None
        if unknown is None and logged.id == self.last_field_id:
            return logged
        return replace(logged, id=self.last_field_id, initial_default=unknown)

    def actions(self, flavor: Flavor) -> Iterator[Action]:
        table, kept = self._table.id, {field.id for field in self.fields}
        if self.seen:
            for known in self._old.values():
                if known.id not in kept:
                    yield DropField(table, known.id, known.name)
        # A table that was created without rows had no values by then.
        if self.seen or self._table.created is None:
            for field in self.fields:
                if field.id in self._old:
                    yield from _confirmed(table, self._old[field.id], field, flavor)
        if self.seen:
            for field in self.fields:
                if field.id not in self._old:
                    yield AddField(table, field.id, field.name)


def _confirmed(table: str, known: Field, field: Field, flavor: Flavor) -> Iterator[Action]:
    """Yield what rows say of a field: nothing if they show what is expected."""
    if known.name != field.name:
        yield RenameField(table, field.id, known.name, field.name)
    if known.charset_assumed and known.charset is None:
        known = replace(known, charset=field.charset)
    after = field.mysql_type
    if known.mysql_type is None or (known.mysql_type, known.charset) == (after, field.charset):
        return
    if known.arrow_type is not None:
        yield AlterField(table, field.id, field.name, known.mysql_type, after)
    old, new = sql_type(known), sql_type(field)
    reason = rewrites(old, new, Session(flavor))
    if new is not None:
        reason = reason or changes_form(known.arrow_type or field.arrow_type, old, new)
    if reason is not None:
        yield RewriteRows(table, f"changed column {field.name} to {after}: {reason}", field.id)


# ------------------------------------------------------------------- statements


def create(state: TableState, elements: Sequence[sql.Alteration], session: Session) -> TableState:
    """Return a new table with the columns that its statement lists, where they are understood."""
    after = alter(NO_COLUMNS, elements)
    if after is None:
        return state
    fields = fields_after(after, (), elements, session, last_field_id=state.last_field_id)
    fields = tuple(replace(field, initial_default=None) for field in fields)
    key, comment = key_after(fields, (), elements), comment_after(None, elements)
    schema = Schema(_next_id(state), fields, key, comment=comment)
    return replace(state, schema=schema, last_field_id=state.last_field_id + len(fields))


def create_like(state: TableState, other: Schema | None) -> TableState:
    """Return a new table with the columns of another one, where they are known."""
    if other is None:
        return state
    ids = {field.id: number for number, field in enumerate(other.fields, start=1)}
    fields = tuple(
        replace(field, id=ids[field.id], arrow_type=None, initial_default=None)
        for field in other.fields
    )
    key = tuple(ids[field_id] for field_id in other.key)
    schema = Schema(1, fields, key, comment=other.comment)
    return replace(state, schema=schema, last_field_id=len(fields))


def follow(
    state: TableState, alterations: Sequence[sql.Alteration], session: Session
) -> tuple[TableState, tuple[Action, ...]]:
    """Return the table as ALTER TABLE leaves it, and what the statement does to it."""
    rewritten = sql.of_kind(sql.RewriteRows, alterations)
    opaque = sql.of_kind(sql.Opaque, alterations)
    if opaque:
        return _rewritten(state, f"is not understood: {opaque[0].text}")
    if state.schema is None and not state.is_partial and not rewritten:
        return state, ()  # It was created without rows: the first one shows its columns.
    named = _with_named(state, alterations)
    before = named.schema or _NOTHING
    after = alter(partial_from_schema(before), alterations)
    if after is None:
        return _rewritten(state, _NOT_FOUND)
    fields = fields_after(
        after, before.fields, alterations, session, last_field_id=named.last_field_id
    )
    key = key_after(fields, before.key, alterations)
    actions = tuple(actions_of(named, fields, alterations, session))
    if key != before.key:
        actions = (*actions, SetKey(state.id, key))
    if rewritten:
        actions = (*actions, RewriteRows(state.id, rewritten[0].reason))
        named = replace(named, created=None)
    comment = comment_after(before.comment, alterations)
    is_same = (_uncommented(fields), key) == (_uncommented(before.fields), before.key)
    # Of a key that is not the primary one, rows have to show what it is now.
    if is_same and (after.key is not None or state.schema is None):
        return _with_comments(named if actions else state, fields, comment), actions
    last = max([named.last_field_id, *(field.id for field in fields)])
    schema = Schema(_next_id(state), fields, key, comment=comment)
    return replace(named, schema=schema, last_field_id=last), actions


def _uncommented(fields: Sequence[Field]) -> list[Field]:
    return [replace(field, comment=None) for field in fields]


def _with_comments(state: TableState, fields: tuple[Field, ...], comment: str | None) -> TableState:
    """Return a table of the same columns with other comments: what rows have shown still holds."""
    before = state.schema
    if before is None or (before.fields, before.comment) == (fields, comment):
        return state
    schema = replace(before, id=_next_id(state), fields=fields, comment=comment)
    return replace(state, schema=schema, logged=schema.id if state.is_confirmed else state.logged)


def _rewritten(state: TableState, reason: str) -> tuple[TableState, tuple[Action, ...]]:
    """Return a table whose rows, and perhaps columns, may be others now."""
    schema = state.schema
    if schema is not None:
        fields = tuple(replace(field, write_default=None) for field in schema.fields)
        schema = replace(schema, id=_next_id(state), fields=fields)
    return replace(state, schema=schema, created=None), (RewriteRows(state.id, reason),)


def _next_id(state: TableState) -> int:
    return 1 if state.schema is None else state.schema.id + 1


def _with_named(state: TableState, alterations: Sequence[sql.Alteration]) -> TableState:
    """Return the table with the columns that a statement names, as long as nothing shows them all.

    Its statements say which columns there are: nothing else has yet.
    """
    if not state.is_partial:
        return state
    schema = state.schema or _NOTHING
    there = {fold_name(field.name) for field in schema.fields}
    made = {fold_name(change.name) for change in alterations if isinstance(change, _MAKES)}
    missing: dict[str, str] = {}
    for name, is_old in _named(alterations):
        folded = fold_name(name)
        if folded not in there and (is_old or folded not in made):
            missing.setdefault(folded, name)
    if not missing:
        return state
    numbers = range(state.last_field_id + 1, state.last_field_id + 1 + len(missing))
    added = (
        Field(number, name, None, None, nullable=True)
        for number, name in zip(numbers, missing.values(), strict=True)
    )
    named = replace(schema, id=_next_id(state), fields=(*schema.fields, *added))
    return replace(state, schema=named, last_field_id=numbers[-1])


_MAKES = (sql.AddColumn, sql.ChangeColumn, sql.RenameColumn)


def _named(alterations: Sequence[sql.Alteration]) -> Iterator[tuple[str, bool]]:
    """Yield the columns that a statement names, each with whether it was there before."""
    for change in alterations:
        if isinstance(change, sql.DropColumn):
            yield change.name, True
        elif isinstance(change, sql.ChangeColumn | sql.RenameColumn):
            yield change.old, True
        elif isinstance(change, sql.AddPrimaryKey):
            yield from ((name, False) for name, _ in change.columns)
        if isinstance(change, sql.AddColumn | sql.ChangeColumn) and change.after:
            yield change.after, False
