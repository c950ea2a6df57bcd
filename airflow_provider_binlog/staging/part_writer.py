"""Write parts: tables of change rows as Parquet files, encoded and stored by other threads.

The same rows give the same bytes, whatever their chunks. (Another release of Arrow may write
others.) Dictionaries only for columns whose values repeat; zstd at level 1, Snappy for small parts;
DELTA_BINARY_PACKED for integers and times; statistics only for columns that readers filter by. The
part of large values, which take their bytes several times, is written into the store's file.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from threading import Condition
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_binlog.changes import CHANGE_TYPE, COMMIT_TS, FILE, GTID, IMAGE, ROW
from airflow_provider_binlog.schema import Field, Schema

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.staging.object_store import ObjectStore

_REPEATING = (CHANGE_TYPE, GTID, FILE, IMAGE)
_ROW_GROUP_ROWS = 1 << 20
_ZSTD_LEVEL = 1
# Of a part of so few bytes, starting zstd for each page is half of what writing it costs.
_SMALL_BYTES = 16 << 10
# A page takes a batch of rows at least, however large they are: of large rows, fewer.
_BATCH_ROWS = 1024
_PAGE_BYTES = 1 << 20
# Of columns whose values take more, chunks are not joined: to do so would copy them.
_LARGE_VALUE_BYTES = 1 << 20
# A part of so many bytes whose rows are large is encoded while nothing else is in memory.
_LARGE_PART_BYTES = 16 << 20
# Of each large value so much is compressed, at so many places; it is left as it is if that saves
# less than a twentieth.
_SAMPLE_BYTES, _SAMPLES, _COMPRESSED_MAX = 1 << 16, 16, 0.95


class WrittenPart(NamedTuple):
    """Size of a part's file in bytes, and its SHA-256 in hex, as a manifest records them."""

    bytes: int
    sha256: str


class QueuedPart(NamedTuple):
    """A part as a manifest records it, but for its file, which may not be written yet."""

    described: partial[Part]
    file: Future[WrittenPart]

    def wait(self) -> Part:
        """Return the part once its file is written.

        Raises:
            StagingError: It could not be written.
        """
        file = self.file.result()
        return self.described(bytes=file.bytes, sha256=file.sha256)


