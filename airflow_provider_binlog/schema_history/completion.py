"""From a TABLE_MAP and what is known of its table, the one table that it can have been.

Source: as facts.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.facts import (
    complete,
    is_old_temporal,
    may_be_another_type,
    mismatch,
    missing,
)
from airflow_provider_binlog.schema_history.history import Lost
from airflow_provider_binlog.sql.column_types import (
    BYTES,
    NUMBERS,
    OWN_FORM,
    YEAR_OF_TWO_DIGITS,
    parse_type,
)
from airflow_provider_binlog.sql.partial_schema import (
    Facts,
    Key,
    PartialColumn,
    PartialSchema,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.schema import Field, Schema
    from airflow_provider_binlog.schema_history.history import Backwards


class Unclear(NamedTuple):
    """Why a TABLE_MAP cannot be completed."""

    reason: str


def needs_more(table_map: TableMap, flavor: Flavor, version: tuple[int, ...]) -> bool:
    """Whether the log leaves out what it takes to read a table's rows."""
    if not table_map.has_names:
        return True
    return flavor is Flavor.MARIADB and any(
        is_old_temporal(column) or may_be_another_type(column, version)
        for column in table_map.columns
    )


def selects_otherwise(before: Backwards) -> bool:
    """Whether SELECT may return other values of a table than the log has, whatever that says."""
    return not isinstance(before, Lost) and any(
        column.facts.data_type == YEAR_OF_TWO_DIGITS for each in before for column in each.columns
    )


def complete_table_map(
    table_map: TableMap,
    before: Backwards,
    after: PartialSchema | None,
    *,
    flavor: Flavor,
    version: tuple[int, ...],
) -> TableMap | Unclear:
    """Return the TABLE_MAP with all that the log leaves out.

    Args:
        table_map: As it was logged.
        before: The schemas that the table may have had, by what came after.
        after: The schema that it had, by what came before; None where that is not known.
        flavor: Of the server that wrote the log.
        version: Of that server.
    """
    if isinstance(before, Lost) and after is None:
        return Unclear(before.reason)
    if isinstance(before, Lost):
        candidates = [after] if after is not None else []
    elif after is None:
        candidates = list(before)
    else:
        candidates = [joined for each in before for joined in _joined(after, each)]
        if not candidates:
            return Unclear(
                "information_schema and what was staged last do not name the same columns"
            )
    fitting: dict[TableMap | Unclear, None] = {}
    misfit = "no order of its columns fits the log"
    for each in candidates:
        result = _completed(table_map, each, flavor, version)
        if not isinstance(result, _Misfit):
            fitting[result] = None
        elif len(candidates) == 1:
            misfit = result.reason
    if len(fitting) > 1:
        return Unclear(f"{len(fitting)} orders of its columns fit the log")
    return next(iter(fitting), Unclear(misfit))


class _Misfit(NamedTuple):
    """Why a table does not have a schema that it may have had."""

    reason: str


def _joined(after: PartialSchema, before: PartialSchema) -> Iterator[PartialSchema]:
    """Yield a schema with what two of the same columns say; nothing if they are not the same."""
    if len(after.columns) != len(before.columns):
        return
    pairs = list(zip(after.columns, before.columns, strict=True))
    if not all(same(mine.name, other.name) for mine, other in pairs):
        return
    key, unsure = before.key, any(column.perhaps_key for column in before.columns)
    if after.key is not None and (key is None or unsure):
        key, unsure = after.key, False
    elif after.key is not None and key is not None and _names(after.key) != _names(key):
        return
    yield PartialSchema(
        tuple(
            # A statement that changed a column may spell its previous name in another case.
            PartialColumn(mine.name, other.facts.joined(mine.facts), other.perhaps_key and unsure)
            for mine, other in pairs
        ),
        key,
        before.hidden,
    )


def _names(key: Key) -> list[str]:
    return [fold_name(name) for name, _ in key.columns]


def _completed(
    table_map: TableMap, schema: PartialSchema, flavor: Flavor, version: tuple[int, ...]
) -> TableMap | Unclear | _Misfit:
    table_map = _without_hidden(table_map, schema)
    reason = _misfit(table_map, schema)
    if reason is not None:
        return _Misfit(reason)
    columns = []
    for logged, column in zip(table_map.columns, schema.columns, strict=True):
        completed = complete(logged, column.name, column.facts, flavor)
        lacking = missing(completed, column.facts, flavor, version)
        if lacking is not None:
            return Unclear(f"nothing says the {lacking} of column {column.name}")
        columns.append(completed)
    key = table_map.primary_key if table_map.has_names else _key(table_map, schema)
    if isinstance(key, Unclear):
        return key
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
        return (
            f"{len(table_map.columns)} columns in the log, "
            f"{len(schema.columns)} in information_schema"
        )
    for logged, column in zip(table_map.columns, schema.columns, strict=True):
        if logged.name is not None and logged.name != column.name:
            return f"a column {logged.name} in the log, {column.name} in information_schema"
        differs = mismatch(logged, column.facts)
        if differs is not None:
            return f"column {column.name}: {differs}"
    return None


def _key(
    table_map: TableMap, schema: PartialSchema
) -> tuple[tuple[int, int], ...] | Unclear | None:
    unsure = any(
        column.perhaps_key and not logged.nullable
        for logged, column in zip(table_map.columns, schema.columns, strict=True)
    )
    if schema.key is None or unsure:
        return Unclear("a statement may have changed its key, and nothing says the previous one")
    offsets = {fold_name(column.name): index for index, column in enumerate(schema.columns)}
    key = []
    for name, prefix in schema.key.columns:
        if fold_name(name) not in offsets:
            return Unclear(f"its key has a column {name}, and it has none")
        key.append((offsets[fold_name(name)], prefix))
    return tuple(key) or None


# ------------------------------------------------------------------- what was staged


def partial_from_schema(schema: Schema) -> PartialSchema:
    """Return a table's schema as it was staged.

    Whether its key is the primary one, or is used in its place, is not staged: nothing depends on
    it.
    """
    names = {field.id: field.name for field in schema.fields}
    columns = tuple(
        PartialColumn(field.name, _staged_facts(field), field=field.id) for field in schema.fields
    )
    key = Key(tuple((names[each], 0) for each in schema.key), primary=False, others=True)
    return PartialSchema(columns, key)


def _staged_facts(column: Field) -> Facts:
    of = parse_type(column.mysql_type or "")
    if of is None or column.arrow_type is None:
        return Facts(default=column.write_default)
    charset = column.charset
    if charset is None and (of.name in BYTES | OWN_FORM or of.values is not None):
        charset = "binary"
    return Facts(
        data_type=of.name,
        nullable=column.nullable,
        unsigned=of.unsigned if of.name in NUMBERS else None,
        charset=charset,
        values=of.values,
        default=column.write_default,
    )
