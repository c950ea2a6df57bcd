"""Ranges of a table's key, and the conditions that select them.

A bound is the key of a row, as SQL literals. A chunk has the rows after one bound and up to the
next; the first chunk has no lower bound and the last no upper one, so that together they have every
row that the table may get meanwhile. The bounds are found on the index: each search begins at the
bound before it and moves on by as many entries as a chunk has rows, so that all searches together
read the index once, and each chunk reads its own rows.

    (a, b) after (1, 'x')    a >= 1 AND (a > 1 OR (a = 1 AND b > 'x'))

That is how a range on an index of several columns is found: MySQL's optimizer does not use row
constructors, (a, b) > (1, 'x'), for it.

Literals are exact for every type that a key may have: text as its bytes in the column's character
set, which the comparison leaves to the column's collation, FLOAT as the double that it is, BIT as
its number.

Source: MySQL 9.7 reference manual, 10.2.1.2 Range Optimization, 12.8.4 Collation Coercibility in
Expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pymysql.constants import ER

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.errors import SourceError, TableAlteredError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.transport.server.driver import query
from airflow_provider_binlog.transport.server.information_schema import quote_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pymysql

    from airflow_provider_binlog.rows.layout import ColumnLayout, RowLayout
    from airflow_provider_binlog.sql.partial_schema import PartialSchema
    from airflow_provider_binlog.transport.server.tables import ColumnOrder

ALTERED = "the table was altered while its snapshot was read"
LACKS_NAME = frozenset({ER.BAD_FIELD_ERROR, ER.KEY_DOES_NOT_EXITS})
"""How a server refuses a query that names columns, or a key, which the table had before."""

Bound = tuple[str, ...]
"""SQL literals, one per column of the key."""

_T = ColumnType
_FLOATS = frozenset({_T.FLOAT, _T.DOUBLE})
_EXACT = frozenset({_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR, _T.NEWDECIMAL})
_STRINGS = frozenset({_T.STRING, _T.VARCHAR, _T.VAR_STRING})
_TEMPORALS = frozenset(
    {_T.DATE, _T.NEWDATE, _T.TIME, _T.TIME2, _T.DATETIME, _T.DATETIME2, _T.TIMESTAMP, _T.TIMESTAMP2}
)
_IDLE_SECONDS_MAX = 86_400


@dataclass(frozen=True)
class KeyColumn:
    """A column of a key.

    Attributes:
        name: Between backticks.
        expression: What to select of it, to make a literal of.
        literal: Makes a literal of what was selected.
    """

    name: str
    expression: str
    literal: Callable[[Any], str]


@dataclass(frozen=True)
class ChunkKey:
    """The key by which a table is read in chunks.

    Attributes:
        columns: In key order; empty if the table can only be read in one chunk.
        hint: Which index to use, after the table's name; may be empty.
        order: The name of each column, with its collation if it has one. Bounds divide the rows as
            long as this is the same.
    """

    columns: tuple[KeyColumn, ...]
    hint: str = ""
    order: tuple[str, ...] = ()


def find_key(layout: RowLayout, schema: PartialSchema, order: Sequence[ColumnOrder]) -> ChunkKey:
    """Return the key by which a table is read in chunks.

    That is the table's key up to the first column whose ranges cannot be found on an index: an
    ENUM, a SET, a prefix of a column, or one that the index has in the opposite direction of the
    first. There is none if that is the first one. Rows of equal key are in the same chunk, so that
    it need not be unique.

    Args:
        layout: The table's columns.
        schema: The same, and the key.
        order: How each column of the key orders rows.
    """
    columns: list[KeyColumn] = []
    ordered_by: list[str] = []
    for index, (_, prefix), each in zip(
        layout.key, () if schema.key is None else schema.key.columns, order, strict=True
    ):
        opposite = each.descending != order[0].descending
        column = None if prefix or opposite else key_column(layout.columns[index])
        if column is None:
            break
        columns.append(column)
        ordered_by.append(" ".join(filter(None, [column.name, each.collation])))
    primary = schema.key is not None and schema.key.primary
    hint = " FORCE INDEX (PRIMARY)" if primary else ""
    return ChunkKey(tuple(columns), hint, tuple(ordered_by))


def find_bounds(
    connection: pymysql.Connection[Any],
    table: tuple[str, str],
    key: ChunkKey,
    chunk_rows: int,
    *,
    wait: Callable[[], None] = lambda: None,
) -> list[Bound]:
    """Return the bounds between chunks of so many rows; none if the table is one chunk.

    Args:
        connection: To the server.
        table: Database and table.
        key: By which the table is read.
        chunk_rows: The rows of a chunk.
        wait: Called before each query, which reads the keys of a chunk.

    Raises:
        TableAlteredError: The table lost its key, which was read before, and nothing held it since.
        SourceError: The server refused.
    """
    if not key.columns:
        return []
    selected = ", ".join(each.expression for each in key.columns)
    # By their full names, which no other name that is selected can stand for.
    order = ", ".join(f"{quote_table(table)}.{each.name}" for each in key.columns)
    bounds: list[Bound] = []
    # A busy server is waited for, for longer than some keep an idle session.
    query(connection, f"SET SESSION wait_timeout = {_IDLE_SECONDS_MAX}")
    while True:
        where = condition(key, bounds[-1] if bounds else None, None)
        statement = (
            f"SELECT {selected} FROM {quote_table(table)}{key.hint}{where}"  # noqa: S608
            f" ORDER BY {order} LIMIT 1 OFFSET {chunk_rows - 1}"
        )
        wait()
        try:
            rows = query(connection, statement)
        except SourceError as error:
            if error.context.get("code") in LACKS_NAME:
                raise TableAlteredError(ALTERED) from error
            raise
        if not rows:
            return bounds
        values = rows[0].values()
        bounds.append(
            tuple(each.literal(value) for each, value in zip(key.columns, values, strict=True))
        )


def condition(
    key: ChunkKey, after: Bound | None, upto: Bound | None, where: str | None = None
) -> str:
    """Return the WHERE clause of a chunk, with a space before it; empty for the whole table."""
    names = [each.name for each in key.columns]
    parts = [] if where is None else [f"({where})"]
    if after is not None:
        parts.append(_compared(names, after, ">", last=">"))
    if upto is not None:
        parts.append(_compared(names, upto, "<", last="<="))
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _compared(names: Sequence[str], bound: Sequence[str], operator: str, *, last: str) -> str:
    """Return that a key is on one side of a bound; `last` is what compares its last column."""
    name, value = names[0], bound[0]
    if len(names) == 1:
        return f"{name} {last} {value}"
    rest = _compared(names[1:], bound[1:], operator, last=last)
    beyond, equal = f"{name} {operator} {value}", f"{name} = {value}"
    return f"{name} {operator}= {value} AND ({beyond} OR ({equal} AND {rest}))"


def key_column(column: ColumnLayout) -> KeyColumn | None:
    """Return how to make literals of a column; None if its ranges cannot be found on an index."""
    name, kind = quote_identifier(column.name), column.logged.real_type
    if column.logged.data_type is not None or kind in _TEMPORALS:
        return KeyColumn(name, f"CAST({name} AS CHAR)", _quoted)
    if kind in _STRINGS:
        introducer = "" if column.charset is None else f"_{column.charset} "
        return KeyColumn(name, f"HEX({name})", lambda value: f"{introducer}x'{_text(value)}'")
    forms: dict[int, tuple[str, Callable[[Any], str]]] = {
        _T.BIT: (f"CAST({name} AS UNSIGNED)", str),
        **dict.fromkeys(_FLOATS, (f"{name} + 0e0", _double)),
        **dict.fromkeys(_EXACT, (name, _exact)),
    }
    return KeyColumn(name, *forms[kind]) if kind in forms else None


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _quoted(value: Any) -> str:
    """Return digits and their separators as a literal."""
    return f"'{_text(value)}'"


def _exact(value: Any) -> str:
    """Return an exact number as a literal of one: with an exponent it would be approximate."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _double(value: Any) -> str:
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"
