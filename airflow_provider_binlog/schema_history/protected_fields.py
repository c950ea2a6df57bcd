"""A table with protected columns as its manifests show it: as if it had no excluded ones.

Where the options change, so does what is staged: a column that they exclude from now on is dropped,
one that they do not exclude any more is added, with values that are not known in the rows from
before. Where a hash becomes another one, rows are others, and no row event says so.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.protected_columns import ColumnRules
from airflow_provider_binlog.schema import (
    NULL,
    Action,
    AddField,
    AlterField,
    DropField,
    Field,
    RenameField,
    RewriteRows,
    Schema,
    SetKey,
    TableName,
    TableState,
    UnknownDefault,
)
from airflow_provider_binlog.schema_history.fields import sql_type
from airflow_provider_binlog.sql import definitions as sql
from airflow_provider_binlog.sql.columns import (
    INTEGERS,
    STRINGS,
    TEXTS,
    Facts,
    PartialSchema,
)
from airflow_provider_binlog.sql.ddl import Altered, Created, TableChange
from airflow_provider_binlog.sql.defaults import NULL_LITERAL, Literal, LiteralKind

_LEFT_OUT = "the column was excluded before"
_OTHER_HASH = "the options hashed the column otherwise before"


def follow_statement(
    rules: ColumnRules, before: TableState, after: TableState, actions: Sequence[Action]
) -> tuple[TableState, tuple[Action, ...]]:
    """Return a table as a statement leaves it, its protected fields as such, and the actions."""
    if after.schema is None or after.schema is before.schema:
        return after, tuple(actions)
    names: dict[int, list[str]] = {}
    for action in actions:
        if isinstance(action, RenameField):
            names.setdefault(action.field, []).append(action.old)
    known = () if before.schema is None else before.schema.fields
    fields = rules.follow(before.name, known, after.schema.fields, names)
    return show(before, replace(after, schema=replace(after.schema, fields=fields)), actions)


def show(
    before: TableState, after: TableState, actions: Sequence[Action]
) -> tuple[TableState, tuple[Action, ...]]:
    """Return a table whose fields are marked, and what manifests say of the change."""
    if after.schema is None:
        return after, tuple(actions)
    known = () if before.schema is None else before.schema.fields
    if not any(own.origin for own in (*known, *after.schema.fields)):
        return after, tuple(actions)
    old = {own.id: own for own in known}
    fields = tuple(
        _with_own_defaults(own, old[own.id]) if own.id in old else own
        for own in after.schema.fields
    )
    shown = tuple(_shown(after.id, old, {own.id: own for own in fields}, actions))
    return replace(after, schema=replace(after.schema, fields=fields)), shown


def check_key(table: TableName, schema: Schema) -> None:
    """Refuse a table whose key has an excluded column.

    Raises:
        ConfigurationError: Names the column.
    """
    for own in schema.fields:
        if own.excluded and own.id in schema.key:
            raise ConfigurationError(
                "a column of the key cannot be excluded, since it identifies rows: name it in "
                "hash_columns, not in exclude_columns",
                table=".".join(table),
                column=own.name,
            )


def _with_own_defaults(own: Field, known: Field) -> Field:
    """Return a field without defaults that are staged otherwise from here on."""
    if own.excluded:
        return replace(own, initial_default=None, write_default=None)
    if known.excluded:
        return replace(own, initial_default=UnknownDefault(_LEFT_OUT))
    if own.hashed == known.hashed:
        return own
    same_initial = own.initial_default == known.initial_default
    if same_initial and own.initial_default not in (None, NULL):
        own = replace(own, initial_default=UnknownDefault(_OTHER_HASH))
    if own.write_default == known.write_default != NULL:
        own = replace(own, write_default=None)
    return own


def _shown(
    table: str, old: dict[int, Field], new: dict[int, Field], actions: Sequence[Action]
) -> Iterator[Action]:
    for action in actions:
        if isinstance(action, SetKey):
            lost = any(_is_excluded(new, id_) for id_ in action.key)
            yield SetKey(table, ()) if lost else action
            continue
        id_ = getattr(action, "field", None)
        if id_ is None:
            yield action
        elif not (_is_excluded(old, id_) or _is_excluded(new, id_)):
            if isinstance(action, AlterField) and id_ in old and id_ in new:
                # Without the values of an ENUM.
                types = old[id_].mysql_type, new[id_].mysql_type
                yield replace(action, before=types[0], after=types[1])
            else:
                yield action
    for id_ in old.keys() & new.keys():
        before, after = old[id_], new[id_]
        if after.excluded and not before.excluded:
            yield DropField(table, id_, before.name)
        elif before.excluded and not after.excluded:
            yield AddField(table, id_, after.name)
        elif reason := _other_hashes(before, after):
            yield RewriteRows(table, reason, id_)


def _is_excluded(fields: dict[int, Field], id_: int) -> bool:
    return id_ in fields and fields[id_].excluded


def _other_hashes(before: Field, after: Field) -> str | None:
    """Return why values of a field that is not excluded are staged otherwise from here on."""
    if after.hashed == before.hashed:
        if after.hashed is None or _has_same_text(before, after):
            return None
        return f"changed column {after.name}, and with its type the text that is hashed"
    if after.hashed is None:
        return f"the options do not hash column {after.name} from here on"
    other = " with another secret" if before.hashed is not None else ""
    return f"the options hash column {after.name}{other} from here on"


def _has_same_text(before: Field, after: Field) -> bool:
    """Whether a change of type leaves the text of all values that it keeps."""
    old, new = sql_type(before), sql_type(after)
    if old is None or new is None:
        # Where a statement does not say the type, another action says so.
        return True
    kinds = (INTEGERS, {*STRINGS, *TEXTS})
    return old.name == new.name or any({old.name, new.name} <= {*kind} for kind in kinds)


# ------------------------------------------------------------------- stored statements

_HIDDEN = Literal(LiteralKind.EXPRESSION)


def without_values(change: TableChange, tables: Container[TableName]) -> TableChange:
    """Return what a statement did without the values in it, if it is about one of these tables."""
    if isinstance(change, Altered) and change.table in tables:
        return replace(change, alterations=tuple(map(_without_values, change.alterations)))
    if isinstance(change, Created) and change.table in tables and change.elements is not None:
        return replace(change, elements=tuple(map(_without_values, change.elements)))
    return change


def _without_values(alteration: sql.Alteration) -> sql.Alteration:
    if isinstance(alteration, sql.SetDefault):
        return replace(alteration, default=_hidden(alteration.default))
    if not isinstance(alteration, sql.AddColumn | sql.ChangeColumn):
        return alteration
    definition = alteration.definition
    of = definition.type
    definition = replace(
        definition,
        type=None if of is None else replace(of, values=None),
        default=_hidden(definition.default),
    )
    if isinstance(alteration, sql.ChangeColumn):
        return replace(alteration, definition=definition)
    initial = alteration.initial_default
    known = initial if initial == NULL else UnknownDefault("the plan of a backlog has no values")
    return replace(alteration, definition=definition, initial_default=known)


def _hidden(default: Literal | None) -> Literal | None:
    return default if default in (None, NULL_LITERAL) else _HIDDEN


def schema_without_values(schema: PartialSchema, protected: Mapping[str, bool]) -> PartialSchema:
    """Return a schema without the values of protected columns.

    Args:
        schema: The schema.
        protected: By folded names, whether each of them is excluded.
    """
    columns = tuple(
        replace(column, facts=_without(column.facts, excluded=protected[fold_name(column.name)]))
        if fold_name(column.name) in protected
        else column
        for column in schema.columns
    )
    return replace(schema, columns=columns)


def _without(facts: Facts, *, excluded: bool) -> Facts:
    # It takes no values to skip an ENUM.
    values = () if excluded and facts.values is not None else None
    return replace(facts, default=NULL if facts.default == NULL else None, values=values)
