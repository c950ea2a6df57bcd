"""Whether a lake table holds what SELECT returns: every row, every column.

Both sides are made plain Python values of the column's MySQL type first. A value of another type
than the lake should have is left as it is, and so differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pymysql

    Connection = pymysql.Connection[Any]

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_DATES = {"date", "datetime", "timestamp"}
_BINARIES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
# The lake holds a wider DECIMAL as text.
_LAKE_PRECISION_MAX = 38
ABSENT = "(no such column)"
"""What a `Difference` has on the side that lacks a column."""


@dataclass(frozen=True)
class Column:
    """A column as information_schema names its type: `decimal`, and its digits if it has any."""

    name: str
    data_type: str
    precision: int | None = None


@dataclass(frozen=True)
class Table:
    """A table of the source.

    Attributes:
        key: Names of the primary key's columns; empty for a table without one.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """One thing that is not equal; `column` is empty where a whole row is concerned."""

    key: tuple[Any, ...]
    column: str
    source: object
    lake: object

    @property
    def is_left(self) -> bool:
        """Whether the lake has a row, once, that the source does not have."""
        return not self.column and (self.source, self.lake) == (_times([]), _times([None]))

    def __str__(self) -> str:
        key = ", ".join(map(repr, self.key))
        where = f"row ({key})" if self.key else "all rows"
        if not self.column:
            return f"{where}: {self.source} at the source, {self.lake} in the lake"
        return f"{where}, {self.column}: {self.source!r} at the source, {self.lake!r} in the lake"


def read_tables(connection: Connection, database: str) -> list[Table]:
    """Return the tables of a database by name."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, NUMERIC_PRECISION"
            " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s"
            " ORDER BY TABLE_NAME, ORDINAL_POSITION",
            (database,),
        )
        columns: dict[str, list[Column]] = {}
        for table, name, data_type, precision in cursor.fetchall():
            column = Column(name, data_type.lower(), precision and int(precision))
            columns.setdefault(table, []).append(column)
        cursor.execute(
            "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
            " WHERE TABLE_SCHEMA = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
            (database,),
        )
        keys: dict[str, list[str]] = {}
        for table, name in cursor.fetchall():
            keys.setdefault(table, []).append(name)
    return [
        Table(database, name, tuple(each), tuple(keys.get(name, ())))
        for name, each in columns.items()
    ]


def select(connection: Connection, table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table, each by column name; the session's time zone is UTC."""
    # SELECT rounds a FLOAT to six digits for print: as a double it is exact. A BIT is a number.
    forms = {"float": "{} + 0e0", "bit": "{} + 0"}
    names = [f"`{each.name.replace('`', '``')}`" for each in table.columns]
    expressions = [
        forms.get(each.data_type, "{}").format(name)
        for each, name in zip(table.columns, names, strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(expressions)} FROM `{table.database}`.`{table.name}`")
        rows = cursor.fetchall()
    return [
        {
            column.name: None if value is None else _plain_source(column, value)
            for column, value in zip(table.columns, row, strict=True)
        }
        for row in rows
    ]


def compare(
    table: Table, source: Sequence[Mapping[str, Any]], lake: Mapping[str, Sequence[Any]]
) -> Iterator[Difference]:
    """Yield what is not equal.

    Args:
        table: The table, with a key.
        source: What `select` returned.
        lake: The lake table's values by column, as Arrow gives them to Python.
    """
    names = [column.name for column in table.columns]
    for name in [*names, *lake]:
        if name not in lake:
            yield Difference((), name, "a column", ABSENT)
        elif name not in names:
            yield Difference((), name, ABSENT, "a column")
    shared = [column for column in table.columns if column.name in lake]
    if any(name not in lake for name in table.key):
        return

    expected = _by_key(table, source)
    found = _by_key(table, _lake_rows(shared, lake))
    for key in sorted(expected.keys() | found.keys(), key=repr):
        ours, theirs = expected.get(key, []), found.get(key, [])
        if len(ours) != len(theirs):
            yield Difference(key, "", _times(ours), _times(theirs))
            continue
        for one, other in zip(ours, theirs, strict=True):
            for column in shared:
                if one[column.name] != other[column.name]:
                    yield Difference(key, column.name, one[column.name], other[column.name])


def _by_key(
    table: Table, rows: Iterable[Mapping[str, Any]]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in table.key), []).append(row)
    return found


def _lake_rows(
    columns: Sequence[Column], lake: Mapping[str, Sequence[Any]]
) -> Iterator[dict[str, Any]]:
    names = [column.name for column in columns]
    for values in zip(*(lake[name] for name in names), strict=True):
        yield {
            column.name: None if value is None else _plain_lake(column, value)
            for column, value in zip(columns, values, strict=True)
        }


def _times(rows: Sequence[object]) -> str:
    return {0: "absent", 1: "there"}.get(len(rows), f"there {len(rows)} times")


def _plain_source(column: Column, value: Any) -> Any:
    """Return what PyMySQL gave as the value that the lake should hold."""
    kind = column.data_type
    if kind in _DATES and isinstance(value, str):
        # PyMySQL leaves zero dates and invalid dates as text.
        return None
    if kind == "bit":
        return int(value)
    if kind == "time" and isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if kind == "timestamp":
        return value.replace(tzinfo=UTC)
    if kind == "decimal" and (column.precision or 0) > _LAKE_PRECISION_MAX:
        return f"{value:f}"
    return value


def _plain_lake(column: Column, value: Any) -> Any:
    """Return a value of the lake in the same form."""
    kind = column.data_type
    # BIGINT UNSIGNED is a decimal there.
    if kind in _INTEGERS and isinstance(value, Decimal):
        return int(value)
    if kind == "bit" and isinstance(value, bytes):
        return int.from_bytes(value, "big")
    if kind == "bit" and isinstance(value, bool):
        return int(value)
    if kind == "timestamp" and getattr(value, "tzinfo", None) is not None:
        return value.astimezone(UTC)
    if kind in _BINARIES and isinstance(value, bytearray):
        return bytes(value)
    return value
