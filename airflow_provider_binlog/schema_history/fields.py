"""The fields of a table after a statement, and the actions that lead there.

Source: as partial_schemas.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import (
    AddField,
    AlterField,
    Default,
    DropField,
    Field,
    RenameField,
    RewriteRows,
    UnknownDefault,
)
from airflow_provider_binlog.sql.columns import (
    ENUMS,
    FLOATS,
    INTEGERS,
    TEMPORALS,
    SqlType,
    parse_type,
)
from airflow_provider_binlog.sql.defaults import read_default
from airflow_provider_binlog.sql.definitions import (
    AddColumn,
    AddPrimaryKey,
    ChangeColumn,
    ConvertCharset,
    DropPrimaryKey,
    SetDefault,
    new_key,
    write_default,
)
from airflow_provider_binlog.sql.type_changes import rewrites_charset, rewrites_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_provider_binlog.schema import Action, TableState
    from airflow_provider_binlog.sql.columns import PartialSchema
    from airflow_provider_binlog.sql.definitions import Alteration, Definition
    from airflow_provider_binlog.sql.lexer import Session

# With rows between two statements it would be known, and each be compared with the one before it.
_CHARSET_BEFORE = "its character set before is not known, and no row was logged since it changed"


def fields_after(
    after: PartialSchema,
    before: Iterable[Field],
    alterations: Sequence[Alteration],
    session: Session,
    *,
    last_field_id: int,
) -> tuple[Field, ...]:
    """Return the fields of a table after a statement.

    Args:
        after: Of the table after the statement, with the field ids from before.
        before: Its fields before.
        alterations: What the statement does.
        session: That ran it.
        last_field_id: The ids of new fields follow this one.
    """
    old = {field.id: field for field in before}
    added = {fold_name(each.name): each for each in alterations if isinstance(each, AddColumn)}
    keyed = new_key(alterations)
    fields = []
    for column in after.columns:
        known = old.get(column.field)
        if known is None:
            last_field_id += 1
            field = _added(last_field_id, added[fold_name(column.name)], alterations, session)
        else:
            field = _altered(known, column.name, alterations, session)
        if fold_name(column.name) in keyed:
            field = replace(field, nullable=False)
        fields.append(field)
    return tuple(fields)


def _added(
    number: int, column: AddColumn, alterations: Sequence[Alteration], session: Session
) -> Field:
    of, initial = _written(column.definition, session), column.initial_default
    # CONVERT in the same statement is about the new column, too.
    converted = any(isinstance(each, ConvertCharset) for each in alterations)
    charset = None if of is None or converted else of.charset
    name = fold_name(column.name)
    write = None if column.definition.is_computed else _known(initial)
    for each in alterations:
        # MariaDB lets it follow in the same statement; only what exists before satisfies IF EXISTS.
        if isinstance(each, SetDefault) and not each.optional and fold_name(each.name) == name:
            initial = _read_set_default(of, each, session)
            write = _known(initial)
    return Field(
        id=number,
        name=column.name,
        mysql_type=None if of is None else str(of),
        arrow_type=None,
        nullable=_is_nullable(column.definition),
        charset=charset,
        initial_default=initial,
        write_default=write,
        charset_assumed=of is not None and _has_charset(of) and charset is None,
        generated=column.definition.generated,
        auto_increment=column.definition.auto_increment,
    )


def _is_nullable(definition: Definition) -> bool:
    return definition.nullable is not False and not definition.auto_increment


def _written(definition: Definition, session: Session) -> SqlType | None:
    """Return the type that a definition writes, as the log shows it."""
    of = definition.type
    if of is not None and of.name in ENUMS:
        # Where its values are not plain strings, rows will show them.
        return None if of.values is None else _without_binary(of)
    if of is not None and of.name == "json" and session.flavor is Flavor.MARIADB:
        return SqlType("longtext", charset="utf8mb4")
    if of is not None and of.name in FLOATS:
        return replace(of, length=None, scale=None)  # no TABLE_MAP has the digits of FLOAT(7,3)
    return of


def _without_binary(of: SqlType) -> SqlType:
    return replace(of, charset=None) if of.charset == "binary" else of


def _altered(field: Field, name: str, alterations: Sequence[Alteration], session: Session) -> Field:
    """Return a field that was there before, under the name that it has after the statement."""
    names = {fold_name(field.name), fold_name(name)}
    for each in alterations:
        if isinstance(each, ChangeColumn) and fold_name(each.old) == fold_name(field.name):
            field = _changed(field, each, session)
        elif isinstance(each, ConvertCharset):
            field = _converted(field, each.charset)
        elif isinstance(each, SetDefault) and fold_name(each.name) in names:
            # Of two columns that exchange their names, it may be either.
            default = _read_set_default(sql_type(field), each, session)
            field = replace(field, write_default=_known(default) if len(names) == 1 else None)
        elif isinstance(each, DropPrimaryKey):
            field = replace(field, primary=False)
    return replace(field, name=name)


def _changed(field: Field, change: ChangeColumn, session: Session) -> Field:
    definition, of = change.definition, _written(change.definition, session)
    changed = replace(
        field,
        mysql_type=None if of is None else str(of),
        nullable=_is_nullable(definition),
        charset=None if of is None else of.charset,
        write_default=write_default(definition, session),
        charset_assumed=False,
        generated=definition.generated,
        auto_increment=definition.auto_increment,
    )
    if of is not None and _has_charset(of) and of.charset is None:
        # It is the table's default, most often the one from before: rows will show it.
        changed = replace(changed, charset=field.charset, charset_assumed=True)
    same = of is not None and _typed(changed) == _typed(field) and not changed.charset_assumed
    return changed if same else replace(changed, arrow_type=None)


def _converted(field: Field, charset: str | None) -> Field:
    of = sql_type(field)
    if of is not None and not _has_charset(of):
        return field
    # TEXT becomes MEDIUMTEXT where its characters take more bytes.
    return replace(
        field,
        arrow_type=None,
        charset=charset or field.charset,
        charset_assumed=charset is None,
    )


def _read_set_default(
    of: SqlType | None, change: SetDefault, session: Session
) -> Default | UnknownDefault:
    if change.default is None or of is None:
        return UnknownDefault("ALTER COLUMN changed its default in the same statement")
    return read_default(of, change.default, session)


def _known(default: Default | UnknownDefault) -> Default | None:
    return default if isinstance(default, Default) else None


def _has_charset(of: SqlType) -> bool:
    return of.is_text or of.name in ENUMS


def sql_type(field: Field) -> SqlType | None:
    """Return a field's type; None where it is not known."""
    return parse_type(field.mysql_type or "", charset=field.charset)


