"""Rows that a lake should hold of tables with excluded and hashed columns, and planted values.

The oracle is what SELECT prints, hashed by Python's `hmac`.
"""

from __future__ import annotations

import hmac
import io
import re
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from tests.support.compare import Column, read_tables, select

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from tests.fixtures.mysql import Database
    from tests.support.compare import Connection, Table

_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "vector")
_FRACTIONS = ("time", "datetime", "timestamp", "decimal")


@dataclass(frozen=True)
class Protected:
    """The protected columns of tables, by the names that they have now."""

    excluded: Collection[str]
    hashed: Collection[str]
    secret: str

    def select(self, database: Database) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
        """Yield the tables of a database with the rows that a lake should hold."""
        with closing(database.connect()) as connection:
            for table in read_tables(connection, database.name):
                if not table.name.startswith("_"):
                    yield self._select(connection, table)

    def _select(self, connection: Connection, table: Table) -> tuple[Table, list[dict[str, Any]]]:
        columns = [each for each in table.columns if each.name not in self.excluded]
        hashed = [each for each in columns if each.name in self.hashed]
        staged = [
            replace(each, data_type="varchar") if each in hashed else each for each in columns
        ]
        rows = select(connection, replace(table, columns=tuple(columns)))
        hashes = [_texts(connection, table, each) for each in hashed]
        for number, row in enumerate(rows):
            for column, texts in zip(hashed, hashes, strict=True):
                row[column.name] = self.hash(texts[number])
        return replace(table, columns=tuple(staged)), rows

    def hash(self, value: bytes | str | None) -> str | None:
        """Return what is staged of a value."""
        if value is None:
            return None
        data = value.encode() if isinstance(value, str) else value
        return hmac.new(self.secret.encode(), data, "sha256").hexdigest()


def _texts(connection: Connection, table: Table, column: Column) -> list[bytes | str | None]:
    """Return the values of a column as SELECT prints them, without zeros at their end."""
    name, kind = f"`{column.name}`", column.data_type
    expression = f"CAST({name} AS CHAR CHARACTER SET utf8mb4)"
    if kind in _BYTES:
        expression = f"CAST({name} AS BINARY)" if kind != "vector" else name
    elif kind in ("float", "double", "bit"):
        expression = f"{name} + 0" if kind == "bit" else f"{name} + 0e0"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression} FROM `{table.database}`.`{table.name}`")
        values = [value for (value,) in cursor.fetchall()]
    return [None if value is None else _text(kind, value) for value in values]


def _text(kind: str, value: Any) -> bytes | str:
    if kind == "float":
        return re.sub(r"\.0$", "", str(np.float32(value)))
    if kind == "double":
        return re.sub(r"\.0$", "", repr(value))
    if isinstance(value, bytes):
        return value
    text = str(value)
    return re.sub(r"\.?0+$", "", text) if kind in _FRACTIONS and "." in text else text


def find_planted(folder: Path, planted: Collection[str], *texts: str) -> list[str]:
    """Return where planted values are: in which files below a folder, or in some texts."""
    found = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data += repr(pq.read_table(io.BytesIO(data)).to_pylist()).encode()
        found += [
            f"{path.relative_to(folder)}: {each}" for each in planted if each.encode() in data
        ]
    for text in texts:
        found += [f"{text[:200]}: {each}" for each in planted if each in text]
    return found
