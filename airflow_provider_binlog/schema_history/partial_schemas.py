"""The schemas of tables as far as they are known, carried forward by the statements of a range.

Source: mysql-server, sql/sql_table.cc, prepare_fields_and_keys; mariadb, mysql_prepare_alter_table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.schema_history.completion import facts_of
from airflow_provider_binlog.sql.columns import (
    BYTES,
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
from airflow_provider_binlog.sql.definitions import (
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
    new_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_binlog.schema import Field, Schema, TableName
    from airflow_provider_binlog.schema_history.statements import LoggedChange
    from airflow_provider_binlog.schema_history.tables import TableLookup
    from airflow_provider_binlog.sql.definitions import Alteration

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
        keyed = any(isinstance(element, AddPrimaryKey) for element in change.elements)
        # Without a primary key MySQL may add one of its own: a column that the text lacks.
        return alter(NO_COLUMNS, change.elements) if keyed or flavor is Flavor.MARIADB else None


def alter(schema: PartialSchema, alterations: Sequence[Alteration]) -> PartialSchema | None:
    """Return what a statement makes of a schema; None where that is not known.

    Columns are looked up as the server does it: those that are dropped and changed in the table as
    it was, those after which others are put in the table as the statement has changed it so far.
    """
    if any(isinstance(each, Opaque) for each in alterations):
        return None
    columns = _altered(schema.columns, alterations)
    if columns is None:
        return None
    for each in alterations:
        if isinstance(each, ConvertCharset):
            columns = [_converted(column, each.charset) for column in columns]
    keyed = new_key(alterations)
    columns = [_not_null(each) if fold_name(each.name) in keyed else each for each in columns]
    columns = _without_defaults(columns, alterations)
    return replace(schema, columns=tuple(columns), key=_key_after(schema, alterations))


def _altered(
    before: Sequence[PartialColumn], alterations: Sequence[Alteration]
) -> list[PartialColumn] | None:
    """Return the columns that a statement makes of others; None where it cannot have."""
    own = {fold_name(column.name) for column in before}
    changes = _changes_by_name(own, alterations)
    if changes is None:
        return None
    columns = [
        column
        for each in before
        if (column := _changed(each, changes.get(fold_name(each.name)))) is not None
    ]
    for each in alterations:
        if isinstance(each, AddColumn):
            done = _add(columns, each, own, changes)
        elif isinstance(each, ChangeColumn) and each.after is not None:
            done = fold_name(each.old) not in changes or _move(columns, each)
        else:
            continue
        if not done:
            return None
    unlike = {fold_name(column.name) for column in columns}
    return _generated_key_first(columns) if len(unlike) == len(columns) else None


def _generated_key_first(columns: list[PartialColumn]) -> list[PartialColumn] | None:
    """Put MySQL's generated key before what came FIRST; None where it may be a user's own."""
    at = _find(columns, _GENERATED_KEY)
    if not at:
        return columns
    visible = columns[at].facts.visible
    if visible is None:
        return None
    return columns if visible else [columns[at], *columns[:at], *columns[at + 1 :]]


def assume_visibility(schema: PartialSchema) -> PartialSchema:
    """Return a schema in which a first column of that name is the key that MySQL generated.

    Only the order of the columns depends on it: the next row shows it.
    """
    columns = (
        replace(column, facts=replace(column.facts, visible=index > 0))
        if same(column.name, _GENERATED_KEY)
        else column
        for index, column in enumerate(schema.columns)
    )
    return replace(schema, columns=tuple(columns))


_Change = DropColumn | ChangeColumn | RenameColumn


def _changes_by_name(own: set[str], alterations: Sequence[Alteration]) -> dict[str, _Change] | None:
    """Return how columns change, by their previous names; None where one is not there."""
    changes: dict[str, _Change] = {}
    for each in alterations:
        if isinstance(each, _Change):
            name = fold_name(each.name if isinstance(each, DropColumn) else each.old)
            if name in changes or (name not in own and not each.optional):
                return None
            if name in own:
                changes[name] = each
    return changes


def _changed(column: PartialColumn, change: _Change | None) -> PartialColumn | None:
    """Return a column after a change; None where it is dropped."""
    if isinstance(change, ChangeColumn):
        return PartialColumn(change.name, facts_of(change.definition), field=column.field)
    if isinstance(change, RenameColumn):
        return replace(column, name=change.name)
    return column if change is None else None


def _add(
    columns: list[PartialColumn], each: AddColumn, own: set[str], changes: dict[str, _Change]
) -> bool:
    name = fold_name(each.name)
    if each.optional and name in own:
        return name not in changes
    return _put(columns, PartialColumn(each.name, facts_of(each.definition)), each.after)


def _move(columns: list[PartialColumn], each: ChangeColumn) -> bool:
    at = _find(columns, each.name)
    return at is not None and _put(columns, columns.pop(at), each.after)


def _find(columns: Sequence[PartialColumn], name: str) -> int | None:
    return next((i for i, column in enumerate(columns) if same(column.name, name)), None)


def _put(columns: list[PartialColumn], column: PartialColumn, after: str | None) -> bool:
    """Put a column after another one; False where there is none of that name."""
    if after is None:
        columns.append(column)
        return True
    at = -1 if after == FIRST else _find(columns, after)
    if at is None:
        return False
    columns.insert(at + 1, column)
    return True


def _converted(column: PartialColumn, charset: str | None) -> PartialColumn:
    """Return a column of text in another character set; TEXT may become MEDIUMTEXT by that."""
    facts = column.facts
    known_text = facts.charset not in (None, "binary")
    if not known_text and facts.data_type not in (None, "enum", "set"):
        return column
    if facts.data_type in ("enum", "set"):
        return replace(column, facts=replace(facts, charset=charset))
    if facts.charset == "binary":
        return column
    return replace(column, facts=replace(facts, charset=charset, octets=None, data_type=None))


def _not_null(column: PartialColumn) -> PartialColumn:
    return replace(column, facts=replace(column.facts, nullable=False, default=None))


def _without_defaults(
    columns: Sequence[PartialColumn], alterations: Sequence[Alteration]
) -> list[PartialColumn]:
    """Return columns without what ALTER COLUMN may have changed, by previous names or new."""
    changed = {
        fold_name(name)
        for each in alterations
        if isinstance(each, SetDefault)
        for name in (
            each.name,
            _renamed(each.name, alterations),
            _previous_name(each.name, alterations),
        )
    }
    return [
        replace(column, facts=replace(column.facts, default=None, visible=None))
        if fold_name(column.name) in changed
        else column
        for column in columns
    ]


def _key_after(schema: PartialSchema, alterations: Sequence[Alteration]) -> Key | None:
    made = [each for each in alterations if isinstance(each, AddPrimaryKey)]
    key = schema.key
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
    # The first of the unique keys that hold no NULL is used in place of the missing one.
    unchanged = len(left) == len(key.columns) and not _touches_unique(alterations)
    return replace(key, columns=left) if unchanged or not others else None


def _renamed(name: str, alterations: Sequence[Alteration]) -> str:
    for each in alterations:
        if isinstance(each, ChangeColumn | RenameColumn) and same(each.old, name):
            return each.name
    return name


def _previous_name(name: str, alterations: Sequence[Alteration]) -> str:
    for each in alterations:
        if isinstance(each, ChangeColumn | RenameColumn) and same(each.name, name):
            return each.old
    return name


def _touches_indexes(alterations: Sequence[Alteration]) -> bool:
    return any(isinstance(each, ChangeIndexes) for each in alterations)


def _touches_unique(alterations: Sequence[Alteration]) -> bool:
    """Whether another unique key may come first now."""
    kinds = (ChangeIndexes, ChangeColumn, DropColumn, AddPrimaryKey, DropPrimaryKey)
    return any(isinstance(each, kinds) for each in alterations)


# ------------------------------------------------------------------- from what was staged


def schema_before(tables: TableLookup, name: TableName) -> PartialSchema | None:
    """Return the schema of a table by manifests and snapshots; None if it may have changed since.

    Args:
        tables: What is known of tables.
        name: Of a captured table.
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
    generated, auto_increment = column.generated, column.auto_increment
    if of is None or column.arrow_type is None:
        return Facts(
            generated=generated, auto_increment=auto_increment, default=column.write_default
        )
    charset = column.charset
    if charset is None and (of.name in BYTES | OWN_FORM or of.values is not None):
        charset = "binary"
    return Facts(
        data_type=of.name,
        nullable=column.nullable,
        unsigned=of.unsigned if of.name in NUMBERS else None,
        charset=charset,
        values=of.values,
        fsp=of.fsp if of.name in TEMPORALS else None,
        generated=generated,
        auto_increment=auto_increment,
        default=column.write_default,
    )
