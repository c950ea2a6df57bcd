"""Parts written in a thread of their own, in their order, while the next ones are made.

Encoding Parquet, hashing and sending to a store run outside of the interpreter's lock. One part is
written while another one is made: no more wait, so memory stays bounded, and what is written does
not depend on which of the two is faster. Small parts are written several at a time: to hand one to
the thread takes longer than to write it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Self

from airflow_provider_binlog.staging.part_writer import write_part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import pyarrow as pa

    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.staging.part_writer import WrittenPart


_SMALL_PARTS = 64


class _Made(NamedTuple):
    """A part that waits, and what will be known of its file."""

    key: str
    table: pa.Table
    schema: Schema
    written: Future[WrittenPart]


class PartQueue:
    """Writes parts one after another.

    Leave its context before anything depends on the parts, and whenever an error ends the range:
    nothing is written after that.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="part-writer")
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
            self._writer.shutdown(wait=True, cancel_futures=exc_type is not None)

    def write(
        self, key: str, table: pa.Table, schema: Schema, *, small: bool = False
    ) -> Future[WrittenPart]:
        """Write a part as soon as the last ones are written; see `write_part`.

        One that is `small` may wait for others.

        Raises:
            StagingError: One of them could not be written.
        """
        made = _Made(key, table, schema, Future())
        self._made.append(made)
        if not small or len(self._made) >= _SMALL_PARTS:
            self.flush()
        return made.written

    def flush(self) -> None:
        """Let no part wait for others.

        Raises:
            StagingError: As `write`.
        """
        if self._last is not None:
            self._last.result()
        if self._made:
            self._last = self._writer.submit(self._write_all, self._made)
            self._made = []

    def _write_all(self, parts: Sequence[_Made]) -> None:
        for number, each in enumerate(parts):
            try:
                written = write_part(self._store, each.key, each.table, each.schema)
            except BaseException as error:
                for other in parts[number:]:
                    other.written.set_exception(error)
                raise
            each.written.set_result(written)
