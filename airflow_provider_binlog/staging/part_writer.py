"""Write one part: a table of change rows as a Parquet file.

The same rows give the same bytes, whatever their chunks: a retry overwrites a part with the same
content. (Another release of Arrow may write different bytes.)

The choices were measured on a million rows of eleven columns: dictionaries only for columns whose
values repeat, because building one for distinct values costs more than it saves; zstd at level 1,
Snappy for small parts; DELTA_BINARY_PACKED for integers and times, which is no slower and a tenth
smaller; statistics only for columns that readers filter by. BYTE_STREAM_SPLIT would save more on
decimals and doubles, but not every reader knows it.
"""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_binlog.changes import CHANGE_TYPE, COMMIT_TS, FILE, GTID, IMAGE, ROW

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.staging.object_store import ObjectStore

_REPEATING = (CHANGE_TYPE, GTID, FILE, IMAGE)
_ROW_GROUP_ROWS = 1 << 20
_ZSTD_LEVEL = 1
# Of a part of so few bytes, starting zstd for each page is half of what writing it costs.
_SMALL_BYTES = 16 << 10
# A page takes a batch of rows at least, however large they are: of large rows, fewer.
_BATCH_ROWS = 1024
_PAGE_BYTES = 1 << 20


class WrittenPart(NamedTuple):
    """What a manifest records of a part's file: its size in bytes, and its SHA-256 in hex."""

    bytes: int
    sha256: str


def write_part(store: ObjectStore, key: str, table: pa.Table, schema: Schema) -> WrittenPart:
    """Store `table` under `key` as Parquet, in one write: the part appears whole or not at all.

    `table` holds the columns of `schema`, then the change columns.
    """
    return store_part(store, key, encode_part(table, schema))


def store_part(store: ObjectStore, key: str, data: bytes) -> WrittenPart:
    """Store an encoded part in one write."""
    store.write(key, data)
    return WrittenPart(len(data), hashlib.sha256(data).hexdigest())


def encode_part(table: pa.Table, schema: Schema) -> bytes:
    """Return `table` as the bytes of a Parquet file."""
    sets = {field.name for field in schema.fields if _has_few_values(field.mysql_type)}
    repeating = [name for name in table.column_names if name in sets or name in _REPEATING]
    rising = [
        field.name
        for field in table.schema
        if (pa.types.is_integer(field.type) or pa.types.is_temporal(field.type))
        and field.name not in repeating
    ]
    # Grows without a copy of itself, and is handed over without one.
    sink = io.BytesIO()
    whole = table.combine_chunks().replace_schema_metadata(None)
    # Never less than the size, and found in a third of the time.
    size = whole.nbytes if whole.nbytes <= _SMALL_BYTES else _size(whole)
    small = size <= _SMALL_BYTES
    pq.write_table(
        whole,
        sink,
        compression="snappy" if small else "zstd",
        compression_level=None if small else _ZSTD_LEVEL,
        use_dictionary=repeating or False,  # type: ignore[arg-type]  # a list of names is fine
        column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED") or None,
        write_statistics=[*schema.key_names, COMMIT_TS, ROW],
        row_group_size=_ROW_GROUP_ROWS,
        write_batch_size=_BATCH_ROWS if small else _batch_rows(size // len(whole)),
        store_schema=False,
    )
    return sink.getvalue()


def _size(table: pa.Table) -> int:
    """Return the bytes of the values: the same for the same rows, unlike `Table.nbytes`.

    That counts the offsets of each chunk, and validity bits where there are some without a NULL.
    """
    return sum(map(_column_size, table.columns))


def _column_size(column: pa.ChunkedArray[Any]) -> int:
    if pa.types.is_list(column.type):
        return 4 * _sum(pc.list_value_length(column))
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _sum(pc.binary_length(column))
    return len(column) * int(column.type.bit_width) // 8


def _sum(lengths: Any) -> int:
    total: Any = pc.sum(lengths)
    return int(total.as_py() or 0)


def _batch_rows(row_bytes: int) -> int:
    """Return how many rows are written between two looks at the size of a page."""
    return max(1, min(_BATCH_ROWS, _PAGE_BYTES // max(1, row_bytes)))


def _has_few_values(mysql_type: str | None) -> bool:
    return (mysql_type or "").lower().startswith(("enum(", "set("))
