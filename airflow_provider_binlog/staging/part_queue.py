"""Parts encoded in their order, and stored, by other threads while the next ones are made.

Encoding Parquet, hashing and sending to a store run outside of the interpreter's lock. One thread
encodes a part while another one is made: no more wait, so memory stays bounded, and what is written
does not depend on which of the two is faster. Small parts are handed to it several at a time: to
hand one over takes longer than to write it. While a part of large rows is encoded, nothing is made.

What is encoded is stored by that thread too where the store is a local disk. Object stores answer
after milliseconds, however small a part is: to them, others send several parts at a time, of a
bounded number of bytes.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from typing import TYPE_CHECKING, NamedTuple, Self

from airflow_provider_binlog.staging.part_writer import (
    encode_part,
    is_large,
    store_part,
    write_part,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import pyarrow as pa

    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.staging.part_writer import WrittenPart


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
    """Encodes parts one after another, and stores them.

    Leave its context before anything depends on the parts, and whenever an error ends the range:
    nothing is written after that.
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
        """Write a part as soon as the last ones are encoded; see `write_part`.

        One that is `small` may wait for others.

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
        """Let no part wait for others.

        Raises:
            StagingError: As `write`.
        """
        if self._last is not None:
            self._last.result()
        if self._made:
            self._last = self._encoder.submit(self._encode_all, self._made)
            self._made = []

    def _encode_all(self, parts: Sequence[_Made]) -> None:
        for number, each in enumerate(parts):
            try:
                if each.large:
                    part = write_part(self._store, each.key, each.table, each.schema)
                    each.written.set_result(part)
                else:
                    self._sender.send(each.key, encode_part(each.table, each.schema), each.written)
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

        Raises:
            StagingError: It could not be stored, or an earlier one: then `written` is not set.
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
        """Wait for what is on its way; with `cancel`, send no more.

        Raises:
            StagingError: A part could not be stored.
        """
        if self._pool is None:
            return
        self._pool.shutdown(wait=True, cancel_futures=cancel)
        if self._error is not None and not cancel:
            raise self._error
