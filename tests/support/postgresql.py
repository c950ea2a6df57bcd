"""A PostgreSQL server as its administrator sees it, by the JDBC driver of the shared Spark."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.postgresql import marks
from airflow_provider_binlog.spark.target.postgresql.connection import Connection, quote
from airflow_provider_binlog.spark.target.postgresql.settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.services.postgresql import PostgresServer


def settings_of(server: PostgresServer, *, user: str | None = None) -> PostgresSettings:
    """Return how a merge reaches a server."""
    return PostgresSettings(
        server.host, server.port, server.database, user or server.user, server.password
    )


def administer(spark: SparkSession, server: PostgresServer) -> Connection:
    """Return a connection that may do everything, and is no merge's."""
    return Connection(spark, settings_of(server, user="postgres"))


def read_rows(connection: Connection, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query as JSON has them."""
    found: list[dict[str, Any]] = connection.read_json(
        f"SELECT coalesce(json_agg(to_json(row)), '[]') FROM ({query}) AS row"
    )
    return found


def read_table(connection: Connection, schema: str, table: str) -> dict[str, list[Any]]:
    """Return the values of a table by the columns' names at the source.

    They have the types of Python that the other lakes' have for the same columns of the source.
    """
    stored = marks.read_table(connection, schema, table)
    assert stored is not None
    readers, selected = [], []
    for name, column in stored.named.items():
        form, read = _reader(column.type, stored.note(column).source or "")
        readers.append((name, read))
        selected.append(f"({form.format(quote(column.name))})::text")
    rows = connection.read_json(
        f"SELECT coalesce(json_agg(json_build_array({', '.join(selected)})), '[]') "
        f"FROM {quote(schema)}.{quote(table)}"
    )
    return {
        name: [None if row[at] is None else read(row[at]) for row in rows]
        for at, (name, read) in enumerate(readers)
    }


def _reader(type_: str, source: str) -> tuple[str, Callable[[str], Any]]:
    """Return the SQL of a column's values, and what makes Python's of their text."""
    name = type_.partition("(")[0]
    if name == "bit":
        size = -(-int(type_[4:-1]) // 8)
        return "{}", lambda text: int(text, 2).to_bytes(size)
    if name == "bytea":
        spatial = source.partition("(")[0] in ("geometry", "point") or "poly" in source
        spatial = spatial or "linestring" in source or source.startswith(("multi", "geomc"))
        return "{}", _read_ewkb if spatial else _read_bytes
    if name == "numeric":
        # Lakes hold more digits as text.
        wide = type_ == "numeric" or int(type_[8:-1].split(",", maxsplit=1)[0]) > 38
        return "{}", str if wide else Decimal
    return _READERS.get(name, ("{}", str))


def _read_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _read_ewkb(text: str) -> bytes:
    """Return what MySQL has: SRID, then WKB."""
    data = _read_bytes(text)
    assert data[0] == 1
    if data[4] != 0x20:
        return bytes(4) + data
    return data[5:9] + data[:4] + b"\0" + data[9:]


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "bigint": ("{}", int),
    "boolean": ("{}", lambda text: text == "true"),
    "date": ("{}", date.fromisoformat),
    "double precision": ("{}", float),
    "integer": ("{}", int),
    "interval": ("(extract(epoch FROM {}) * 1000000)::bigint", int),
    "real": ("{}::double precision", float),
    "real[]": ("{}::double precision[]", lambda text: [*map(float, text[1:-1].split(","))]),
    "timestamp with time zone": ("{}", datetime.fromisoformat),
    "timestamp without time zone": ("{}", datetime.fromisoformat),
}
