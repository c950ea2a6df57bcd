"""Spans of bytes copied end to end, thousands at once.

Spans with what is between them read as an Arrow array of span, gap, span, gap ..., of which Arrow
takes the spans: one `memcpy` for each, and no step in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.blocks.arrays import of_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

_OFFSET_MAX = 2**31 - 1


def gather(
    data: npt.NDArray[np.uint8],
    begin: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64] | None = None,
) -> pa.Array[Any]:
    """Return the bytes `data[begin:end]` of each span as a binary array, a copy.

    Args:
        data: The bytes.
        begin: Of each span; rising.
        end: Of each span, at most where the next one begins.
        order: Which spans, in which order; None: all, as they come.
    """
    count = len(begin)
    wide = count > 0 and int(end[-1]) > _OFFSET_MAX
    bounds = np.zeros(2 * count + 1, dtype=np.int64 if wide else np.int32)
    bounds[0:-1:2] = begin
    bounds[1::2] = end
    bounds[-1] = bounds[-2] if count else 0
    spans = pa.Array.from_buffers(
        pa.large_binary() if wide else pa.binary(),
        2 * count,
        [None, pa.py_buffer(bounds.data), pa.py_buffer(data.data)],
    )
    taken: pa.Array[Any] = spans.take(
        of_numbers(2 * (np.arange(count) if order is None else order))
    )
    return taken


def bytes_of(spans: pa.Array[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of gathered spans, end to end, a view."""
    _, bounds, data = spans.buffers()
    if bounds is None or data is None:
        return np.zeros(0, dtype=np.uint8)
    width = "<i8" if spans.type == pa.large_binary() else "<i4"
    count = int(np.frombuffer(memoryview(bounds), dtype=width)[len(spans)])
    return np.frombuffer(memoryview(data), dtype=np.uint8, count=count)
