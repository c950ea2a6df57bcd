"""The fields of a table after a statement, and the actions that lead there.

Source: as partial_schemas.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import (
    NULL,
    Action,
    AddField,
    AlterField,
    Default,
    DropField,
    Field,
    RenameField,
    RewriteRows,
    TableState,
    UnknownDefault,
)
from airflow_provider_binlog.sql import definitions as sql
from airflow_provider_binlog.sql.columns import (
    ENUMS,
    FLOATS,
    INTEGERS,
    TEMPORALS,
    PartialSchema,
    SqlType,
    parse_type,
    same,
)
from airflow_provider_binlog.sql.defaults import read_default
from airflow_provider_binlog.sql.lexer import Session
from airflow_provider_binlog.sql.type_changes import rewrites_charset, rewrites_column

# With rows between two statements it would be known, and each be compared with the one before it.
_CHARSET_BEFORE = "its character set before is not known, and no row was logged since it changed"


def fields_after(
    after: PartialSchema,
    before: Iterable[Field],
    alterations: Sequence[sql.Alteration],
    session: Session,
    *,
    last_field_id: int,
) -> tuple[Field, ...]:
    """Return the fields of a table after a statement.

    `after` has the field ids from before; the ids of new fields follow `last_field_id`.
    """
    old = {field.id: field for field in before}
    added = {fold_name(column.name): column for column in sql.of_kind(sql.AddColumn, alterations)}
    keyed = sql.new_key(alterations)
    fields = []
    for column in after.columns:
        known = old.get(column.field)
        if known is None:
            last_field_id += 1
            field = _added(last_field_id, added[fold_name(column.name)], alterations, session)
        else:
            field = _altered(known, column.name, alterations, session)
        if fold_name(column.name) in keyed:
            # It takes no NULL any more, and what it takes instead depends on the statement.
            default = None if field.write_default == NULL else field.write_default
            field = replace(field, nullable=False, write_default=default)
        fields.append(field)
    return tuple(fields)


def _added(
    number: int, column: sql.AddColumn, alterations: Sequence[sql.Alteration], session: Session
) -> Field:
    of, definition = _written(column.definition, session), column.definition
    # CONVERT in the same statement is about the new column, too.
    charset = None if of is None or sql.of_kind(sql.ConvertCharset, alterations) else of.charset
    initial = column.initial_default
    write = None if definition.is_computed or isinstance(initial, UnknownDefault) else initial
    # MariaDB lets it follow in the same statement.
    if any(same(change.name, column.name) for change in sql.of_kind(sql.SetDefault, alterations)):
        initial, write = UnknownDefault("ALTER COLUMN changed it in the same statement"), None
    return Field(
        id=number,
        name=column.name,
        mysql_type=None if of is None else str(of),
        arrow_type=None,
        nullable=_is_nullable(definition),
        charset=charset,
        initial_default=initial,
        write_default=write,
        charset_assumed=of is not None and _has_charset(of) and charset is None,
        generated=definition.generated,
        auto_increment=definition.auto_increment,
        comment=definition.comment or None,
    )


def _is_nullable(definition: sql.Definition) -> bool:
    return definition.nullable is not False and not definition.auto_increment


def _written(definition: sql.Definition, session: Session) -> SqlType | None:
    """Return the type that a definition writes, as the log shows it."""
    of = definition.type
    if of is not None and of.name in ENUMS:
        # Where its values are not plain strings, rows will show them.
        of = replace(of, charset=None) if of.charset == "binary" else of
        return None if of.values is None else of
    if of is not None and of.name == "json" and session.flavor is Flavor.MARIADB:
        return SqlType("longtext", charset="utf8mb4")
    if of is not None and of.name in FLOATS:
        return replace(of, length=None, scale=None)  # no TABLE_MAP has the digits of FLOAT(7,3)
    return of


def _altered(
    field: Field, name: str, alterations: Sequence[sql.Alteration], session: Session
) -> Field:
    """Return a field that was there before, under the name that it has after the statement."""
    names = {fold_name(field.name), fold_name(name)}
    for change in alterations:
        if isinstance(change, sql.ChangeColumn) and same(change.old, field.name):
            field = _changed(field, change, session)
        elif isinstance(change, sql.ConvertCharset):
            field = _converted(field, change.charset)
        elif isinstance(change, sql.SetDefault) and fold_name(change.name) in names:
            # Of two columns that exchange their names, it may be either.
            of, literal = sql_type(field) if len(names) == 1 else None, change.default
            default = read_default(of, literal, session) if of and literal else None
            field = replace(field, write_default=default if isinstance(default, Default) else None)
        elif isinstance(change, sql.DropPrimaryKey):
            field = replace(field, primary=False)
    return replace(field, name=name)


def _changed(field: Field, change: sql.ChangeColumn, session: Session) -> Field:
    definition, of = change.definition, _written(change.definition, session)
    changed = replace(
        field,
        mysql_type=None if of is None else str(of),
        nullable=_is_nullable(definition),
        charset=None if of is None else of.charset,
        write_default=sql.write_default(definition, session),
        charset_assumed=False,
        generated=definition.generated,
        auto_increment=definition.auto_increment,
        comment=definition.comment or "",
    )
    if of is not None and _has_charset(of) and of.charset is None:
        # It is the table's default, most often the one from before: rows will show it.
        changed = replace(changed, charset=field.charset, charset_assumed=True)
    is_same = of is not None and _typed(changed) == _typed(field) and not changed.charset_assumed
    return changed if is_same else replace(changed, arrow_type=None)


def _converted(field: Field, charset: str | None) -> Field:
    of = sql_type(field)
    if of is not None and not _has_charset(of):
        return field
    # TEXT becomes MEDIUMTEXT where its characters take more bytes.
    after = charset or field.charset
    return replace(field, arrow_type=None, charset=after, charset_assumed=charset is None)


def _has_charset(of: SqlType) -> bool:
    return of.is_text or of.name in ENUMS


def sql_type(field: Field) -> SqlType | None:
    """Return a field's type; None where it is not known."""
    return parse_type(field.mysql_type or "", charset=field.charset)


