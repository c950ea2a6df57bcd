"""Parts written in a thread of their own, in their order, while the next ones are made.

Encoding Parquet, hashing and sending to a store run outside of the interpreter's lock. One part is
written while another one is made: no more wait, so memory stays bounded, and what is written does
not depend on which of the two is faster.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from airflow_provider_binlog.staging.part_writer import write_part

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.staging.part_writer import WrittenPart


class PartQueue:
    """Writes parts one after another.

    Leave its context before anything depends on the parts, and whenever an error ends the range:
    nothing is written after that.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="part-writer")
        self._last: Future[WrittenPart] | None = None

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
        self._writer.shutdown(wait=True, cancel_futures=exc_type is not None)

    def write(self, key: str, table: pa.Table, schema: Schema) -> Future[WrittenPart]:
        """Write a part as soon as the last one is written; see `write_part`.

        Raises:
            StagingError: The last part could not be written.
        """
        if self._last is not None:
            self._last.result()
        self._last = self._writer.submit(write_part, self._store, key, table, schema)
        return self._last