def write_part(store: ObjectStore, key: str, table: pa.Table, schema: Schema) -> WrittenPart:
    """Store `table` under `key` as Parquet, in one write: the part appears whole or not at all.

    `table` holds the columns of `schema`, then the change columns.
    """
    if not is_large(table):
        return store_part(store, key, encode_part(table, schema))
    with store.filling(key) as path:
        with pa.OSFile(str(path), "wb") as sink:
            form = _form_of(table, schema)
            _encode(table, form, form.size(table), sink)
        # Arrow keeps what it frees: so much is not asked for again soon.
        pa.default_memory_pool().release_unused()
        with path.open("rb") as file:
            return WrittenPart(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def store_part(store: ObjectStore, key: str, data: bytes) -> WrittenPart:
    """Store an encoded part in one write."""
    store.write(key, data)
    return WrittenPart(len(data), hashlib.sha256(data).hexdigest())


def is_large(table: pa.Table) -> bool:
    """Whether a part has so large rows that it had better not be in memory as a file, too."""
    return table.nbytes >= max(_LARGE_PART_BYTES, _LARGE_VALUE_BYTES * len(table))


def encode_part(table: pa.Table, schema: Schema) -> bytes:
    """Return `table` as the bytes of a Parquet file."""
    form = _form_of(table, schema)
    size = form.size(table)
    if size <= _SMALL_BYTES:
        # Each of the many writes to a file of Python's takes a microsecond.
        buffer = pa.BufferOutputStream()
        _encode(table, form, size, buffer)
        return buffer.getvalue().to_pybytes()
    # Grows without a copy of itself, and is handed over without one.
    sink = io.BytesIO()
    _encode(table, form, size, sink)
    return sink.getvalue()


def _encode(table: pa.Table, form: _Form, size: int, sink: Any) -> None:
    large = form.large_columns(table) if size >= _LARGE_VALUE_BYTES else frozenset()
    whole = _combined(table, large).replace_schema_metadata(None)
    small = size <= _SMALL_BYTES
    codec: Any = "snappy" if small else "zstd"
    level: Any = None if small else _ZSTD_LEVEL
    if incompressible := {name for name in large if not _shrinks(whole[name])}:
        others = [name for name in whole.column_names if name not in incompressible]
        codec, level = dict.fromkeys(others, codec), dict.fromkeys(others, level)
    pq.write_table(
        whole,
        sink,
        compression=codec,
        compression_level=level,
        use_dictionary=form.repeating or False,  # type: ignore[arg-type]  # a list of names is fine
        column_encoding=form.encodings or None,
        write_statistics=form.statistics,
        row_group_size=_ROW_GROUP_ROWS,
        write_batch_size=_BATCH_ROWS if small else _batch_rows(size // len(whole)),
        store_schema=False,
    )


def _combined(table: pa.Table, large: frozenset[str]) -> pa.Table:
    """Return the table with one chunk of each column but the large ones."""
    if not large:
        return table.combine_chunks()
    columns = zip(table.column_names, table.columns, strict=True)
    return pa.table(
        {name: values if name in large else values.combine_chunks() for name, values in columns}
    )


def _shrinks(column: pa.ChunkedArray[Any]) -> bool:
    """Whether samples of the large values in a column become smaller."""
    sampled = compressed = 0
    codec = pa.Codec("zstd", _ZSTD_LEVEL)
    # A scalar of Arrow would be a copy of its value.
    for chunk in column.chunks:
        _, bounds, data = chunk.buffers()
        if bounds is None or data is None:
            continue
        offsets = memoryview(bounds).cast("i")[chunk.offset :][: len(chunk) + 1]
        for begin, end in pairwise(offsets):
            if end - begin < _LARGE_VALUE_BYTES:
                continue
            for at in range(begin, end - _SAMPLE_BYTES, (end - begin) // _SAMPLES):
                sampled += _SAMPLE_BYTES
                compressed += codec.compress(data.slice(at, _SAMPLE_BYTES)).size
    return compressed <= _COMPRESSED_MAX * sampled


@dataclass(frozen=True)
class _Columns:
    """Columns of a table that decide its encoding; many tables share them, or have equal ones."""

    arrow: pa.Schema
    fields: tuple[Field, ...]
    key: tuple[int, ...]

    def __hash__(self) -> int:
        """Return a hash in less time than it takes to compare."""
        return len(self.fields)


class _Form(NamedTuple):
    """Encoding of a table, by its columns alone.

    Attributes:
        repeating: Columns with a dictionary.
        encodings: Of other columns.
        statistics: Columns with statistics.
        widths: Bits of a value, by the indexes of columns of fixed width.
        texts: Indexes of those of variable width, each with the bytes of what it counts.
    """

    repeating: list[str]
    encodings: dict[str, str]
    statistics: list[str]
    widths: list[int]
    texts: list[tuple[int, int]]

    def size(self, table: pa.Table) -> int:
        """Return the bytes of the values: the same for the same rows, unlike `Table.nbytes`."""
        rows = table.num_rows
        texts = [size * _count(table.column(index)) for index, size in self.texts]
        return sum(texts) + sum([rows * width // 8 for width in self.widths])

    def large_columns(self, table: pa.Table) -> frozenset[str]:
        """Return those whose values are large on average: one row is then a batch by itself."""
        least = _LARGE_VALUE_BYTES * len(table)
        columns = [(index, size * _count(table.column(index))) for index, size in self.texts]
        return frozenset(table.column_names[index] for index, size in columns if size >= least)


def _form_of(table: pa.Table, schema: Schema) -> _Form:
    return _form(_Columns(table.schema, schema.fields, schema.key))


@lru_cache(maxsize=16)
def _form(columns: _Columns) -> _Form:
    sets = {field.name for field in columns.fields if _has_few_values(field.mysql_type)}
    repeating = [name for name in columns.arrow.names if name in sets or name in _REPEATING]
    rising = [
        field.name
        for field in columns.arrow
        if (pa.types.is_integer(field.type) or pa.types.is_temporal(field.type))
        and field.name not in repeating
    ]
    names = {field.id: field.name for field in columns.fields}
    types = [field.type for field in columns.arrow]
    return _Form(
        repeating,
        dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
        [*(names[field_id] for field_id in columns.key), COMMIT_TS, ROW],
        [int(type_.bit_width) for type_ in types if not _is_text(type_)],
        [
            (index, 4 if pa.types.is_list(type_) else 1)
            for index, type_ in enumerate(types)
            if _is_text(type_)
        ],
    )


def _is_text(of: pa.DataType) -> bool:
    return pa.types.is_string(of) or pa.types.is_binary(of) or pa.types.is_list(of)


def _count(column: pa.ChunkedArray[Any]) -> int:
    """Return how many bytes, or elements, the values of a column of variable width have."""
    return sum(map(_count_of, column.chunks))


def _count_of(values: Any) -> int:
    bounds = values.buffers()[1]
    if not len(values) or bounds is None:
        return 0
    if values.null_count:  # what is in the place of a NULL does not count
        is_list = pa.types.is_list(values.type)
        total: Any = pc.sum(pc.list_value_length(values) if is_list else pc.binary_length(values))
        return int(total.as_py() or 0)
    at = np.frombuffer(memoryview(bounds), dtype=np.int32)
    return int(at[values.offset + len(values)]) - int(at[values.offset])


def _batch_rows(row_bytes: int) -> int:
    """Return how many rows are written between two looks at the size of a page."""
    return max(1, min(_BATCH_ROWS, _PAGE_BYTES // max(1, row_bytes)))


def _has_few_values(mysql_type: str | None) -> bool:
    return (mysql_type or "").lower().startswith(("enum(", "set("))


_SMALL_PARTS = 64
# Of parts that are sent, while another one is encoded.
_SENT_BYTES = 16 << 20


class _Made(NamedTuple):
    """A part that waits, and what will be known of its file."""

    key: str
    table: pa.Table
    schema: Schema
    written: Future[WrittenPart]
    large: bool


class PartQueue:
    """Encodes one part while the next one is made, and stores it; memory stays bounded.

    Small parts are passed on several at a time: passing one takes longer than writing it. Leave the
    context before anything depends on the parts, and whenever an error ends the range.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="part-encoder")
        self._sender = _Sender(store)
        self._last: Future[None] | None = None
        self._made: list[_Made] = []

    def __enter__(self) -> Self:
        """Return the queue."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for what is being written; after an error, what waits is not written."""
        try:
            if exc_type is None:
                self.flush()
        finally:
            try:
                self._encoder.shutdown(wait=True, cancel_futures=exc_type is not None)
            finally:
                self._sender.close(cancel=exc_type is not None)

    def write(
        self, key: str, table: pa.Table, schema: Schema, *, small: bool = False
    ) -> Future[WrittenPart]:
        """Write a part as soon as the last ones are encoded; one that is `small` may wait.

        Raises:
            StagingError: One of them could not be written.
        """
        made = _Made(key, table, schema, Future(), not small and is_large(table))
        self._made.append(made)
        if not small or len(self._made) >= _SMALL_PARTS:
            self.flush()
        if made.large:
            made.written.result()
        return made.written

    def flush(self) -> None:
        """Let no part wait for others; see `write`."""
        if self._last is not None:
            self._last.result()
        if self._made:
            self._last = self._encoder.submit(self._encode_all, self._made)
            self._made = []

    def _encode_all(self, parts: Sequence[_Made]) -> None:
        for number, waiting in enumerate(parts):
            try:
                if waiting.large:
                    part = write_part(self._store, waiting.key, waiting.table, waiting.schema)
                    waiting.written.set_result(part)
                else:
                    self._sender.send(
                        waiting.key, encode_part(waiting.table, waiting.schema), waiting.written
                    )
            except BaseException as error:
                for other in parts[number:]:
                    other.written.set_exception(error)
                raise


class _Sender:
    """Stores encoded parts: where it pays, several at a time."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        if store.writes_at_once > 1:
            self._pool = ThreadPoolExecutor(store.writes_at_once, thread_name_prefix="part-sender")
        self._changed = Condition()
        self._bytes = 0
        self._error: BaseException | None = None

    def send(self, key: str, data: bytes, written: Future[WrittenPart]) -> None:
        """Store a part, or hand it over; return once no more than `_SENT_BYTES` are on their way.

        It raises the error of an earlier part, and does not set `written` then.
        """
        if self._pool is None:
            written.set_result(store_part(self._store, key, data))
            return
        if self._error is not None:
            raise self._error
        with self._changed:
            self._bytes += len(data)
            self._pool.submit(self._send, key, data, written)
            self._changed.wait_for(lambda: self._bytes <= _SENT_BYTES)

    def _send(self, key: str, data: bytes, written: Future[WrittenPart]) -> None:
        try:
            if self._error is None:
                written.set_result(store_part(self._store, key, data))
            else:
                written.set_exception(self._error)
        except BaseException as error:  # noqa: BLE001  # raised by who waits for the part
            self._error = self._error or error
            written.set_exception(error)
        finally:
            with self._changed:
                self._bytes -= len(data)
                self._changed.notify()

    def close(self, *, cancel: bool) -> None:
        """Wait for what is on its way, and raise its error; with `cancel`, send no more."""
        if self._pool is None:
            return
        self._pool.shutdown(wait=True, cancel_futures=cancel)
        if self._error is not None and not cancel:
            raise self._error
