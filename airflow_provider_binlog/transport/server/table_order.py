"""How a server orders the rows of a table by its key: collations, and directions of an index.

Source: MySQL 9.7 reference manual, 10.3.13 Descending Indexes, 28.3.34 The INFORMATION_SCHEMA
STATISTICS Table; MariaDB documentation, SHOW INDEX.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_binlog.transport.server.driver import driver_errors
from airflow_provider_binlog.transport.server.information_schema import quote_table
from airflow_provider_binlog.transport.server.result_sets import query

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from airflow_provider_binlog.transport.server.result_sets import Row


class ColumnOrder(NamedTuple):
    """How one column of a key orders rows.

    Attributes:
        collation: None where the type has none.
        descending: Whether the index has its greatest value first.
    """

    collation: str | None = None
    descending: bool = False


@driver_errors()
def read_order(
    connection: pymysql.Connection[Any], name: tuple[str, str], key: Sequence[str]
) -> tuple[ColumnOrder, ...]:
    """Return how each column of a table's key orders rows."""
    rows = query(
        connection,
        "SELECT COLUMN_NAME AS name, COLLATION_NAME AS collation FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *name,
    )
    collations = {str(row["name"]): row["collation"] for row in rows}
    descending = _directions(connection, name, key)
    return tuple(map(ColumnOrder, (collations[each] for each in key), descending))


def _directions(
    connection: pymysql.Connection[Any], name: tuple[str, str], key: Sequence[str]
) -> list[bool]:
    """Return which columns the unique index on these columns has in descending order."""
    indexes: dict[str, list[Row]] = defaultdict(list)
    for row in query(connection, f"SHOW INDEX FROM {quote_table(name)}"):
        if not int(row["Non_unique"]):
            indexes[str(row["Key_name"])].append(row)
    for rows in indexes.values():
        if [row["Column_name"] for row in rows] == list(key):
            return [row["Collation"] == "D" for row in rows]
    return [False] * len(key)