def _typed(field: Field) -> tuple[str | None, str | None, bool]:
    return field.mysql_type, field.charset, field.charset_assumed


def key_after(
    fields: Sequence[Field], before: Sequence[int], alterations: Sequence[Alteration]
) -> tuple[int, ...]:
    """Return the primary key after a statement: of a unique key in its place rows will say."""
    ids = {fold_name(field.name): field.id for field in fields}
    added = [each for each in alterations if isinstance(each, AddPrimaryKey)]
    if added:
        return tuple(ids[fold_name(name)] for name, _ in added[0].columns if fold_name(name) in ids)
    if any(isinstance(each, DropPrimaryKey) for each in alterations):
        return ()
    kept = set(ids.values())
    return tuple(each for each in before if each in kept)


# ------------------------------------------------------------------- actions


def actions_of(
    state: TableState, fields: Sequence[Field], alterations: Sequence[Alteration], session: Session
) -> Iterator[Action]:
    """Yield what a statement does to a table's fields.

    Args:
        state: The table before the statement.
        fields: Its fields after it.
        alterations: What the statement says.
        session: That ran it.
    """
    before = () if state.schema is None else state.schema.fields
    now = {field.id: field for field in fields}
    changes = {fold_name(each.old): each for each in alterations if isinstance(each, ChangeColumn)}
    for field in before:
        if field.id not in now:
            yield DropField(state.id, field.id, field.name)
    for field in before:
        after = now.get(field.id)
        if after is not None:
            yield from _actions_of_field(state, field, after, changes.get(fold_name(field.name)))
    old = {field.id for field in before}
    added = (each for each in alterations if isinstance(each, AddColumn) and state.is_partial)
    optional = {fold_name(each.name) for each in added if each.optional}
    for field in fields:
        if field.id not in old:
            is_optional = fold_name(field.name) in optional
            yield AddField(state.id, field.id, field.name, is_optional)
    # A table that was created without rows, and got none since, has no values to change.
    if state.created is None or state.logged is not None:
        yield from _rewrites(state, fields, alterations, session)


def _actions_of_field(
    state: TableState, before: Field, after: Field, change: ChangeColumn | None
) -> Iterator[Action]:
    if after.name != before.name:
        yield RenameField(state.id, before.id, before.name, after.name)
    moved = change is not None and change.after is not None
    retyped = _typed(after) != _typed(before) or after.nullable != before.nullable
    if retyped or moved:
        yield AlterField(state.id, after.id, after.name, before.mysql_type, after.mysql_type)