def _typed(field: Field) -> tuple[str | None, str | None, bool]:
    return field.mysql_type, field.charset, field.charset_assumed


def comment_after(before: str | None, alterations: Sequence[sql.Alteration]) -> str | None:
    """Return the table's comment after a statement: of several the last one counts."""
    said = sql.of_kind(sql.SetComment, alterations)
    return said[-1].comment if said else before


def key_after(
    fields: Sequence[Field], before: Sequence[int], alterations: Sequence[sql.Alteration]
) -> tuple[int, ...]:
    """Return the primary key after a statement: of a unique key in its place rows will say."""
    ids = {fold_name(field.name): field.id for field in fields}
    added = sql.of_kind(sql.AddPrimaryKey, alterations)
    if added:
        return tuple(ids[fold_name(name)] for name, _ in added[0].columns if fold_name(name) in ids)
    if sql.of_kind(sql.DropPrimaryKey, alterations):
        return ()
    kept = set(ids.values())
    return tuple(field_id for field_id in before if field_id in kept)


# ------------------------------------------------------------------- actions


def actions_of(
    state: TableState,
    fields: Sequence[Field],
    alterations: Sequence[sql.Alteration],
    session: Session,
) -> Iterator[Action]:
    """Yield what a statement does to a table's fields, `fields` afterwards."""
    before = () if state.schema is None else state.schema.fields
    now = {field.id: field for field in fields}
    changes = {fold_name(c.old): c for c in sql.of_kind(sql.ChangeColumn, alterations)}
    for field in before:
        if field.id not in now:
            yield DropField(state.id, field.id, field.name)
    for field in before:
        after, change = now.get(field.id), changes.get(fold_name(field.name))
        if after is None:
            continue
        if after.name != field.name:
            yield RenameField(state.id, field.id, field.name, after.name)
        moved = change is not None and change.after is not None
        retyped = _typed(after) != _typed(field) or after.nullable != field.nullable
        if retyped or moved:
            yield AlterField(state.id, field.id, after.name, field.mysql_type, after.mysql_type)
    old = {field.id for field in before}
    added = sql.of_kind(sql.AddColumn, alterations) if state.is_partial else []
    optional = {fold_name(column.name) for column in added if column.optional}
    for field in fields:
        if field.id not in old:
            is_optional = fold_name(field.name) in optional
            yield AddField(state.id, field.id, field.name, is_optional)
    # A table that was created without rows, and got none since, has no values to change.
    if state.created is None or state.logged is not None:
        yield from _rewrites(state, fields, alterations, session)


def _rewrites(
    state: TableState,
    fields: Sequence[Field],
    alterations: Sequence[sql.Alteration],
    session: Session,
) -> Iterator[Action]:
    """Yield which fields may have other values after a statement."""
    now = {field.id: field for field in fields}
    kept = [field for field in (state.schema.fields if state.schema else ()) if field.id in now]
    other_base = any(not f.generated and _is_converted(f, now[f.id]) for f in kept)
    for field in kept:
        reason = _reason(field, alterations, session)
        if reason is None and field.generated and other_base:
            reason = "it is computed from other columns, of which one has another type"
        if reason is not None:
            yield RewriteRows(state.id, f"changed column {field.name}: {reason}", field.id)
    if state.is_partial and sql.of_kind(sql.ConvertCharset, alterations):
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


def _reason(field: Field, alterations: Sequence[sql.Alteration], session: Session) -> str | None:
    of, name = sql_type(field), fold_name(field.name)
    nullable = None if field.mysql_type is None else field.nullable and not field.auto_increment
    turns_null = nullable is not False and not session.is_strict
    for change in alterations:
        reason = None
        if isinstance(change, sql.ChangeColumn) and fold_name(change.old) == name:
            after = change.definition.type
            numbered = field.auto_increment
            reason = rewrites_column(
                of, change.definition, session, nullable=nullable, auto_increment=numbered
            )
            reason = reason or (changes_form(field.arrow_type, of, after) if after else None)
            named = after is not None and after.charset is not None
            reason = reason or (_CHARSET_BEFORE if field.charset_assumed and named else None)
        elif isinstance(change, sql.ConvertCharset):
            reason = rewrites_charset(of, change.charset)
            if of is not None:
                converted = replace(of, charset=change.charset)
                reason = reason or changes_form(field.arrow_type, of, converted)
                assumed = field.charset_assumed and _has_charset(of)
                reason = reason or (_CHARSET_BEFORE if assumed else None)
        elif turns_null and name in sql.new_key((change,)):
            reason = "NULL became another value"
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

    `arrow_type` is as Arrow prints it; no character set of `after` stands for the same one.
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
