"""What the merges are measured on: one table of millions of rows, and many tables of a few."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.staging.part_writer import write_part
from airflow_provider_binlog.staging.paths import part_key, part_path
from tests.unit.spark.history import Source, Table
from tests.unit.spark.staged_changes import LOG, ColumnType

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore

PART_ROWS = 500_000
_COMMIT_TS = 1_763_683_200_000_000

_COLUMNS = {
    "id": ColumnType("bigint", pa.int64(), nullable=False, default=None),
    "quantity": ColumnType("int", pa.int32()),
    "name": ColumnType("varchar(40)", pa.string()),
    "mail": ColumnType("varchar(100)", pa.string()),
    "amount": ColumnType("decimal(12,2)", pa.decimal128(12, 2)),
    "level": ColumnType("int", pa.int32()),
    "changed": ColumnType("datetime(6)", pa.timestamp("us")),
    "seen": ColumnType("timestamp(6)", pa.timestamp("us", "UTC")),
    "note": ColumnType("text", pa.string()),
    "score": ColumnType("double", pa.float64()),
    "state": ColumnType("varchar(10)", pa.string()),
    "token": ColumnType("varbinary(16)", pa.binary()),
}


class BigTable:
    """A table whose changes are made by the column; its keys count from 0."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self.source = Source(store, source)
        self.table = self.source.create("bench", "accounts", dict(_COLUMNS), ("id",))
        self._version = 0

    def commit(self, changes: list[tuple[str, np.ndarray]]) -> None:
        """Stage changes: change type and keys, in the order in which they happen."""
        self._version += 1
        identity, source = self.table.identity, self.source
        identity.typed.update(identity.ids.values())
        identity.touched, identity.current = True, self.table.schema
        parts: list[Part] = []
        for kind, keys in changes:
            for first in range(0, len(keys), PART_ROWS):
                parts.append(self._write(kind, keys[first : first + PART_ROWS], len(parts)))
        manifest = source.make_manifest()
        (entry,) = manifest.tables
        images = (tuple(identity.ids.values()),)
        entry = replace(entry, parts=tuple(parts), images=images)
        source.log.commit(replace(manifest, tables=(entry,)))

    def _write(self, kind: str, keys: np.ndarray, ordinal: int) -> Part:
        source, count = self.source, len(keys)
        first = source.next_point()
        source._point += count
        rows = change_rows(kind, keys, version=self._version, first=first)
        path = part_path("bench", "accounts", source.sequence + 1, ordinal, "9f86d081884c")
        written = write_part(source.store, part_key(source.name, path), rows, self.table.schema)
        return Part(
            path=path,
            schema=self.table.schema.id,
            rows=count,
            bytes=written.bytes,
            sha256=written.sha256,
            first_row=first,
            last_row=first + count - 1,
            first_commit=_COMMIT_TS,
            last_commit=_COMMIT_TS,
            changes={kind: count},
        )


def change_rows(kind: str, keys: np.ndarray, *, version: int, first: int) -> pa.Table:
    """Return change rows of one type; the values follow from key and version."""
    count = len(keys)
    mixed = (keys * 2654435761 + version * 40503) % (1 << 32)
    key_text, mixed_text = pa.array(keys).cast(pa.string()), pa.array(mixed).cast(pa.string())
    word = pa.array(["new", "paid", "sent"])
    # Arrow casts 64-bit integers to no fewer digits than the largest of them has.
    whole = pa.array(mixed % 1_000_000).cast(pa.decimal128(21, 2))
    columns = {
        "id": pa.array(keys, pa.int64()),
        "quantity": pa.array((mixed // 3 % 1_000_000).astype("int32")),
        "name": pc.binary_join_element_wise("customer", key_text, " "),
        "mail": pc.binary_join_element_wise(mixed_text, "example.com", "@"),
        "amount": whole.cast(pa.decimal128(12, 2)),
        "level": pa.array((mixed % 100).astype("int32")),
        "changed": pa.array(_COMMIT_TS + mixed).cast(pa.timestamp("us")),
        "seen": pa.array(_COMMIT_TS + keys).cast(pa.timestamp("us", "UTC")),
        "note": pc.binary_join_element_wise("a note on", mixed_text, "and", key_text, " "),
        "score": pa.array(mixed / 1000.0),
        "state": pc.take(word, pa.array(mixed % 3)),
        "token": mixed_text.cast(pa.binary()),
        "_change_type": pa.repeat(kind, count),
        "_commit_ts": pa.array(np.full(count, _COMMIT_TS)).cast(pa.timestamp("us", "UTC")),
        "_gtid": pa.nulls(count, pa.string()),
        "_file": pa.repeat(LOG, count),
        "_pos": pa.array(np.arange(first, first + count)),
        "_row": pa.array(np.arange(first, first + count)),
        "_image": pa.array(np.zeros(count, dtype="int32")),
    }
    return pa.table(columns)


class SmallTables:
    """Tables of two rows each, made of Python's values."""

    def __init__(self, store: ObjectStore, source: str, count: int) -> None:
        self.source = Source(store, source)
        types = {name: _COLUMNS[name] for name in list(_COLUMNS)[:8]}
        self.tables: list[Table] = [
            self.source.create(source, f"t{number:04}", dict(types), ("id",))
            for number in range(count)
        ]
        for table in self.tables:
            table.insert(id=1, quantity=1, name="one", mail="one@example.com")
            table.insert(id=2, quantity=2, name="two", mail="two@example.com")

    def change(self, tables: list[Table], number: int) -> None:
        """Update a row of each table, and insert one."""
        for table in tables:
            table.update(1, quantity=number, name=f"one of {number}")
            table.insert(id=10 + number, quantity=number, name="more", mail="more@example.com")
        self.source.commit()
