"""A TABLE_MAP completed by the schema that its table had, if the two agree.

Source: as facts.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.schema_history.facts import (
    complete,
    is_old_temporal,
    mark_primary,
    may_be_another_type,
    mismatch,
    missing,
)
from airflow_provider_binlog.schema_history.server_schemas import Undeterminable
from airflow_provider_binlog.sql.column_types import (
    BYTES,
    NUMBERS,
    OWN_FORM,
    TEMPORALS,
    YEAR_OF_TWO_DIGITS,
    parse_type,
)
from airflow_provider_binlog.sql.partial_schema import (
    Facts,
    Key,
    PartialColumn,
    PartialSchema,
)

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.schema import Field, Schema, TableName
    from airflow_provider_binlog.schema_history.tables import Known


def is_complete(table_map: TableMap, flavor: Flavor, version: tuple[int, ...]) -> bool:
    """Whether a TABLE_MAP that names its columns says all that it takes to read its rows."""
    return flavor is Flavor.MYSQL or not any(
        is_old_temporal(column) or may_be_another_type(column, version)
        for column in table_map.columns
    )


def selects_otherwise(schema: PartialSchema | Undeterminable | None) -> bool:
    """Whether SELECT may return other values of a table than the log has, whatever that says."""
    return isinstance(schema, PartialSchema) and any(
        column.facts.data_type == YEAR_OF_TWO_DIGITS for column in schema.columns
    )


def lacks_defaults(schema: PartialSchema) -> bool:
    """Whether the default of a column is not known that an insert may leave out."""
    return any(
        column.facts.default is None
        and not column.facts.generated
        and not column.facts.auto_increment
        for column in schema.columns
    )


def joined(known: PartialSchema, shown: PartialSchema) -> PartialSchema:
    """Return a known schema with what information_schema shows besides, of the same columns."""
    if [fold_name(name) for name in known.names] != [fold_name(name) for name in shown.names]:
        return known
    pairs = zip(known.columns, shown.columns, strict=True)
    columns = tuple(mine._replace(facts=mine.facts.joined(its.facts)) for mine, its in pairs)
    return replace(known, columns=columns)


def complete_table_map(
    table_map: TableMap, schema: PartialSchema, *, flavor: Flavor, version: tuple[int, ...]
) -> TableMap | Undeterminable:
    """Return the TABLE_MAP with all that the log leaves out.

    Args:
        table_map: As it was logged.
        schema: Of the table, by anything but the TABLE_MAP.
        flavor: Of the server that wrote the log.
        version: Of that server.
    """
    table_map = _without_hidden(table_map, schema)
    reason = _misfit(table_map, schema)
    if reason is not None:
        return Undeterminable(reason)
    columns = []
    for logged, column in zip(table_map.columns, schema.columns, strict=True):
        completed = complete(logged, column.name, column.facts, flavor)
        lacking = missing(completed, column.facts, flavor, version)
        if lacking is not None:
            return Undeterminable(f"nothing says the {lacking} of column {column.name}")
        columns.append(completed)
    key = table_map.primary_key if table_map.has_names else _key(schema)
    if isinstance(key, Undeterminable):
        return key
    if schema.key is not None and schema.key.primary:
        columns = mark_primary(columns, key)
    return replace(table_map, columns=tuple(columns), primary_key=key)


def _without_hidden(table_map: TableMap, schema: PartialSchema) -> TableMap:
    """Return a TABLE_MAP without names, which has hidden columns like any others, without these."""
    shown, hidden = (
        table_map.columns[: len(schema.columns)],
        table_map.columns[len(schema.columns) :],
    )
    numbers = all(
        each.real_type == ColumnType.LONGLONG and each.unsigned is not False for each in hidden
    )
    if not hidden or table_map.has_names or len(hidden) != schema.hidden or not numbers:
        return table_map
    return replace(table_map, columns=shown, hidden=len(hidden))


def _misfit(table_map: TableMap, schema: PartialSchema) -> str | None:
    """Return what the log contradicts."""
    if len(schema.columns) != len(table_map.columns):
        return f"{len(table_map.columns)} columns in the log, {len(schema.columns)} there"
    for logged, column in zip(table_map.columns, schema.columns, strict=True):
        if logged.name is not None and logged.name != column.name:
            return f"a column {logged.name} in the log, {column.name} there"
        differs = mismatch(logged, column.facts)
        if differs is not None:
            return f"column {column.name}: {differs}"
    return None


def _key(schema: PartialSchema) -> tuple[tuple[int, int], ...] | Undeterminable | None:
    if schema.key is None:
        return Undeterminable("a statement may have changed its key")
    offsets = {fold_name(column.name): index for index, column in enumerate(schema.columns)}
    key = []
    for name, prefix in schema.key.columns:
        if fold_name(name) not in offsets:
            return Undeterminable(f"its key has a column {name}, and it has none")
        key.append((offsets[fold_name(name)], prefix))
    return tuple(key) or None


# ------------------------------------------------------------------- what was staged


def schema_before(tables: Known, name: TableName) -> PartialSchema | None:
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
