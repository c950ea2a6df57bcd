"""Text assembled from fragments: spans of bytes of several arrays.

Source: Arrow columnar format, variable-size binary layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.rows.values import OFFSET_MAX, Bytes, take_spans

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.memory import Int64Array


def spans(begin: Int64Array, length: Int64Array) -> Int64Array:
    """Return spans of bytes as one number each: | 32 bits end | 32 begin |.

    In memory, that is begin and end, as two of Arrow's offsets.
    """
    return (begin + length << 32) + begin


LATER = 1
"""Added to a span: it begins a byte later and ends where it did."""
EARLIER = -(1 << 32)
"""Added to a span: it ends a byte earlier."""


class Fragments:
    """Fragments by number, and the bytes they are made of."""

    def __init__(self, count: int, data: npt.NDArray[np.uint8]) -> None:
        """Begin with `data` to take fragments from, of less than 2 GiB like all that is added."""
        self._pieces = [data]
        self._size = len(data)
        self._spans = np.zeros(count + 1, dtype=np.int64)

    def add_bytes(self, data: bytes | npt.NDArray[np.uint8]) -> int:
        """Add bytes to take fragments from; return where they begin."""
        at = self._size
        piece = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        self._pieces.append(piece)
        self._size += len(piece)
        return at

    def add_values(self, values: Bytes) -> Int64Array:
        """Return the spans of these values, copied."""
        bounds = values.offsets.astype(np.int64)
        return spans(bounds[:-1] + self.add_bytes(values.data), bounds[1:] - bounds[:-1])

    def put(self, number: Int64Array, of: Int64Array) -> None:
        """Set the spans of some fragments."""
        self._spans[number] = of

    def join(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Return all fragments end to end, and where each one ends.

        Raises:
            ArrowCapacityError: They take more than Arrow's offsets can say.
        """
        count = len(self._spans) - 1
        if not count:
            return np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int32)
        bounds = self._spans.view(np.int32)
        begin, end = bounds[0:-2:2], bounds[1:-2:2]
        if int(end.sum(dtype=np.int64) - begin.sum(dtype=np.int64)) > OFFSET_MAX:
            raise pa.ArrowCapacityError("documents are too large as text")
        joined = take_spans(bounds[:-1], np.concatenate(self._pieces))
        return joined.data, joined.offsets[1:]
