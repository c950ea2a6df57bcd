"""Ranges of a table's key, and the conditions that select them.

A chunk has the rows after one bound, the key of a row, and up to the next; the first chunk has no
lower bound and the last no upper one, so that together they have every row that the table may get
meanwhile. Bounds are stored as plain values, exact for every type that a key may have, and quoted
here, each by the type of its column: who can write to the staged files cannot make a statement of
them.

Source: MySQL 9.7 reference manual, 10.2.1.2 Range Optimization, 12.8.4 Collation Coercibility in
Expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pymysql.constants import ER

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.errors import ManifestError, SourceError, TableAlteredError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.rows.layout import ColumnLayout, RowLayout
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.transport.server.driver import Connection, query
from airflow_provider_binlog.transport.server.information_schema import quote_table
from airflow_provider_binlog.transport.server.tables import ColumnOrder

ALTERED = "the table was altered while its snapshot was read"
LACKS_NAME = frozenset({ER.BAD_FIELD_ERROR, ER.KEY_DOES_NOT_EXITS})
"""Codes of a server's refusal of a query that names columns, or a key, of the table as it was."""

Bound = tuple[str, ...]
"""Values of the key's columns, as text without quotes."""

_T = ColumnType
_FLOATS = frozenset({_T.FLOAT, _T.DOUBLE})
_EXACT = frozenset({_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR, _T.NEWDECIMAL})
_STRINGS = frozenset({_T.STRING, _T.VARCHAR, _T.VAR_STRING})
_TEMPORALS = frozenset(
    {_T.DATE, _T.NEWDATE, _T.TIME, _T.TIME2, _T.DATETIME, _T.DATETIME2, _T.TIMESTAMP, _T.TIMESTAMP2}
)
_PLAIN = re.compile(r"[0-9A-Za-z:. +-]*")
"""Dates and times, UUIDs, network addresses."""
_HEX = re.compile(r"[0-9A-Fa-f]*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DOUBLE = re.compile(r"-?[0-9]+(\.[0-9]+)?e[+-]?[0-9]+")

_IDLE_SECONDS_MAX = 86_400
_SHOWN = 80


@dataclass(frozen=True)
class KeyColumn:
    """A column of a key.

    Attributes:
        name: Between backticks.
        expression: Selects its value in a form that text keeps exactly.
        to_text: Makes the text of a bound of what was selected.
        form: Matches every such text, and nothing that could end a literal.
        prefix, suffix: Enclose the text in a literal.
    """

    name: str
    expression: str
    to_text: Callable[[Any], str]
    form: re.Pattern[str]
    prefix: str = ""
    suffix: str = ""

    def literal(self, text: str) -> str:
        """Return the SQL literal of a bound.

        Raises:
            ManifestError: The text is no value of this column.
        """
        if self.form.fullmatch(text) is None:
            raise ManifestError(
                "a bound of a chunk is no value of its column: begin the snapshot again",
                column=self.name,
                bound=text[:_SHOWN],
            )
        return f"{self.prefix}{text}{self.suffix}"


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
    first; or whose values are hashed, since bounds are stored as they are. Rows of equal key are in
    the same chunk, so that it need not be unique.
    """
    columns: list[KeyColumn] = []
    ordered_by: list[str] = []
    for index, (_, prefix), ordered in zip(
        layout.key, () if schema.key is None else schema.key.columns, order, strict=True
    ):
        opposite = ordered.descending != order[0].descending
        own = layout.columns[index]
        column = None if prefix or opposite or own.hash else key_column(own)
        if column is None:
            break
        columns.append(column)
        ordered_by.append(" ".join(filter(None, [column.name, ordered.collation])))
    primary = schema.key is not None and schema.key.primary
    hint = " FORCE INDEX (PRIMARY)" if primary else ""
    return ChunkKey(tuple(columns), hint, tuple(ordered_by))


def find_bounds(
    connection: Connection,
    table: tuple[str, str],
    key: ChunkKey,
    chunk_rows: int,
    *,
    wait: Callable[[], None] = lambda: None,
) -> list[Bound]:
    """Return the bounds between chunks of so many rows; none if the table is one chunk.

    Each search starts at the bound before it, so that all together read the index once. `wait` is
    called before each.

    Raises:
        TableAlteredError: The table lost its key, which was read before, and nothing held it since.
        SourceError: The server refused.
    """
    if not key.columns:
        return []
    selected = ", ".join(column.expression for column in key.columns)
    # By full names: no selected expression can take the name of a column.
    order = ", ".join(f"{quote_table(table)}.{column.name}" for column in key.columns)
    bounds: list[Bound] = []
    # The wait for a busy server may be longer than the server keeps an idle session.
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
            tuple(column.to_text(value) for column, value in zip(key.columns, values, strict=True))
        )


def condition(
    key: ChunkKey, after: Bound | None, upto: Bound | None, where: str | None = None
) -> str:
    """Return the WHERE clause of a chunk, with a space before it; empty for the whole table.

    Raises:
        ManifestError: A bound is no value of the key.
    """
    names = [column.name for column in key.columns]
    parts = [] if where is None else [f"({where})"]
    if after is not None:
        parts.append(_compared(names, _literals(key, after), ">", last=">"))
    if upto is not None:
        parts.append(_compared(names, _literals(key, upto), "<", last="<="))
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _literals(key: ChunkKey, bound: Bound) -> list[str]:
    if len(bound) != len(key.columns):
        raise ManifestError(
            "a bound of a chunk has other columns than the key: begin the snapshot again",
            columns=len(key.columns),
            bound=len(bound),
        )
    return [column.literal(text) for column, text in zip(key.columns, bound, strict=True)]


def _compared(names: Sequence[str], bound: Sequence[str], operator: str, *, last: str) -> str:
    # MySQL's optimizer uses no index for row constructors, (a, b) > (1, 'x'). Hence
    # a >= 1 AND (a > 1 OR (a = 1 AND b > 'x')).
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
        return KeyColumn(name, f"CAST({name} AS CHAR)", _text, _PLAIN, "'", "'")
    if kind in _STRINGS:
        introducer = "" if column.charset is None else f"_{column.charset} "
        return KeyColumn(name, f"HEX({name})", _text, _HEX, f"{introducer}x'", "'")
    forms: dict[int, tuple[str, Callable[[Any], str], re.Pattern[str]]] = {
        _T.BIT: (f"CAST({name} AS UNSIGNED)", str, _NUMBER),
        **dict.fromkeys(_FLOATS, (f"{name} + 0e0", _double, _DOUBLE)),
        **dict.fromkeys(_EXACT, (name, _exact, _NUMBER)),
    }
    return KeyColumn(name, *forms[kind]) if kind in forms else None


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _exact(value: Any) -> str:
    # Without an exponent, which would make the literal approximate.
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _double(value: Any) -> str:
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"