def _rewrites(
    state: TableState, fields: Sequence[Field], alterations: Sequence[Alteration], session: Session
) -> Iterator[Action]:
    """Yield which fields may have other values after a statement."""
    now = {field.id: field for field in fields}
    kept = [each for each in (state.schema.fields if state.schema else ()) if each.id in now]
    other_base = any(not each.generated and _is_converted(each, now[each.id]) for each in kept)
    for field in kept:
        reason = _reason(field, alterations, session)
        if reason is None and field.generated and other_base:
            reason = "it is computed from other columns, of which one has another type"
        if reason is not None:
            yield RewriteRows(state.id, f"changed column {field.name}: {reason}", field.id)
    if state.is_partial and any(isinstance(each, ConvertCharset) for each in alterations):
        yield RewriteRows(state.id, "converted the text of columns that no row has shown yet")


def _is_converted(before: Field, after: Field) -> bool:
    """Whether an expression over a column may have another value, though the column's is kept.

    It has not if only the length differs, or the size of an integer: LENGTH() of text depends on
    its character set, CONCAT() of a time on the digits of its fraction.
    """
    if _typed(before) == _typed(after):
        return False
    old, new = sql_type(before), sql_type(after)
    if old is None or new is None:
        return True
    if old.name in INTEGERS and new.name in INTEGERS:
        return old.unsigned != new.unsigned
    return replace(old, length=None) != replace(new, length=None)


def _reason(field: Field, alterations: Sequence[Alteration], session: Session) -> str | None:
    of, name = sql_type(field), fold_name(field.name)
    nullable = None if field.mysql_type is None else field.nullable and not field.auto_increment
    for each in alterations:
        reason = None
        if isinstance(each, ChangeColumn) and fold_name(each.old) == name:
            definition = each.definition
            reason = rewrites_column(
                of,
                definition,
                session,
                nullable=nullable,
                auto_increment=field.auto_increment,
            )
            if definition.type is not None:
                reason = reason or changes_form(field.arrow_type, of, definition.type)
            named = definition.type is not None and definition.type.charset is not None
            if field.charset_assumed and named:
                reason = reason or _CHARSET_BEFORE
        elif isinstance(each, ConvertCharset):
            reason = rewrites_charset(of, each.charset)
            if of is not None:
                converted = replace(of, charset=each.charset)
                reason = reason or changes_form(field.arrow_type, of, converted)
            if field.charset_assumed and of is not None and _has_charset(of):
                reason = reason or _CHARSET_BEFORE
        elif isinstance(each, AddPrimaryKey) and nullable is not False and not session.is_strict:
            reason = "NULL became another value" if name in new_key((each,)) else None
        if reason is not None:
            return reason
    return None


# ------------------------------------------------------------------- staged values

_TEXT, _BYTES = "string", "binary"
_SHOWN = "its values are staged as text, which shows more digits or fewer"

# Character sets whose bytes mean the same in the second one.
_SAME_BYTES = frozenset(
    {("ascii", "utf8mb3"), ("ascii", "utf8mb4"), ("ascii", "latin1"), ("utf8mb3", "utf8mb4")}
)


def changes_form(arrow_type: str | None, before: SqlType | None, after: SqlType) -> str | None:
    """Return why the staged values of a column are others under another type; None if they are not.

    Some values are staged as the text that SELECT returns, or as the bytes of their character set:
    a DECIMAL of more than 38 digits, dates and times under `zero_dates="text"`, text under
    `invalid_text="binary"`. Such a text says more than the value: `1.00` becomes `1.000`.

    Args:
        arrow_type: The staged type, as Arrow prints it; None where it is not known.
        before: The column's type; None where it is not known.
        after: The type after, with its character set; None stands for the same one.
    """
    if before is None:
        return None
    if before.name == after.name == "decimal" and before.scale != after.scale:
        digits = min(before.length or 0, after.length or 0)
        return _SHOWN if digits > DECIMAL_DIGITS_MAX else None
    if before.name == after.name and before.name in TEMPORALS and before.fsp != after.fsp:
        return _SHOWN if arrow_type == _TEXT else None
    is_text = before.is_text or before.name in ENUMS
    if arrow_type == _BYTES and is_text and after.charset is not None:
        charsets = before.charset or "", after.charset
        if charsets[0] != charsets[1] and charsets not in _SAME_BYTES:
            return f"its text is staged as bytes, which were {before.charset}"
    return None
