"""The schemas of tables as far as they are known, carried forward by the statements of a range.

Source: mysql-server, sql/sql_table.cc, prepare_fields_and_keys; mariadb, mysql_prepare_alter_table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.charsets import COLLATIONS
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Field, Schema, TableName, TableState
from airflow_provider_binlog.schema_history.statements import LoggedChange
from airflow_provider_binlog.sql import definitions as sql
from airflow_provider_binlog.sql.columns import (
    BYTES,
    ENUMS,
    NO_COLUMNS,
    NUMBERS,
    OWN_FORM,
    TEMPORALS,
    Facts,
    Key,
    PartialColumn,
    PartialSchema,
    parse_type,
    same,
)
from airflow_provider_binlog.sql.ddl import Altered, Created, DroppedDatabase, Renamed

if TYPE_CHECKING:
    from airflow_provider_binlog.schema_history.tables import TableLookup

_GENERATED_KEY = "my_row_id"
"""The column that MySQL adds under `sql_generate_invisible_primary_key`."""


class TrackedSchemas:
    """The schemas of tables, statement after statement.

    Attributes:
        altered: The tables that statements have named.
    """

    def __init__(
        self, find_before: Callable[[TableName], PartialSchema | None] = lambda _: None
    ) -> None:
        """Start a range; `find_before` returns the schema of a table before it, where known."""
        self.altered: set[TableName] = set()
        self._find_before = find_before
        self._schemas: dict[TableName, PartialSchema | None] = {}
        self._dropped_databases: set[str] = set()

    def find(self, name: TableName) -> PartialSchema | None:
        """Return the schema that a table has now; None where it is not known."""
        if name not in self._schemas:
            dropped = name[0] in self._dropped_databases
            self._schemas[name] = None if dropped else self._find_before(name)
        return self._schemas[name]

    def apply(self, logged: LoggedChange, flavor: Flavor) -> None:
        """Follow what a statement did to a table."""
        self.altered.update(logged.names)
        change = logged.change
        if isinstance(change, DroppedDatabase):
            self._dropped_databases.add(change.database)
            for name in self._schemas:
                if name[0] == change.database:
                    self._schemas[name] = None
        elif isinstance(change, Renamed):
            self._schemas[change.new] = self.find(change.old)
            self._schemas[change.old] = None
        elif isinstance(change, Altered):
            schema = self.find(change.table)
            self._schemas[change.table] = schema and alter(schema, change.alterations)
        elif isinstance(change, Created):
            # With IF NOT EXISTS a table of this name may be there already, and stays as it is.
            if not change.optional:
                self._schemas[change.table] = self._created(change, flavor)
        else:
            self._schemas[change.table] = None

    def _created(self, change: Created, flavor: Flavor) -> PartialSchema | None:
        if change.like is not None:
            return self.find(change.like)
        if change.elements is None:
            return None
        keyed = any(isinstance(element, sql.AddPrimaryKey) for element in change.elements)
        # Without a primary key MySQL may add one of its own: a column that the text lacks.
        return alter(NO_COLUMNS, change.elements) if keyed or flavor is Flavor.MARIADB else None


def alter(schema: PartialSchema, alterations: Sequence[sql.Alteration]) -> PartialSchema | None:
    """Return what a statement makes of a schema; None where that is not known.

    Columns are looked up as the server does it: those that are dropped and changed in the table as
    it was, those after which others are put in the table as the statement has changed it so far.
    """
    if sql.of_kind(sql.Opaque, alterations):
        return None
    columns = _altered(schema.columns, alterations)
    if columns is None:
        return None
    for conversion in sql.of_kind(sql.ConvertCharset, alterations):
        columns = [_converted(column, conversion.charset) for column in columns]
    keyed = sql.new_key(alterations)
    columns = [
        _with(column, nullable=False, default=None) if fold_name(column.name) in keyed else column
        for column in columns
    ]
    columns = _without_defaults(columns, alterations)
    return replace(schema, columns=tuple(columns), key=_key_after(schema, alterations))


def facts_of(definition: sql.Definition) -> Facts:
    """Return what a column's definition says of it for certain.

    The name of a type of text is not: its character set, or its length, may turn it into another.
    """
    of = definition.type
    facts = Facts(
        generated=definition.generated,
        auto_increment=definition.auto_increment,
        visible=definition.visible,
    )
    if of is None:
        return facts
    charset: str | None = "binary"
    if of.name == "json":
        charset = "utf8mb4"  # MariaDB's is a LONGTEXT
    elif of.name not in BYTES | OWN_FORM:
        charset = of.charset if of.charset in COLLATIONS else None
    return replace(
        facts,
        data_type=None if of.is_text else of.name,
        unsigned=of.unsigned if of.name in NUMBERS else None,
        charset=charset,
        values=of.values,
    )


_Change = sql.DropColumn | sql.ChangeColumn | sql.RenameColumn


def _altered(
    before: Sequence[PartialColumn], alterations: Sequence[sql.Alteration]
) -> list[PartialColumn] | None:
    """Return the columns that a statement makes of others; None where it cannot have."""
    own = {fold_name(column.name) for column in before}
    changes: dict[str, _Change] = {}
    for alteration in alterations:
        if isinstance(alteration, _Change):
            name = alteration.name if isinstance(alteration, sql.DropColumn) else alteration.old
            name = fold_name(name)
            if name in changes or (name not in own and not alteration.optional):
                return None
            if name in own:
                changes[name] = alteration
    columns = [
        after
        for column in before
        if (after := _changed(column, changes.get(fold_name(column.name)))) is not None
    ]
    done = all(_put_in_place(columns, alteration, own, changes) for alteration in alterations)
    return columns if done and len({fold_name(c.name) for c in columns}) == len(columns) else None


def _changed(column: PartialColumn, change: _Change | None) -> PartialColumn | None:
    """Return a column after a change; None where it is dropped."""
    if isinstance(change, sql.ChangeColumn):
        return PartialColumn(change.name, facts_of(change.definition), field=column.field)
    if isinstance(change, sql.RenameColumn):
        return replace(column, name=change.name)
    return column if change is None else None


def _put_in_place(
    columns: list[PartialColumn],
    alteration: sql.Alteration,
    own: set[str],
    changes: dict[str, _Change],
) -> bool:
    """Add or move the column of an alteration; False where there is no place for it."""
    if isinstance(alteration, sql.AddColumn):
        name = fold_name(alteration.name)
        if alteration.optional and name in own:
            return name not in changes
        column = PartialColumn(alteration.name, facts_of(alteration.definition))
        if alteration.after is None:
            columns.append(column)
            return True
    elif isinstance(alteration, sql.ChangeColumn) and alteration.after is not None:
        if fold_name(alteration.old) not in changes:
            return True  # IF EXISTS
        # It is there: `_changed` gave it this name.
        column = columns.pop(_find(columns, alteration.name) or 0)
    else:
        return True
    at = -1 if alteration.after == sql.FIRST else _find(columns, str(alteration.after))
    # MySQL's generated key stays first: a column that a user called so does not.
    fits = at is not None and (at >= 0 or _find(columns, _GENERATED_KEY) != 0)
    if fits:
        columns.insert((at or 0) + 1, column)
    return fits


def _find(columns: Sequence[PartialColumn], name: str) -> int | None:
    return next((i for i, column in enumerate(columns) if same(column.name, name)), None)


def _with(column: PartialColumn, **facts: object) -> PartialColumn:
    return replace(column, facts=replace(column.facts, **facts))  # type: ignore[arg-type]


def _converted(column: PartialColumn, charset: str | None) -> PartialColumn:
    """Return a column of text in another character set; TEXT may become MEDIUMTEXT by that."""
    facts = column.facts
    if facts.data_type in ENUMS:
        return _with(column, charset=charset)
    if facts.charset == "binary" or (facts.charset is None and facts.data_type is not None):
        return column
    return _with(column, charset=charset, octets=None, data_type=None)


def _without_defaults(
    columns: Sequence[PartialColumn], alterations: Sequence[sql.Alteration]
) -> list[PartialColumn]:
    """Return columns without what ALTER COLUMN may have changed, by previous names or new."""
    changed = {fold_name(change.name) for change in sql.of_kind(sql.SetDefault, alterations)}
    for alteration in alterations:
        if isinstance(alteration, sql.ChangeColumn | sql.RenameColumn):
            names = {fold_name(alteration.old), fold_name(alteration.name)}
            changed |= names if changed & names else set()
    return [
        _with(column, default=None, visible=None) if fold_name(column.name) in changed else column
        for column in columns
    ]


def _key_after(schema: PartialSchema, alterations: Sequence[sql.Alteration]) -> Key | None:
    made = sql.of_kind(sql.AddPrimaryKey, alterations)
    key = schema.key
    others = key is None or key.others or bool(sql.of_kind(sql.ChangeIndexes, alterations))
    if len(made) > 1:
        return None
    if made:
        return Key(made[0].columns, primary=True, others=others)
    if key is None:
        return None
    if sql.of_kind(sql.DropPrimaryKey, alterations):
        return None if others else Key((), primary=False, others=False)
    lost = {fold_name(dropped.name) for dropped in sql.of_kind(sql.DropColumn, alterations)}
    left = tuple(
        (_renamed(name, alterations), prefix)
        for name, prefix in key.columns
        if fold_name(name) not in lost
    )
    whole = len(left) == len(key.columns)
    if key.primary:
        return replace(key, columns=left, others=others) if whole else None
    # The first of the unique keys that hold no NULL is used in place of the missing one.
    kinds = (sql.ChangeIndexes, sql.ChangeColumn, sql.DropColumn)
    unchanged = whole and not any(isinstance(alteration, kinds) for alteration in alterations)
    return replace(key, columns=left) if unchanged or not others else None


def _renamed(name: str, alterations: Sequence[sql.Alteration]) -> str:
    kinds = sql.ChangeColumn | sql.RenameColumn
    renames = (alteration for alteration in alterations if isinstance(alteration, kinds))
    return next((rename.name for rename in renames if same(rename.old, name)), name)


# ------------------------------------------------------------------- from what was staged


def schema_before(tables: TableLookup, name: TableName) -> PartialSchema | None:
    """Return the schema of a captured table by manifests and snapshots.

    None where it is not known, or may have changed since.
    """
    state = tables.find(name)
    schema = tables.find_schema(name) if state is None else None
    if isinstance(state, TableState) and state.is_confirmed:
        schema = state.schema
    return None if schema is None else partial_from_schema(schema)


def partial_from_schema(schema: Schema) -> PartialSchema:
    """Return a table's schema as it was staged."""
    columns = tuple(
        PartialColumn(field.name, _staged_facts(field), field=field.id) for field in schema.fields
    )
    fields = {field.id: field for field in schema.fields}
    primary = bool(schema.key) and all(fields[number].primary for number in schema.key)
    key = Key(tuple((fields[number].name, 0) for number in schema.key), primary, others=True)
    return PartialSchema(columns, key)


def _staged_facts(column: Field) -> Facts:
    of = parse_type(column.mysql_type or "")
    default = column.write_default
    if column.excluded:
        default = NULL  # not staged, so that nobody has to be asked for it
    elif column.hashed is not None and default != NULL:
        default = None
    known = Facts(generated=column.generated, auto_increment=column.auto_increment, default=default)
    if of is None or column.arrow_type is None:
        return known
    if column.excluded and of.name in ENUMS:
        of = replace(of, values=())
    charset = column.charset
    if charset is None and (of.name in BYTES | OWN_FORM or of.values is not None):
        charset = "binary"
    return replace(
        known,
        data_type=of.name,
        nullable=column.nullable,
        unsigned=of.unsigned if of.name in NUMBERS else None,
        charset=charset,
        values=of.values,
        fsp=of.fsp if of.name in TEMPORALS else None,
    )
